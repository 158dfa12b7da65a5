use serde_json::json;
use vipward_core::pools::Counts;

use super::*;

fn read(spec: Value) -> PoolRecord {
    let metadata = Meta { name: "lan".to_owned(), ..Meta::default() };
    pool(&metadata, serde_json::from_value(spec).expect("a spec"))
}

#[test]
fn a_pool_has_the_defaults_of_metallb() {
    let record = read(json!({"addresses": ["192.0.2.0/28", "192.0.2.20 - 192.0.2.25"]}));
    assert_eq!(&*record.name, "IPAddressPool/lan");
    assert!(record.auto_assign && record.lenient && record.use_ends && !record.avoid_buggy);
    assert_eq!((record.addresses.len(), record.sharing, record.keep), (2, Sharing::Key, None));
    let record = read(json!({"addresses": [], "autoAssign": false, "avoidBuggyIPs": true}));
    assert!(!record.auto_assign && record.avoid_buggy);
}

#[test]
fn pools_for_certain_services_come_first_and_the_lowest_priority_before_them() {
    let allocations = [
        json!({"priority": 1, "namespaces": ["a"]}),
        json!({"priority": 50}),
        json!({"priority": 0, "namespaces": ["a"]}),
        Value::Null,
    ];
    let records = allocations.map(|it| read(json!({"addresses": [], "serviceAllocation": it})).priority);
    assert!(records.is_sorted_by(|one, next| one < next), "{records:?}");
    assert!(records[0] > 0, "those of VIPPools come before");
}

#[test]
fn each_selector_is_one_of_kubectl() {
    let record = read(json!({"addresses": [], "serviceAllocation": {
        "namespaces": ["shop"],
        "namespaceSelectors": [{"matchLabels": {"team": "a"}}, {}],
        "serviceSelectors": [{"matchExpressions": [{"key": "app", "operator": "In", "values": ["b", "c"]}]}],
    }}));
    assert_eq!(record.namespace_selectors, ["team=a".into(), "".into()]);
    assert_eq!(record.service_selectors, ["app in (b,c)".into()]);
    assert!(record.namespaces.contains("shop"));
}

#[test]
fn the_former_name_of_an_annotation_counts_where_the_present_one_is_absent() {
    let annotations = |pairs: &[(&str, &str)]| {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    };
    let metadata = |pairs| Meta { annotations: Some(annotations(pairs)), ..Meta::default() };
    let both = metadata(&[("metallb.universe.tf/address-pool", "old"), ("metallb.io/address-pool", "new")]);
    assert_eq!(annotation(&both, "metallb.io/address-pool"), Some("new"));
    let old = metadata(&[("metallb.universe.tf/address-pool", "old"), ("metallb.universe.tf/pool", "x")]);
    assert_eq!(annotation(&old, "metallb.io/address-pool"), Some("old"));
    assert_eq!(annotation(&old, "vipward.io/pool"), None);
    let replaced = ("metallb.universe.tf/address-pool".into(), "metallb.io/address-pool".into());
    assert_eq!(overridden(&both), [replaced], "it has another value");
    let same = metadata(&[("metallb.universe.tf/address-pool", "lan"), ("metallb.io/address-pool", "lan")]);
    let unread = metadata(&[("metallb.universe.tf/x", "old"), ("metallb.io/x", "new")]);
    for (what, metadata) in [("alone", &old), ("the same value", &same), ("not read", &unread)] {
        assert_eq!(overridden(metadata), [], "{what}");
    }
}

#[test]
fn only_a_status_with_the_mark_of_metallbs_controller_is_its_own() {
    let marked = |name: &str| Meta {
        annotations: Some([(name.to_owned(), "lan".to_owned())].into()),
        ..Meta::default()
    };
    for mark in ["metallb.io/ip-allocated-from-pool", "metallb.universe.tf/ip-allocated-from-pool"] {
        assert!(is_from_metallb("controller", &marked(mark)), "{mark}");
        assert!(!is_from_metallb("f5-cis", &marked(mark)), "{mark}");
    }
    assert!(!is_from_metallb("controller", &Meta::default()), "another program may have that name");
}

#[test]
fn an_advertisement_is_read_with_all_its_selectors() {
    let spec = json!({
        "ipAddressPools": ["lan"],
        "ipAddressPoolSelectors": [{"matchLabels": {"zone": "a"}}],
        "nodeSelectors": [{"matchLabels": {"rack": "1"}}],
        "preferredNodeSelectors": [{"weight": 5, "preference": {"matchLabels": {"fast": "yes"}}}],
        "interfaces": ["eth0"],
    });
    let metadata = Meta { name: "here".to_owned(), ..Meta::default() };
    let read = advertisement(&metadata, serde_json::from_value(spec).expect("a spec"));
    let expected = L2AdvertisementRecord {
        name: "here".into(),
        pools: ["lan".into()].into(),
        pool_selectors: vec!["zone=a".into()],
        nodes: vec!["rack=1".into()],
        preferred: vec![(5, "fast=yes".into())],
        services: vec![],
        interfaces: vec!["eth0".into()],
    };
    assert_eq!(read, expected);
}

#[test]
fn a_status_has_numbers_that_the_type_can_hold() {
    let v4 = Counts { total: 10, allocated: 3, kept: 1 };
    let v6 = Counts { total: 1 << 100, allocated: 1, kept: 0 };
    let state = PoolState { counts: [(Family::V4, v4), (Family::V6, v6)].into(), ..PoolState::default() };
    let expected =
        json!({"assignedIPv4": 4, "availableIPv4": 6, "assignedIPv6": 1, "availableIPv6": i64::MAX});
    assert_eq!(status(&state), expected);
}
