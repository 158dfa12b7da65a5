//! What the program tells and what it writes: events in the ring buffer, and the per-VIP state that only it writes.

use bytemuck::{CheckedBitPattern, NoUninit, Pod, Zeroable};

use crate::frame::MacAddr;

/// Size of the ring buffer.
pub const EVENTS_BYTES: u32 = 256 * 1024;
/// Least time between two events of one kind of trouble on one VIP.
pub const EVENT_INTERVAL_NS: u64 = 100_000_000;

/// What an event says.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, NoUninit, CheckedBitPattern)]
#[repr(u32)]
pub enum EventKind {
    /// A claim by a MAC that is neither the holder's nor a peer's was dropped.
    Conflict = 1,
    /// A peer claims a VIP that we hold; the claim was dropped.
    Contested = 2,
    /// A peer announced a VIP that was somebody else's, or the successor of a handover has taken over.
    Moved = 3,
    /// This node gave way to a peer.
    Yielded = 4,
    /// Somebody claims a VIP whose holder is not known.
    Sighted = 5,
    /// Somebody who is no peer probes for a VIP whose holder is not known (RFC 5227, 2.1.1): they are about to use it.
    Probed = 6,
}

impl EventKind {
    /// The word for it in logs, tables and JSON: one word, lower case.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Conflict => "conflict",
            Self::Contested => "contested",
            Self::Moved => "moved",
            Self::Yielded => "yielded",
            Self::Sighted => "sighted",
            Self::Probed => "probed",
        }
    }
}

/// One record of the `events` ring buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, NoUninit, CheckedBitPattern)]
#[repr(C)]
pub struct Event {
    /// `CLOCK_MONOTONIC_COARSE`.
    pub at_ns: u64,
    /// Events about this VIP that were not told since the last one that was.
    pub swallowed: u64,
    /// What happened.
    pub kind: EventKind,
    /// Where.
    pub ifindex: u32,
    /// VLAN ID, 0 for none.
    pub vlan: u16,
    /// oper of the frame, in host order.
    pub oper: u16,
    /// The VIP: spa of the frame, tpa of a probe.
    pub vip: [u8; 4],
    /// sha of the frame.
    pub sha: [u8; 6],
    /// Ethernet source of the frame.
    pub source: [u8; 6],
    /// The entry's MAC before the event.
    pub holder: [u8; 6],
    /// Always zero.
    pub _pad: [u8; 6],
}

const _: () = assert!(size_of::<Event>() == 56);

impl Event {
    /// Reads a record; `None` when it is not one.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        // The ring buffer aligns records to eight bytes, a caller's slice may not be.
        let bytes: &[u8; size_of::<Self>()] = bytes.try_into().ok()?;
        bytemuck::checked::try_pod_read_unaligned(bytes).ok()
    }
}

/// To whom an entry of one generation was yielded. One aligned word: it is read and replaced as a whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Pod, Zeroable)]
#[repr(C, align(8))]
pub struct Yield {
    /// The MAC that the VIP was yielded to.
    pub mac: [u8; 6],
    /// The generation of the entry that yielded; 0 means never.
    pub generation: u16,
}

impl Yield {
    /// To whom an entry of `generation` was yielded, if this records that.
    pub fn yielded_to(self, generation: u16) -> Option<MacAddr> {
        (self.generation != 0 && self.generation == generation).then_some(MacAddr(self.mac))
    }

    /// The word that the program reads and replaces atomically.
    #[inline(always)]
    pub fn to_word(mac: MacAddr, generation: u16) -> u64 {
        mac.to_bits() | u64::from(generation.to_le()) << 48
    }

    /// The MAC in `word`, if it records a yield of `generation`.
    #[inline(always)]
    pub fn of_generation(word: u64, generation: u16) -> Option<MacAddr> {
        (word >> 48 == u64::from(generation.to_le())).then(|| MacAddr::from_bits(word))
    }
}

/// Lets one event through per [`EVENT_INTERVAL_NS`] and counts the rest.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct Limiter {
    /// No event before this (`CLOCK_MONOTONIC_COARSE`).
    pub next_ns: u64,
    /// Events not told since the last one that was.
    pub swallowed: u64,
}

/// What the program writes about a VIP: the value of the `vip_state` map, by slot. Userspace only reads it.
///
/// It is apart from [`crate::VipEntry`] because a hash map replaces the whole value on update: a store by the
/// program into a value that userspace is just replacing would be lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct VipState {
    /// To whom the entry was yielded.
    pub yielded: Yield,
    /// Limits `conflict`, `sighted` and `probed`.
    pub strangers: Limiter,
    /// Limits `contested` and `moved`.
    pub peers: Limiter,
}

const _: () = assert!(size_of::<VipState>() == 40);

/// Key of `offenders`: who claims which VIP where.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct OffenderKey {
    /// The interface that the segment is seen through.
    pub ifindex: u32,
    /// VLAN ID, 0 for none.
    pub vlan: u16,
    /// sha of the claims.
    pub mac: [u8; 6],
    /// The VIP, in wire order.
    pub addr: [u8; 4],
}

const _: () = assert!(size_of::<OffenderKey>() == 16);

/// Value of `offenders`: the claims on one VIP by one MAC that were told as `conflict`, `contested`, `sighted` or
/// `probed`, those that the limiter swallowed included.
#[derive(Clone, Copy, PartialEq, Eq, Debug, NoUninit, CheckedBitPattern)]
#[repr(C)]
pub struct Offender {
    /// When the first one came (`CLOCK_MONOTONIC_COARSE`).
    pub first_ns: u64,
    /// When the last one came.
    pub last_ns: u64,
    /// How many there were.
    pub claims: u64,
    /// What the last one was.
    pub kind: EventKind,
    /// oper of the last one, in host order.
    pub oper: u16,
    /// Ethernet source of the last one.
    pub source: [u8; 6],
    /// Always zero.
    pub _pad: u32,
}

const _: () = assert!(size_of::<Offender>() == 40);

#[cfg(test)]
mod tests;
