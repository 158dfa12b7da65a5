use proptest::prelude::*;
use vipward_common::MacAddr;

use super::{
    super::{AnnounceRecord, Pool, tests::pool},
    *,
};
use crate::{
    base::samples::{ip, labels},
    records::{InterfaceNames, Preference},
};

fn announced(name: &str, created: i64, addresses: &[&str], nodes: &str, interfaces: &[&str]) -> PoolRecord {
    let announce = AnnounceRecord {
        nodes: (!nodes.is_empty()).then(|| nodes.into()),
        interfaces: interfaces.iter().map(|text| (*text).into()).collect(),
        preferred: None,
    };
    PoolRecord { created, announce, ..pool(name, addresses) }
}

fn allowance(nodes: &[&str], interfaces: &[&str], preferred: Option<&str>) -> Allowance {
    Allowance {
        nodes: nodes.iter().map(|text| text.parse().expect("a selector")).collect(),
        interfaces: interfaces.iter().map(|text| text.parse().expect("a pattern")).collect(),
        preferred: preferred.map(|text| preference(1, text)).into_iter().collect(),
        services: Vec::new(),
    }
}

fn preference(weight: i32, nodes: &str) -> Preference {
    Preference { weight, nodes: nodes.parse().expect("a selector") }
}

fn named(name: &str) -> InterfaceNames<'_> {
    InterfaceNames { name, altnames: &[], mac: MacAddr::ZERO }
}

fn policy(allowances: &[Allowance]) -> PoolPolicy {
    PoolPolicy { pool: "lan".into(), advertisements: [].into(), allowances: allowances.to_vec() }
}

/// Returns the pool whose policy an address has. It selects nodes by its own name.
fn decides(policies: &Policies, vip: &str) -> Option<Arc<str>> {
    let policy = policies.of(ip(vip), &[])?;
    assert_eq!(policy.allowances[0].nodes[0].as_str(), &*policy.pool);
    Some(Arc::clone(&policy.pool))
}

#[test]
fn a_node_may_hold_an_address_where_any_allowance_has_it() {
    let edge = allowance(&["zone=a", "zone=b"], &["bond*", "eth1"], None);
    let rest = allowance(&["zone=c"], &[], None);
    let [edge, both] = [vec![edge.clone()], vec![edge, rest]];
    let rows = [
        ("one of the selectors, a glob", &edge, "a", "bond0", true, true),
        ("the other selector, a name", &edge, "b", "eth1", true, true),
        ("another interface", &edge, "a", "eth0", true, false),
        ("another node, that interface", &edge, "z", "bond0", false, true),
        ("another node, another interface", &edge, "z", "eth0", false, false),
        ("no interface named", &both, "c", "eth0", true, true),
        ("the interface of another allowance", &both, "a", "eth0", true, false),
        ("neither nodes nor interfaces", &vec![Allowance::default()], "z", "eth0", true, true),
        ("no allowance", &Vec::new(), "a", "bond0", false, false),
    ];
    for (description, allowances, zone, interface, selects, has) in rows {
        let (policy, labels) = (policy(allowances), labels(&[("zone", zone)]));
        assert_eq!(policy.selects(&labels), selects, "{description}");
        assert_eq!(policy.has(named(interface), Some(&labels)), has, "{description}");
    }
    // A node whose labels are not known yet has the interfaces of all.
    assert!(policy(&both).has(named("eth0"), None));
    assert!(!policy(&edge).has(named("eth0"), None));
}

#[test]
fn a_node_has_the_weights_of_the_allowances_that_have_it() {
    let a = allowance(&["zone=a"], &["eth1"], Some("fast"));
    let preferred = vec![preference(10, "best"), preference(20, "zone")];
    let b = Allowance { preferred, ..Allowance::default() };
    let policy = policy(&[a, b]);
    let rows: [(_, _, &[_], _); 6] = [
        ("both allowances have it", "eth1", &[("zone", "a"), ("fast", "")], 21),
        ("one is about another interface", "eth0", &[("zone", "a"), ("fast", "")], 20),
        ("one is about other nodes", "eth1", &[("zone", "b"), ("fast", "")], 20),
        ("the weights of an allowance are added", "eth0", &[("zone", "b"), ("best", "")], 30),
        ("one label", "eth0", &[("best", "")], 10),
        ("no label", "eth0", &[], 0),
    ];
    for (what, interface, pairs, expected) in rows {
        assert_eq!(policy.preference(named(interface), &labels(pairs)), expected, "{what}");
    }
}

/// Returns an advertisement of pools, for nodes, from an interface, of Services. Empty texts are left out.
fn advertisement(
    name: &str,
    pool: &str,
    nodes: &str,
    interface: &str,
    service: &str,
) -> L2AdvertisementRecord {
    let list = |text: &str| (!text.is_empty()).then(|| Box::from(text)).into_iter().collect();
    L2AdvertisementRecord {
        name: name.into(),
        pools: (!pool.is_empty()).then(|| Arc::from(pool)).into_iter().collect(),
        nodes: list(nodes),
        interfaces: list(interface),
        services: list(service),
        ..L2AdvertisementRecord::default()
    }
}

#[test]
fn the_pools_of_metallb_are_announced_as_its_advertisements_say_once_those_are_known() {
    let mut policies = Policies::default();
    let theirs = PoolRecord { name: PoolKind::IpAddressPool.key("lan"), ..pool("lan", &["192.0.2.1"]) };
    policies.put(&theirs);
    policies.put(&pool("lan", &["192.0.2.2"]));
    let all = vec![ip("192.0.2.1")..=ip("192.0.2.1")];
    let of = |policies: &Policies, services: &[&ServiceLabels]| policies.of(ip("192.0.2.1"), services);
    let names = |policies: &Policies| of(policies, &[]).expect("a policy").advertisements.join(" ");
    assert_eq!(of(&policies, &[]), None, "everywhere, until the advertisements are known");
    assert_eq!(policies.put_advertisement(&advertisement("b", "", "zone=b", "", "")), []);
    assert_eq!(of(&policies, &[]), None, "one is not all of them");
    assert_eq!(policies.on_change(&Change::Advertised(true)), all);
    assert_eq!(policies.on_change(&Change::Advertised(true)), [], "nothing new");
    assert_eq!(names(&policies), "b");
    assert_eq!(policies.of(ip("192.0.2.2"), &[]), None, "a VIPPool is none of theirs");

    assert_eq!(policies.put_advertisement(&advertisement("c", "wan", "", "", "")), [], "another pool");
    assert_eq!(policies.put_advertisement(&advertisement("a", "lan", "zone=a", "eth1", "app=web")), all);
    let [web, dns] = ["web", "dns"].map(|app| ServiceLabels::from(&labels(&[("app", app)])));
    let rows = [
        ("both, by the one of its Services", &[&dns, &web][..], 2, true),
        ("the other Service has the general one alone", &[&dns], 1, false),
    ];
    for (what, services, allowances, in_zone) in rows {
        let (policy, labels) = (of(&policies, services).expect("a policy"), labels(&[("zone", "a")]));
        assert_eq!(policy.allowances.len(), allowances, "{what}");
        assert_eq!(policy.selects(&labels), in_zone, "{what}");
        assert!(
            !in_zone || policy.has(named("eth1"), Some(&labels)) && !policy.has(named("eth0"), Some(&labels)),
            "{what}"
        );
    }
    let policy = of(&policies, &[]).expect("a policy");
    assert_eq!(&*policy.nodes_field(), "spec.nodeSelectors of L2Advertisement a, b (for IPAddressPool lan)");

    assert_eq!(policies.put_advertisement(&advertisement("b", "", "b in", "", "")), [], "a typing error");
    assert_eq!(names(&policies), "a b");
    assert_eq!(policies.on_change(&Change::AdvertisementGone("b".into())), all);
    let none = of(&policies, &[&dns]).expect("a policy");
    assert!(none.allowances.is_empty(), "nowhere: {none:?}");
    assert_eq!(&*none.nodes_field(), "spec.serviceSelectors of L2Advertisement a (for IPAddressPool lan)");
    assert_eq!(policies.on_change(&Change::Advertised(false)), all);
    assert_eq!(of(&policies, &[]), None, "the API server knows them no longer");
}

#[test]
fn of_several_pools_the_oldest_decides_about_an_address() {
    let mut policies = Policies::default();
    policies.put(&announced("young", 3, &["192.0.2.8-192.0.2.40"], "young", &[]));
    policies.put(&announced("old", 1, &["192.0.2.16-192.0.2.19", "2001:db8::10"], "old", &[]));
    policies.put(&announced("silent", 2, &["192.0.2.30-192.0.2.31"], "", &[]));
    let rows = [
        ("192.0.2.7", None),
        ("192.0.2.8", Some("young")),
        ("192.0.2.15", Some("young")),
        ("192.0.2.16", Some("old")),
        ("192.0.2.19", Some("old")),
        ("192.0.2.20", Some("young")),
        // An older pool without a policy has its addresses announced everywhere.
        ("192.0.2.30", None),
        ("192.0.2.32", Some("young")),
        ("192.0.2.40", Some("young")),
        ("192.0.2.41", None),
        ("2001:db8::f", None),
        ("2001:db8::10", Some("old")),
        ("2001:db8::11", None),
    ];
    for (vip, expected) in rows {
        assert_eq!(decides(&policies, vip).as_deref(), expected, "{vip}");
    }
    policies.remove("old");
    assert_eq!(decides(&policies, "192.0.2.17").as_deref(), Some("young"));
    policies.remove("young");
    assert_eq!(decides(&policies, "192.0.2.17"), None, "what is deleted decides nothing");
}

#[test]
fn a_value_that_cannot_be_read_leaves_the_last_one_in_effect() {
    let mut policies = Policies::default();
    let good = announced("lan", 1, &["192.0.2.1"], "zone=a", &["eth1"]);
    policies.put(&good);
    let before = policies.of(ip("192.0.2.1"), &[]).expect("a policy");
    let announce = |nodes: &str, interfaces: &[&str], preferred: Option<&str>| {
        let record = announced("lan", 1, &["192.0.2.1"], nodes, interfaces);
        let preferred = preferred.map(Into::into);
        PoolRecord { announce: AnnounceRecord { preferred, ..record.announce }, ..record }
    };
    let rows = [
        (announce("a in b", &["eth1"], None), "announce.nodeSelector: \"a in b\" is no requirement"),
        (
            announce("zone=a", &["eth0", "et[h"], None),
            "announce.interfaces[1]: `et[h` is no interface pattern",
        ),
        (announce("zone=a", &["eth1"], Some("(")), "announce.preferredNodes: the parentheses of \"(\""),
    ];
    for (record, words) in rows {
        let (pool, faults) = Pool::read(record.clone());
        let [fault] = &faults[..] else { panic!("one fault: {faults:?}") };
        assert!(fault.to_string().starts_with(words), "{fault}");
        assert!(
            pool.serves(&super::super::tests::service("web"), &ServiceLabels::default(), &BTreeMap::new()),
            "{words}"
        );
        assert_eq!(policies.put(&record), [], "{words}: nothing changes");
        assert_eq!(policies.of(ip("192.0.2.1"), &[]).as_ref(), Some(&before), "{words}");
        // An agent that starts now knows no earlier value: that field limits nothing.
        let mut fresh = Policies::default();
        fresh.put(&record);
        let allowance = fresh.of(ip("192.0.2.1"), &[]).map(|policy| policy.allowances[0].clone());
        let allowance = allowance.expect("the rest of it is in effect");
        let nodes = if words.contains("nodeSelector") { &[][..] } else { &["zone=a"] };
        let interfaces = if words.contains("interfaces") { &[][..] } else { &["eth1"] };
        assert_eq!(allowance, self::allowance(nodes, interfaces, None), "{words}");
    }
    // Another pool of that name has nothing of the former one.
    policies.put(&PoolRecord { created: 2, ..announce("a in b", &[], None) });
    assert_eq!(policies.of(ip("192.0.2.1"), &[]), None);
}

#[test]
fn what_says_nothing_of_announcing_touches_no_address() {
    let mut policies = Policies::default();
    let record = announced("lan", 1, &["192.0.2.1"], "zone=a", &[]);
    assert_eq!(policies.put(&record), [ip("192.0.2.1")..=ip("192.0.2.1")]);
    assert_eq!(policies.put(&record), []);
    assert_eq!(policies.put(&PoolRecord { priority: 7, ..record }), []);
    assert_eq!(policies.remove("wan"), []);
}

/// Returns pools of the addresses 192.0.2.1 to 192.0.2.20, or the name of one that goes.
fn change() -> impl Strategy<Value = (&'static str, Option<PoolRecord>)> {
    let range = (1_u8..=20, 0_u8..6)
        .prop_map(|(first, more)| format!("192.0.2.{first}-192.0.2.{}", first.saturating_add(more).min(20)));
    let ranges = prop::collection::vec(range, 1..4);
    let nodes = prop::sample::select(&["", "zone=a", "zone=b"][..]);
    let name = prop::sample::select(&["p", "q", "r"][..]);
    (name, prop::option::weighted(0.8, (0_i64..3, ranges, nodes))).prop_map(|(name, pool)| {
        let record = pool.map(|(created, ranges, nodes)| {
            let ranges: Vec<_> = ranges.iter().map(String::as_str).collect();
            announced(name, created, &ranges, nodes, &[])
        });
        (name, record)
    })
}

proptest! {
    /// The oracle looks through all pools for each address.
    #[test]
    fn each_address_has_the_policy_of_its_oldest_pool_and_a_change_names_those_of_its_pool(
        changes in prop::collection::vec(change(), 1..12),
    ) {
        let mut policies = Policies::default();
        let mut pools: BTreeMap<&str, PoolRecord> = BTreeMap::new();
        let all: Vec<IpAddr> = (0..=21).map(|last| IpAddr::from([192, 0, 2, last])).collect();
        let has = |record: &PoolRecord, vip| Pool::read(record.clone()).0.contains(vip);
        for (name, record) in changes {
            let before: Vec<_> = all.iter().map(|vip| policies.of(*vip, &[])).collect();
            let former = match &record {
                Some(record) => pools.insert(name, record.clone()),
                None => pools.remove(name),
            };
            let notified = match &record {
                Some(record) => policies.put(record),
                None => policies.remove(name),
            };
            for (vip, before) in all.iter().zip(before) {
                let having = pools.values().filter(|record| has(record, *vip));
                let oldest = having.min_by_key(|record| (record.created, Arc::clone(&record.name)));
                let expected = oldest.and_then(|record| {
                    Some((Arc::clone(&record.name), record.announce.nodes.clone()?))
                });
                let found = policies.of(*vip, &[]);
                let said = found.as_ref().map(|policy| {
                    (Arc::clone(&policy.pool), policy.allowances[0].nodes[0].as_str().into())
                });
                prop_assert_eq!(said, expected, "{}", vip);
                let is_notified = notified.iter().any(|range| range.contains(vip));
                prop_assert!(is_notified || found == before, "{} changed untold", vip);
                let of_it = former.iter().chain(&record).any(|record| has(record, *vip));
                prop_assert!(of_it || !is_notified, "{} is of another pool", vip);
            }
        }
    }
}
