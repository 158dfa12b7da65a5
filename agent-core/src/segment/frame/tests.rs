use vipward_common::{ETHERTYPE_ARP, solicited_node};

use super::*;
use crate::base::samples::ip;

const OWN: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const A: MacAddr = MacAddr([2, 0, 0, 0, 0, 0x0a]);
const B: MacAddr = MacAddr([2, 0, 0, 0, 0, 0x0b]);
const NONCE: Nonce = [1, 2, 3, 4, 5, 6];

fn v6(text: &str) -> [u8; 16] {
    text.parse::<std::net::Ipv6Addr>().expect("an address").octets()
}

fn arp(oper: u16, sha: MacAddr, spa: [u8; 4], tpa: [u8; 4]) -> Frame {
    Frame::Arp(ArpFrame::new(MacAddr::BROADCAST, A, oper, sha, spa, OWN, tpa))
}

fn advertisement(mac: MacAddr, flags: u8) -> Frame {
    Frame::Nd(NdFrame::advertisement(OWN, A, v6("2001:db8::2"), v6("2001:db8::10"), mac, flags))
}

#[test]
fn what_a_frame_says() {
    const VIP: [u8; 4] = [192, 0, 2, 10];
    const OTHER: [u8; 4] = [192, 0, 2, 11];
    let (vip, other) = (Some(ip("192.0.2.10")), Some(ip("192.0.2.11")));
    let (vip6, other6) = (Some(ip("2001:db8::10")), Some(ip("2001:db8::11")));
    let solicitation = NdFrame::solicitation(A, v6("2001:db8::11"), v6("2001:db8::10"));
    for (what, frame, mac, claimed, asked, is_answer) in [
        ("a request", arp(1, A, OTHER, VIP), A, other, vip, false),
        ("a probe", arp(1, A, [0; 4], VIP), A, None, vip, false),
        ("a reply", arp(2, B, VIP, OTHER), B, vip, None, true),
        ("an announcement, request form", arp(1, A, VIP, VIP), A, vip, vip, false),
        ("an announcement, reply form", arp(2, A, VIP, VIP), A, vip, None, false),
        ("a solicitation", Frame::Nd(solicitation), A, other6, vip6, false),
        ("an IPv6 probe", Frame::question(A, None, ip("2001:db8::10"), NONCE), A, None, vip6, false),
        ("an answer", advertisement(B, 0x60), B, vip6, None, true),
        ("an unsolicited advertisement", advertisement(A, 0x20), A, vip6, None, false),
    ] {
        assert_eq!(frame.said(), Some(Said { mac, source: A, claimed, asked, is_answer }), "{what}");
    }
}

#[test]
fn the_ethernet_source_stands_for_a_link_layer_address_that_is_missing() {
    let Frame::Nd(whole) = advertisement(B, 0x60) else { panic!("it is of Neighbour Discovery") };
    let mut bare = bytemuck::bytes_of(&whole)[..78].to_vec();
    // The option's words and eight bytes of length leave the sum.
    bare[19] = 24;
    let sum = u32::from(u16::from_be_bytes([bare[56], bare[57]])) + 0x0201 + 0x0200 + 0x000b + 8;
    let folded = u16::try_from((sum & 0xffff) + (sum >> 16)).expect("one carry");
    bare[56..58].copy_from_slice(&folded.to_be_bytes());
    assert_eq!(Frame::read(&bare).and_then(|frame| frame.said()).expect("valid").mac, A);
}

#[test]
fn a_question_is_a_probe_unless_it_has_a_source_of_the_same_family() {
    let (v4, v6_vip) = (ip("192.0.2.10"), ip("2001:db8::10"));
    let said = |source, address| Frame::question(OWN, source, address, NONCE).said().expect("valid");
    for (source, address, claimed) in [
        (None, v4, None),
        (Some(ip("192.0.2.2")), v4, Some(ip("192.0.2.2"))),
        (Some(ip("fe80::1")), v4, None),
        (None, v6_vip, None),
        (Some(ip("fe80::1")), v6_vip, Some(ip("fe80::1"))),
        (Some(v4), v6_vip, None),
    ] {
        let said = said(source, address);
        assert_eq!((said.mac, said.claimed, said.asked), (OWN, claimed, Some(address)), "{source:?}");
    }
    let Frame::Nd(probe) = Frame::question(OWN, None, v6_vip, NONCE) else { panic!("for IPv6") };
    assert_eq!((probe.nonce(), probe.destination()), (Some(NONCE), solicited_node(v6("2001:db8::10"))));
}

#[test]
fn a_round_of_announcements_reaches_all_hosts_and_claims_the_address() {
    for vip in ["192.0.2.10", "2001:db8::10"] {
        for frame in Frame::announcements(A, ip(vip)) {
            let said = frame.said().expect("valid");
            assert_eq!((said.mac, said.claimed, said.is_answer), (A, Some(ip(vip)), false), "{vip}");
            assert!(frame.bytes()[0] & 1 == 1, "to a group");
            assert_eq!(Frame::read(frame.bytes()), Some(frame), "{vip}");
        }
    }
    let destinations = Frame::announcements(A, ip("2001:db8::10")).map(|frame| frame.bytes()[..6].to_vec());
    assert_eq!(destinations, [[0x33, 0x33, 0, 0, 0, 1], [0x33, 0x33, 0, 0, 0, 2]]);
}

#[test]
fn only_frames_of_the_two_protocols_are_read() {
    let frames = [arp(1, A, [0; 4], [192, 0, 2, 10]), advertisement(A, 0x20)];
    for (frame, ethertype) in frames.into_iter().zip([ETHERTYPE_ARP, 0x86dd]) {
        assert_eq!(frame.ethertype(), ethertype);
        for length in 0..frame.bytes().len() {
            assert_eq!(Frame::read(&frame.bytes()[..length]), None, "{length} bytes");
        }
        let mut other = frame.bytes().to_vec();
        other[13] ^= 0xff;
        assert_eq!(Frame::read(&other), None, "another EtherType");
    }
}
