//! The VLAN tags of a frame, which stand between the Ethernet addresses and the `EtherType`.

use vipward_common::{ETHERTYPE_ARP, VlanTag, VlanTags};

/// The offset of the first `EtherType`, which is a tag's in a tagged frame.
pub(crate) const ETHERTYPE: usize = 12;
/// The size of a tag.
pub(crate) const TAG: usize = 4;
/// The number of tags that are read.
pub(crate) const MAX_TAGS: usize = 2;

/// The Ethernet destination and source. Frames are aligned to two bytes.
pub(crate) type Addresses = [u16; ETHERTYPE / 2];

/// Returns the VLAN tags of an ARP frame, and the size in bytes of those that were read. Returns
/// `None` if the frame is not ARP, or has more than `most` tags.
///
/// `ethertype` is the first, and `tags` has those before it. `load` returns two bytes of the frame.
#[inline(always)]
pub(crate) fn before_arp(
    ethertype: u16,
    tags: VlanTags,
    most: usize,
    load: impl Fn(usize) -> Option<u16>,
) -> Option<(VlanTags, usize)> {
    let skip_tag = |(ethertype, tags, len): (u16, VlanTags, usize)| {
        if ethertype == ETHERTYPE_ARP {
            return Some((ethertype, tags, len));
        }
        if !VlanTag::is_tag(ethertype) {
            return None;
        }
        let tci = u16::from_be(load(ETHERTYPE + len + 2)?);
        let next = u16::from_be(load(ETHERTYPE + len + TAG)?);
        Some((next, tags.then(VlanTag::new(ethertype, tci)), len + TAG))
    };
    // Linux 6.1 takes no loop here: its verifier refuses an edge back to the next instruction.
    let (ethertype, tags, len) = skip_tag(skip_tag((ethertype, tags, 0))?)?;
    (ethertype == ETHERTYPE_ARP && len <= most * TAG).then_some((tags, len))
}
