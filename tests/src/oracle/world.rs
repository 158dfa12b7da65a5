//! The contents of the maps, in the oracle's own types.

use std::{collections::BTreeMap, net::IpAddr};

pub type Mac = [u8; 6];
/// An address of either family.
pub type Addr = IpAddr;

/// A protocol of which the program reads frames.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Protocol {
    Arp,
    /// Neighbour discovery, for IPv6.
    Nd,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum LeaseDeadline {
    /// The deadline lies ahead.
    Valid,
    /// The deadline has passed, and the grace period lasts.
    Grace,
    /// Both have passed.
    Over,
}

/// The fate of a dropped claim on a held VIP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Defence {
    /// Nothing takes its place.
    Off,
    /// The holder's announcement takes its place.
    Match,
}

/// The role of this node for a VIP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// This node answers with its own MAC.
    Held,
    /// This node answers with the successor's MAC.
    Handover,
    /// This node does not answer.
    Foreign,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    pub role: Role,
    /// The MAC of the VIP; zero if unknown.
    pub mac: Mac,
    /// True if a handover's time has passed.
    pub ended: bool,
    /// The number of the taking.
    pub generation: u16,
    /// Index of its state and counters.
    pub slot: u32,
    /// The yield before the first frame: the peer's MAC, and the generation that it ended.
    pub record: Option<(Mac, u16)>,
}

/// The contents of the maps when the first frame comes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct World {
    /// True if the lease deadline has passed.
    pub deadline_passed: bool,
    /// True if the grace period has ended.
    pub hold_passed: bool,
    /// The fate of claims on held VIPs.
    pub defence: Defence,
    /// True if the policy is `hold`.
    pub hold: bool,
    /// The VLAN tags of the segment, from outside, without those of VLAN 0: whether it is a service tag
    /// (802.1ad), and the VLAN ID.
    pub vlan: Vec<(bool, u16)>,
    /// The interface's own MAC, if known.
    pub own: Option<Mac>,
    pub peers: Vec<Mac>,
    pub entries: BTreeMap<Addr, Entry>,
    pub peers_elsewhere: Vec<Mac>,
    /// Entries of another interface, which the frames must not meet.
    pub elsewhere: Vec<(Addr, Entry)>,
    /// The number of entries that have yielded.
    pub yields: u64,
    /// The number of yields that userspace has written into their entries.
    pub settled: u64,
}

impl World {
    pub fn lease_deadline(&self) -> LeaseDeadline {
        match (self.deadline_passed, self.hold, self.hold_passed) {
            (false, _, _) => LeaseDeadline::Valid,
            (true, true, false) => LeaseDeadline::Grace,
            (true, true, true) | (true, false, _) => LeaseDeadline::Over,
        }
    }
}
