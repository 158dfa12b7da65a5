//! The keys and values of the pinned maps. `docs/adr/0008` says how they may change.

use core::net::IpAddr;

use bytemuck::{CheckedBitPattern, NoUninit, Pod, Zeroable};

use crate::{defence::Defence, event::Yield, frame::MacAddr, wire::WireState};

/// The default directory of the pinned maps and links.
pub const PIN_DIR: &str = "/sys/fs/bpf/vipward";
/// The default number of entries of `vips_v4`, and of `vips_v6`.
pub const DEFAULT_MAX_VIPS: u32 = 65_536;
/// The number of VIPs with counters: those with a slot below this.
pub const VIP_COUNTER_SLOTS: u32 = 4_096;
/// The number of entries of `own_macs`.
pub const MAX_OWN_MACS: u32 = 1_024;
/// The number of entries of `offenders`, and of `offenders_v6`. When one is full, the least recently used is evicted.
pub const MAX_OFFENDERS: u32 = 4_096;
/// The number of counts of `heard`.
pub const HEARD_SLOTS: u32 = 1_024;
/// The number of entries of `peers`.
pub const MAX_PEERS: u32 = 16_384;

/// The names of the maps and of their pins.
pub mod maps {
    /// [`crate::VipKeyV4`] → [`crate::VipEntry`].
    pub const VIPS_V4: &str = "vips_v4";
    /// [`crate::VipKeyV6`] → [`crate::VipEntry`].
    pub const VIPS_V6: &str = "vips_v6";
    /// [`crate::OwnMacKey`] → [`crate::OwnMac`].
    pub const OWN_MACS: &str = "own_macs";
    /// [`crate::VlanKey`] → [`crate::VlanDevice`].
    pub const VLANS: &str = "vlans";
    /// [`crate::PeerKey`] → [`crate::Peer`].
    pub const PEERS: &str = "peers";
    /// The only value: a [`crate::Fence`].
    pub const FENCE: &str = "fence";
    /// The only value, per CPU: a [`crate::Counters`], of ARP frames and of those of neither protocol.
    pub const COUNTERS: &str = "counters";
    /// The only value, per CPU: a [`crate::Counters`], of neighbour discovery.
    pub const COUNTERS_V6: &str = "counters_v6";
    /// [`crate::heard_slot`] → the frames of ARP and neighbour discovery that the program has seen in a
    /// segment, per CPU.
    pub const HEARD: &str = "heard";
    /// Slot → [`crate::VipCounters`], per CPU.
    pub const VIP_COUNTERS: &str = "vip_counters";
    /// Slot → [`crate::VipState`]. Only the program writes it.
    pub const VIP_STATE: &str = "vip_state";
    /// The only value: a [`crate::YieldTotal`]. Only the program writes it.
    pub const YIELDS: &str = "yields";
    /// The only value: a [`crate::DefenceWindow`], of all VIPs. Only the program writes it.
    pub const DEFENCES: &str = "defences";
    /// Bits of the addresses that may be VIPs; see [`crate::filter_bit`].
    pub const FILTER: &str = "filter";
    /// [`crate::OffenderKeyV4`] → [`crate::Offender`]. Only the program writes it. An LRU map.
    pub const OFFENDERS: &str = "offenders";
    /// [`crate::OffenderKeyV6`] → [`crate::Offender`]. Only the program writes it. An LRU map.
    pub const OFFENDERS_V6: &str = "offenders_v6";
    /// Ring buffer of [`crate::Event`].
    pub const EVENTS: &str = "events";
    /// The only value: a [`crate::WireSelf`].
    pub const WIRE_SELF: &str = "wire_self";
    /// [`crate::WireKey::place`] → [`crate::WireKey`].
    pub const WIRE_KEYS: &str = "wire_keys";
    /// [`crate::WireIndexKey`] → [`crate::WireSlot`].
    pub const WIRE_INDEX: &str = "wire_index";
    /// Slot → [`crate::WireSeen`]. Only the program writes it.
    pub const WIRE_SEEN: &str = "wire_seen";
    /// The only value: a [`crate::WireState`]. Only the program writes it.
    pub const WIRE_STATE: &str = "wire_state";
    /// The only value, per CPU: a [`crate::WireCounters`].
    pub const WIRE_COUNTERS: &str = "wire_counters";
    /// [`crate::FieldName`] → [`crate::Place`]: the layout of the other maps.
    pub const LAYOUT: &str = "layout";

    /// The names of the maps of wire failover.
    pub const WIRE: [&str; 6] = [WIRE_SELF, WIRE_KEYS, WIRE_INDEX, WIRE_SEEN, WIRE_STATE, WIRE_COUNTERS];

    /// Returns the names of all maps.
    pub fn all() -> impl DoubleEndedIterator<Item = &'static str> {
        crate::PINNED.iter().map(|map| map.name).chain([LAYOUT])
    }
}

pinned! {
    /// The key of `vips_v4`.
    #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Pod, Zeroable)]
    pub struct VipKeyV4 {
        /// The interface through which the segment is seen.
        pub ifindex: u32,
        /// The VIP, in wire order.
        pub addr: [u8; 4],
    }
}

pinned! {
    /// The key of `vips_v6`.
    #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Pod, Zeroable)]
    pub struct VipKeyV6 {
        /// The interface through which the segment is seen.
        pub ifindex: u32,
        /// The VIP, in wire order.
        pub addr: [u8; 16],
    }
}

const _: () = assert!(size_of::<VipKeyV4>() == 8 && size_of::<VipKeyV6>() == 20);

impl VipKeyV4 {
    /// Returns the key of `addr` on an interface.
    #[inline(always)]
    pub fn new(ifindex: u32, addr: [u8; 4]) -> Self {
        let mut key = Self::zeroed();
        (key.ifindex, key.addr) = (ifindex, addr);
        key
    }
}

impl VipKeyV6 {
    /// Returns the key of `addr` on an interface.
    #[inline(always)]
    pub fn new(ifindex: u32, addr: [u8; 16]) -> Self {
        let mut key = Self::zeroed();
        (key.ifindex, key.addr) = (ifindex, addr);
        key
    }
}

/// A VIP in a segment, of either family.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct VipKey {
    /// The interface through which the segment is seen.
    pub ifindex: u32,
    /// The VIP.
    pub addr: IpAddr,
}

impl VipKey {
    /// Returns the key of `addr` on an interface.
    pub fn new(ifindex: u32, addr: impl Into<IpAddr>) -> Self {
        Self { ifindex, addr: addr.into() }
    }
}

impl From<VipKeyV4> for VipKey {
    fn from(key: VipKeyV4) -> Self {
        Self::new(key.ifindex, key.addr)
    }
}

impl From<VipKeyV6> for VipKey {
    fn from(key: VipKeyV6) -> Self {
        Self::new(key.ifindex, key.addr)
    }
}

/// The role of this node for a VIP.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, NoUninit, CheckedBitPattern)]
#[repr(u32)]
pub enum Role {
    /// Another node holds the VIP. The entry has its MAC, or zero if unknown.
    Foreign = 0,
    /// This node answers with the entry's MAC.
    Held = 1,
    /// This node answers with the successor's MAC, which is the entry's.
    Handover = 2,
}

impl Role {
    /// Returns the name for people.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Foreign => "foreign",
            Self::Held => "held",
            Self::Handover => "handover",
        }
    }
}

pinned! {
    /// The value of `vips_v4` and `vips_v6`.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, NoUninit, CheckedBitPattern)]
    pub struct VipEntry {
        /// The VIP's MAC.
        pub mac: [u8; 6],
        /// The number of this taking of the VIP, never 0. A yield counts for one generation, so the
        /// number differs from the one recorded at the slot.
        pub generation: u16,
        /// The role of this node.
        pub role: Role,
        /// The index into `vip_state`, and into `vip_counters` when below [`VIP_COUNTER_SLOTS`].
        pub slot: u32,
        /// The end of a handover (`CLOCK_MONOTONIC`), after which the entry counts as foreign; 0 in
        /// other roles.
        pub until_ns: u64,
    }
}

const _: () = assert!(size_of::<VipEntry>() == 24);

/// An entry as it counts at one moment, after a yield or the end of a handover. The fence plays no
/// part in it. The core's `FoundEntry` is what an engine starts from: an entry that answers, with
/// the end of its handover still to come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SeenEntry {
    /// The role of this node.
    pub role: Role,
    /// The VIP's MAC; zero if unknown.
    pub mac: MacAddr,
    /// True if the program has yielded the VIP, to that MAC.
    pub yielded: bool,
}

impl VipEntry {
    /// Returns the entry as the program sees it at `now_ns` (`CLOCK_MONOTONIC`, or the coarse one).
    /// `recorded` is the yield in `vip_state` at the entry's slot.
    pub fn as_seen(&self, recorded: Yield, now_ns: u64) -> SeenEntry {
        let yielded_to = recorded.yielded_to(self.generation);
        let is_over = matches!(self.role, Role::Handover) && now_ns >= self.until_ns;
        SeenEntry {
            role: if yielded_to.is_some() || is_over { Role::Foreign } else { self.role },
            mac: yielded_to.unwrap_or(MacAddr(self.mac)),
            yielded: yielded_to.is_some(),
        }
    }
}

pinned! {
    /// The key of `own_macs`.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Pod, Zeroable)]
    pub struct OwnMacKey {
        /// The interface.
        pub ifindex: u32,
    }
}

pinned! {
    /// The value of `own_macs`.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Pod, Zeroable)]
    pub struct OwnMac {
        /// The interface's own MAC.
        pub mac: [u8; 6],
        /// The number of a [`Proof`]. The program does not read it.
        pub proof: u16,
    }
}

const _: () = assert!(size_of::<OwnMac>() == 8);

/// The agent's finding whether the program sees the frames of a segment.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[repr(u16)]
pub enum Proof {
    /// No ARP frame was heard, so there is nothing to conclude from.
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
    /// The names of all findings.
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

    /// Returns the name that every output uses. Being bypassed is a kind of blindness.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unproven => "unproven",
            Self::Proven => "proven",
            Self::Blind | Self::Bypassed => "blind",
        }
    }

    /// Returns true if the program does not see every frame.
    pub const fn is_blind(self) -> bool {
        match self {
            Self::Blind | Self::Bypassed => true,
            Self::Unproven | Self::Proven => false,
        }
    }
}

/// Returns the place of a segment's count in `heard`. Two segments whose ifindex differ by a
/// multiple of [`HEARD_SLOTS`] share one.
#[inline(always)]
pub const fn heard_slot(ifindex: u32) -> u32 {
    ifindex % HEARD_SLOTS
}

pinned! {
    /// The key of `peers`.
    #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Pod, Zeroable)]
    pub struct PeerKey {
        /// The interface through which the peer is seen.
        pub ifindex: u32,
        /// The peer's MAC.
        pub mac: [u8; 6],
        /// Always zero.
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

/// The policy between `deadline_ns` and `hold_until_ns`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, NoUninit, CheckedBitPattern)]
#[cfg_attr(not(feature = "next-layout"), repr(u32))]
#[cfg_attr(feature = "next-layout", repr(u64))]
pub enum Policy {
    /// Answer nothing.
    Stop = 0,
    /// Go on answering, until a peer announces the VIP.
    Hold = 1,
}

impl Policy {
    /// Both policies.
    pub const ALL: [Self; 2] = [Self::Stop, Self::Hold];

    /// Returns the name that every output uses.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Hold => "hold",
        }
    }
}

pinned! {
    /// The value of `fence`: the times until which this node may answer. Times are `CLOCK_MONOTONIC`.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, NoUninit, CheckedBitPattern)]
    pub struct Fence {
        /// The end of the valid fence.
        pub deadline_ns: u64,
        /// The end of holding over, under [`Policy::Hold`].
        pub hold_until_ns: u64,
        /// The count of [`YieldTotal`] up to which the agent has rewritten the yielded entries.
        pub yields_settled: u64,
        /// The session of this node in which the fence was set; 0 without a cluster.
        pub session: u64,
        /// One more than the number of the last word in [`WireState`] that this node's Lease has shown to
        /// be false; 0 for none.
        pub words_settled: u64,
        /// The policy between the two times.
        pub policy: Policy,
        /// Says whether the program defends held VIPs.
        pub defence: Defence,
    }
}

/// The state of the fence.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum FenceState {
    /// The deadline has not passed.
    Valid,
    /// The deadline has passed, and the policy is to go on answering.
    HeldOver,
    /// The time for answers is over: the deadline has passed, and so has holding over, if any.
    Over,
}

impl FenceState {
    /// All states, in the order in which they follow each other.
    pub const ALL: [Self; 3] = [Self::Valid, Self::HeldOver, Self::Over];

    /// Returns the name that every output uses.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Valid => "valid",
            Self::HeldOver => "held over",
            Self::Over => "over",
        }
    }
}

impl Fence {
    /// Returns true if the last word of a peer is that the session has ended, and the agent has not
    /// settled that word.
    #[inline(always)]
    pub fn has_ended(&self, told: WireState) -> bool {
        self.session != 0
            && self.session == told.ended
            && self.words_settled != WireState::settled_by(told.words)
    }

    /// Returns the time from which the state is [`FenceState::Over`], unless the fence is written again.
    pub fn answers_until_ns(&self) -> u64 {
        match self.policy {
            Policy::Hold => self.hold_until_ns.max(self.deadline_ns),
            Policy::Stop => self.deadline_ns,
        }
    }

    /// Returns the state at `now_ns`. `told` is the value of `wire_state`: the fence of a session that
    /// has ended has lapsed.
    #[inline(always)]
    pub fn state(&self, now_ns: u64, told: WireState) -> FenceState {
        if now_ns < self.deadline_ns && !self.has_ended(told) {
            FenceState::Valid
        } else if matches!(self.policy, Policy::Hold) && now_ns < self.hold_until_ns {
            FenceState::HeldOver
        } else {
            FenceState::Over
        }
    }
}

pinned! {
    /// The value of `yields`.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Pod, Zeroable)]
    pub struct YieldTotal {
        /// The number of yields since the maps were made.
        pub total: u64,
    }
}

pinned! {
    /// The value of `vip_counters`: the counters of one VIP on one CPU.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Pod, Zeroable)]
    pub struct VipCounters {
        /// Requests answered.
        pub answered: u64,
        /// ARP claims dropped as conflicts.
        pub conflicts: u64,
        /// Requests dropped.
        pub suppressed: u64,
    }
}

#[cfg(test)]
mod tests;
