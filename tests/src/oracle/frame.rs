//! Reads frames of both protocols, with their tags.

use super::{
    arp, nd,
    question::Question,
    table::{Cell, Unread, Unverified},
    world::Protocol,
};

/// The tags of a segment, from outside: whether it is a service tag, and the VLAN ID.
pub(super) type Vlan = Vec<(bool, u16)>;

/// Removes up to two VLAN tags (802.1Q, 802.1ad). Returns the tags of a VLAN other than 0, the frame, and
/// the tags' bytes. For a frame that ends in its tags or has more, returns its cell.
pub(super) fn without_tags(frame: &[u8]) -> Result<(Vlan, Vec<u8>, Vec<u8>), Cell> {
    let mut bare = frame.to_vec();
    let (mut vlan, mut tags) = (Vec::new(), Vec::new());
    let id = |tag: &[u8]| u16::from_be_bytes([tag[2] & 0x0f, tag[3]]);
    while let [0x81, 0x00] | [0x88, 0xa8] = bare.get(12..14).ok_or(Cell::Unrelated)? {
        if tags.len() == 8 {
            let third = bare.get(12..16).ok_or(Cell::Unrelated)?;
            let is_hidden = id(&tags[4..]) == 0 || id(third) == 0;
            return Err(if is_hidden { Cell::Unverified(Unverified::Tags) } else { Cell::Unrelated });
        }
        if bare.len() < 18 {
            return Err(Cell::Unrelated);
        }
        let tag: Vec<u8> = bare.drain(12..16).collect();
        if id(&tag) != 0 {
            vlan.push((tag[0] == 0x88, id(&tag)));
        }
        tags.extend(tag);
    }
    Ok((vlan, bare, tags))
}

/// Returns the protocol of a frame without tags.
pub(super) fn protocol(frame: &[u8]) -> Option<Protocol> {
    if frame[12..14] == [8, 6] { Some(Protocol::Arp) } else { nd::is_it(frame).then_some(Protocol::Nd) }
}

pub(super) fn read(protocol: Protocol, frame: &[u8]) -> Result<Question, Unread> {
    match protocol {
        Protocol::Arp => arp::read(frame),
        Protocol::Nd => nd::read(frame),
    }
}
