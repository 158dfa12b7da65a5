//! Segments: the MACs of this host and of its peers in them, and what the program sees of them.

use bytemuck::{Pod, Zeroable};

use crate::mac::MacAddr;

pub const MAX_OWN_MACS: u32 = 1_024;
/// The number of counts of `received`.
pub const RECEIVED_SLOTS: u32 = 1_024;
pub const MAX_PEERS: u32 = 16_384;

pinned! {
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Pod, Zeroable)]
    pub struct OwnMacKey {
        pub ifindex: u32,
    }
}

pinned! {
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Pod, Zeroable)]
    pub struct OwnMac {
        pub mac: [u8; 6],
        /// The number of a [`Proof`], and 256 times that of a [`Twin`]. The program does not read it.
        pub proof: u16,
    }
}

impl OwnMac {
    pub const fn new(mac: MacAddr, proof: Proof, twin: Twin) -> Self {
        Self { mac: mac.0, proof: proof as u16 | (twin as u16) << 8 }
    }

    pub const fn proof(&self) -> Proof {
        Proof::from_number(self.proof & 0xff)
    }

    pub const fn twin(&self) -> Twin {
        match self.proof >> 8 {
            1 => Twin::Loop,
            2 => Twin::Clone,
            _ => Twin::None,
        }
    }
}

/// The agent's finding why frames with this host's own MAC come from a segment.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[repr(u16)]
pub enum Twin {
    /// None come, or a switch sends this host's own frames back once.
    #[default]
    None = 0,
    /// The network repeats the frames.
    Loop = 1,
    /// Another machine has the MAC.
    Clone = 2,
}

const _: () = assert!(size_of::<OwnMac>() == 8);

/// The agent's finding whether the program sees the frames of a segment.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[repr(u16)]
pub enum Proof {
    /// No ARP frame was received, so there is nothing to conclude from.
    #[default]
    Unproven = 0,
    /// The program has counted frames of the segment.
    Proven = 1,
    /// The kernel receives frames that the program does not count.
    Blind = 2,
    /// The program counts frames, and the kernel receives requests that it should have answered.
    Bypassed = 3,
}

impl Proof {
    pub const NAMES: [&'static str; 3] = [Self::Unproven.name(), Self::Proven.name(), Self::Blind.name()];

    /// Returns the finding with this number. Another agent's unknown finding proves nothing.
    pub const fn from_number(number: u16) -> Self {
        match number {
            1 => Self::Proven,
            2 => Self::Blind,
            3 => Self::Bypassed,
            _ => Self::Unproven,
        }
    }

    pub const fn name(self) -> &'static str {
        match self {
            Self::Unproven => "unproven",
            Self::Proven => "proven",
            Self::Blind | Self::Bypassed => "blind",
        }
    }

    pub const fn is_blind(self) -> bool {
        match self {
            Self::Blind | Self::Bypassed => true,
            Self::Unproven | Self::Proven => false,
        }
    }
}

/// Returns the place of a segment's count in `received`. Two segments whose ifindex differ by a
/// multiple of [`RECEIVED_SLOTS`] share one.
#[inline(always)]
pub const fn received_slot(ifindex: u32) -> u32 {
    ifindex % RECEIVED_SLOTS
}

pinned! {
    #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Pod, Zeroable)]
    pub struct PeerKey {
        /// The interface through which the peer is seen.
        pub ifindex: u32,
        pub mac: [u8; 6],
        pub _pad: u16,
    }
}

const _: () = assert!(size_of::<PeerKey>() == 12);

#[cfg(feature = "next-layout")]
pub use crate::layout::next::Peer;
#[cfg(not(feature = "next-layout"))]
pinned! {
    /// The value of `peers`. Only the key's presence counts.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Pod, Zeroable)]
    pub struct Peer {
        /// The time when the agent learnt of the peer (`CLOCK_MONOTONIC`).
        pub since_ns: u64,
    }
}

impl Peer {
    /// Returns a peer that the agent knows since this time.
    pub fn since(since_ns: u64) -> Self {
        let mut peer = Self::zeroed();
        peer.since_ns = since_ns;
        peer
    }
}
