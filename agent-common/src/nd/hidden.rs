//! Neighbour discovery that the program does not read: behind extension headers, or not all there. The
//! addresses that it names can be read all the same.

use super::{
    frame::{HOP_LIMIT, TYPE_ADVERTISEMENT, TYPE_SOLICITATION},
    message::{
        ADDRESSES, MESSAGE, NdHeader, REDIRECTED, TARGET, TYPE_REDIRECT, TYPE_ROUTER_SOLICITATION, Unit,
    },
};

/// The most extension headers behind which a message is looked for, of the four kinds below. A packet in
/// the order of RFC 8200, 4.1 has no more.
pub const MAX_EXTENSIONS: usize = 5;

/// The kinds of extension headers that a host removes by itself. Authentication and encryption need a
/// key that both have.
const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const DESTINATION: u8 = 60;

/// The bits of a fragment's offset. Only the first fragment begins with a header.
const FRAGMENT_OFFSET: u16 = 0xfff8;

/// Returns true if a packet may have neighbour discovery behind extension headers, of which the first has
/// this type.
///
/// With another hop limit than 255 every host ignores such a message. Multicast listener discovery, which
/// is sent behind a hop-by-hop header, has one of 1.
#[inline(always)]
pub fn may_hide_claim(next_header: u8, hop_limit: u8) -> bool {
    hop_limit == HOP_LIMIT && is_extension(next_header)
}

#[inline(always)]
fn is_extension(next_header: u8) -> bool {
    matches!(next_header, HOP_BY_HOP | ROUTING | FRAGMENT | DESTINATION)
}

/// Returns true if the packet is neighbour discovery that names an address for which `is_vip`, or if that
/// cannot be found out: the packet ends before, or more than [`MAX_EXTENSIONS`] headers come first.
///
/// `unit` returns eight bytes of the frame, if they can be read, in which the packet begins at `start`.
#[inline(always)]
pub fn hides_claim(
    start: usize,
    unit: impl Fn(usize) -> Option<Unit>,
    is_vip: impl Fn([u8; 16]) -> bool,
) -> bool {
    let Some(first) = unit(start) else { return true };
    let first = first.to_ne_bytes();
    if !NdHeader::is_ipv6(first[0]) {
        return false;
    }
    let (mut next_header, mut at) = (first[NdHeader::NEXT_HEADER], start + MESSAGE);
    for _ in 0..MAX_EXTENSIONS {
        if !is_extension(next_header) {
            break;
        }
        let Some(header) = unit(at) else { return true };
        let [next, len, high, low, ..] = header.to_ne_bytes();
        let is_fragment = next_header == FRAGMENT;
        if is_fragment && u16::from_be_bytes([high, low]) & FRAGMENT_OFFSET != 0 {
            return false;
        }
        next_header = next;
        // The second byte of a fragment's header is reserved.
        at += if is_fragment { size_of::<Unit>() } else { (usize::from(len) + 1) * size_of::<Unit>() };
    }
    if !NdHeader::is_icmpv6(next_header) {
        return is_extension(next_header);
    }
    let Some(head) = unit(at) else { return true };
    let source = start + ADDRESSES;
    let (target, redirected) = (at + TARGET - MESSAGE, at + REDIRECTED - MESSAGE);
    let named = match head.to_ne_bytes()[0] {
        TYPE_ROUTER_SOLICITATION => [source, source],
        TYPE_SOLICITATION => [source, target],
        TYPE_ADVERTISEMENT => [target, target],
        TYPE_REDIRECT => [target, redirected],
        _ => return false,
    };
    for at in named {
        // One after the other: the verifier refuses what the compiler makes of both at once.
        let Some(first) = unit(at) else { return true };
        let Some(last) = unit(at + size_of::<Unit>()) else { return true };
        if is_vip(bytemuck::cast([first, last])) {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests;
