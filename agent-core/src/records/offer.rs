//! The offer in a node's Lease: whether its voters may expire its session, and which nodes these
//! are.

use std::fmt;

/// The version of the protocol. A node whose Lease names another version is no monitor.
pub const PROTO: u32 = 1;
/// The largest number of monitors that a node invites.
pub const MOST_INVITED: usize = 4;

/// The number of a node as a monitor: random, never zero, and as old as the pinned maps.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Wid(u64);

impl Wid {
    /// Returns the monitor with this number, or none for zero.
    pub const fn from_number(number: u64) -> Option<Self> {
        if number == 0 { None } else { Some(Self(number)) }
    }

    pub const fn number(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Wid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// The number of a key, never zero.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct KeyId(pub u8);

/// The way in which an unresponsive node's session may be expired.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Mode {
    /// It is ended only when its Lease is not renewed.
    #[default]
    Off,
    /// It is also expired when the voters find the node unresponsive. The node answers on until it
    /// is notified.
    Notice,
}

/// The part of a Lease that is about wire failover (annotation `vipward.io/wire`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Offer {
    /// The number of the node as a monitor of others.
    pub wid: Wid,
    pub mode: Mode,
    /// The number of this configuration. It grows with each change.
    pub round: u64,
    /// The monitors, which are to ping it; [`MOST_INVITED`] at most.
    pub invited: Vec<Wid>,
    /// The voters among the monitors; three at most. Empty in mode [`Mode::Off`].
    pub set: Vec<Wid>,
    /// The number of voters that must get the node's answers for its session to last. When one
    /// fewer gets them, the others are enough to expire it.
    pub need: usize,
    /// The numbers of the keys that the node accepts.
    pub keys: Vec<KeyId>,
}

impl Offer {
    /// Returns the quorum: the number of voters that must find the node unresponsive.
    pub fn quorum(&self) -> usize {
        (self.set.len() + 1).saturating_sub(self.need)
    }
}
