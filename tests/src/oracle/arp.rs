//! ARP frames: their requests and claims, and the frames in their place.

use super::{
    question::{Question, address},
    table::Unread,
    world::{Addr, Mac},
};

/// Offset of the first byte after the frame. What follows stays.
const END: usize = 42;

/// Returns true if the frame has all bytes of ARP.
pub(super) fn is_whole(frame: &[u8]) -> bool {
    frame.len() >= END
}

/// Reads a frame (RFC 826). Offsets in bytes stand on the right.
///
/// ```text
///  0                   1                   2                   3
///  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |                   dst: Ethernet destination                   |   0
/// +                               +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |                               |                               |   4
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+                               +
/// |                      src: Ethernet source                     |   8
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |       ethertype: 0x0806       |    htype: 1 (Ethernet) or 6   |  12
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |      ptype: 0x0800 (IPv4)     |    hlen: 6    |    plen: 4    |  16
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |          oper: 1 or 2         |                               |  20
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+                               +
/// |                  sha: sender hardware address                 |  24
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |                    spa: sender IPv4 address                   |  28
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |                  tha: target hardware address                 |  32
/// +                               +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |                               |    tpa: target IPv4 address   |  36
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |    tpa, the last two bytes    |                                  40
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// ```
pub(super) fn read(frame: &[u8]) -> Result<Question, Unread> {
    let mac = |at: usize| -> Mac { std::array::from_fn(|i| frame[at + i]) };
    let addr = |at: usize| -> Addr { address::<4>(frame, at) };
    let ([0, 1 | 6, 8, 0, 6, 4], [0, oper @ (1 | 2)]) = (&frame[14..20], &frame[20..22]) else {
        return Err(Unread::Header);
    };
    let (dst, spa, tpa) = (mac(0), addr(28), addr(38));
    Ok(Question {
        dst,
        source: mac(6),
        oper: u16::from(*oper),
        sender: mac(22),
        claims: vec![spa],
        asks: (*oper == 1).then_some(tpa),
        announces: *oper == 2 || spa == tpa,
        is_probe: *oper == 1 && spa.is_unspecified(),
        is_for_all: dst == [0xff; 6],
        is_fit: true,
        is_intact: true,
    })
}

/// Returns the reply to a request in the same frame (RFC 826), with Ethernet's htype as Linux replies.
pub(super) fn reply(request: &[u8], vip_mac: Mac, source: Mac) -> Vec<u8> {
    let asker = &request[22..28];
    let mut reply = Vec::with_capacity(request.len());
    reply.extend_from_slice(asker);
    reply.extend_from_slice(&source);
    reply.extend_from_slice(&[8, 6, 0, 1, 8, 0, 6, 4, 0, 2]);
    reply.extend_from_slice(&vip_mac);
    reply.extend_from_slice(&request[38..42]);
    reply.extend_from_slice(asker);
    reply.extend_from_slice(&request[28..32]);
    reply.extend_from_slice(&request[END..]);
    reply
}

/// Returns the announcement that takes the place of a claim: a gratuitous request to broadcast with
/// a tha of zero (RFC 5227, 2.3).
pub(super) fn announcement(claim: &[u8], vip_mac: Mac) -> Vec<u8> {
    let vip = &claim[28..32];
    let mut announcement = vec![0xff; 6];
    announcement.extend_from_slice(&vip_mac);
    announcement.extend_from_slice(&[8, 6, 0, 1, 8, 0, 6, 4, 0, 1]);
    announcement.extend_from_slice(&vip_mac);
    announcement.extend_from_slice(vip);
    announcement.extend_from_slice(&[0; 6]);
    announcement.extend_from_slice(vip);
    announcement.extend_from_slice(&claim[END..]);
    announcement
}
