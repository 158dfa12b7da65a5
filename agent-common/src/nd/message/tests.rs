use std::{format, vec, vec::Vec};

use proptest::prelude::*;

use super::*;
use crate::nd::{ALL_NODES, NdFrame, frame::OPTION_NONCE, group_mac};

const VIP: [u8; 16] = [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10];
const HOST: [u8; 16] = [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x99];
const NONE: [u8; 16] = [0; 16];
const OUR: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const NEXT: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);
const ASKER: MacAddr = MacAddr([2, 0, 0, 0, 0, 3]);
const OTHER: MacAddr = MacAddr([2, 0, 0, 0, 0, 4]);

/// A message from the Ethernet destination on, with its checksum.
#[derive(Clone)]
struct Bytes(Vec<u8>);

fn message(kind: u8, source: [u8; 16], destination: [u8; 16], body: &[u8]) -> Bytes {
    let len = u8::try_from(8 + body.len()).expect("it is short");
    let bytes = [
        &group_mac(destination).0[..],
        &ASKER.0,
        &[0x86, 0xdd, 0x60, 0, 0, 0, 0, len, 58, 255],
        &source,
        &destination,
        &[kind, 0, 0, 0, 0, 0, 0, 0],
        body,
    ];
    Bytes(bytes.concat()).summed()
}

fn option(kind: u8, mac: MacAddr) -> Vec<u8> {
    [&[kind, 1][..], &mac.0].concat()
}

fn asks(options: &[Vec<u8>]) -> Bytes {
    message(135, HOST, solicited_node(VIP), &[&VIP[..], &options.concat()].concat())
}

fn probes(options: &[Vec<u8>]) -> Bytes {
    message(135, NONE, solicited_node(VIP), &[&VIP[..], &options.concat()].concat())
}

fn claims(source: [u8; 16], options: &[Vec<u8>]) -> Bytes {
    message(135, source, solicited_node(HOST), &[&HOST[..], &options.concat()].concat())
}

fn advertises(options: &[Vec<u8>]) -> Bytes {
    message(136, VIP, ALL_NODES, &[&VIP[..], &options.concat()].concat())
}

fn routes(options: &[Vec<u8>]) -> Bytes {
    let all_routers = crate::nd::ALL_ROUTERS;
    message(133, VIP, all_routers, &options.concat())
}

fn redirects(target: [u8; 16], redirected: [u8; 16], options: &[Vec<u8>]) -> Bytes {
    message(137, OTHER_HOST, HOST, &[&target[..], &redirected, &options.concat()].concat())
}

const OTHER_HOST: [u8; 16] = [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x77];

impl Bytes {
    /// Sets the checksum by its definition (RFC 4443, 2.3).
    fn summed(mut self) -> Self {
        self.0[56..58].fill(0);
        let sum = checksum(&self.0);
        self.0[56..58].copy_from_slice(&(!sum).to_be_bytes());
        self
    }

    fn with(mut self, at: usize, bytes: &[u8]) -> Self {
        self.0[at..at + bytes.len()].copy_from_slice(bytes);
        self
    }

    fn header(&self) -> NdHeader {
        bytemuck::pod_read_unaligned(&self.0[14..62])
    }

    fn unit(&self, at: usize) -> Option<Unit> {
        Some(bytemuck::pod_read_unaligned(self.0.get(14 + at..14 + at + 8)?))
    }

    fn read(&self) -> Option<Message> {
        let mac = |at: usize| MacAddr(core::array::from_fn(|i| self.0[at + i]));
        let mut message = Message::NONE;
        let addresses = [mac(0), mac(6)];
        message.read(addresses, &self.header(), |at| self.unit(at), |addr| addr == VIP).map(|()| message)
    }

    fn is_intact(&self) -> bool {
        self.read().expect("it is valid").is_intact(|at| self.unit(at))
    }

    fn answer(&self, answer: Answer) -> Self {
        let message = self.read().expect("it is valid");
        let (mut header, place) = (self.header(), message.option(&answer));
        let grown = message.grown(&answer);
        let replaced = if place == 0 || grown.is_some() { 0 } else { self.unit(place).expect("read") };
        let (dst, unit) = message.turn_into_answer(&mut header, replaced, &answer);
        let mut bytes = self.0.clone();
        if let Some(len) = grown {
            bytes.resize(14 + len, 0);
        }
        bytes[..6].copy_from_slice(&dst.0);
        bytes[6..12].copy_from_slice(&answer.source.0);
        bytes[14..62].copy_from_slice(bytemuck::bytes_of(&header));
        if place != 0 {
            bytes[14 + place..][..8].copy_from_slice(bytemuck::bytes_of(&unit));
        }
        Self(bytes)
    }
}

/// Returns the sum over a whole frame's message and its pseudo-header (RFC 8200, 8.1).
fn checksum(frame: &[u8]) -> u16 {
    let len = u16::from_be_bytes([frame[18], frame[19]]);
    let mut words: Vec<u32> = vec![u32::from(len), 58];
    let bytes = &frame[22..54 + usize::from(len)];
    words.extend(bytes.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0))));
    let sum = words.iter().sum::<u32>();
    let sum = (sum & 0xffff) + (sum >> 16);
    u16::try_from((sum & 0xffff) + (sum >> 16)).expect("folded")
}

#[test]
fn a_message_claims_and_asks_as_rfc_4861_says() {
    let source = || vec![option(1, OTHER)];
    let target = || vec![option(2, OTHER)];
    // claimed, asked, sender, announces, a probe
    let rows = [
        ("a solicitation", asks(&source()), HOST, VIP, OTHER, false, false),
        ("without an option, it claims nothing (7.2.3)", asks(&[]), NONE, VIP, ASKER, false, false),
        ("a probe (RFC 4862, 5.4.2)", probes(&[]), NONE, VIP, ASKER, false, true),
        ("a probe with a nonce (RFC 7527)", probes(&[option(14, OTHER)]), NONE, VIP, ASKER, false, true),
        ("by the VIP's address (7.2.3)", claims(VIP, &source()), VIP, HOST, OTHER, false, false),
        ("an advertisement (7.2.5)", advertises(&target()), VIP, NONE, OTHER, true, false),
        ("without an option (7.2.5)", advertises(&[]), VIP, NONE, ASKER, true, false),
        ("with a source's option", advertises(&source()), VIP, NONE, ASKER, true, false),
        ("a router solicitation (6.2.6)", routes(&source()), VIP, NONE, OTHER, false, false),
        ("without an option (6.2.6)", routes(&[]), NONE, NONE, ASKER, false, false),
        ("a redirect to a VIP (8.3)", redirects(VIP, HOST, &target()), VIP, NONE, OTHER, false, false),
        ("a redirect of a VIP (8.3)", redirects(HOST, VIP, &target()), VIP, NONE, OTHER, false, false),
        ("without an option (8.3)", redirects(VIP, HOST, &[]), VIP, NONE, ASKER, false, false),
    ];
    for (what, bytes, claimed, asked, sender, announces, is_probe) in rows {
        let question = bytes.read().unwrap_or_else(|| panic!("{what} is valid"));
        assert_eq!(question.oper(), u16::from(bytes.0[54]), "{what}");
        assert_eq!(
            (question.dst().0, question.src()),
            (group_mac(bytes.header_destination()).0, ASKER),
            "{what}"
        );
        let found = (
            question.claimed(),
            question.asked().unwrap_or_default(),
            question.sender(),
            question.announces(),
            question.probed().is_some(),
        );
        assert_eq!(found, (claimed, asked, sender, announces, is_probe), "{what}");
        assert!(bytes.is_intact(), "{what}");
    }
}

impl Bytes {
    fn header_destination(&self) -> [u8; 16] {
        bytemuck::cast(self.header().destination)
    }
}

#[test]
fn a_message_that_is_not_valid_is_not_read() {
    let zero = vec![1, 0, 0, 0, 0, 0, 0, 0];
    let two = vec![1, 2, 0, 0, 0, 0, 0, 0];
    let group = solicited_node(VIP);
    let rows = [
        ("a hop limit of 254 (7.1.1)", asks(&[]).with(21, &[254])),
        ("a code (7.1.1)", asks(&[]).with(55, &[1])),
        ("a solicitation without its target (7.1.1)", asks(&[]).with(19, &[16])),
        ("a length that is no multiple of eight (4.6)", asks(&[]).with(19, &[23])),
        ("an option of length 0 (4.6)", asks(&[zero])),
        ("an option that is longer than the rest (4.6)", asks(&[two])),
        ("a target that is a group (7.1.1)", message(135, HOST, group, &group)),
        ("an advertised group (7.1.2)", message(136, HOST, HOST, &group)),
        ("a probe with a source's option (7.1.1)", probes(&[option(1, OTHER)])),
        ("a probe to another group (7.1.1)", message(135, NONE, ALL_NODES, &VIP)),
        ("a probe to the target (7.1.1)", message(135, NONE, VIP, &VIP)),
        (
            "a router solicitation from nowhere with an option (6.1.1)",
            routes(&[option(1, OTHER)]).with(22, &NONE),
        ),
        ("a solicited advertisement to a group (7.1.2)", advertises(&[]).with(58, &[0x40])),
        ("from a group", asks(&[]).with(22, &ALL_NODES)),
        ("a redirect without its destination (8.1)", redirects(VIP, HOST, &[]).with(19, &[24])),
        ("a router solicitation without its reserved bytes (6.1.1)", routes(&[]).with(19, &[0])),
    ];
    for (what, bytes) in rows {
        assert_eq!(bytes.read(), None, "{what}");
    }
}

#[test]
fn options_that_do_not_say_one_mac_say_none() {
    let long = |kind: u8| [&[kind, 2][..], &[0; 14]].concat();
    let (first, second) = (option(1, OTHER), option(1, NEXT));
    let advertised = |kinds: [u8; 2]| advertises(&[option(kinds[0], OTHER), option(kinds[1], NEXT)]);
    let many = |count: usize| asks(&vec![option(1, OTHER); count]);
    let nonces = |count: usize| asks(&vec![option(OPTION_NONCE, OTHER); count]);
    // is the sender MAC zero, does it claim its source
    let rows = [
        ("two that differ", asks(&[first.clone(), second.clone()]), true, true),
        ("two that do not", asks(&[first.clone(), first.clone()]), false, true),
        ("one of a wrong size", asks(&[long(1)]), true, true),
        ("another of a wrong size", asks(&[first.clone(), long(1)]), true, true),
        ("a target's in a solicitation", asks(&[first.clone(), option(2, OTHER)]), true, true),
        ("only a target's in a solicitation", asks(&[option(2, OTHER)]), true, false),
        ("only a target's of a wrong size", asks(&[long(2)]), true, false),
        ("a target's in a probe", probes(&[option(2, OTHER)]), true, false),
        ("as many as are read", many(MAX_OPTIONS), false, true),
        ("more than are read", many(MAX_OPTIONS + 1), true, true),
        ("more than are read, and the source's may be last", nonces(MAX_OPTIONS + 1), true, true),
        ("two targets that differ", advertised([2, 2]), true, false),
        ("a source's in an advertisement", advertised([1, 2]), false, false),
        ("a source's of a wrong size in an advertisement", advertises(&[long(1)]), true, false),
        ("an unknown option", asks(&[first, long(200)]), false, true),
    ];
    for (what, bytes, is_foul, claims_source) in rows {
        let question = bytes.read().unwrap_or_else(|| panic!("{what} is valid"));
        assert_eq!(question.sender().is_zero(), is_foul, "{what}");
        assert_eq!(question.claimed() == HOST, claims_source, "{what}: it claims its source");
    }
}

#[test]
fn the_hosts_that_are_asked_are_those_of_both_destinations() {
    let unicast = |destination| message(135, HOST, destination, &VIP).with(0, &OUR.0);
    let rows = [
        ("to the group (7.2.2)", asks(&[]), Reach::All),
        ("to another group", asks(&[]).with(38, &ALL_NODES), Reach::All),
        ("to the group by one MAC", asks(&[]).with(0, &OUR.0), Reach::One),
        ("to the target (7.3.3)", unicast(VIP), Reach::One),
        ("to the target by broadcast", unicast(VIP).with(0, &[0xff; 6]), Reach::All),
        ("to another host", unicast(OTHER_HOST), Reach::None),
        ("to another host by broadcast", unicast(OTHER_HOST).with(0, &[0xff; 6]), Reach::None),
    ];
    for (what, bytes, reach) in rows {
        assert_eq!(bytes.read().map(|message| message.reach()), Some(reach), "{what}");
    }
}

/// The mode of an answer: S and O, and the growth of the frame.
type Mode = (bool, bool, usize);

fn check_answer(what: &str, bytes: &Bytes, answer: Answer, (solicited, overrides, grown): Mode) {
    let frame = bytes.answer(answer).0;
    assert_eq!(frame.len(), bytes.0.len() + grown, "{what}");
    assert_eq!(checksum(&frame), 0xffff, "{what}: the checksum");
    let flags = [u8::from(solicited) << 6 | u8::from(overrides) << 5, 0, 0, 0];
    assert_eq!([&ASKER.0[..], &answer.source.0, &[0x86, 0xdd]].concat(), frame[..14], "{what}: Ethernet");
    let len = u16::try_from(frame.len() - 54).expect("short").to_be_bytes();
    let header = [&[0x60, 0, 0, 0][..], &len, &[58, 255], &VIP, &HOST, &[136, 0]].concat();
    assert_eq!(header, frame[14..56], "{what}: headers");
    assert_eq!([&flags[..], &VIP].concat(), frame[58..78], "{what}: flags and target");
    let is_target = |unit: &[u8]| unit == option(2, answer.mac);
    let places = frame[78..].chunks(8).filter(|unit| is_target(unit)).count();
    assert_eq!(places, usize::from(overrides), "{what}: the option");
}

#[test]
fn answers_have_the_flags_and_options_of_rfc_4861() {
    let held = Answer { mac: OUR, source: OUR };
    let handover = Answer { mac: NEXT, source: OUR };
    let named = || option(1, ASKER);
    let other = || vec![200, 1, 1, 2, 3, 4, 5, 6];
    let to_vip = |bytes: Bytes| bytes.with(38, &VIP).summed();
    let rows = [
        ("with an option (7.2.4)", asks(&[named()]), (true, true, 0), (true, true, 0)),
        ("with others before", asks(&[other(), named()]), (true, true, 0), (true, true, 0)),
        ("unicast (7.3.3)", to_vip(asks(&[named()])), (true, true, 0), (true, true, 0)),
        ("unicast, without an option (7.2.4)", to_vip(asks(&[])), (true, false, 0), (true, true, 8)),
        ("without an option (RFC 4429, 3.2)", asks(&[]), (true, true, 8), (true, true, 8)),
        ("without its option", asks(&[other()]), (true, true, 8), (true, true, 8)),
    ];
    for (what, bytes, mode, of_handover) in rows {
        check_answer(what, &bytes, held, mode);
        check_answer(&format!("{what}, in a handover"), &bytes, handover, of_handover);
    }
}

#[test]
fn an_answer_to_a_whole_solicitation_is_the_advertisement_of_that_frame() {
    let frame = NdFrame::solicitation(ASKER, HOST, VIP);
    let answer = Bytes(bytemuck::bytes_of(&frame).to_vec()).answer(Answer { mac: NEXT, source: OUR });
    let expected = NdFrame::advertisement(ASKER, OUR, HOST, VIP, NEXT, ND_SOLICITED | ND_OVERRIDE);
    assert_eq!(answer.0, bytemuck::bytes_of(&expected));
}

#[test]
fn a_long_message_counts_as_intact() {
    for (units, is_summed) in [(1_u8, true), (28, true), (61, true), (62, false)] {
        let len = 24 + u16::from(units) * 8;
        let mut bytes = asks(&[]).with(18, &len.to_be_bytes());
        bytes.0.extend([200, units]);
        bytes.0.resize(54 + usize::from(len), 7);
        let bytes = bytes.summed();
        assert!(bytes.is_intact(), "{len} bytes");
        let last = bytes.0.len() - 1;
        assert_eq!(bytes.with(last, &[8]).is_intact(), !is_summed, "{len} bytes, the last of them changed");
    }
    assert_eq!(24 + 61 * 8, MAX_SUMMED);
}

proptest! {
    #[test]
    fn an_answer_to_any_solicitation_is_as_intact_as_that(
        source: [u8; 16],
        target: [u8; 16],
        macs: [[u8; 6]; 4],
        kinds in proptest::collection::vec(prop_oneof![Just(1_u8), Just(14), any::<u8>()], 0..5),
        spoilt: u16,
    ) {
        prop_assume!(source != NONE);
        let [mac, own, value, eth] = macs;
        let options: Vec<_> = kinds.iter().map(|kind| option(*kind, MacAddr(value))).collect();
        let bytes = message(135, source, solicited_node(target), &[&target[..], &options.concat()].concat());
        let mut bytes = bytes.with(6, &eth);
        let sum = u16::from_be_bytes([bytes.0[56], bytes.0[57]]) ^ spoilt;
        bytes.0[56..58].copy_from_slice(&sum.to_be_bytes());
        let Some(message) = bytes.read() else { return Ok(()) };
        let is_intact = checksum(&bytes.0) == 0xffff;
        prop_assert_eq!(message.is_intact(|at| bytes.unit(at)), is_intact);
        let answer = bytes.answer(Answer { mac: MacAddr(mac), source: MacAddr(own) });
        prop_assert_eq!(checksum(&answer.0) == 0xffff, is_intact);
    }

    #[test]
    fn any_bytes_are_read_without_going_beyond_their_end(
        mut bytes in proptest::collection::vec(any::<u8>(), 62..300),
        kind in 0_usize..4,
    ) {
        bytes[20..22].copy_from_slice(&[58, 255]);
        bytes[54] = [133, 135, 136, 137][kind];
        bytes[55] = 0;
        bytes[18] = 0;
        let bytes = Bytes(bytes);
        if let Some(message) = bytes.read() {
            prop_assert!(message.option as usize + 8 <= message.end());
            let _ = message.is_intact(|at| bytes.unit(at));
        }
    }
}
