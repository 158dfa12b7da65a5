//! The VLAN tags of a frame, which stand between the Ethernet addresses and the `EtherType`.

use vipward_common::{ETHERTYPE_ARP, ETHERTYPE_IPV6, ETHERTYPE_WIRE, VlanTag, VlanTags};

/// The offset of the first `EtherType`, which is a tag's in a tagged frame.
pub(crate) const ETHERTYPE: usize = 12;
/// The size of a tag.
pub(crate) const TAG: usize = 4;
/// The number of tags that are read.
pub(crate) const MAX_TAGS: usize = 2;

/// The Ethernet destination and source. Frames are aligned to two bytes.
pub(crate) type Addresses = [u16; ETHERTYPE / 2];

/// A protocol that is read.
#[derive(Clone, Copy)]
pub(crate) enum Protocol {
    Arp,
    Ipv6,
    Wire,
}

impl Protocol {
    /// Returns the protocol with this `EtherType`, in host order.
    #[inline(always)]
    fn of(ethertype: u16) -> Option<Self> {
        match ethertype {
            ETHERTYPE_ARP => Some(Self::Arp),
            ETHERTYPE_IPV6 => Some(Self::Ipv6),
            ETHERTYPE_WIRE => Some(Self::Wire),
            _ => None,
        }
    }
}

/// Returns true if frames with this `EtherType`, in host order, are read.
#[inline(always)]
pub(crate) fn is_read(ethertype: u16) -> bool {
    Protocol::of(ethertype).is_some()
}

/// Returns the protocol of a frame, its VLAN tags, and the size in bytes of those that were read.
/// Returns `None` for another protocol, or more than `most` tags.
///
/// `ethertype` is the first, and `tags` has those before it. `load` returns two bytes of the frame.
#[inline(always)]
pub(crate) fn read(
    ethertype: u16,
    tags: VlanTags,
    most: usize,
    load: impl Fn(usize) -> Option<u16>,
) -> Option<(Protocol, VlanTags, usize)> {
    let next = |ethertype, tags: VlanTags, len| {
        if !VlanTag::is_tag(ethertype) || len == most * TAG {
            return None;
        }
        let tci = u16::from_be(load(ETHERTYPE + len + 2)?);
        let next = u16::from_be(load(ETHERTYPE + len + TAG)?);
        Some((next, tags.then(VlanTag::new(ethertype, tci)), len + TAG))
    };
    // No loop: most frames have no tag, and Linux 6.1 refuses an edge back to the next instruction.
    if let Some(protocol) = Protocol::of(ethertype) {
        return Some((protocol, tags, 0));
    }
    let (ethertype, tags, len) = next(ethertype, tags, 0)?;
    if let Some(protocol) = Protocol::of(ethertype) {
        return Some((protocol, tags, len));
    }
    let (ethertype, tags, len) = next(ethertype, tags, len)?;
    Some((Protocol::of(ethertype)?, tags, len))
}
