//! VIPs: the keys and values of the maps that are about one.

use core::net::IpAddr;

use bytemuck::{CheckedBitPattern, NoUninit, Pod, Zeroable};

use crate::mac::MacAddr;

/// The default number of entries of `vips_v4`, and of `vips_v6`.
pub const DEFAULT_MAX_VIPS: u32 = 65_536;
/// The number of VIPs with counters: those with a slot below this.
pub const VIP_COUNTER_SLOTS: u32 = 4_096;

pinned! {
    #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Pod, Zeroable)]
    pub struct VipKeyV4 {
        /// The interface through which the segment is seen.
        pub ifindex: u32,
        /// The VIP, in wire order.
        pub addr: [u8; 4],
    }
}

pinned! {
    #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Pod, Zeroable)]
    pub struct VipKeyV6 {
        pub ifindex: u32,
        /// The VIP, in wire order.
        pub addr: [u8; 16],
    }
}

const _: () = assert!(size_of::<VipKeyV4>() == 8 && size_of::<VipKeyV6>() == 20);

impl VipKeyV4 {
    #[inline(always)]
    pub fn new(ifindex: u32, addr: [u8; 4]) -> Self {
        let mut key = Self::zeroed();
        (key.ifindex, key.addr) = (ifindex, addr);
        key
    }
}

impl VipKeyV6 {
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
    pub ifindex: u32,
    pub addr: IpAddr,
}

impl VipKey {
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

number!(Role);

impl Role {
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
        pub mac: [u8; 6],
        /// The number of this taking of the VIP, never 0. A yield counts for one generation, so the
        /// number differs from the one recorded at the slot.
        pub generation: u16,
        pub role: Role,
        /// The index into `vip_state`, and into `vip_counters` when below [`VIP_COUNTER_SLOTS`].
        pub slot: u32,
        /// The end of a handover (`CLOCK_MONOTONIC`), after which the entry counts as foreign. In a
        /// held entry, the number of a [`VipFault`], which the program does not read. 0 for none.
        pub until_ns: u64,
    }
}

const _: () = assert!(size_of::<VipEntry>() == 24);

/// The agent's finding that clients do not reach a VIP, although the program answers for it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u64)]
pub enum VipFault {
    /// The network drops the frames that this host sends from the VIP.
    Unheard = 1,
    /// The network does not pass requests for the VIP to this host.
    Blind = 2,
}

impl VipFault {
    pub const ALL: [Self; 2] = [Self::Unheard, Self::Blind];

    /// Returns the fault with this number. Another agent's unknown finding is none.
    pub const fn from_number(number: u64) -> Option<Self> {
        match number {
            1 => Some(Self::Unheard),
            2 => Some(Self::Blind),
            _ => None,
        }
    }

    /// Returns the sentence of people who look for the cause.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unheard => "unheard: the network drops what this host sends from it",
            Self::Blind => "blind: the network passes no requests for it to this host",
        }
    }

    /// Returns its name in one word.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Unheard => "unheard",
            Self::Blind => "blind",
        }
    }
}

/// The MAC to which an entry of one generation was yielded. It is one
/// aligned word, which is read and replaced as a whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Pod, Zeroable)]
#[repr(C, align(8))]
pub struct Yield {
    pub mac: [u8; 6],
    /// The generation of the entry that yielded; 0 for none.
    pub generation: u16,
}

impl Yield {
    /// Returns the MAC to which an entry of `generation` was yielded, if this is such a record.
    pub fn yielded_to(self, generation: u16) -> Option<MacAddr> {
        (self.generation != 0 && self.generation == generation).then_some(MacAddr(self.mac))
    }

    /// Returns the word that the program reads and replaces atomically.
    #[inline(always)]
    pub fn to_word(mac: MacAddr, generation: u16) -> u64 {
        mac.to_bits() | u64::from(generation.to_le()) << 48
    }

    /// Returns the MAC in `word` if it records a yield of `generation`.
    #[inline(always)]
    pub fn of_generation(word: u64, generation: u16) -> Option<MacAddr> {
        (word >> 48 == u64::from(generation.to_le())).then(|| MacAddr::from_bits(word))
    }
}

described!(Yield { mac, generation });

/// An entry as it counts at one moment, after a yield or the end of a handover, whatever the lease
/// deadline.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SeenEntry {
    pub role: Role,
    /// The VIP's MAC; zero if unknown.
    pub mac: MacAddr,
    /// True if the program has yielded the VIP, to that MAC.
    pub yielded: bool,
    /// The agent's finding about a held VIP.
    pub fault: Option<VipFault>,
}

impl VipEntry {
    /// Returns the agent's finding about a held VIP.
    pub fn fault(&self) -> Option<VipFault> {
        matches!(self.role, Role::Held).then_some(self.until_ns).and_then(VipFault::from_number)
    }

    /// Returns the entry with another finding, if it is held.
    #[must_use]
    pub fn with_fault(self, fault: Option<VipFault>) -> Self {
        match self.role {
            Role::Held => Self { until_ns: fault.map_or(0, |fault| fault as u64), ..self },
            Role::Handover | Role::Foreign => self,
        }
    }

    /// Returns the entry as the program sees it at `now_ns` (`CLOCK_MONOTONIC`, or the coarse one).
    /// `recorded` is the yield in `vip_state` at the entry's slot.
    pub fn as_seen(&self, recorded: Yield, now_ns: u64) -> SeenEntry {
        let yielded_to = recorded.yielded_to(self.generation);
        let is_over = matches!(self.role, Role::Handover) && now_ns >= self.until_ns;
        SeenEntry {
            role: if yielded_to.is_some() || is_over { Role::Foreign } else { self.role },
            mac: yielded_to.unwrap_or(MacAddr(self.mac)),
            yielded: yielded_to.is_some(),
            fault: self.fault().filter(|_| yielded_to.is_none()),
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
        pub answered: u64,
        /// ARP claims dropped as conflicts.
        pub conflicts: u64,
        pub suppressed: u64,
    }
}

#[cfg(test)]
mod tests;
