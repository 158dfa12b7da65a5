//! The VLAN tags of a frame, which stand between the Ethernet addresses and the `EtherType`.

use vipward_common::{ETHERTYPE_ARP, ETHERTYPE_IPV6, ETHERTYPE_WIRE, Outcome, VlanTag, VlanTags};

/// The offset of the first `EtherType`, which is a tag's in a tagged frame.
pub(crate) const ETHERTYPE: usize = 12;
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
/// Returns the outcome of a frame of another protocol, or with more than `most` tags.
///
/// `ethertype` is the first, and `tags` has those before it. `load` returns two bytes of the frame.
#[inline(always)]
pub(crate) fn read(
    ethertype: u16,
    tags: VlanTags,
    most: usize,
    load: impl Fn(usize) -> Option<u16>,
) -> Result<(Protocol, VlanTags, usize), Outcome> {
    // No loop: most frames have no tag, and Linux 6.1 refuses an edge back to the next instruction.
    if let Some(protocol) = Protocol::of(ethertype) {
        return Ok((protocol, tags, 0));
    }
    let (ethertype, tags, len) = next((ethertype, tags, 0), most, &load)?;
    if let Some(protocol) = Protocol::of(ethertype) {
        return Ok((protocol, tags, len));
    }
    let (ethertype, tags, len) = next((ethertype, tags, len), most, &load)?;
    if let Some(protocol) = Protocol::of(ethertype) {
        return Ok((protocol, tags, len));
    }
    match next((ethertype, tags, len), most, &load) {
        Ok(_) => Err(Outcome::Unrelated),
        Err(outcome) => Err(outcome),
    }
}

/// A tag's `EtherType`, or the one behind the last tag; the tags before it, and their size in the frame.
type Place = (u16, VlanTags, usize);

/// Reads the tag at a place, and returns the next place. `most` and `load` are as for [`read`].
#[inline(always)]
fn next(
    (ethertype, tags, len): Place,
    most: usize,
    load: &impl Fn(usize) -> Option<u16>,
) -> Result<Place, Outcome> {
    let word = |at| load(at).map(u16::from_be).ok_or(Outcome::Unrelated);
    if !VlanTag::is_tag(ethertype) {
        return Err(Outcome::Unrelated);
    }
    let tci = word(ETHERTYPE + len + 2)?;
    if len == most * TAG {
        return Err(beyond([word(ETHERTYPE + len - TAG + 2)?, tci]));
    }
    let next = word(ETHERTYPE + len + TAG)?;
    Ok((next, tags.then(VlanTag::new(ethertype, tci)), len + TAG))
}

/// Returns the outcome of a frame with more than two tags. `tcis` is the control information of the
/// second and the third.
///
/// Linux takes any number of tags of VLAN 0 off, and no host or switch adds one inside of another tag.
#[inline(always)]
fn beyond(tcis: [u16; 2]) -> Outcome {
    if tcis.into_iter().any(VlanTag::is_priority) { Outcome::Unverified } else { Outcome::Unrelated }
}
