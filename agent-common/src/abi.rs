//! Keys and values of the pinned maps. Any change of a layout here needs a new [`ABI_VERSION`].

use core::mem::offset_of;

use bytemuck::{CheckedBitPattern, NoUninit, Pod, Zeroable};

use crate::{event::Yield, frame::MacAddr};

/// Changes with every change of a key or value; the agent migrates pins of another version.
pub const ABI_VERSION: u32 = 3;
/// Where the maps and links are pinned unless the user says otherwise.
pub const PIN_DIR: &str = "/sys/fs/bpf/vipward";
/// Entries of `vips_v4` unless the user says otherwise.
pub const DEFAULT_MAX_VIPS: u32 = 65_536;
/// VIPs with counters of their own: those whose slot is below this.
pub const VIP_COUNTER_SLOTS: u32 = 4_096;
/// Entries of `links`.
pub const MAX_LINKS: u32 = 1_024;
/// Entries of `offenders`; of more, the ones that were quiet for longest are forgotten.
pub const MAX_OFFENDERS: u32 = 4_096;
/// Entries of `peers`.
pub const MAX_PEERS: u32 = 16_384;

/// Names of the maps, which are also the names of their pins.
pub mod maps {
    /// [`crate::VipKey`] → [`crate::VipEntry`].
    pub const VIPS_V4: &str = "vips_v4";
    /// ifindex → [`crate::Link`].
    pub const LINKS: &str = "links";
    /// [`crate::PeerKey`] → [`crate::Peer`].
    pub const PEERS: &str = "peers";
    /// One [`crate::Fence`].
    pub const FENCE: &str = "fence";
    /// One [`crate::Counters`] per CPU.
    pub const COUNTERS: &str = "counters";
    /// slot → [`crate::VipCounters`] per CPU.
    pub const VIP_COUNTERS: &str = "vip_counters";
    /// slot → [`crate::VipState`], written by the program only.
    pub const VIP_STATE: &str = "vip_state";
    /// One [`crate::YieldTotal`], written by the program only.
    pub const YIELDS: &str = "yields";
    /// One bit per address that may be a VIP; see [`crate::filter_bit`].
    pub const FILTER: &str = "filter";
    /// [`crate::OffenderKey`] → [`crate::Offender`], written by the program only; the least recently seen make room.
    pub const OFFENDERS: &str = "offenders";
    /// Ring buffer of [`crate::Event`].
    pub const EVENTS: &str = "events";
    /// One [`crate::Meta`].
    pub const META: &str = "meta";
    /// All of them.
    pub const ALL: &[&str] = &[
        VIPS_V4,
        LINKS,
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
}

/// Key of `vips_v4`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct VipKey {
    /// The interface that the segment is seen through.
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
    /// The key of `addr` on the untagged segment of an interface.
    #[inline(always)]
    pub fn untagged(ifindex: u32, addr: [u8; 4]) -> Self {
        Self { ifindex, vlan: 0, _pad: 0, addr }
    }
}

/// What this node is to a VIP.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, NoUninit, CheckedBitPattern)]
#[repr(u32)]
pub enum Role {
    /// Another node holds it; its MAC is the entry's, zero if unknown.
    Foreign = 0,
    /// We answer with the entry's MAC.
    Held = 1,
    /// We answer with the successor's MAC, which is the entry's.
    Handover = 2,
}

impl Role {
    /// The name by which people know it.
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

/// Value of `vips_v4`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, NoUninit, CheckedBitPattern)]
#[repr(C)]
pub struct VipEntry {
    /// The MAC that the VIP is at.
    pub mac: [u8; 6],
    /// Differs from that of every earlier time that this slot was taken, and is never 0: a yield counts for one generation.
    pub generation: u16,
    /// What this node is to the VIP.
    pub role: Role,
    /// Index into `vip_state`, and into `vip_counters` when below [`VIP_COUNTER_SLOTS`].
    pub slot: u32,
    /// When a handover ends by itself and the entry counts as foreign (`CLOCK_MONOTONIC`); 0 in other roles.
    pub until_ns: u64,
}

const _: () = assert!(size_of::<VipEntry>() == 24);

/// What an entry says at one moment, a yield and the end of a handover taken into account. The fence is apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SeenEntry {
    /// What this node is to the VIP.
    pub role: Role,
    /// The MAC that the VIP is at; zero if unknown.
    pub mac: MacAddr,
    /// Whether the program has given it away, to that MAC.
    pub yielded: bool,
}

impl VipEntry {
    /// The entry as the program sees it at `now_ns` (`CLOCK_MONOTONIC`, or the coarse one). `recorded` is what
    /// `vip_state` has at its slot.
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

/// Value of `links`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct Link {
    /// The interface's own MAC.
    pub mac: [u8; 6],
    /// Always zero.
    pub _pad: u16,
}

const _: () = assert!(size_of::<Link>() == 8);

/// Key of `peers`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct PeerKey {
    /// The interface that the peer is seen through.
    pub ifindex: u32,
    /// The peer's MAC.
    pub mac: [u8; 6],
    /// Always zero.
    pub _pad: u16,
}

const _: () = assert!(size_of::<PeerKey>() == 12);

/// Value of `peers`: that the key is there is all that counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct Peer {
    /// When the agent learnt of it (`CLOCK_MONOTONIC`).
    pub since_ns: u64,
}

/// What is done between `deadline_ns` and `hold_until_ns`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, NoUninit, CheckedBitPattern)]
#[repr(u32)]
pub enum Policy {
    /// Nothing is answered.
    Stop = 0,
    /// Answered on, until a peer announces the VIP.
    Hold = 1,
}

/// The value of `fence`: until when this node may answer without renewing. Times are `CLOCK_MONOTONIC`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, NoUninit, CheckedBitPattern)]
#[repr(C)]
pub struct Fence {
    /// The fence is valid before this.
    pub deadline_ns: u64,
    /// Under [`Policy::Hold`] it is held over from then until this.
    pub hold_until_ns: u64,
    /// The count of [`YieldTotal`] up to which the agent has rewritten the entries that yielded.
    pub yields_settled: u64,
    /// The session of this node that the fence belongs to; 0 without a cluster.
    pub session: u64,
    /// What is done between the two.
    pub policy: Policy,
    /// Always zero.
    pub _pad: u32,
}

const _: () = assert!(size_of::<Fence>() == 40);

/// Whether this node may answer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum FenceState {
    /// The agent is alive.
    Valid,
    /// The agent is late, and the policy is to answer on.
    HeldOver,
    /// Nothing is answered.
    Over,
}

impl Fence {
    /// The state at `now_ns`.
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
    /// Entries yielded since the maps were made.
    pub total: u64,
}

/// Counts about one VIP, of one CPU; the value of `vip_counters`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct VipCounters {
    /// Requests answered.
    pub answered: u64,
    /// Claims dropped as conflicts.
    pub conflicts: u64,
    /// Requests dropped.
    pub suppressed: u64,
}

/// Where a field of a key or value stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct Field {
    /// Bytes before it.
    pub offset: u16,
    /// Its size; 0 when the layout has no such field.
    pub bytes: u16,
}

impl Field {
    /// The field as an unsigned number in this machine's byte order; 0 when the layout has none.
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

/// Where the fields of `vips_v4` stand, so that an agent of any version can take over the entries of any other.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct Layout {
    /// In the key.
    pub ifindex: Field,
    /// In the key.
    pub vlan: Field,
    /// In the key.
    pub addr: Field,
    /// In the value.
    pub mac: Field,
    /// In the value.
    pub generation: Field,
    /// In the value.
    pub role: Field,
    /// In the value.
    pub slot: Field,
    /// In the value.
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

    /// Reads an entry that was written in this layout; `None` when it cannot be one.
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

/// The value of `meta`: which layout the pins have.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct Meta {
    /// [`ABI_VERSION`] of the agent that made the maps.
    pub abi_version: u32,
    /// Always zero.
    pub _pad: u32,
    /// Where the fields of `vips_v4` stand.
    pub layout: Layout,
}

const _: () = assert!(size_of::<Meta>() == 40);

impl Meta {
    /// What this version writes.
    pub const CURRENT: Self = Self { abi_version: ABI_VERSION, _pad: 0, layout: Layout::CURRENT };
}

#[cfg(test)]
mod tests;
