//! Instead of `MetalLB`: its annotations, and what its controller wrote.

use super::*;
use crate::{pools::PoolRecord, records::PoolKind};

const KEY: &str = "metallb.io/allow-shared-ip";

fn settings() -> Settings {
    Settings { metallb: true, ..Settings::default() }
}

fn pool(kind: PoolKind, name: &str, addresses: &[&str]) -> Event {
    let addresses = addresses.iter().map(|text| (*text).into()).collect();
    let record = PoolRecord { name: kind.key(name), addresses, auto_assign: true, ..PoolRecord::default() };
    Event::Pool(pools::Change::Pool(Box::new(record)))
}

fn from_metallb(name: &str, vip: &str) -> ServiceRecord {
    ServiceRecord { status_from_metallb: true, ..service(name).status("controller", &[vip]) }
}

#[test]
fn what_metallb_wrote_into_a_status_is_reserved_and_stays() {
    let mut world = World::unsynced(Role::Controller, settings());
    world.notify(pool(PoolKind::IpAddressPool, "lan", &["192.0.2.100-192.0.2.110"]));
    world.put(from_metallb("default/web", "192.0.2.105"));
    world.put(service("default/new"));
    world.notify(Event::Synced);
    let reserved: BTreeMap<_, _> = world
        .reserving
        .iter()
        .filter_map(|write| Some((write.reservation.as_ref()?.service.to_string(), write.vip)))
        .collect();
    assert_eq!(reserved["default/web"], ip("192.0.2.105"));
    assert_eq!(reserved["default/new"], ip("192.0.2.100"));
    let pool = world.reserving[0].reservation.as_ref().and_then(|it: &Reservation| it.pool.as_deref());
    assert_eq!(pool, Some("IPAddressPool/lan"));
    assert_eq!((world.duties.len(), world.problems.len()), (0, 0), "the status is right as it is");
}

#[test]
fn an_annotation_of_metallbs_names_a_pool_of_metallbs() {
    for (metallb, annotation, name, expected) in [
        (true, "metallb.io/address-pool", "lan", "192.0.2.2"),
        (false, "metallb.io/address-pool", "lan", "192.0.2.1"),
        (true, "vipward.io/pool", "lan", "192.0.2.1"),
        (true, "vipward.io/pool", "IPAddressPool/lan", "192.0.2.2"),
    ] {
        let mut world = World::of(Role::Controller, Settings { metallb, ..settings() });
        world.notify(pool(PoolKind::VipPool, "lan", &["192.0.2.1"]));
        world.notify(pool(PoolKind::IpAddressPool, "lan", &["192.0.2.2"]));
        world.put(service("default/web").annotated(&[(annotation, name)]));
        let vips: Vec<_> = world.reserving.iter().map(|write| write.vip).collect();
        assert_eq!(vips, [ip(expected)], "{metallb} {annotation} {name}");
    }
}

#[test]
fn one_key_shares_an_address_of_metallbs_pools_across_namespaces() {
    const VIP: &str = "192.0.2.7";
    let of_key = |name: &str, key, port| {
        let asks = [("metallb.io/loadBalancerIPs", VIP), (KEY, key)];
        service(name).annotated(&asks).ports(&[port])
    };
    let local = |record: ServiceRecord| record.local();
    let same = of_key("b/udp", "dns", 81);
    let theirs = PoolKind::IpAddressPool;
    for (what, settings, kind, other, shares) in [
        ("the same key", settings(), theirs, same.clone(), true),
        ("another key", settings(), theirs, of_key("b/udp", "web", 81), false),
        ("no key", settings(), theirs, of_key("b/udp", " ", 81), false),
        ("the same port", settings(), theirs, of_key("b/udp", "dns", 80), false),
        ("traffic to certain nodes", settings(), theirs, local(same.clone()), false),
        ("a VIPPool", settings(), PoolKind::VipPool, same.clone(), false),
        ("without --metallb", Settings { metallb: false, ..settings() }, theirs, same.clone(), false),
    ] {
        let mut world = World::of(Role::Controller, settings);
        world.notify(pool(kind, "lan", &["192.0.2.0/28"]));
        world.put(of_key("a/tcp", "dns", 80).created(1));
        world.reserve();
        world.put(other.created(2));
        world.reserve();
        let have = world.demand(VIP).services.len();
        assert_eq!(have == 2, shares, "{what}: {:?}", world.words());
    }
}

#[test]
fn an_agent_announces_for_all_services_that_the_controller_let_share() {
    for (metallb, have) in [(true, 2), (false, 1)] {
        let mut world = World::of(Role::Announcer, Settings { metallb, ..settings() });
        for (name, port) in [("a/tcp", 80), ("b/udp", 81)] {
            let record = service(name).annotated(&[(KEY, "dns")]).ports(&[port]);
            world.put(record.status("vipward", &["192.0.2.7"]));
        }
        assert_eq!(world.demand("192.0.2.7").services.len(), have, "{metallb}");
    }
}

#[test]
fn when_metallbs_controller_still_writes_vipward_stops_and_says_what_to_do() {
    let mut world = World::of(Role::Controller, settings());
    world.notify(pool(PoolKind::IpAddressPool, "lan", &["192.0.2.100-192.0.2.110"]));
    let asks = || service("default/web").annotated(&[("metallb.io/loadBalancerIPs", "192.0.2.105")]);
    let ours = || asks().status("vipward", &["192.0.2.105"]);
    let theirs =
        || ServiceRecord { status_from_metallb: true, ..asks().status("controller", &["192.0.2.100"]) };
    world.put(asks());
    world.reserve();
    world.pass(Monotonic::default());
    for _ in 0..3 {
        world.put(ours());
        world.put(theirs());
    }
    assert!(world.duties.is_empty(), "{:?}", world.duties);
    let words = world.words();
    assert_eq!(words.len(), 1, "{words:?}");
    for part in ["field managers \"controller\" and \"vipward\" take turns", "--metallb", "--replicas=0"] {
        assert!(words[0].contains(part), "{words:?}");
    }
}

#[test]
fn a_status_from_metallb_stays_where_vipward_serves_nothing() {
    type Change = fn(ServiceRecord) -> ServiceRecord;
    let plain = |record: ServiceRecord| record;
    let rows: [(&str, Settings, Change); 6] = [
        (
            "labels",
            Settings { service_selector: Some("take=yes".parse().expect("a selector")), ..settings() },
            plain,
        ),
        ("a namespace", Settings { namespaces: BTreeSet::from(["other".into()]), ..settings() }, plain),
        (
            "a namespace's labels",
            Settings { namespace_selector: Some("take=yes".parse().expect("a selector")), ..settings() },
            plain,
        ),
        ("the annotation", settings(), |it| it.annotated(&[("vipward.io/ignore", "true")])),
        ("another type", settings(), |it| ServiceRecord { load_balancer: false, ..it }),
        ("deletion", settings(), |it| ServiceRecord { deleting: true, ..it }),
    ];
    for (what, settings, change) in rows {
        let mut world = World::unsynced(Role::Controller, settings);
        world.notify(pool(PoolKind::IpAddressPool, "lan", &["192.0.2.100-192.0.2.110"]));
        world.put(change(from_metallb("default/theirs", "192.0.2.105")));
        world.put(change(service("default/ours").status("vipward", &["192.0.2.106"])));
        world.notify(Event::Synced);
        let cleared: Vec<_> = world.duties.into_values().collect();
        assert_eq!(cleared, [Command::ClearIngress { service: named("default/ours") }], "{what}");
    }
}

#[test]
fn a_status_from_metallb_is_cleared_once_vipward_has_served_the_service() {
    let mut world = World::of(Role::Controller, settings());
    world.notify(pool(PoolKind::IpAddressPool, "lan", &["192.0.2.100-192.0.2.110"]));
    world.put(from_metallb("default/web", "192.0.2.105"));
    world.reserve();
    assert!(world.duties.is_empty());
    let ignored = service("default/web").annotated(&[("vipward.io/ignore", "true")]);
    world.put(ServiceRecord { status_from_metallb: true, ..ignored.status("controller", &["192.0.2.105"]) });
    let clear = Command::ClearIngress { service: named("default/web") };
    assert_eq!(world.duties.into_values().collect::<Vec<_>>(), [clear]);
}

/// Returns two Services of two namespaces that share an address by their key, as `manager` wrote it.
fn sharers(manager: &str) -> [ServiceRecord; 2] {
    [("a/tcp", 80, 1), ("b/udp", 81, 2)].map(|(name, port, created)| ServiceRecord {
        status_from_metallb: manager == "controller",
        ..service(name)
            .annotated(&[(KEY, "dns")])
            .ports(&[port])
            .created(created)
            .status(manager, &["192.0.2.7"])
    })
}

#[test]
fn services_of_two_namespaces_keep_the_address_that_they_share() {
    let lan = || pool(PoolKind::IpAddressPool, "lan", &["192.0.2.0/28"]);
    let gone = || Event::Pool(pools::Change::PoolGone(PoolKind::IpAddressPool.key("lan")));
    let rows = [
        ("the pool goes", vec![lan()], vec![gone()]),
        (
            "a VIPPool replaces it",
            vec![lan()],
            vec![gone(), pool(PoolKind::VipPool, "ours", &["192.0.2.0/28"])],
        ),
        ("there is no pool", Vec::new(), Vec::new()),
    ];
    for manager in ["controller", "vipward"] {
        for (what, before, after) in rows.clone() {
            let mut world = World::unsynced(Role::Controller, settings());
            for event in before {
                world.notify(event);
            }
            for record in sharers(manager) {
                world.put(record);
            }
            world.notify(Event::Synced);
            world.reserve();
            for event in after {
                world.notify(event);
            }
            world.reserve();
            assert_eq!(world.demand("192.0.2.7").services.len(), 2, "{manager} {what}: {:?}", world.words());
            assert_eq!(world.duties, BTreeMap::new(), "{manager} {what}");
        }
    }
}

#[test]
fn in_a_vippool_a_key_keeps_an_address_only_if_metallb_gave_it_out() {
    for (manager, have) in [("vipward", 1), ("controller", 2)] {
        let mut world = World::unsynced(Role::Controller, settings());
        world.notify(pool(PoolKind::VipPool, "lan", &["192.0.2.0/28"]));
        world.notify(consent("a", &["b"]));
        for mut record in sharers(manager) {
            record.annotations.share = Some("dns".into());
            world.put(record);
        }
        world.notify(Event::Synced);
        world.reserve();
        assert_eq!(world.demand("192.0.2.7").services.len(), 2, "{manager}: {:?}", world.words());
        world.notify(consent("a", &[]));
        assert_eq!(world.demand("192.0.2.7").services.len(), have, "{manager}: {:?}", world.words());
    }
}

#[test]
fn without_the_controller_services_keep_the_address_that_they_share() {
    let by_name = |record: ServiceRecord| {
        let asks = [("metallb.io/loadBalancerIPs", "192.0.2.7"), (KEY, "dns")];
        record.annotated(&asks)
    };
    for (key, is_named) in [("dns", false), ("dns", true), ("web", false)] {
        let mut world = World::unsynced(Role::Alone, Settings::default());
        let [tcp, udp] = sharers("vipward");
        let mut udp = if is_named { by_name(udp) } else { udp };
        udp.annotations.metallb_share = Some(key.into());
        world.put(tcp);
        world.put(udp);
        let pool = Some(PoolKind::IpAddressPool.key("lan"));
        let reservation = Reservation { service: named("a/tcp"), pool, kept: None };
        world.notify(claim(ip("192.0.2.7"), (true, true), &["a/tcp", "b/udp"], Some(reservation)));
        world.notify(Event::Synced);
        world.hold("192.0.2.7", true);
        let have = if key == "dns" { 2 } else { 1 };
        assert_eq!(world.demand("192.0.2.7").services.len(), have, "{key} {is_named}: {:?}", world.words());
        assert_eq!(world.duties.len(), 2 - have, "{key} {is_named}: {:?}", world.duties);
    }
}

#[test]
fn a_status_from_metallb_or_one_that_is_left_over_may_be_overwritten_in_its_version() {
    let mut world = World::of(Role::Controller, settings());
    let asks = || ServiceRecord { load_balancer_ip: Some("192.0.2.105".into()), ..service("default/web") };
    world.notify(pool(PoolKind::VipPool, "lan", &["192.0.2.105"]));
    world.put(asks());
    world.reserve();
    assert!(world.duties.contains_key(&named("default/web")));
    let theirs = || asks().status("controller", &["192.0.2.100"]);
    let by_person = asks().status("kubectl-edit", &["192.0.2.100"]);
    for (record, is_overwritten) in [
        (asks(), false),
        (theirs(), false),
        (by_person, true),
        (ServiceRecord { status_from_metallb: true, ..theirs() }, true),
    ] {
        let version = Version::from("7");
        world.put(ServiceRecord { version: version.clone(), ..record });
        let over = world.index().overwrites(&named("default/web"));
        assert_eq!(over, is_overwritten.then_some(version));
    }
}
