//! The keys and values of the pinned maps of wire failover.

use bytemuck::{Pod, Zeroable};

use crate::siphash::SipKey;

/// The number of places for keys. A key's place is the remainder of its number divided by this.
pub const WIRE_KEYS: u32 = 4;
pub const WIRE_SLOTS: u32 = 512;
pub const MAX_WIRE_INDEX: u32 = 4_096;

pinned! {
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Pod, Zeroable)]
    pub struct WireSelf {
        /// The number of this node as a monitor; 0 until the agent has drawn one. It lives as long
        /// as the maps.
        pub wid: u64,
    }
}

pinned! {
    /// The value of `wire_keys`. It has no `Debug`, so that no log shows a key.
    #[derive(Clone, Copy, PartialEq, Eq, Default, Pod, Zeroable)]
    pub struct WireKey {
        pub k0: u64,
        pub k1: u64,
        /// The number of the key; 0 if the place is empty.
        pub id: u32,
        /// Always zero.
        pub _pad: u32,
    }
}

pinned! {
    #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Pod, Zeroable)]
    pub struct WireIndexKey {
        /// A peer's session, or its number as a monitor; never 0.
        pub id: u64,
        /// The interface of a segment on which its frames arrive.
        pub ifindex: u32,
        /// Always zero.
        pub _pad: u32,
    }
}

pinned! {
    /// The value of `wire_index`.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Pod, Zeroable)]
    pub struct WireSlot {
        /// The index into `wire_seen`.
        pub slot: u32,
        /// Always zero.
        pub _pad: u32,
    }
}

pinned! {
    /// The value of `wire_seen`. Times only grow, while a slot has one owner.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Pod, Zeroable)]
    pub struct WireSeen {
        /// The time at which the newest ping that the peer has answered was sent (`CLOCK_BOOTTIME`).
        pub answered: u64,
        /// The time of the last new ping of the peer, or answer of it (`CLOCK_BOOTTIME`).
        pub received: u64,
        /// The time at which the newest ping of the peer was sent, on its own `CLOCK_BOOTTIME`.
        pub pinged: u64,
    }
}

pinned! {
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Pod, Zeroable)]
    pub struct WireState {
        /// The last session of this node that a peer has reported as ended; 0 for none.
        pub ended: u64,
        /// The number of expiry notices since the maps were made, and so the number of the last
        /// one.
        pub notices: u64,
    }
}

const _: () = assert!(size_of::<WireKey>() == 24 && size_of::<WireIndexKey>() == 16);

impl WireState {
    /// Returns what the agent writes into the lease deadline to settle the expiry notice with this
    /// number and all before. It is never 0, which an older agent writes.
    #[inline(always)]
    pub const fn settled_by(number: u64) -> u64 {
        number.wrapping_add(1)
    }
}

impl WireKey {
    /// Returns the value of a key with this number.
    pub fn new(id: u8, SipKey { k0, k1 }: SipKey) -> Self {
        let mut key = Self::zeroed();
        (key.k0, key.k1, key.id) = (k0, k1, u32::from(id));
        key
    }

    #[inline(always)]
    pub fn place(id: u8) -> u32 {
        u32::from(id) % WIRE_KEYS
    }
}

impl WireIndexKey {
    /// Returns the key of a peer's session or number in a segment.
    #[inline(always)]
    pub fn new(id: u64, ifindex: u32) -> Self {
        let mut key = Self::zeroed();
        (key.id, key.ifindex) = (id, ifindex);
        key
    }
}
