//! Reports and records of the program: events in the ring buffer, per-VIP state and offenders.

use core::net::Ipv6Addr;

use bytemuck::{CheckedBitPattern, NoUninit, Pod, Zeroable};

use crate::{
    defence::DefenceWindow,
    mac::MacAddr,
    vip::{VipKey, Yield},
};

pub const EVENTS_BYTES: u32 = 256 * 1024;
/// The number of entries of `offenders`, and of `offenders_v6`. When one is full, the least recently
/// used is evicted.
pub const MAX_OFFENDERS: u32 = 4_096;
/// The least time between two events of one group (unknown hosts' or peers') about one VIP.
pub const EVENT_INTERVAL_NS: u64 = 100_000_000;

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, NoUninit, CheckedBitPattern)]
#[repr(u32)]
pub enum EventKind {
    /// An unknown host's claim was dropped.
    Conflict = 1,
    /// A peer claims a VIP that this node holds; the claim was dropped.
    Contested = 2,
    /// A peer announced another node's VIP, or the successor of a handover has taken over.
    Moved = 3,
    /// The program yielded to a peer.
    Yielded = 4,
    /// An unknown host claims a VIP whose holder is not known.
    Sighted = 5,
    /// An unknown host probes for a VIP whose holder is not known, and is about to use it (RFC 5227,
    /// 2.1.1).
    Probed = 6,
}

number!(EventKind);

impl EventKind {
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

/// A record of the `events` ring buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, NoUninit, CheckedBitPattern)]
#[repr(C)]
pub struct Event {
    /// The time (`CLOCK_MONOTONIC_COARSE`).
    pub at_ns: u64,
    /// The number of events of the same group about this VIP that were held back before this one.
    pub swallowed: u64,
    pub kind: EventKind,
    pub ifindex: u32,
    /// The operation of an ARP frame, or the `ICMPv6` type of a neighbour discovery message, in host
    /// order.
    pub oper: u16,
    /// The VIP, in wire order: the claimed or probed address. An IPv4 address is mapped
    /// (`::ffff:192.0.2.10`).
    pub vip: [u8; 16],
    /// The MAC that the frame gives for the VIP: sha, or the link-layer address option.
    pub sha: [u8; 6],
    /// Ethernet source of the frame.
    pub source: [u8; 6],
    /// The entry's MAC before the event.
    pub holder: [u8; 6],
    pub _pad: [u8; 4],
}

const _: () = assert!(size_of::<Event>() == 64);

described!(Event { at_ns, swallowed, kind, ifindex, oper, vip, sha, source, holder, _pad });

impl Event {
    pub fn key(&self) -> VipKey {
        VipKey::new(self.ifindex, Ipv6Addr::from(self.vip).to_canonical())
    }

    /// Reads a record. Returns `None` if the bytes are no record.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        // The ring buffer aligns records to eight bytes; a caller's slice may not be aligned.
        let bytes: &[u8; size_of::<Self>()] = bytes.try_into().ok()?;
        bytemuck::checked::try_pod_read_unaligned(bytes).ok()
    }
}

/// Lets one event through per [`EVENT_INTERVAL_NS`] and counts the others.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct Limiter {
    /// The earliest time of the next event (`CLOCK_MONOTONIC_COARSE`).
    pub next_ns: u64,
    /// The number of events held back since the last one.
    pub swallowed: u64,
}

described!(Limiter { next_ns, swallowed });

pinned! {
    /// The value of the `vip_state` map, by slot: the program's
    /// state of a VIP. Userspace only reads it.
    ///
    /// It is apart from [`crate::VipEntry`] because an update of a hash map replaces the whole value.
    /// If userspace were replacing a value while the program stores into it, the store would be lost.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Pod, Zeroable)]
    pub struct VipState {
        pub yielded: Yield,
        /// Limits `conflict`, `sighted` and `probed`.
        pub unknown_hosts: Limiter,
        /// Limits `contested` and `moved`; `yielded` is not limited.
        pub peers: Limiter,
        pub defences: DefenceWindow,
    }
}

const _: () = assert!(size_of::<VipState>() == 56);

/// The key of `offenders`: a MAC, and the VIP that it claims.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct OffenderKeyV4 {
    /// The interface through which the segment is seen.
    pub ifindex: u32,
    /// The VIP, in wire order.
    pub addr: [u8; 4],
    pub mac: [u8; 6],
    pub _pad: u16,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct OffenderKeyV6 {
    /// The interface through which the segment is seen.
    pub ifindex: u32,
    /// The VIP, in wire order.
    pub addr: [u8; 16],
    pub mac: [u8; 6],
    pub _pad: u16,
}

const _: () = assert!(size_of::<OffenderKeyV4>() == 16 && size_of::<OffenderKeyV6>() == 28);

described!(OffenderKeyV4 { ifindex, addr, mac, _pad });
described!(OffenderKeyV6 { ifindex, addr, mac, _pad });

/// A MAC, and the VIP of either family that it claims.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct OffenderKey {
    pub vip: VipKey,
    /// The MAC that the claims give.
    pub mac: MacAddr,
}

impl From<OffenderKeyV4> for OffenderKey {
    fn from(key: OffenderKeyV4) -> Self {
        Self { vip: VipKey::new(key.ifindex, key.addr), mac: MacAddr(key.mac) }
    }
}

impl From<OffenderKeyV6> for OffenderKey {
    fn from(key: OffenderKeyV6) -> Self {
        Self { vip: VipKey::new(key.ifindex, key.addr), mac: MacAddr(key.mac) }
    }
}

/// The value of `offenders` and `offenders_v6`: the claims of one MAC on one VIP (`conflict`, `contested`,
/// `sighted`, `probed`). Claims that were held back as events count too.
#[derive(Clone, Copy, PartialEq, Eq, Debug, NoUninit, CheckedBitPattern)]
#[repr(C)]
pub struct Offender {
    /// The time of the first claim (`CLOCK_MONOTONIC_COARSE`).
    pub first_ns: u64,
    pub last_ns: u64,
    pub claims: u64,
    pub kind: EventKind,
    /// The operation of the last claim, in host order.
    pub oper: u16,
    /// The Ethernet source of the last claim.
    pub source: [u8; 6],
    /// The number of defences in a row that the host has answered ([`crate::Answers`]).
    pub answered: u16,
    /// The number of its claims since then that answered none.
    pub strays: u16,
    /// The time of the last defence against it; 0 for none.
    pub defended_ns: u64,
}

const _: () = assert!(size_of::<Offender>() == 48);

described!(Offender { first_ns, last_ns, claims, kind, oper, source, answered, strays, defended_ns });

#[cfg(test)]
mod tests;
