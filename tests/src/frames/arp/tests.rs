use proptest::prelude::*;

use super::*;

/// A request as a packet dump shows it, so that builder and parser cannot be wrong together.
const DUMPED: [u8; 42] = [
    0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02, 0x00, 0x00, 0x00, 0x00, 0x01, 0x08, 0x06, // Ethernet
    0x00, 0x01, 0x08, 0x00, 0x06, 0x04, 0x00, 0x01, // htype, ptype, hlen, plen, oper
    0x02, 0x00, 0x00, 0x00, 0x00, 0x01, 192, 0, 2, 1, // sender
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 192, 0, 2, 2, // target
];

fn request() -> Arp {
    Arp::request(Mac::local(1), Ipv4Addr::new(192, 0, 2, 1), Ipv4Addr::new(192, 0, 2, 2))
}

fn any_arp() -> impl Strategy<Value = Arp> {
    (any::<[[u8; 6]; 4]>(), any::<[[u8; 4]; 2]>(), any::<u16>()).prop_map(|(macs, ips, oper)| {
        let [eth_dst, eth_src, sha, tha] = macs.map(Mac);
        let [spa, tpa] = ips.map(Ipv4Addr::from);
        Arp { eth_dst, eth_src, oper, sha, spa, tha, tpa }
    })
}

#[test]
fn a_request_is_written_as_a_packet_dump_shows_it() {
    let bytes = request().to_bytes();
    assert_eq!(bytes[..42], DUMPED);
    assert_eq!(bytes[42..], [0; 18]);
    assert_eq!(Arp::parse(&DUMPED).expect("it is well-formed"), request());
}

#[test]
fn frames_are_parsed_from_42_bytes_on_and_no_fewer() {
    for len in 0..=MIN_FRAME_LEN {
        let bytes = OddArp { len, ..request().into() }.to_bytes();
        assert_eq!(bytes.len(), len);
        assert_eq!(Arp::parse(&bytes).is_ok(), len >= 42, "at {len} bytes");
    }
}

#[test]
fn what_is_not_arp_for_ipv4_over_ethernet_is_refused() {
    let plain = OddArp::from(request());
    let rows = [
        ("EtherType", OddArp { ethertype: 0x0800, ..plain.clone() }),
        ("htype", OddArp { htype: 6, ..plain.clone() }),
        ("ptype", OddArp { ptype: 0x86dd, ..plain.clone() }),
        ("hlen", OddArp { hlen: 8, ..plain.clone() }),
        ("plen", OddArp { plen: 16, ..plain.clone() }),
        ("a VLAN tag", OddArp { tags: vec![(0x8100, 7)], ..plain }),
    ];
    for (description, odd) in rows {
        assert!(Arp::parse(&odd.to_bytes()).is_err(), "{description}");
    }
}

#[test]
fn hardware_addresses_are_read_and_written() {
    assert_eq!("02:00:00:00:0a:ff".parse::<Mac>().expect("it is one"), Mac::local(0x0aff));
    assert_eq!(Mac::local(0x0aff).to_string(), "02:00:00:00:0a:ff");
    for bad in [
        "",
        "02:00:00:00:0a",
        "02:00:00:00:0a:ff:00",
        "2:0:0:0:a:f",
        "02:00:00:00:0a:fg",
        "+2:00:00:00:0a:ff",
    ] {
        assert!(bad.parse::<Mac>().is_err(), "{bad:?}");
    }
}

proptest! {
    #[test]
    fn what_is_built_is_parsed(arp in any_arp(), len in 42..200_usize, padding: u8) {
        let bytes = OddArp { len, padding, ..arp.into() }.to_bytes();
        prop_assert_eq!(Arp::parse(&bytes).expect("it is well-formed"), arp);
    }

    #[test]
    fn what_is_parsed_is_built_from_the_same_bytes(
        mut bytes in prop::collection::vec(any::<u8>(), 42..100),
        keep_header in prop::bool::weighted(0.9),
    ) {
        if keep_header {
            bytes[12..20].copy_from_slice(&DUMPED[12..20]);
        }
        match Arp::parse(&bytes) {
            Ok(arp) => prop_assert_eq!(&arp.to_bytes()[..42], &bytes[..42]),
            Err(error) => prop_assert_ne!(&bytes[12..20], &DUMPED[12..20], "{}", error),
        }
    }
}
