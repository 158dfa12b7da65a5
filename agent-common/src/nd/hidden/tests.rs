use std::{vec, vec::Vec};

use proptest::prelude::*;

use super::*;

const VIP: [u8; 16] = [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10];
const HOST: [u8; 16] = [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x99];
/// The offset of the packet in the frame.
const START: usize = 14;

fn header(next: u8, units: usize) -> Vec<u8> {
    let mut header = vec![next, u8::try_from(units - 1).expect("a length in a byte"), 1, 4];
    header.resize(units * 8, 0);
    header
}

/// Returns the header of a fragment. Its last byte but the identification says that others follow.
fn fragment(next: u8, offset: u16, is_last: bool) -> Vec<u8> {
    let [high, low] = (offset << 3 | u16::from(!is_last)).to_be_bytes();
    vec![next, 0xff, high, low, 0, 0, 0, 7]
}

/// Returns a message about these addresses, which follow its first eight bytes.
fn message(kind: u8, addresses: &[[u8; 16]]) -> Vec<u8> {
    [&[kind, 0, 0, 0, 0, 0, 0, 0][..], &addresses.concat()].concat()
}

fn frame(source: [u8; 16], first: u8, rest: &[Vec<u8>]) -> Vec<u8> {
    let rest = rest.concat();
    let len = u16::try_from(rest.len()).expect("it is short").to_be_bytes();
    let ipv6 = [&[0x60, 0, 0, 0, len[0], len[1], first, 255][..], &source, &HOST, &rest];
    [&[0xee; START][..], &ipv6.concat()].concat()
}

fn hides(frame: &[u8]) -> bool {
    let unit = |at: usize| Some(bytemuck::pod_read_unaligned(frame.get(at..at + 8)?));
    hides_claim(START, unit, |addr| addr == VIP)
}

#[test]
fn a_message_is_found_behind_any_headers_and_by_any_address_that_it_names() {
    let named = || message(136, &[VIP]);
    let chain = |count: usize| [vec![header(60, 1); count - 1], vec![header(58, 1), named()]].concat();
    let rows = [
        ("hop-by-hop options", frame(HOST, 0, &[header(58, 1), named()]), true),
        ("destination options of 2,048 bytes", frame(HOST, 60, &[header(58, 256), named()]), true),
        ("a routing header", frame(HOST, 43, &[header(58, 3), named()]), true),
        ("a fragment that is whole (RFC 6946)", frame(HOST, 44, &[fragment(58, 0, true), named()]), true),
        ("the first fragment", frame(HOST, 44, &[fragment(58, 0, false), named()]), true),
        ("another begins with no header", frame(HOST, 44, &[fragment(58, 1, true), named()]), false),
        ("the longest chain", frame(HOST, 60, &chain(MAX_EXTENSIONS)), true),
        ("no header (4)", frame(HOST, 58, &[named()]), true),
        ("another address", frame(VIP, 0, &[header(58, 1), message(136, &[HOST])]), false),
        ("a solicitation by a VIP", frame(VIP, 0, &[header(58, 1), message(135, &[HOST])]), true),
        ("a solicitation for a VIP", frame(HOST, 0, &[header(58, 1), message(135, &[VIP])]), true),
        ("a router solicitation by a VIP", frame(VIP, 0, &[header(58, 1), message(133, &[])]), true),
        ("a router solicitation", frame(HOST, 0, &[header(58, 1), message(133, &[VIP])]), false),
        ("a redirect to a VIP", frame(HOST, 0, &[header(58, 1), message(137, &[VIP, HOST])]), true),
        ("a redirect of a VIP", frame(HOST, 0, &[header(58, 1), message(137, &[HOST, VIP])]), true),
        ("a redirect of others", frame(VIP, 0, &[header(58, 1), message(137, &[HOST, HOST])]), false),
        ("a router advertisement", frame(VIP, 0, &[header(58, 1), message(134, &[VIP])]), false),
        ("an echo request", frame(VIP, 0, &[header(58, 1), message(128, &[VIP])]), false),
        ("TCP", frame(VIP, 0, &[header(6, 1), message(136, &[VIP])]), false),
        ("encrypted", frame(VIP, 0, &[header(50, 1), named()]), false),
        (
            "version 4",
            {
                let mut frame = frame(HOST, 0, &[header(58, 1), named()]);
                frame[START] = 0x45;
                frame
            },
            false,
        ),
    ];
    for (what, frame, expected) in rows {
        assert_eq!(hides(&frame), expected, "{what}");
    }
}

#[test]
fn what_cannot_be_found_out_counts_as_a_claim() {
    let chain = |last: u8| {
        let headers = [vec![header(60, 1); MAX_EXTENSIONS], vec![header(last, 1)]].concat();
        frame(HOST, 60, &headers)
    };
    assert!(hides(&chain(58)), "more headers than are walked");
    assert!(hides(&chain(6)), "whatever follows them");
    for rest in [message(136, &[HOST]), message(133, &[]), header(6, 1)] {
        let whole = frame(HOST, 0, &[header(if rest[0] == 6 { 60 } else { 58 }, 2), rest.clone()]);
        assert!(!hides(&whole));
        for len in START..whole.len() {
            assert!(hides(&whole[..len]), "{len} of {} bytes of {rest:?}", whole.len());
        }
    }
}

#[test]
fn a_packet_may_hide_a_message_if_a_host_would_take_that() {
    for next in 0..=u8::MAX {
        for hop_limit in [0, 1, 64, 254, 255] {
            let expected = hop_limit == 255 && [0, 43, 44, 60].contains(&next);
            assert_eq!(may_hide_claim(next, hop_limit), expected, "{next} {hop_limit}");
        }
    }
}

proptest! {
    #[test]
    fn any_chain_of_headers_ends_where_its_lengths_say(
        units in proptest::collection::vec(1_usize..=256, 0..=MAX_EXTENSIONS),
        kinds in proptest::collection::vec(prop_oneof![Just(0_u8), Just(43), Just(60)], MAX_EXTENSIONS),
        kind in 130_u8..140,
        is_named: bool,
    ) {
        let types = kinds[..units.len()].iter().copied().chain([58]);
        let after_each = units.iter().zip(types.clone().skip(1));
        let mut headers: Vec<_> = after_each.map(|(len, next)| header(next, *len)).collect();
        headers.push(message(kind, &[if is_named { VIP } else { HOST }, HOST]));
        let frame = frame(HOST, types.clone().next().unwrap_or(58), &headers);
        prop_assert_eq!(hides(&frame), is_named && [135, 136, 137].contains(&kind));
    }

    #[test]
    fn any_bytes_are_walked_without_going_beyond_their_end(
        mut bytes in proptest::collection::vec(any::<u8>(), 0..300),
    ) {
        if let Some(first) = bytes.get_mut(START + 6) {
            *first = [0, 43, 44, 60][usize::from(*first % 4)];
        }
        hides(&bytes);
    }
}
