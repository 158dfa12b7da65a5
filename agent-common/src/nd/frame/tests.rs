use std::{vec, vec::Vec};

use proptest::prelude::*;

use super::*;

const VIP: [u8; 16] = [0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10];
const SOURCE: [u8; 16] = [0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x99];
const GROUP: [u8; 16] = [0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, 0, 0, 0x10];
const GROUP_MAC: MacAddr = MacAddr([0x33, 0x33, 0xff, 0, 0, 0x10]);
const VIP_MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const ASKER: MacAddr = MacAddr([2, 0, 0, 0, 0, 3]);
const NONCE: [u8; 6] = [1, 2, 3, 4, 5, 6];

fn bytes(frame: &NdFrame) -> &[u8] {
    bytemuck::bytes_of(frame)
}

/// Returns the checksum of a frame as RFC 4443, 2.3 describes it.
fn checksum(frame: &[u8]) -> u16 {
    let message = &frame[54..];
    let length = u32::try_from(message.len()).expect("short").to_be_bytes();
    let mut summed = [&frame[22..54], &length, &[0, 0, 0, 58], message].concat();
    summed[42..44].fill(0);
    if summed.len() % 2 == 1 {
        summed.push(0);
    }
    let words = summed.chunks(2).map(|word| u64::from(word[0]) << 8 | u64::from(word[1]));
    let sum = words.fold(0, |sum, word| {
        let sum = sum + word;
        if sum > 0xffff { sum - 0xffff } else { sum }
    });
    !u16::try_from(sum).expect("folded")
}

fn message(frame: &NdFrame, options: &[u8]) -> Vec<u8> {
    let mut bytes = [&bytes(frame)[..78], options].concat();
    let length = u16::try_from(24 + options.len()).expect("short");
    bytes[18..20].copy_from_slice(&length.to_be_bytes());
    let checksum = checksum(&bytes);
    bytes[56..58].copy_from_slice(&checksum.to_be_bytes());
    bytes
}

fn advertisement() -> NdFrame {
    NdFrame::advertisement(group_mac(ALL_NODES), VIP_MAC, ALL_NODES, VIP, VIP_MAC, ND_OVERRIDE)
}

fn solicitation() -> NdFrame {
    NdFrame::solicitation(ASKER, SOURCE, VIP)
}

#[test]
fn an_advertisement_has_every_field_in_its_place() {
    let expected: [&[u8]; 10] = [
        &[0x33, 0x33, 0, 0, 0, 1, 2, 0, 0, 0, 0, 1, 0x86, 0xdd], // Ethernet
        &[0x60, 0, 0, 0, 0, 32, 58, 255],                        // version to hop limit
        &VIP,
        &[0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1], // ff02::1
        &[136, 0],
        &[0xf9, 0x0c],
        &[0x20, 0, 0, 0], // O
        &VIP,
        &[2, 1],
        &[2, 0, 0, 0, 0, 1],
    ];
    assert_eq!(bytes(&advertisement()), expected.concat());
}

#[test]
fn a_solicitation_has_every_field_in_its_place() {
    let expected: [&[u8]; 10] = [
        &[0x33, 0x33, 0xff, 0, 0, 0x10, 2, 0, 0, 0, 0, 3, 0x86, 0xdd],
        &[0x60, 0, 0, 0, 0, 32, 58, 255],
        &SOURCE,
        &GROUP,
        &[135, 0],
        &[0x1b, 0x71],
        &[0, 0, 0, 0],
        &VIP,
        &[1, 1],
        &[2, 0, 0, 0, 0, 3],
    ];
    assert_eq!(bytes(&solicitation()), expected.concat());
}

#[test]
fn a_probe_has_every_field_in_its_place() {
    let expected: [&[u8]; 10] = [
        &[0x33, 0x33, 0xff, 0, 0, 0x10, 2, 0, 0, 0, 0, 3, 0x86, 0xdd],
        &[0x60, 0, 0, 0, 0, 32, 58, 255],
        &[0; 16],
        &GROUP,
        &[135, 0],
        &[0x35, 0xba],
        &[0, 0, 0, 0],
        &VIP,
        &[14, 1],
        &NONCE,
    ];
    assert_eq!(bytes(&NdFrame::probe(ASKER, VIP, NONCE)), expected.concat());
}

#[test]
fn a_frame_tells_what_it_was_made_of() {
    let frame = advertisement();
    assert_eq!((frame.kind(), frame.source(), frame.destination()), (136, VIP, ALL_NODES));
    assert_eq!((frame.target(), frame.flags()), (VIP, 0x20));
    assert_eq!((frame.link_layer(), frame.nonce()), (Some(VIP_MAC), None));
    assert!(!frame.is_solicitation() && !frame.is_probe());

    let frame = solicitation();
    assert_eq!((frame.kind(), frame.source(), frame.destination()), (135, SOURCE, GROUP));
    assert_eq!((frame.target(), frame.dst), (VIP, GROUP_MAC));
    assert_eq!((frame.link_layer(), frame.nonce()), (Some(ASKER), None));
    assert!(frame.is_solicitation() && !frame.is_probe());

    let frame = NdFrame::probe(ASKER, VIP, NONCE);
    assert_eq!((frame.source(), frame.target(), frame.src), ([0; 16], VIP, ASKER));
    assert_eq!((frame.link_layer(), frame.nonce()), (None, Some(NONCE)));
    assert!(frame.is_solicitation() && frame.is_probe());
}

#[test]
fn what_was_written_is_read() {
    for frame in [advertisement(), solicitation(), NdFrame::probe(ASKER, VIP, NONCE)] {
        assert_eq!(NdFrame::read(bytes(&frame)), Some(frame));
        let trailer = [bytes(&frame), &[1, 2, 3]].concat();
        assert_eq!(NdFrame::read(&trailer), Some(frame), "bytes after the payload are not read");
        for length in 0..ND_FRAME_LEN {
            assert_eq!(NdFrame::read(&bytes(&frame)[..length]), None, "{length} bytes");
        }
    }
}

#[test]
fn any_changed_byte_of_what_the_checksum_covers_is_noticed() {
    let frame = solicitation();
    for at in (12..14).chain(18..ND_FRAME_LEN) {
        let mut changed = bytes(&frame).to_vec();
        changed[at] ^= 0x10;
        assert_eq!(NdFrame::read(&changed), None, "byte {at}");
    }
}

type Row<'a> = (&'a str, Vec<u8>, Option<MacAddr>, Option<[u8; 6]>);

#[test]
fn of_several_options_the_link_layer_address_is_read_and_then_the_nonce() {
    let other = [5, 1, 0, 0, 0, 0, 5, 0xdc];
    let long = [3, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let nonce = [14, 1, 1, 2, 3, 4, 5, 6];
    let source = [1, 1, 2, 0, 0, 0, 0, 3];
    let target = [2, 1, 2, 0, 0, 0, 0, 1];
    let rows: [Row<'_>; 7] = [
        ("none", vec![], None, None),
        ("another", other.to_vec(), None, None),
        ("a nonce first", [nonce, source].concat(), Some(ASKER), None),
        ("a nonce", [other, nonce].concat(), None, Some(NONCE)),
        ("behind a long one", [&long[..], &source].concat(), Some(ASKER), None),
        ("of the other type", target.to_vec(), None, None),
        ("the first of two", [source, [1, 1, 2, 0, 0, 0, 0, 9]].concat(), Some(ASKER), None),
    ];
    for (what, options, link_layer, nonce) in rows {
        let read = NdFrame::read(&message(&solicitation(), &options)).expect(what);
        assert_eq!((read.link_layer(), read.nonce()), (link_layer, nonce), "{what}");
        let (source, target) = (read.source(), read.target());
        assert_eq!((source, target, read.src), (SOURCE, VIP, ASKER), "{what}");
    }
    let broken =
        [(vec![1, 0], "length zero"), (vec![1, 2, 0, 0, 0, 0, 0, 0], "overrun"), (vec![1; 9], "a rest")];
    for (options, what) in broken {
        assert_eq!(NdFrame::read(&message(&solicitation(), &options)), None, "{what}");
    }
}

#[test]
fn what_rfc_4861_forbids_is_not_read() {
    let probe = NdFrame::probe(ASKER, VIP, NONCE);
    let nonce = [14, 1, 1, 2, 3, 4, 5, 6];
    let source = [1, 1, 2, 0, 0, 0, 0, 3];
    let target = [2, 1, 2, 0, 0, 0, 0, 1];
    let rows: [(&str, NdFrame, &[u8], usize, u8); 12] = [
        ("another EtherType", solicitation(), &source, 13, 0),
        ("another version", solicitation(), &source, 14, 0x40),
        ("another next header", solicitation(), &source, 20, 17),
        ("a forwarded packet", solicitation(), &source, 21, 254),
        ("a source that is a group", solicitation(), &source, 22, 0xff),
        ("a Redirect", solicitation(), &source, 54, 137),
        ("a code", solicitation(), &source, 55, 1),
        ("a target that is a group", solicitation(), &source, 62, 0xff),
        ("a probe to another group", probe, &nonce, 53, 0x11),
        ("a probe to the target", probe, &nonce, 38, 0x20),
        ("a probe with a link-layer address", probe, &source, 21, 255),
        ("an answer to a group", advertisement(), &target, 58, 0x60),
    ];
    for (what, frame, options, at, value) in rows {
        assert!(NdFrame::read(&message(&frame, &nonce)).is_some(), "{what}: before");
        let mut changed: NdFrame = frame;
        bytemuck::bytes_of_mut(&mut changed)[at] = value;
        assert_eq!(NdFrame::read(&message(&changed, options)), None, "{what}");
    }
}

proptest! {
    #[test]
    fn every_frame_is_read_as_it_was_written(
        src: [u8; 6],
        mac: [u8; 6],
        mut source: [u8; 16],
        mut target: [u8; 16],
        flags: u8,
    ) {
        source[0] &= 0x7f;
        target[0] &= 0x7f;
        source[15] |= 1;
        let (src, mac) = (MacAddr(src), MacAddr(mac));
        for frame in [
            NdFrame::advertisement(src, mac, source, target, mac, flags),
            NdFrame::solicitation(src, source, target),
            NdFrame::probe(src, target, mac.0),
        ] {
            let field = u16::from_be_bytes([bytes(&frame)[56], bytes(&frame)[57]]);
            prop_assert_eq!(field, checksum(bytes(&frame)));
            prop_assert_eq!(NdFrame::read(bytes(&frame)), Some(frame));
        }
    }

    #[test]
    fn any_bytes_are_read_without_a_panic(
        rest in proptest::collection::vec(any::<u8>(), 0..200),
    ) {
        let _ = NdFrame::read(&rest);
        if let Some(read) = NdFrame::read(&message(&solicitation(), &rest)) {
            prop_assert_eq!((read.source(), read.target()), (SOURCE, VIP));
        }
    }
}
