use super::*;

fn address(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

#[test]
fn no_vip_is_an_address_that_one_host_of_a_segment_cannot_have() {
    let rows = [
        ("0.0.0.0", Some(NeverAVip::ThisHost)),
        ("0.1.2.3", Some(NeverAVip::ThisHost)),
        ("127.0.0.1", Some(NeverAVip::Loopback)),
        ("169.254.1.1", Some(NeverAVip::LinkLocal)),
        ("224.0.0.1", Some(NeverAVip::Multicast)),
        ("240.0.0.1", Some(NeverAVip::Reserved)),
        ("255.255.255.255", Some(NeverAVip::Reserved)),
        ("192.0.2.10", None),
        ("10.0.0.1", None),
        ("::", Some(NeverAVip::ThisHost)),
        ("::1", Some(NeverAVip::Loopback)),
        ("fe80::1", Some(NeverAVip::LinkLocal)),
        ("febf::1", Some(NeverAVip::LinkLocal)),
        ("ff02::1", Some(NeverAVip::Multicast)),
        ("ff0e::1", Some(NeverAVip::Multicast)),
        ("::ffff:192.0.2.10", Some(NeverAVip::Mapped)),
        ("2001:db8::10", None),
        ("fd00::10", None),
        ("fec0::1", None),
    ];
    for (text, expected) in rows {
        assert_eq!(NeverAVip::of(address(text)), expected, "{text}");
    }
}

#[test]
fn the_shortest_subnets_have_hosts_only() {
    let rows = [
        ("192.0.2.10/32", true, true),
        ("192.0.2.10/31", false, true),
        ("192.0.2.10/30", false, false),
        ("2001:db8::10/128", true, true),
        ("2001:db8::10/127", false, true),
        ("2001:db8::10/126", false, false),
    ];
    for (text, host, point_to_point) in rows {
        let net = text.parse().expect("a network");
        assert_eq!((is_host(&net), is_point_to_point(&net)), (host, point_to_point), "{text}");
    }
}

#[test]
fn no_host_has_the_ends_of_a_subnet() {
    let rows = [
        ("192.0.2.0/24", vec![("192.0.2.0", End::Network), ("192.0.2.255", End::Broadcast)]),
        ("192.0.2.77/28", vec![("192.0.2.64", End::Network), ("192.0.2.79", End::Broadcast)]),
        ("192.0.2.8/30", vec![("192.0.2.8", End::Network), ("192.0.2.11", End::Broadcast)]),
        ("192.0.2.8/31", vec![]),
        ("192.0.2.8/32", vec![]),
        ("2001:db8::/64", vec![("2001:db8::", End::Routers)]),
        ("2001:db8::77/124", vec![("2001:db8::70", End::Routers)]),
        ("2001:db8::8/126", vec![("2001:db8::8", End::Routers)]),
        ("2001:db8::8/127", vec![]),
        ("2001:db8::8/128", vec![]),
    ];
    for (text, expected) in rows {
        let expected: Vec<_> = expected.into_iter().map(|(end, what)| (address(end), what)).collect();
        assert_eq!(ends(&text.parse().expect("a network")).collect::<Vec<_>>(), expected, "{text}");
    }
}

#[test]
fn neighbouring_addresses_have_different_numbers() {
    for (one, other) in
        [("192.0.2.10", "192.0.2.11"), ("2001:db8::10", "2001:db8::11"), ("2001:db8::10", "2001:db9::10")]
    {
        assert_ne!(number(address(one)), number(address(other)), "{one} and {other}");
    }
}
