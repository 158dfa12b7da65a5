//! What the maps say, in the oracle's own words.

use std::collections::BTreeMap;

/// A hardware address.
pub type Mac = [u8; 6];
/// An IPv4 address.
pub type Addr = [u8; 4];

/// Whether this node may answer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Fence {
    /// Before the deadline.
    Valid,
    /// After it, while holding over.
    HeldOver,
    /// After that.
    Over,
}

/// What this node is to a VIP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// It answers with its own MAC.
    Held,
    /// It answers with the successor's.
    Handover,
    /// It keeps silent.
    Foreign,
}

/// What is known of a VIP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    /// What this node is to it.
    pub role: Role,
    /// Where it is; zero if unknown.
    pub mac: Mac,
    /// Whether a handover's time has passed.
    pub ended: bool,
    /// Which taking of the VIP this is.
    pub generation: u16,
    /// Index of its state and counters.
    pub slot: u32,
    /// To whom which generation of it was yielded before the first frame.
    pub record: Option<(Mac, u16)>,
}

/// Everything that the maps say when the first frame comes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct World {
    /// Whether the fence's deadline has passed.
    pub deadline_passed: bool,
    /// Whether holding over has ended.
    pub hold_passed: bool,
    /// Whether the policy is to hold.
    pub hold: bool,
    /// The interface's own MAC, if known.
    pub own: Option<Mac>,
    /// The peers on the segment.
    pub peers: Vec<Mac>,
    /// The VIPs on the segment.
    pub entries: BTreeMap<Addr, Entry>,
    /// Peers on another segment.
    pub peers_elsewhere: Vec<Mac>,
    /// Entries of another interface or VLAN, which the frames must not meet: (ifindex, VLAN, VIP, entry).
    pub elsewhere: Vec<(u32, u16, Addr, Entry)>,
    /// How many entries have yielded.
    pub yields: u64,
    /// Up to which count userspace has rewritten them.
    pub settled: u64,
}

impl World {
    /// Returns the fence's state.
    pub fn fence(&self) -> Fence {
        match (self.deadline_passed, self.hold, self.hold_passed) {
            (false, _, _) => Fence::Valid,
            (true, true, false) => Fence::HeldOver,
            (true, true, true) | (true, false, _) => Fence::Over,
        }
    }
}
