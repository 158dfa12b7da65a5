use super::*;
use crate::base::samples::ip;

#[test]
fn a_question_comes_from_an_own_address_near_the_other_one_and_never_from_a_vip() {
    let nets = ["192.0.2.10/32", "192.0.2.9/24", "192.0.2.2/24", "2001:db8::9/64", "2001:db8::2/64"];
    let global = Interface {
        addresses: nets.map(|net| net.parse().expect("an address")).into(),
        ours: BTreeSet::from([ip("192.0.2.10")]),
        ..Interface::sample(2, "eth0")
    };
    let linked = Interface { link_local: "fe80::2".parse().ok(), ..global.clone() };
    let vips = ["192.0.2.9", "2001:db8::9"].map(ip);
    for (what, interface, address, expected) in [
        ("IPv4", &global, "192.0.2.1", Some("192.0.2.2")),
        ("IPv4, with a link-local IPv6 address", &linked, "192.0.2.1", Some("192.0.2.2")),
        ("another subnet of IPv4", &linked, "198.51.100.1", None),
        ("IPv6", &linked, "2001:db8::1", Some("fe80::2")),
        ("another subnet of IPv6", &linked, "2001:db8:1::1", Some("fe80::2")),
        ("IPv6 without a link-local address", &global, "2001:db8::1", Some("2001:db8::2")),
        ("another subnet without one", &global, "2001:db8:1::1", None),
    ] {
        let source = interface.source_for(ip(address), |own| vips.contains(&own));
        assert_eq!(source, expected.map(ip), "{what}");
    }
    let doubtful = Interface { doubtful: BTreeSet::from([ip("2001:db8::2")]), ..global.clone() };
    assert_eq!(doubtful.source_for(ip("2001:db8::1"), |own| vips.contains(&own)), None, "still asked for");
    assert_eq!(global.source_for(ip("192.0.2.1"), |_| true), None, "all its addresses are VIPs");
}
