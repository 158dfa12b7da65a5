use super::*;
use crate::base::samples;

fn pool(kind: PoolKind, name: &str, labels: &[(&str, &str)]) -> PoolRecord {
    PoolRecord { name: kind.key(name), labels: samples::labels(labels), ..PoolRecord::default() }
}

#[test]
fn an_advertisement_announces_the_pools_that_it_names_or_selects_or_all_of_metallb() {
    let ours = PoolKind::VipPool;
    let theirs = PoolKind::IpAddressPool;
    let with = |pools: &[&str], selectors: &[&str]| {
        let pools = pools.iter().map(|name| (*name).into()).collect();
        let pool_selectors = selectors.iter().map(|text| (*text).into()).collect();
        let record = L2AdvertisementRecord { pools, pool_selectors, ..L2AdvertisementRecord::default() };
        L2Advertisement::read(record).0
    };
    let zoned = &[("zone", "east")][..];
    let cases = [
        ("no name and no selector: all pools", with(&[], &[]), pool(theirs, "lan", &[]), true),
        ("a name", with(&["wan", "lan"], &[]), pool(theirs, "lan", &[]), true),
        ("another name", with(&["wan"], &[]), pool(theirs, "lan", &[]), false),
        ("the label of a selector", with(&[], &["zone=west", "zone=east"]), pool(theirs, "lan", zoned), true),
        ("another label", with(&[], &["zone=west"]), pool(theirs, "lan", zoned), false),
        ("a selector that selects all", with(&[], &[""]), pool(theirs, "lan", &[]), true),
        ("another name, but the label", with(&["wan"], &["zone"]), pool(theirs, "lan", zoned), true),
        ("another label, but the name", with(&["lan"], &["zone=west"]), pool(theirs, "lan", zoned), true),
        ("a VIPPool of that name", with(&["lan"], &[]), pool(ours, "lan", &[]), false),
        ("a VIPPool, and all pools", with(&[], &[]), pool(ours, "lan", &[]), false),
        (
            "a selector with a fault beside the name",
            with(&["lan"], &["a in b"]),
            pool(theirs, "lan", &[]),
            false,
        ),
    ];
    for (what, advertisement, pool, expected) in cases {
        assert_eq!(advertisement.announces(&pool), expected, "{what}");
    }
}

#[test]
fn a_selector_with_a_fault_names_its_field() {
    let record = L2AdvertisementRecord {
        nodes: vec!["zone".into(), "a in b".into()],
        preferred: vec![(1, "c in d".into())],
        ..L2AdvertisementRecord::default()
    };
    let faults: Vec<_> = L2Advertisement::read(record).1.iter().map(ToString::to_string).collect();
    let begins = ["nodeSelectors[1]: \"a in b\"", "preferredNodeSelectors[0].preference: \"c in d\""];
    assert_eq!(faults.len(), begins.len(), "{faults:?}");
    for (fault, begin) in faults.iter().zip(begins) {
        assert!(fault.starts_with(begin), "{fault}");
    }
}
