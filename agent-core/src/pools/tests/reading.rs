use super::{super::*, *};
use crate::records::ServiceLabels;

fn faults(record: PoolRecord) -> Vec<String> {
    Pool::read(record).1.iter().map(ToString::to_string).collect()
}

#[test]
fn each_malformed_value_names_field_value_and_way_out() {
    let cases: [(&str, &str); 8] = [
        (
            "192.0.2",
            "addresses[0]: \"192.0.2\" is no address, network or range; write 192.0.2.10, 192.0.2.0/28 or \
             192.0.2.10-192.0.2.20",
        ),
        (
            "192.0.2.0/33",
            "addresses[0]: \"192.0.2.0/33\" is no address, network or range; write 192.0.2.10, \
             192.0.2.0/28 or 192.0.2.10-192.0.2.20",
        ),
        (
            "192.0.2.10/24",
            "addresses[0]: \"192.0.2.10/24\" is an address in 192.0.2.0/24; write 192.0.2.0/24 for the \
             whole network, or the address alone",
        ),
        (
            "192.0.2.9-192.0.2.1",
            "addresses[0]: \"192.0.2.9-192.0.2.1\" ends before it begins; swap its two addresses",
        ),
        (
            "192.0.2.9-2001:db8::1",
            "addresses[0]: \"192.0.2.9-2001:db8::1\" begins with an address of one family and ends with \
             one of the other; write two ranges",
        ),
        (
            "224.0.0.0/24",
            "addresses[0]: \"224.0.0.0/24\" has 224.0.0.0, a multicast address; choose addresses from the \
             segment's subnet",
        ),
        (
            "fe80::/64",
            "addresses[0]: \"fe80::/64\" has fe80::, a link-local address; choose addresses from the segment's subnet",
        ),
        (
            "::/0",
            "addresses[0]: \"::/0\" has ::, an address that means \"this host\"; choose addresses from the \
             segment's subnet",
        ),
    ];
    for (text, fault) in cases {
        assert_eq!(faults(pool("p", &[text])), [fault], "{text}");
    }
}

#[test]
fn a_range_with_a_fault_leaves_the_others_in_effect() {
    let (pool, faults) = Pool::read(pool("p", &["192.0.2.1-192.0.2.2", "nonsense", "192.0.2.2"]));
    assert_eq!(faults.len(), 2, "{faults:?}");
    assert_eq!(
        faults[1].to_string(),
        "addresses: 192.0.2.2 has addresses of 192.0.2.1-192.0.2.2 too; write each address once"
    );
    assert_eq!(pool.total(Family::V4), 2);
}

#[test]
fn the_ends_of_networks_are_left_out_and_those_of_ranges_are_not() {
    let total = |addresses: &[&str], family| Pool::read(pool("p", addresses)).0.total(family);
    assert_eq!(total(&["192.0.2.0/28"], Family::V4), 14);
    assert_eq!(total(&["192.0.2.0-192.0.2.15"], Family::V4), 16);
    assert_eq!(total(&["192.0.2.0/31"], Family::V4), 2);
    assert_eq!(total(&["192.0.2.7/32"], Family::V4), 1);
    // In IPv6, the first address is all routers' (RFC 4291, 2.6.1), and the last is a host's.
    assert_eq!(total(&["2001:db8::/124"], Family::V6), 15);
    assert_eq!(total(&["2001:db8::/64"], Family::V6), (1 << 64) - 1);
    let with_ends = PoolRecord { use_ends: true, ..pool("p", &["192.0.2.0/28"]) };
    assert_eq!(Pool::read(with_ends).0.total(Family::V4), 16);
    let avoid = vec!["192.0.2.4-192.0.2.7".into(), "192.0.2.0".into(), "198.51.100.0/24".into()];
    let avoiding = PoolRecord { avoid, ..pool("p", &["192.0.2.0/28"]) };
    assert_eq!(Pool::read(avoiding).0.total(Family::V4), 10);
}

#[test]
fn a_selector_with_a_fault_shuts_the_pool() {
    let record = PoolRecord { service_selectors: vec!["a in b".into()], ..pool("p", &["192.0.2.1"]) };
    let (pool, faults) = Pool::read(record);
    assert!(faults[0].to_string().starts_with("serviceSelector: \"a in b\" is no requirement"), "{faults:?}");
    assert!(!pool.serves(&service("web"), &ServiceLabels::default(), &BTreeMap::new()));
}

#[test]
fn an_unreadable_time_to_keep_frees_nothing() {
    let read = |keep: &str| {
        let (pool, faults) = Pool::read(PoolRecord { keep: Some(keep.into()), ..pool("p", &["192.0.2.1"]) });
        (pool.keep, faults.into_iter().map(|fault| fault.to_string()).collect::<Vec<_>>())
    };
    assert_eq!(read("0s"), (Keep::Not, vec![]));
    assert_eq!(read("24h"), (Keep::For(std::time::Duration::from_hours(24)), vec![]));
    assert_eq!(read("forever"), (Keep::Forever, vec![]));
    let fault =
        "keep: \"a day\" is no time to keep an address for; write 0s, a duration such as 24h, or forever";
    assert_eq!(read("a day"), (Keep::Forever, vec![fault.to_owned()]));
}
