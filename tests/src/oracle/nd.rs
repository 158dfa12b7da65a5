//! Frames of neighbour discovery (RFC 4861): their requests and claims, and the frames in their place.
//! Offsets are those of a frame without tags.

use std::net::{IpAddr, Ipv6Addr};

use super::{
    question::{Question, address},
    table::{Advertisement, Place, Solicitation, Unread},
    world::{Addr, Mac},
};

const PAYLOAD_LEN: usize = 18;
const NEXT_HEADER: usize = 20;
const HOP_LIMIT: usize = 21;
const SOURCE: usize = 22;
const DESTINATION: usize = 38;
/// The message, from its type on.
const MESSAGE: usize = 54;
const CHECKSUM: usize = 56;
const FLAGS: usize = 58;
const TARGET: usize = 62;
/// The destination of a redirect.
const REDIRECTED: usize = 78;

const ICMP: u8 = 58;
/// Hop-by-hop options, routing, a fragment, and destination options.
const EXTENSIONS: [u8; 4] = [0, 43, FRAGMENT, 60];
const FRAGMENT: u8 = 44;
/// The number of extension headers that are walked.
const MOST_EXTENSIONS: usize = 5;

const ROUTER_SOLICITATION: u8 = 133;
const SOLICITATION: u8 = 135;
const ADVERTISEMENT: u8 = 136;
const REDIRECT: u8 = 137;

const SOURCE_MAC: u8 = 1;
const TARGET_MAC: u8 = 2;
/// The number of options that are read.
const MOST_OPTIONS: usize = 16;
/// The longest message whose checksum counts.
const LONGEST_SUMMED: usize = 512;

const SOLICITED: u8 = 0x40;
const OVERRIDE: u8 = 0x20;
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
/// The Ethernet address of all nodes (RFC 2464, 7).
const ALL_NODES_MAC: Mac = [0x33, 0x33, 0, 0, 0, 1];

/// Returns true if the frame is neighbour discovery, of a type that is read.
pub(super) fn is_it(frame: &[u8]) -> bool {
    let types = [ROUTER_SOLICITATION, SOLICITATION, ADVERTISEMENT, REDIRECT];
    frame.len() >= CHECKSUM
        && frame[12..14] == [0x86, 0xdd]
        && frame[14] >> 4 == 6
        && frame[20] == 58
        && types.contains(&frame[MESSAGE])
}

/// Returns true if the frame is IPv6 in whose extension headers a host may find a message.
pub(super) fn may_be_hidden(frame: &[u8]) -> bool {
    frame.len() > HOP_LIMIT
        && frame[12..14] == [0x86, 0xdd]
        && frame[14] >> 4 == 6
        && EXTENSIONS.contains(&frame[NEXT_HEADER])
        && frame[HOP_LIMIT] == 255
}

/// Returns true if the packet is neighbour discovery that names an address for which `is_vip`, or may be.
/// It may be if it ends too early, or has more extension headers than are walked.
pub(super) fn names(frame: &[u8], is_vip: impl Fn(&Addr) -> bool) -> bool {
    let (mut next_header, mut at) = (frame[NEXT_HEADER], MESSAGE);
    for walked in 0.. {
        if !EXTENSIONS.contains(&next_header) {
            break;
        }
        // RFC 8200, 4.5: a fragment's header has no length, and stands before others only if the
        // offset, of 13 bits, is 0.
        let Some(header) = frame.get(at..at + 8).filter(|_| walked < MOST_EXTENSIONS) else { return true };
        match next_header {
            FRAGMENT if header[2] != 0 || header[3] >> 3 != 0 => return false,
            FRAGMENT => at += 8,
            _ => at += 8 * (1 + usize::from(header[1])),
        }
        next_header = header[0];
    }
    if next_header != ICMP {
        return false;
    }
    let Some(head) = frame.get(at..at + 8) else { return true };
    let places = match head[0] {
        ROUTER_SOLICITATION => vec![SOURCE],
        SOLICITATION => vec![SOURCE, at + 8],
        ADVERTISEMENT => vec![at + 8],
        REDIRECT => vec![at + 8, at + 24],
        _ => return false,
    };
    places.iter().any(|at| frame.len() < at + 16 || is_vip(&addr(frame, *at)))
}

/// Returns true if the message is all there.
pub(super) fn is_whole(frame: &[u8]) -> bool {
    frame.len() >= TARGET && frame.len() >= end(frame)
}

/// An option, from its type on, and its offset in the frame.
type Located<'a> = (usize, &'a [u8]);

/// Returns the options that are read, and whether there are more.
fn options(frame: &[u8]) -> Result<(Vec<Located<'_>>, bool), Unread> {
    let mut at = match frame[MESSAGE] {
        ROUTER_SOLICITATION => TARGET,
        REDIRECT => REDIRECTED + 16,
        _ => TARGET + 16,
    };
    let mut options = Vec::new();
    while at < end(frame) {
        if options.len() == MOST_OPTIONS {
            return Ok((options, true));
        }
        let len = 8 * usize::from(frame[at + 1]);
        if len == 0 || at + len > end(frame) {
            return Err(Unread::Options);
        }
        options.push((at, &frame[at..at + len]));
        at += len;
    }
    Ok((options, false))
}

fn end(frame: &[u8]) -> usize {
    MESSAGE + usize::from(u16::from_be_bytes([frame[PAYLOAD_LEN], frame[PAYLOAD_LEN + 1]]))
}

fn addr(frame: &[u8], at: usize) -> Addr {
    address::<16>(frame, at)
}

/// Returns the solicited-node address (RFC 4291, 2.7.1).
pub(super) fn solicited_node(target: Addr) -> Addr {
    let IpAddr::V6(target) = target else { return target };
    let [.., a, b, c] = target.octets();
    IpAddr::from([0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, a, b, c])
}

/// Returns the right checksum of the message (RFC 8200, 8.1), modulo 0xffff: of its two zeros the
/// one without bits.
pub(super) fn checksum(frame: &[u8]) -> u32 {
    let end = end(frame);
    let words = frame[SOURCE..end].chunks(2).zip((SOURCE..).step_by(2)).filter(|(_, at)| *at != CHECKSUM);
    let words = words.map(|(pair, _)| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0)));
    let len = u32::try_from(end - MESSAGE).expect("invariant: it has 16 bits");
    0xffff - (words.sum::<u32>() + len + 58) % 0xffff
}

fn checksum_of(frame: &[u8]) -> u32 {
    u32::from(u16::from_be_bytes([frame[CHECKSUM], frame[CHECKSUM + 1]]))
}

pub(super) fn read(frame: &[u8]) -> Result<Question, Unread> {
    let kind = frame[MESSAGE];
    let (source, destination) = (addr(frame, SOURCE), addr(frame, DESTINATION));
    if frame[HOP_LIMIT] != 255 {
        return Err(Unread::HopLimit);
    }
    if frame[MESSAGE + 1] != 0 {
        return Err(Unread::Code);
    }
    if source.is_multicast() {
        return Err(Unread::Source);
    }
    let len = end(frame) - MESSAGE;
    let least = match kind {
        ROUTER_SOLICITATION => 8,
        REDIRECT => 40,
        _ => 24,
    };
    if len < least || !len.is_multiple_of(8) {
        return Err(Unread::Length);
    }
    let (options, are_more) = options(frame)?;
    let mac = |at: usize| -> Mac { std::array::from_fn(|i| frame[at + i]) };
    let is_solicitation = matches!(kind, ROUTER_SOLICITATION | SOLICITATION);
    let own_type = if is_solicitation { SOURCE_MAC } else { TARGET_MAC };
    let own: Vec<_> = options.iter().filter(|(_, option)| option[0] == own_type).collect();
    let is_bad = |option: &[u8]| match option[0] {
        TARGET_MAC if kind == SOLICITATION => true,
        SOURCE_MAC | TARGET_MAC => option.len() != 8,
        _ => false,
    };
    let is_nameless = are_more
        || options.iter().any(|(_, option)| is_bad(option))
        || own.iter().any(|(_, option)| *option != own[0].1);
    let target = (kind != ROUTER_SOLICITATION).then(|| addr(frame, TARGET));

    if matches!(kind, SOLICITATION | ADVERTISEMENT) && target.is_some_and(|target| target.is_multicast()) {
        return Err(Unread::Target);
    }
    if kind == SOLICITATION && source.is_unspecified() && Some(destination) != target.map(solicited_node) {
        return Err(Unread::ProbeElsewhere);
    }
    if is_solicitation && source.is_unspecified() && !own.is_empty() {
        return Err(Unread::NamedNobody);
    }
    if kind == ADVERTISEMENT && destination.is_multicast() && frame[FLAGS] & SOLICITED != 0 {
        return Err(Unread::SolicitedByGroup);
    }
    let claims = match kind {
        ROUTER_SOLICITATION | SOLICITATION if own.is_empty() && !are_more => Vec::new(),
        ROUTER_SOLICITATION | SOLICITATION => vec![source],
        REDIRECT => [addr(frame, REDIRECTED)].into_iter().chain(target).collect(),
        _ => target.into_iter().collect(),
    };
    let sender = match own[..] {
        _ if is_nameless => [0; 6],
        [(at, _), ..] => mac(at + 2),
        [] => mac(6),
    };
    let asks = target.filter(|_| kind == SOLICITATION);
    Ok(Question {
        dst: mac(0),
        source: mac(6),
        oper: u16::from(kind),
        sender,
        claims,
        asks,
        announces: kind == ADVERTISEMENT,
        is_probe: kind == SOLICITATION && source.is_unspecified(),
        is_for_all: frame[0] & 1 == 1,
        is_fit: destination.is_multicast() || Some(destination) == target,
        is_intact: len > LONGEST_SUMMED || checksum(frame) % 0xffff == checksum_of(frame) % 0xffff,
    })
}

/// Returns the row of the third table for a solicitation that is answered.
pub(super) fn row(frame: &[u8], in_handover: bool) -> Solicitation {
    match option(frame, SOURCE_MAC) {
        _ if addr(frame, SOURCE).is_unspecified() => Solicitation::Probe,
        Some(_) => Solicitation::Named,
        None if addr(frame, DESTINATION).is_multicast() => Solicitation::ToGroup,
        None if in_handover => Solicitation::ToVipInHandover,
        None => Solicitation::ToVip,
    }
}

/// Returns the offset of the first option of eight bytes of a type.
fn option(frame: &[u8], of_type: u8) -> Option<usize> {
    let (options, _) = options(frame).ok()?;
    options.iter().find(|(_, option)| option[0] == of_type && option.len() == 8).map(|(at, _)| *at)
}

/// Returns the advertisement in answer to a solicitation (RFC 4861, 7.2.4).
pub(super) fn reply(
    solicitation: &[u8],
    sender: Mac,
    content: Advertisement,
    vip_mac: Mac,
    source: Mac,
) -> Vec<u8> {
    let mut reply = solicitation.to_vec();
    let end = if content.option == Place::Alone { TARGET + 16 } else { end(solicitation) };
    let place = match content.option {
        Place::None => None,
        Place::Of(of_type) => option(solicitation, of_type),
        Place::End | Place::Alone => {
            reply.resize(end, 0);
            reply.extend([0; 8]);
            let len = u16::try_from(end + 8 - MESSAGE).expect("invariant: frames are shorter");
            reply[PAYLOAD_LEN..PAYLOAD_LEN + 2].copy_from_slice(&len.to_be_bytes());
            Some(end)
        }
    };
    if let Some(at) = place {
        reply[at..at + 2].copy_from_slice(&[TARGET_MAC, 1]);
        reply[at + 2..at + 8].copy_from_slice(&vip_mac);
    }
    let is_probe = addr(solicitation, SOURCE).is_unspecified();
    reply[..6].copy_from_slice(if is_probe { &ALL_NODES_MAC } else { &sender });
    reply[6..12].copy_from_slice(&source);
    reply[14..PAYLOAD_LEN].copy_from_slice(&[0x60, 0, 0, 0]);
    reply[SOURCE..DESTINATION].copy_from_slice(&solicitation[TARGET..TARGET + 16]);
    let destination = if is_probe { &ALL_NODES.octets()[..] } else { &solicitation[SOURCE..DESTINATION] };
    reply[DESTINATION..MESSAGE].copy_from_slice(destination);
    let solicited = if content.solicited { SOLICITED } else { 0 };
    let overrides = if content.overrides { OVERRIDE } else { 0 };
    reply[MESSAGE] = ADVERTISEMENT;
    reply[FLAGS..TARGET].copy_from_slice(&[solicited | overrides, 0, 0, 0]);
    // As wrong as the solicitation's (RFC 1624). If that is wrong, the solicitation is longer than what
    // is verified.
    let error = checksum_of(solicitation) + 0xffff - checksum(solicitation);
    set_checksum(&mut reply, if content.option == Place::Alone { 0 } else { error });
    reply
}

/// Returns the announcement of a VIP that takes the place of a claim (RFC 4861, 7.2.6).
pub(super) fn announcement(vip: Addr, vip_mac: Mac) -> Vec<u8> {
    let IpAddr::V6(vip) = vip else { unreachable!("invariant: the claim is neighbour discovery") };
    let vip = vip.octets();
    let mut frame = [&ALL_NODES_MAC[..], &vip_mac, &[0x86, 0xdd, 0x60, 0, 0, 0, 0, 32, 58, 255]].concat();
    frame
        .extend([&vip[..], &ALL_NODES.octets(), &[ADVERTISEMENT, 0, 0, 0, OVERRIDE, 0, 0, 0], &vip].concat());
    frame.extend([&[TARGET_MAC, 1][..], &vip_mac].concat());
    set_checksum(&mut frame, 0);
    frame
}

/// Sets the checksum to the right one plus an error.
pub(super) fn set_checksum(frame: &mut [u8], error: u32) {
    let sum = u16::try_from((checksum(frame) + error) % 0xffff).expect("invariant: it has 16 bits");
    frame[CHECKSUM..CHECKSUM + 2].copy_from_slice(&sum.to_be_bytes());
}
