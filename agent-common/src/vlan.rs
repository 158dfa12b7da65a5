//! VLANs (IEEE 802.1Q): the tags of a frame, and the device whose frames arrive below them.

use bytemuck::{Pod, Zeroable};

/// The `EtherType` of a customer tag (802.1Q), in host order.
pub const ETHERTYPE_8021Q: u16 = 0x8100;
/// The `EtherType` of a service tag (802.1ad), in host order.
pub const ETHERTYPE_8021AD: u16 = 0x88a8;
pub const MAX_VLANS: u32 = 1_024;

/// The bits of a tag that number the VLAN. The others are its priority.
const ID_BITS: u16 = 0x0fff;
/// The bit that marks a service tag. In a frame, it belongs to the priority.
const SERVICE_BIT: u16 = 0x8000;

/// A VLAN, as its tag names it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct VlanTag(u16);

impl VlanTag {
    /// The tag of VLAN 0, which carries a priority alone: the frame belongs to no VLAN by it.
    pub const NONE: Self = Self(0);

    /// Returns the VLAN of a tag. `ethertype` is in host order. `tci` is its tag control
    /// information, whose lowest twelve bits are the VLAN ID.
    #[inline(always)]
    pub fn new(ethertype: u16, tci: u16) -> Self {
        match tci & ID_BITS {
            _ if Self::is_priority(tci) => Self::NONE,
            id if ethertype == ETHERTYPE_8021AD => Self(id | SERVICE_BIT),
            id => Self(id),
        }
    }

    /// Returns the VLAN ID; 0 for none.
    pub fn id(self) -> u16 {
        self.0 & ID_BITS
    }

    pub fn is_service(self) -> bool {
        self.0 & SERVICE_BIT != 0
    }

    /// Returns true if a tag with this control information is of VLAN 0.
    #[inline(always)]
    pub fn is_priority(tci: u16) -> bool {
        tci & ID_BITS == 0
    }

    #[inline(always)]
    pub fn is_tag(ethertype: u16) -> bool {
        ethertype == ETHERTYPE_8021Q || ethertype == ETHERTYPE_8021AD
    }
}

/// The VLAN tags of a frame, as far as the program reads them. Tags of VLAN 0 are left out.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct VlanTags {
    outer: VlanTag,
    inner: VlanTag,
}

impl VlanTags {
    pub const NONE: Self = Self { outer: VlanTag::NONE, inner: VlanTag::NONE };

    /// Adds the next tag inwards. There are two at most, as the readers of frames see to.
    #[inline(always)]
    #[must_use]
    pub fn then(self, tag: VlanTag) -> Self {
        if self.outer == VlanTag::NONE {
            Self { outer: tag, inner: VlanTag::NONE }
        } else {
            Self { outer: self.outer, inner: tag }
        }
    }

    #[inline(always)]
    pub fn is_empty(self) -> bool {
        self.outer == VlanTag::NONE
    }
}

pinned! {
    /// The key of `vlans`: an interface on which the program sees the frames of another, and their tags.
    #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Pod, Zeroable)]
    pub struct VlanKey {
        /// The interface on which the program runs.
        pub ifindex: u32,
        /// The outer tag: the VLAN ID, plus 0x8000 if it is a service tag (802.1ad).
        pub outer: u16,
        /// The inner tag in the same form; 0 for none.
        pub inner: u16,
    }
}

const _: () = assert!(size_of::<VlanKey>() == 8);

impl VlanKey {
    /// Returns true if the frames have no tag.
    pub fn is_untagged(self) -> bool {
        self.outer == 0
    }

    /// Returns the key of tagged frames on an interface.
    #[inline(always)]
    pub fn new(ifindex: u32, tags: VlanTags) -> Self {
        Self { ifindex, outer: tags.outer.0, inner: tags.inner.0 }
    }
}

pinned! {
    /// The value of `vlans`: the interface to whose segment the frames belong.
    #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Pod, Zeroable)]
    pub struct VlanDevice {
        /// The VLAN device. Without tags: the bond of which the key's interface is a port.
        pub ifindex: u32,
    }
}

#[cfg(test)]
mod tests;
