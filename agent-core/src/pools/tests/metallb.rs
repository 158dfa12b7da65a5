//! Pools of `MetalLB`'s, beside Vipward's own.

use std::sync::Arc;

use super::{super::*, *};

/// Returns an `IPAddressPool` as the controller reads it.
fn theirs(name: &str, addresses: &[&str]) -> PoolRecord {
    PoolRecord { lenient: true, use_ends: true, ..pool(&PoolKind::IpAddressPool.key(name), addresses) }
}

fn families() -> Request {
    Request { families: vec![Family::V4], ..Request::default() }
}

fn sharing(key: &str, status: &[&str]) -> Request {
    let status = status.iter().map(|vip| ip(vip)).collect();
    Request { keys: vec![ShareKey::Metallb(key.into())], status, ..families() }
}

#[test]
fn addresses_that_confuse_old_devices_are_left_out_on_demand() {
    let total = |addresses: &[&str], family| {
        let record = PoolRecord { avoid_buggy: true, ..theirs("p", addresses) };
        Pool::read(record).0.total(family)
    };
    for (addresses, expected, what) in [
        (&["192.0.2.0/24"][..], 254, "a /24 has two"),
        (&["192.0.2.0/23"], 508, "a /23 has four"),
        (&["192.0.2.0/25"], 127, "the lower half of a /24 has one"),
        (&["192.0.2.64/26"], 64, "a part in the middle has none"),
        (&["192.0.2.250-192.0.3.5"], 10, "a range over the border has two"),
        (&["192.0.2.255", "192.0.3.0/32"], 0, "nothing else"),
    ] {
        assert_eq!(total(addresses, Family::V4), expected, "{what}");
    }
    assert_eq!(total(&["2001:db8::/120"], Family::V6), 256, "in IPv6 there are none");
    let border = PoolRecord { avoid_buggy: true, ..theirs("p", &["192.0.2.254-192.0.3.1"]) };
    let mut world = World::new([border]);
    let given = ["a", "b", "c"].map(|name| world.ask(name, families()));
    assert_eq!(given, [vec![ip("192.0.2.254")], vec![ip("192.0.3.1")], Vec::new()]);
}

#[test]
fn a_large_pool_takes_no_more_memory_than_a_small_one() {
    let record = PoolRecord { avoid_buggy: true, ..theirs("p", &["1.0.0.0-126.255.255.255"]) };
    let (pool, faults) = Pool::read(record);
    assert_eq!((pool.span_count(), faults), (1, Vec::new()));
    assert_eq!(pool.total(Family::V4), 126 * 65_536 * 254);
}

#[test]
fn entries_beyond_the_limit_are_a_fault_that_names_both_numbers() {
    let texts: Vec<_> = (0..=256_u32).map(|last| format!("198.18.{}.{}", last / 256, last % 256)).collect();
    let texts: Vec<_> = texts.iter().map(String::as_str).collect();
    let (pool, faults) = Pool::read(theirs("p", &texts));
    assert_eq!(pool.total(Family::V4), 256);
    let words: Vec<_> = faults.iter().map(ToString::to_string).collect();
    assert_eq!(words.len(), 1, "{words:?}");
    for part in ["addresses: there are 257 ranges", "may have 256", "the others are left out"] {
        assert!(words[0].contains(part), "{words:?}");
    }
}

#[test]
fn one_of_several_selectors_is_enough() {
    let any = PoolRecord {
        service_selectors: vec!["app=web".into(), "app=dns".into()],
        namespace_selectors: vec!["team=a".into(), "team=b".into()],
        namespaces: BTreeSet::from(["named".into()]),
        ..theirs("p", &["192.0.2.1"])
    };
    let (pool, faults) = Pool::read(any);
    assert_eq!(faults, []);
    let labels = |text: &str| {
        let (key, value) = text.split_once('=').expect("a label");
        BTreeMap::from([(key.to_owned(), value.to_owned())])
    };
    for (name, of_service, of_namespace, expected) in [
        ("named/x", "app=web", "team=c", true),
        ("other/x", "app=dns", "team=b", true),
        ("other/x", "app=dns", "team=c", false),
        ("named/x", "app=mail", "team=a", false),
    ] {
        let serves = pool.serves(&service(name), &(&labels(of_service)).into(), &labels(of_namespace));
        assert_eq!(serves, expected, "{name} {of_service} {of_namespace}");
    }
    let broken = PoolRecord { service_selectors: vec!["a in b".into()], ..theirs("p", &["192.0.2.1"]) };
    let fault = Pool::read(broken).1.remove(0).to_string();
    assert!(fault.starts_with("serviceAllocation.serviceSelectors[0]: \"a in b\""), "{fault}");
}

#[test]
fn pools_of_both_kinds_may_have_one_name_and_no_address() {
    let mut world = World::new([
        pool("lan", &["192.0.2.1"]),
        theirs("lan", &["192.0.2.2"]),
        theirs("late", &["192.0.2.2"]),
    ]);
    let named = |key: Arc<str>| Request { pool: Some(key), ..families() };
    assert_eq!(world.ask("ours", named("lan".into())), [ip("192.0.2.1")]);
    assert_eq!(world.ask("theirs", named(PoolKind::IpAddressPool.key("lan"))), [ip("192.0.2.2")]);
    world.ask("none", named(PoolKind::IpAddressPool.key("lan")));
    assert!(world.lacks("none")[0].starts_with("no IPv4 address is free in IPAddressPool lan;"));
    world.ask("lost", named(PoolKind::IpAddressPool.key("wan")));
    assert_eq!(
        world.lacks("lost"),
        ["there is no IPAddressPool \"wan\" (annotation metallb.io/address-pool); create it, or name \
          one that kubectl get ipaddresspools -A lists"]
    );
    let overlap = world.allocator.pools().find(|(pool, _)| &*pool.record.name == "IPAddressPool/late");
    let problem = overlap.and_then(|(_, state)| state.problem(&[])).expect("an overlap");
    assert!(
        problem.contains("IPAddressPool lan, which is older, has addresses of 192.0.2.2 too"),
        "{problem}"
    );
}

#[test]
fn services_that_shared_an_address_by_their_key_keep_it() {
    let vip = "192.0.2.7";
    let mut world = World::default();
    world.notify(Event::Pool(Box::new(theirs("lan", &["192.0.2.0/28"]))));
    for (name, key) in [("a/tcp", "dns"), ("b/udp", "dns"), ("c/other", "web")] {
        world.notify(Event::Request(service(name), Box::new(sharing(key, &[vip]))));
    }
    world.notify(Event::Synced);
    assert_eq!(world.has("a/tcp"), [ip(vip)]);
    assert_eq!(world.has("b/udp"), [ip(vip)], "it has the key of the one that it is reserved for");
    assert_eq!(world.has("c/other"), [ip("192.0.2.0")], "it has another key");
    // It inherits the address.
    world.notify(Event::Withdrawn(service("a/tcp")));
    assert_eq!(world.store.objects[&ip(vip)].as_ref().map(|it| it.service.clone()), Some(service("b/udp")));
    assert_eq!(world.has("b/udp"), [ip(vip)]);
    world.notify(Event::Withdrawn(service("b/udp")));
    assert_eq!(world.store.objects.get(&ip(vip)), None);
}

#[test]
fn a_shared_address_stays_whatever_becomes_of_its_pool() {
    let (vip, key) = ("192.0.2.7", PoolKind::IpAddressPool.key("lan"));
    let named = |pool: &Arc<str>| Request { pool: Some(Arc::clone(pool)), ..sharing("dns", &[vip]) };
    for (what, event, lack) in [
        ("it goes", Event::PoolGone(Arc::clone(&key)), "it keeps 192.0.2.7, which IPAddressPool lan"),
        (
            "it shrinks",
            Event::Pool(Box::new(theirs("lan", &["192.0.2.1"]))),
            "it keeps 192.0.2.7, which IPAddressPool lan",
        ),
    ] {
        let mut world = World::new([theirs("lan", &["192.0.2.0/28"])]);
        for name in ["a/tcp", "a/udp"] {
            assert_eq!(world.ask(name, named(&key)), [ip(vip)]);
        }
        world.notify(event);
        for name in ["a/tcp", "a/udp"] {
            assert_eq!(world.has(name), [ip(vip)], "{what}: {name}");
            assert!(world.lacks(name).concat().starts_with(lack), "{what}: {:?}", world.lacks(name));
        }
        // It moves when it names another pool that has one.
        let other = PoolKind::IpAddressPool.key("wan");
        assert_eq!(world.ask("a/udp", named(&other)), [ip(vip)], "{what}");
        assert!(world.lacks("a/udp").concat().starts_with("there is no IPAddressPool \"wan\""));
        world.notify(Event::Pool(Box::new(theirs("wan", &["198.51.100.1"]))));
        assert_eq!(world.has("a/udp"), [ip("198.51.100.1")], "{what}");
        assert_eq!(world.has("a/tcp"), [ip(vip)], "{what}");
    }
}

#[test]
fn a_service_that_prefers_both_families_has_them_from_one_pool_or_one_of_them() {
    let (four, six) = (theirs("four", &["192.0.2.1-192.0.2.2"]), theirs("six", &["2001:db8::1-2001:db8::2"]));
    // It comes last by its name, and its part in use is the largest.
    let both = theirs("the-both", &["192.0.2.11-192.0.2.12", "2001:db8::11-2001:db8::12"]);
    let pinned = PoolRecord { priority: -1, ..theirs("pinned", &["192.0.2.21"]) };
    let dual = |families: [Family; 2], needs_all| Request {
        families: families.to_vec(),
        needs_all,
        ..Request::default()
    };
    let v4_first = [Family::V4, Family::V6];
    let single = [four.clone(), six.clone()];
    let all = [four.clone(), six.clone(), both.clone()];
    for (pools, request, expected, what) in [
        (&single[..], dual(v4_first, false), &["192.0.2.1"][..], "the first family, of two pools"),
        (&single, dual([Family::V6, Family::V4], false), &["2001:db8::1"], "IPv6, if that is first"),
        (&single[1..], dual(v4_first, false), &["2001:db8::1"], "the second family, without a first"),
        (&single, dual(v4_first, true), &["192.0.2.1", "2001:db8::1"], "both, if both are needed"),
        (&all, dual(v4_first, false), &["192.0.2.12", "2001:db8::11"], "a pool with both comes first"),
        (&all, dual(v4_first, true), &["192.0.2.12", "2001:db8::11"], "also if both are needed"),
        (&[pinned, both.clone()], dual(v4_first, false), &["192.0.2.21"], "a pool for the Service, before"),
        (
            &[pool("four", &["192.0.2.1"]), pool("six", &["2001:db8::1"])],
            dual(v4_first, false),
            &["192.0.2.1", "2001:db8::1"],
            "VIPPools give each family",
        ),
    ] {
        let mut world = World::new(pools.iter().cloned());
        world.ask("first", Request { addresses: vec![ip("192.0.2.11")], ..families() });
        let expected: Vec<_> = expected.iter().map(|vip| ip(vip)).collect();
        assert_eq!(world.ask("web", request), expected, "{what}");
    }
    let mut world = World::new(single);
    world.ask("web", dual(v4_first, false));
    assert_eq!(world.lacks("web"), [""; 0]);
    world.notify(Event::Pool(Box::new(PoolRecord {
        addresses: vec!["192.0.2.1".into(), "2001:db8::9".into()],
        ..four
    })));
    assert_eq!(world.has("web"), [ip("192.0.2.1"), ip("2001:db8::9")], "its pool has the other family now");
}
