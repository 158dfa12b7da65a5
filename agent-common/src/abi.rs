//! The keys and values of the pinned maps. A change of a layout needs a new [`ABI_VERSION`].

use core::mem::offset_of;

use bytemuck::{CheckedBitPattern, NoUninit, Pod, Zeroable};

use crate::{event::Yield, frame::MacAddr};

/// The version of all keys and values; an agent migrates pins of another version.
pub const ABI_VERSION: u32 = 4;
/// The default directory of the pinned maps and links.
pub const PIN_DIR: &str = "/sys/fs/bpf/vipward";
/// The default number of entries of `vips_v4`.
pub const DEFAULT_MAX_VIPS: u32 = 65_536;
/// The number of VIPs with counters: those with a slot below this.
pub const VIP_COUNTER_SLOTS: u32 = 4_096;
/// The number of entries of `own_macs`.
pub const MAX_OWN_MACS: u32 = 1_024;
/// The number of entries of `offenders`. When it is full, the least recently used is evicted.
pub const MAX_OFFENDERS: u32 = 4_096;
/// The number of entries of `peers`.
pub const MAX_PEERS: u32 = 16_384;

/// The names of the maps and of their pins.
pub mod maps {
    /// [`crate::VipKey`] → [`crate::VipEntry`].
    pub const VIPS_V4: &str = "vips_v4";
    /// ifindex → [`crate::OwnMac`].
    pub const OWN_MACS: &str = "own_macs";
    /// [`crate::PeerKey`] → [`crate::Peer`].
    pub const PEERS: &str = "peers";
    /// The only value: a [`crate::Fence`].
    pub const FENCE: &str = "fence";
    /// The only value, per CPU: a [`crate::Counters`].
    pub const COUNTERS: &str = "counters";
    /// Slot → [`crate::VipCounters`], per CPU.
    pub const VIP_COUNTERS: &str = "vip_counters";
    /// Slot → [`crate::VipState`]. Only the program writes it.
    pub const VIP_STATE: &str = "vip_state";
    /// The only value: a [`crate::YieldTotal`]. Only the program writes it.
    pub const YIELDS: &str = "yields";
    /// Bits of the addresses that may be VIPs; see [`crate::filter_bit`].
    pub const FILTER: &str = "filter";
    /// [`crate::OffenderKey`] → [`crate::Offender`]. Only the program writes it. An LRU map.
    pub const OFFENDERS: &str = "offenders";
    /// Ring buffer of [`crate::Event`].
    pub const EVENTS: &str = "events";
    /// The only value: a [`crate::Meta`].
    pub const META: &str = "meta";
    /// All maps.
    pub const ALL: &[&str] = &[
        VIPS_V4,
        OWN_MACS,
        PEERS,
        FENCE,
        COUNTERS,
        VIP_COUNTERS,
        VIP_STATE,
        YIELDS,
        FILTER,
        OFFENDERS,
        EVENTS,
        META,
    ];
    /// The names of maps that former versions pinned: `own_macs` up to ABI version 3.
    pub const FORMER: &[&str] = &["links"];
}

/// The key of `vips_v4`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct VipKey {
    /// The interface through which the segment is seen.
    pub ifindex: u32,
    /// VLAN ID, 0 for none.
    pub vlan: u16,
    /// Always zero.
    pub _pad: u16,
    /// The VIP, in wire order.
    pub addr: [u8; 4],
}

const _: () = assert!(size_of::<VipKey>() == 12);

impl VipKey {
    /// Returns the key of `addr` on the untagged segment of an interface.
    #[inline(always)]
    pub fn untagged(ifindex: u32, addr: [u8; 4]) -> Self {
        Self { ifindex, vlan: 0, _pad: 0, addr }
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

    fn from_number(number: u64) -> Option<Self> {
        [Self::Foreign, Self::Held, Self::Handover].into_iter().find(|role| *role as u64 == number)
    }
}

/// The value of `vips_v4`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, NoUninit, CheckedBitPattern)]
#[repr(C)]
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

/// The value of `own_macs`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct OwnMac {
    /// The interface's own MAC.
    pub mac: [u8; 6],
    /// Always zero.
    pub _pad: u16,
}

const _: () = assert!(size_of::<OwnMac>() == 8);

/// The key of `peers`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct PeerKey {
    /// The interface through which the peer is seen.
    pub ifindex: u32,
    /// The peer's MAC.
    pub mac: [u8; 6],
    /// Always zero.
    pub _pad: u16,
}

const _: () = assert!(size_of::<PeerKey>() == 12);

/// The value of `peers`. Only the key's presence counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct Peer {
    /// The time when the agent learnt of the peer (`CLOCK_MONOTONIC`).
    pub since_ns: u64,
}

/// The policy between `deadline_ns` and `hold_until_ns`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, NoUninit, CheckedBitPattern)]
#[repr(u32)]
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

/// The value of `fence`: the times until which this node may answer. Times are `CLOCK_MONOTONIC`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, NoUninit, CheckedBitPattern)]
#[repr(C)]
pub struct Fence {
    /// The end of the valid fence.
    pub deadline_ns: u64,
    /// The end of holding over, under [`Policy::Hold`].
    pub hold_until_ns: u64,
    /// The count of [`YieldTotal`] up to which the agent has rewritten the yielded entries.
    pub yields_settled: u64,
    /// The session of this node in which the fence was set; 0 without a cluster.
    pub session: u64,
    /// The policy between the two times.
    pub policy: Policy,
    /// Always zero.
    pub _pad: u32,
}

const _: () = assert!(size_of::<Fence>() == 40);

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
    /// Returns the state at `now_ns`.
    #[inline(always)]
    pub fn state(&self, now_ns: u64) -> FenceState {
        if now_ns < self.deadline_ns {
            FenceState::Valid
        } else if matches!(self.policy, Policy::Hold) && now_ns < self.hold_until_ns {
            FenceState::HeldOver
        } else {
            FenceState::Over
        }
    }
}

/// The value of `yields`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct YieldTotal {
    /// The number of yields since the maps were made.
    pub total: u64,
}

/// The value of `vip_counters`: the counters of one VIP on one CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct VipCounters {
    /// Requests answered.
    pub answered: u64,
    /// ARP claims dropped as conflicts.
    pub conflicts: u64,
    /// Requests dropped.
    pub suppressed: u64,
}

/// The place of a field in a key or value.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct Field {
    /// The offset in bytes.
    pub offset: u16,
    /// The size; 0 when the layout lacks the field.
    pub bytes: u16,
}

impl Field {
    /// Returns the field as a number in this machine's byte order.
    /// Returns 0 if the layout lacks the field.
    fn number(self, of: &[u8]) -> Option<u64> {
        let mut number = [0; 8];
        let bytes = self.slice(of)?;
        let start = if cfg!(target_endian = "big") { 8_usize.checked_sub(bytes.len())? } else { 0 };
        number.get_mut(start..)?.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(u64::from_ne_bytes(number))
    }

    fn array<const N: usize>(self, of: &[u8]) -> Option<[u8; N]> {
        self.slice(of)?.try_into().ok()
    }

    fn slice(self, of: &[u8]) -> Option<&[u8]> {
        of.get(usize::from(self.offset)..)?.get(..usize::from(self.bytes))
    }
}

/// The places of the fields of `vips_v4`. With them an agent of any
/// version reads the entries of any other version.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct Layout {
    /// A field of the key.
    pub ifindex: Field,
    /// A field of the key.
    pub vlan: Field,
    /// A field of the key.
    pub addr: Field,
    /// A field of the value.
    pub mac: Field,
    /// A field of the value.
    pub generation: Field,
    /// A field of the value.
    pub role: Field,
    /// A field of the value.
    pub slot: Field,
    /// A field of the value.
    pub until_ns: Field,
}

macro_rules! field {
    ($type:ty, $field:ident, $field_type:ty) => {
        Field { offset: offset_of!($type, $field) as u16, bytes: size_of::<$field_type>() as u16 }
    };
}

impl Layout {
    /// The layout of this version.
    #[expect(clippy::cast_possible_truncation, reason = "the structs are smaller than 64 KiB")]
    pub const CURRENT: Self = Self {
        ifindex: field!(VipKey, ifindex, u32),
        vlan: field!(VipKey, vlan, u16),
        addr: field!(VipKey, addr, [u8; 4]),
        mac: field!(VipEntry, mac, [u8; 6]),
        generation: field!(VipEntry, generation, u16),
        role: field!(VipEntry, role, Role),
        slot: field!(VipEntry, slot, u32),
        until_ns: field!(VipEntry, until_ns, u64),
    };

    /// Reads an entry that was written in this layout. Returns
    /// `None` if the bytes cannot be an entry.
    pub fn read(&self, key: &[u8], value: &[u8]) -> Option<(VipKey, VipEntry)> {
        let key = VipKey {
            ifindex: self.ifindex.number(key)?.try_into().ok()?,
            vlan: self.vlan.number(key)?.try_into().ok()?,
            _pad: 0,
            addr: self.addr.array(key)?,
        };
        let entry = VipEntry {
            mac: self.mac.array(value)?,
            generation: self.generation.number(value)?.try_into().ok()?,
            role: Role::from_number(self.role.number(value)?)?,
            slot: self.slot.number(value)?.try_into().ok()?,
            until_ns: self.until_ns.number(value)?,
        };
        Some((key, entry))
    }
}

/// The value of `meta`: the layout of the pins.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct Meta {
    /// The [`ABI_VERSION`] of the agent that made the maps.
    pub abi_version: u32,
    /// Always zero.
    pub _pad: u32,
    /// The layout of `vips_v4`.
    pub layout: Layout,
}

const _: () = assert!(size_of::<Meta>() == 40);

impl Meta {
    /// The value that this version writes.
    pub const CURRENT: Self = Self { abi_version: ABI_VERSION, _pad: 0, layout: Layout::CURRENT };
}

#[cfg(test)]
mod tests;
