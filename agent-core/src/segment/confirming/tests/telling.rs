//! Hosts, routers and proxies, by the frames that they answer with.

use std::net::IpAddr;

use ipnet::IpNet;

use super::*;

const OWN: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const OTHER: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

/// The manner in which a MAC answers.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Manner {
    /// It answers requests for the address that have a sender.
    requests: bool,
    /// It answers probes for it.
    probes: bool,
    /// It answers for the other addresses of the subnet, so many of them.
    others: usize,
    /// It sets the flag Override in advertisements with a link-layer address.
    overrides: bool,
}

const SILENT: Manner = Manner { requests: false, probes: false, others: 0, overrides: false };
const HOST: Manner = Manner { requests: true, probes: true, others: 0, overrides: true };

/// Returns the answer of the asked MAC to a request.
fn answer(manner: Manner, address: IpAddr, question: &Frame) -> Option<Frame> {
    let said = question.said()?;
    let asked = said.asked?;
    let answers = match (asked == address, said.claimed) {
        (true, Some(_)) => manner.requests,
        (true, None) => manner.probes,
        (false, _) => manner.others > 0,
    };
    match question {
        Frame::Arp(frame) if answers => {
            assert_eq!(frame.dst, first(), "to that MAC alone");
            let reply = ArpFrame::new(OWN, first(), OPER_REPLY, first(), frame.tpa(), OWN, frame.spa());
            Some(Frame::Arp(reply))
        }
        Frame::Nd(frame) if answers => {
            assert_eq!(frame.dst, first(), "to that MAC alone");
            let to_group = frame.destination()[0] == 0xff;
            assert!(to_group || frame.destination() == frame.target());
            let flags =
                ND_SOLICITED | if manner.overrides && to_group { vipward_common::ND_OVERRIDE } else { 0 };
            let reply = NdFrame::advertisement(OWN, first(), frame.source(), frame.target(), first(), flags);
            // RFC 4861, 7.2.4: the answer to a unicast solicitation may lack the link-layer address.
            let mut bytes = bytemuck::bytes_of(&reply).to_vec();
            if !to_group {
                bytes.truncate(78);
                bytes[19] = 24;
                set_checksum(&mut bytes);
            }
            Frame::read(&bytes)
        }
        Frame::Arp(_) | Frame::Nd(_) => None,
    }
}

/// Sets the checksum of a message of 24 bytes.
fn set_checksum(bytes: &mut [u8]) {
    bytes[56..58].fill(0);
    let words = bytes[22..].chunks(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])));
    let mut sum = words.sum::<u32>() + 24 + 58;
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    let checksum = !u16::try_from(sum).expect("sixteen bits");
    bytes[56..58].copy_from_slice(&checksum.to_be_bytes());
}

#[test]
fn a_host_a_router_and_a_silent_mac_are_told_apart() {
    let v4 = ("10.0.0.10", Some("10.0.0.1"), ["10.0.0.77", "10.0.0.99"]);
    let unnumbered = ("10.0.0.10", None, ["10.0.0.77", "10.0.0.99"]);
    let v6 = ("fd00::10", Some("fe80::1"), ["fd00::77", "fd00::99"]);
    let alone = ("10.0.0.10", Some("10.0.0.1"), [""; 2]);
    let rows = [
        ("a host", v4, HOST, Answerer::Host),
        ("it has one of the other addresses too", v4, Manner { others: 1, ..HOST }, Answerer::Host),
        ("proxy ARP for all, probes too", v4, Manner { others: 2, ..HOST }, Answerer::Router),
        ("proxy ARP of Linux", v4, Manner { probes: false, ..HOST }, Answerer::Router),
        ("a dead host", v4, SILENT, Answerer::Proxy),
        (
            "its proxy answers an agent's broadcast probe",
            v4,
            Manner { probes: true, ..SILENT },
            Answerer::Proxy,
        ),
        ("no subnet, a host", alone, HOST, Answerer::Host),
        ("no own address, a host", unnumbered, HOST, Answerer::Host),
        ("no own address, proxy ARP for all", unnumbered, Manner { others: 2, ..HOST }, Answerer::Router),
        ("no own address, a dead host", unnumbered, SILENT, Answerer::Proxy),
        ("a host", v6, HOST, Answerer::Host),
        ("a proxy for this address", v6, Manner { overrides: false, ..HOST }, Answerer::Router),
        ("a proxy for a prefix that sets Override", v6, Manner { others: 2, ..HOST }, Answerer::Router),
        ("a dead host", v6, SILENT, Answerer::Proxy),
    ];
    for (what, (address, source, controls), manner, expected) in rows {
        let (address, source) = (ip(address), source.map(ip));
        let controls: Vec<_> =
            controls.iter().filter(|control| !control.is_empty()).map(|it| ip(it)).collect();
        let mut telling = Telling::new(first(), address, source, controls.clone());
        let questions = telling.questions(OWN);
        let is_other = |question: &Frame| {
            question
                .said()
                .and_then(|said| said.asked)
                .is_some_and(|asked| controls[..].iter().skip(manner.others).any(|it| *it == asked))
        };
        for question in questions.iter().filter(|question| !is_other(question)) {
            if let Some(answer) = answer(manner, address, question) {
                telling.on_frame(&answer);
            }
        }
        assert_eq!(telling.answerer(), expected, "{what} ({address})");
    }
}

#[test]
fn only_answers_of_that_mac_about_these_addresses_count() {
    let reply =
        |mac, spa: [u8; 4]| Frame::Arp(ArpFrame::new(OWN, mac, OPER_REPLY, mac, spa, OWN, [10, 0, 0, 1]));
    let announcement = Frame::announcements(first(), ip("10.0.0.10"));
    let rows =
        [reply(OTHER, [10, 0, 0, 10]), reply(first(), [10, 0, 0, 11]), announcement[0], announcement[1]];
    for frame in rows {
        let mut telling = Telling::new(first(), ip("10.0.0.10"), Some(ip("10.0.0.1")), vec![ip("10.0.0.77")]);
        telling.on_frame(&frame);
        assert_eq!(telling.answerer(), Answerer::Proxy, "{frame:?}");
    }
}

#[test]
fn nobody_is_asked_about_an_ipv6_address_without_an_own_address() {
    for source in [None, Some(ip("10.0.0.1"))] {
        assert_eq!(Telling::new(first(), ip("fd00::10"), source, vec![ip("fd00::77")]).questions(OWN), []);
    }
}

#[test]
fn other_addresses_are_of_the_subnet_unused_and_always_the_same() {
    let rows = [
        ("10.0.0.10", "10.0.0.0/24", 2),
        ("10.0.0.10", "10.0.0.0/16", 2),
        ("10.0.0.10", "10.0.0.8/29", 2),
        ("10.0.0.10", "10.0.0.10/32", 0),
        ("10.0.0.10", "10.0.0.10/31", 0),
        ("10.0.0.9", "10.0.0.8/30", 0),
        ("10.0.0.10", "0.0.0.0/0", 2),
        ("10.0.0.10", "192.0.2.0/24", 0),
        ("10.0.0.10", "fd00::/64", 0),
        ("fd00::10", "fd00::/64", 2),
        ("fd00::10", "fd00::/120", 2),
        ("fd00::10", "::/0", 2),
        ("fd00::10", "fd00::10/128", 0),
    ];
    for (vip, subnet, expected) in rows {
        let (vip, net): (_, IpNet) = (ip(vip), subnet.parse().expect("a subnet"));
        let first = controls(vip, net, |_| false);
        assert_eq!(first.len(), expected, "{vip} in {subnet}");
        assert_eq!(first, controls(vip, net, |_| false), "{vip} in {subnet}");
        for address in &first {
            assert!(net.contains(address) && *address != vip && *address != net.network(), "{address}");
            assert!(address.is_ipv6() || *address != net.broadcast(), "{address}");
            assert!(!controls(vip, net, |it| it == *address).contains(address), "{address} is used");
        }
    }
    assert_eq!(
        controls(ip("10.0.0.10"), "10.0.0.0/24".parse().expect("a subnet"), |_| true),
        [""; 0].map(ip)
    );
}
