use std::iter;

use proptest::prelude::*;

use super::*;

fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let length = u16::try_from(value.len() + 4).expect("a short value");
    let mut bytes = [length.to_ne_bytes(), kind.to_ne_bytes()].concat();
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

fn number(kind: u16, value: u32) -> Vec<u8> {
    attribute(kind, &value.to_ne_bytes())
}

fn message(kind: u16, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(16 + payload.len()).expect("a short payload");
    let mut bytes = length.to_ne_bytes().to_vec();
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(2u16.to_ne_bytes());
    bytes.extend(7u32.to_ne_bytes());
    bytes.extend(0u32.to_ne_bytes());
    bytes.extend(payload);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

fn link_bytes(flags: u32, link_type: u16, attributes: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = vec![0, 0];
    bytes.extend(link_type.to_ne_bytes());
    bytes.extend(42u32.to_ne_bytes());
    bytes.extend(flags.to_ne_bytes());
    bytes.extend([0; 4]);
    bytes.extend(attributes.concat());
    bytes
}

fn bridge_port() -> Vec<u8> {
    let kinds = [attribute(1, b"veth\0"), attribute(4, b"bridge\0")].concat();
    link_bytes(
        0x1 | 0x1_0000,
        1,
        &[
            // An attribute of a future driver.
            attribute(0x3ff0, b"???"),
            attribute(3, b"eth0\0"),
            attribute(1, &[2, 0, 0, 0, 0, 1]),
            number(10, 9),
            attribute(0x12 | 0x8000, &kinds),
        ],
    )
}

fn address_bytes(prefix_len: u8, attributes: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = vec![2, prefix_len, 0, 0];
    bytes.extend(3u32.to_ne_bytes());
    bytes.extend(attributes.concat());
    bytes
}

fn route_bytes(table: u8, scope: u8, kind: u8, attributes: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = vec![2, 24, 0, 0, table, 2, scope, kind, 0, 0, 0, 0];
    bytes.extend(attributes.concat());
    bytes
}

fn connected() -> Vec<u8> {
    route_bytes(254, 253, 1, &[attribute(1, &[192, 0, 2, 0]), number(4, 5), number(6, 100)])
}

#[test]
fn a_link_is_read_and_unknown_attributes_are_stepped_over() {
    let expected = Interface {
        mac: MacAddr([2, 0, 0, 0, 0, 1]),
        kind: "veth".to_owned(),
        master: Some(9),
        tc_programs: None,
        ..Interface::sample(42, "eth0")
    };
    assert_eq!(link(&bridge_port()), Ok(expected));
}

#[test]
fn a_link_has_its_alternative_names() {
    let names = [attribute(53, b"lan-old\0"), attribute(53, b"enp6s0f0np0\0")].concat();
    // The kernel marks the list as nested (`NLA_F_NESTED`).
    let link = link_bytes(0, 1, &[attribute(3, b"eth0\0"), attribute(0x34 | 0x8000, &names)]);
    assert_eq!(super::link(&link).expect("a link").altnames, ["lan-old", "enp6s0f0np0"]);
}

#[test]
fn a_link_without_a_mac_of_six_bytes_has_the_zero_mac() {
    let tunnel = link_bytes(0, 768, &[attribute(3, b"tunl0\0"), attribute(1, &[192, 0, 2, 1])]);
    let read = link(&tunnel).expect("a link");
    assert_eq!((read.mac, read.ethernet), (MacAddr::ZERO, false));
}

#[test]
fn a_member_of_a_vrf_has_no_master() {
    let kinds = attribute(4, b"vrf\0");
    let member = link_bytes(0, 1, &[attribute(3, b"eth0\0"), number(10, 9), attribute(18, &kinds)]);
    assert_eq!(link(&member).expect("a link").master, None);
}

#[test]
fn devices_on_another_have_an_interface_below_them_unless_it_is_elsewhere() {
    let lower = |kind: &[u8], elsewhere: bool| {
        let mut attributes = vec![attribute(3, b"top\0"), number(5, 7), attribute(18, &attribute(1, kind))];
        attributes.extend(elsewhere.then(|| number(37, 0)));
        link(&link_bytes(0, 1, &attributes)).expect("a link").lower
    };
    assert_eq!(lower(b"vlan\0", false), Some(7));
    assert_eq!(lower(b"macvlan\0", false), Some(7));
    assert_eq!(lower(b"ipvlan\0", false), Some(7));
    assert_eq!(lower(b"macvlan\0", true), None, "in another namespace");
    assert_eq!(lower(b"veth\0", false), None, "its other end");
    assert_eq!(lower(b"vxlan\0", false), None, "the interface of the outer packets");
}

#[test]
fn a_vlan_device_has_its_id_and_its_kind_of_tag() {
    let vlan = |kind: &[u8], data: &[u8]| {
        let info = [attribute(1, kind), attribute(2, data)].concat();
        let attributes = [attribute(3, b"top\0"), number(5, 7), attribute(18, &info)];
        link(&link_bytes(0, 1, &attributes)).expect("a link").vlan
    };
    let id = attribute(1, &10u16.to_ne_bytes());
    let with = |protocol: u16| [id.clone(), attribute(5, &protocol.to_be_bytes())].concat();
    let tag = |protocol| Some(VlanTag::new(protocol, 10));
    assert_eq!(vlan(b"vlan\0", &with(0x8100)), tag(0x8100));
    assert_eq!(vlan(b"vlan\0", &with(0x88a8)), tag(0x88a8));
    assert_ne!(tag(0x8100), tag(0x88a8));
    assert_eq!(vlan(b"vlan\0", &id), tag(0x8100), "an old kernel names no protocol");
    assert_eq!(vlan(b"vlan\0", &[]), None, "no ID");
    assert_eq!(vlan(b"macvlan\0", &with(0x8100)), None);
}

#[test]
fn a_link_without_a_name_is_malformed() {
    assert_eq!(
        link(&link_bytes(0, 1, &[])).expect_err("no name").to_string(),
        "an rtnetlink link message about interface 42 has no IFLA_IFNAME"
    );
}

#[test]
fn an_address_is_the_local_one_of_a_point_to_point_pair() {
    let bytes = address_bytes(
        32,
        &[attribute(1, &[198, 51, 100, 9]), attribute(2, &[192, 0, 2, 1]), attribute(3, b"vipward\0")],
    );
    let expected = Address {
        is_doubtful: false,
        is_leased: true,
        index: 3,
        net: "192.0.2.1/32".parse().expect("an address"),
        label: "vipward".to_owned(),
        protocol: 0,
    };
    assert_eq!(address(&bytes), Ok(Some(expected)));
}

#[test]
fn a_link_local_address_counts_once_no_other_host_has_it_and_a_group_never() {
    let [link_local, global, group] = ["fe80::9", "2001:db8::9", "ff02::1:ff00:9"].map(|address| {
        let address: Ipv6Addr = address.parse().expect("an address");
        attribute(1, &address.octets())
    });
    let (permanent, tentative, failed) = (0x80, 0xc0, 0x88);
    for (what, flags, net, counts) in [
        ("link-local", permanent, &link_local, true),
        ("link-local, tentative", tentative, &link_local, false),
        ("link-local, another host's", failed, &link_local, false),
        ("global, tentative", tentative, &global, true),
        ("a group", permanent, &group, false),
    ] {
        let mut bytes = address_bytes(64, std::slice::from_ref(net));
        bytes[2] = flags;
        assert_eq!(address(&bytes).expect("well-formed").is_some(), counts, "{what}");
    }
}

#[test]
fn a_prefix_length_above_32_is_malformed() {
    let bytes = address_bytes(33, &[attribute(2, &[192, 0, 2, 1])]);
    assert_eq!(
        address(&bytes).expect_err("33 bits").to_string(),
        "an rtnetlink address message carries the prefix length 33"
    );
}

fn neighbour_bytes(state: u16, attributes: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = vec![2, 0, 0, 0];
    bytes.extend(3u32.to_ne_bytes());
    bytes.extend(state.to_ne_bytes());
    bytes.extend([0, 1]);
    bytes.extend(attributes.concat());
    bytes
}

#[test]
fn a_neighbour_counts_that_has_answered() {
    let address = [192, 0, 2, 9];
    let known = Some((3, IpAddr::from(address)));
    let all = [attribute(1, &address), attribute(2, &[2, 0, 0, 0, 0, 9])];
    for (what, state, attributes, expected) in [
        ("reachable", 0x02, &all[..], known),
        ("stale", 0x04, &all[..], known),
        ("incomplete", 0x01, &all[..1], None),
        ("failed", 0x20, &all[..], None),
        ("of IPv6", 0x02, &[attribute(1, &[0xfe; 16])][..], Some((3, IpAddr::from([0xfe; 16])))),
        ("without an address", 0x02, &all[1..], None),
    ] {
        assert_eq!(neighbour(&neighbour_bytes(state, attributes)), Ok(expected), "{what}");
    }
    let whole = neighbour_bytes(2, &all);
    for length in 0..whole.len() {
        let read = neighbour(&whole[..length]);
        assert_eq!(read.is_err(), length < 12, "cut at {length}");
        assert!(read.is_err() || length >= 20 || read == Ok(None), "cut at {length}: {read:?}");
    }
}

#[test]
fn a_proxy_is_distinguished_from_a_neighbour() {
    let group = [0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, 0, 0, 0x10];
    let bytes = |flags: u8, attributes: &[Vec<u8>]| {
        let mut bytes = neighbour_bytes(0, attributes);
        bytes[10] = flags;
        bytes
    };
    let all = [attribute(1, &group), attribute(12, b"v")];
    let found = |protocol| Some(Proxy { index: 3, address: group.into(), protocol });
    for (what, flags, attributes, expected) in [
        ("a proxy", 0x08, &all[..], found(b'v')),
        ("without a protocol", 0x08, &all[..1], found(0)),
        ("a router's proxy", 0x88, &all[..], found(b'v')),
        ("a neighbour", 0x00, &all[..], None),
        ("of IPv4", 0x08, &[attribute(1, &[192, 0, 2, 9])][..], None),
        ("without an address", 0x08, &all[1..], None),
    ] {
        assert_eq!(proxy(&bytes(flags, attributes)), Ok(expected), "{what}");
    }
    let whole = bytes(0x08, &all);
    for length in 0..whole.len() {
        let read = proxy(&whole[..length]);
        assert_eq!(read.is_err(), length < 12, "cut at {length}");
        assert!(read.is_err() || length >= 32 || read == Ok(None), "cut at {length}: {read:?}");
    }
}

#[test]
fn only_a_connected_route_of_the_main_table_counts() {
    let oif = || number(4, 5);
    let table = [
        ("connected", connected(), true),
        ("local table", route_bytes(255, 253, 1, &[oif()]), false),
        ("a table above 255", route_bytes(252, 253, 1, &[oif(), number(15, 1000)]), false),
        ("scope universe", route_bytes(254, 0, 1, &[oif()]), false),
        ("scope host", route_bytes(254, 254, 1, &[oif()]), false),
        ("blackhole", route_bytes(254, 253, 6, &[oif()]), false),
        ("gateway", route_bytes(254, 253, 1, &[oif(), attribute(5, &[192, 0, 2, 1])]), false),
        ("IPv6 gateway", route_bytes(254, 253, 1, &[oif(), attribute(18, &[0; 18])]), false),
        ("no interface", route_bytes(254, 253, 1, &[]), false),
    ];
    for (what, bytes, expected) in table {
        let read = connected_route(&bytes).expect("well-formed");
        assert_eq!(read.is_some(), expected, "{what}");
        assert_eq!(is_relevant(&message(24, &bytes)), expected, "notification: {what}");
    }
    let read = connected_route(&connected()).expect("well-formed").expect("connected");
    let expected =
        ConnectedRoute { prefix: "192.0.2.0/24".parse().expect("a prefix"), interface: 5, metric: 100 };
    assert_eq!(read, expected);
}

#[test]
fn a_default_route_is_relevant_and_another_route_through_a_gateway_is_not() {
    let gateway = route_bytes(254, 0, 1, &[attribute(5, &[192, 0, 2, 1])]);
    let mut default = gateway.clone();
    default[1] = 0;
    for (kind, bytes, expected) in [(24, &gateway, false), (24, &default, true), (25, &default, true)] {
        assert_eq!(is_relevant(&message(kind, bytes)), expected, "message {kind}");
    }
}

#[test]
fn the_next_hops_of_a_route_are_read_wherever_it_has_them() {
    let gateway = |last| attribute(5, &[192, 0, 2, last]);
    // struct rtnexthop: length, flags, hops, interface; then attributes.
    let hop = |last| {
        let attributes = gateway(last);
        let length = u16::try_from(8 + attributes.len()).expect("short");
        [&length.to_ne_bytes()[..], &[0, 0], &5u32.to_ne_bytes(), &attributes].concat()
    };
    let table = [
        ("connected", connected(), vec![]),
        ("a gateway", route_bytes(254, 0, 1, &[gateway(1)]), vec![1]),
        ("two next hops", route_bytes(254, 0, 1, &[attribute(9, &[hop(1), hop(2)].concat())]), vec![1, 2]),
        ("a next hop that is cut short", route_bytes(254, 0, 1, &[attribute(9, &hop(1)[..10])]), vec![]),
        ("a header that is cut short", vec![2, 0, 0], vec![]),
    ];
    for (what, bytes, expected) in table {
        let expected: Vec<IpAddr> =
            expected.into_iter().map(|last| IpAddr::from([192, 0, 2, last])).collect();
        assert_eq!(next_hops(&bytes), expected, "{what}");
    }
}

#[test]
fn a_notification_that_cannot_be_read_is_relevant() {
    assert!(is_relevant(&message(24, &[2, 24])));
    assert!(is_relevant(&message(16, &[])));
}

#[test]
fn a_datagram_is_cut_into_its_messages() {
    let datagram = [message(16, b"abcde"), message(20, b"")].concat();
    let read: Vec<_> = messages(&datagram).collect();
    let expected = [
        Message { kind: 16, flags: 2, sequence: 7, payload: b"abcde" },
        Message { kind: 20, flags: 2, sequence: 7, payload: b"" },
    ];
    assert_eq!(read, expected);
}

#[test]
fn a_message_cut_at_any_length_is_read_in_part_or_refused_but_never_misread() {
    let (whole_link, whole_route) = (bridge_port(), connected());
    for length in 0..whole_link.len() {
        match link(&whole_link[..length]) {
            Ok(read) => assert_eq!((read.index, read.name.as_str()), (42, "eth0"), "cut at {length}"),
            Err(error) => assert!(
                matches!(error, Malformed::Short { .. } | Malformed::Missing { .. }),
                "cut at {length}: {error}"
            ),
        }
    }
    for length in 0..whole_route.len() {
        assert!(!matches!(connected_route(&whole_route[..length]), Ok(Some(route)) if route.interface != 5));
        assert_eq!(connected_route(&whole_route[..length]).is_err(), length < 12, "cut at {length}");
    }
    let whole = address_bytes(24, &[attribute(2, &[192, 0, 2, 1])]);
    for length in 0..whole.len() {
        assert!(address(&whole[..length]).is_err(), "cut at {length}");
    }
    let whole = message(16, b"abcd");
    for length in 0..whole.len() {
        assert_eq!(messages(&whole[..length]).count(), 0, "cut at {length}");
    }
}

#[test]
fn a_message_or_attribute_that_claims_to_be_empty_ends_the_reading() {
    assert_eq!(messages(&[0; 64]).count(), 0);
    assert_eq!(attributes_of(&[0; 64]).count(), 0);
    let endless = iter::repeat_n([4, 0, 1, 0], 16).flatten().collect::<Vec<u8>>();
    assert_eq!(attributes_of(&endless).count(), 16);
}

proptest! {
    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..256)) {
        let _ = (link(&bytes).is_ok(), address(&bytes).is_ok(), connected_route(&bytes).is_ok());
        let _ = (neighbour(&bytes).is_ok(), proxy(&bytes).is_ok());
        prop_assert!(messages(&bytes).count() <= bytes.len() / 16);
        prop_assert!(attributes_of(&bytes).count() <= bytes.len() / 4);
        let _: bool = is_relevant(&bytes);
    }

    #[test]
    fn flipped_bytes_never_panic(at in 0usize..64, value in any::<u8>()) {
        for mut bytes in [bridge_port(), connected()] {
            let at = at % bytes.len();
            bytes[at] = value;
            let _ = (link(&bytes).is_ok(), address(&bytes).is_ok(), connected_route(&bytes).is_ok());
        }
    }
}

#[test]
fn failovers_are_read_from_notifications_of_links() {
    let event = |kind: u16, event: u32| {
        let attributes = [attribute(3, b"bond0\0"), attribute(44, &event.to_ne_bytes())];
        message(kind, &link_bytes(0, 1, &attributes))
    };
    let notice = |kind| vec![Notice { ifindex: 42, kind }];
    let table = [
        ("another active port", event(libc::RTM_NEWLINK, 3), notice(NoticeKind::Failover)),
        ("an announcement of the kernel", event(libc::RTM_NEWLINK, 4), notice(NoticeKind::NotifyPeers)),
        ("other features", event(libc::RTM_NEWLINK, 2), Vec::new()),
        ("an event of a newer kernel", event(libc::RTM_NEWLINK, 7), Vec::new()),
        ("a link that is gone", event(libc::RTM_DELLINK, 3), Vec::new()),
        ("no event", message(libc::RTM_NEWLINK, &bridge_port()), Vec::new()),
    ];
    for (what, datagram, expected) in table {
        assert_eq!(notices(&datagram).collect::<Vec<_>>(), expected, "{what}");
    }
    let both = [event(libc::RTM_NEWLINK, 3), event(libc::RTM_NEWLINK, 4)].concat();
    assert_eq!(notices(&both).count(), 2);
    for length in 0..both.len() {
        assert!(notices(&both[..length]).count() < 2, "{length} bytes");
    }
}

#[test]
fn only_a_bond_has_an_active_port() {
    let port = |kind: &[u8]| {
        let data = number(2, 7);
        let info = [attribute(1, kind), attribute(2, &data)].concat();
        link(&link_bytes(0, 1, &[attribute(3, b"top\0"), attribute(18, &info)])).expect("a link").active_port
    };
    assert_eq!(port(b"bond\0"), Some(7));
    assert_eq!(port(b"vlan\0"), None);
}

/// Returns a notification about traffic control on interface 3.
fn tc_notification(kind: u16, parent: u32) -> Vec<u8> {
    let length = 36_u32.to_ne_bytes();
    let header = [&length[..], &kind.to_ne_bytes(), &[0; 10]].concat();
    [&header[..], &[0; 4], &3_u32.to_ne_bytes(), &[0; 4], &parent.to_ne_bytes(), &[0; 4]].concat()
}

#[test]
fn a_removal_at_an_ingress_or_from_a_group_names_its_interface() {
    let rows = [
        ("the discipline", libc::RTM_DELQDISC, 0xffff_fff1, true),
        ("a filter at the ingress", libc::RTM_DELTFILTER, 0xffff_fff2, true),
        ("a filter of the ingress discipline", libc::RTM_DELTFILTER, 0xffff_0000, true),
        ("a filter at the egress", libc::RTM_DELTFILTER, 0xffff_fff3, false),
        ("a discipline of the egress", libc::RTM_DELQDISC, 0xffff_ffff, false),
        ("a filter that is added", libc::RTM_NEWTFILTER, 0xffff_fff2, false),
        ("a group", RTM_DELMULTICAST, 0, true),
        ("a group that is joined", RTM_DELMULTICAST - 1, 0, false),
    ];
    for (what, kind, parent, counts) in rows {
        let notification = tc_notification(kind, parent);
        let found: Vec<u32> = removals(&notification).collect();
        assert_eq!(found, if counts { vec![3] } else { Vec::new() }, "{what}");
        for length in 0..notification.len() {
            assert_eq!(removals(&notification[..length]).count(), 0, "{what}, cut after {length} bytes");
        }
    }
}
