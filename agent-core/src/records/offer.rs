//! The offer in a node's Lease: whether its witnesses may expire it, and which nodes these are.

use std::fmt;

/// The version of the protocol. A node whose Lease names another version is no witness.
pub const PROTO: u32 = 1;
/// The largest number of witnesses that a node invites.
pub const MOST_INVITED: usize = 4;

/// The number of a node as a witness: random, never zero, and as old as the pinned maps.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Wid(u64);

impl Wid {
    /// Returns the witness with this number, or none for zero.
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

/// The way in which a node's session may be ended for silence.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Mode {
    /// It is ended only when its Lease is not renewed.
    #[default]
    Off,
    /// It is also ended when the witnesses find the node silent. The node answers on until it learns of
    /// that.
    Notice,
}

/// The part of a Lease that is about wire failover (annotation `vipward.io/wire`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Offer {
    /// The number of the node as a witness of others.
    pub wid: Wid,
    pub mode: Mode,
    /// The number of this configuration. It grows with each change.
    pub round: u64,
    /// The witnesses that are asked to ping it; [`MOST_INVITED`] at most.
    pub invited: Vec<Wid>,
    /// Those of the invited whose word counts; three at most. Empty in mode [`Mode::Off`].
    pub set: Vec<Wid>,
    /// The number of them that must receive the node for its session to last. When one fewer receives it, the
    /// others are enough to end it.
    pub need: usize,
    /// The numbers of the keys that the node accepts.
    pub keys: Vec<KeyId>,
}

impl Offer {
    /// Returns the number of members of the set that must find the node silent.
    pub fn quorum(&self) -> usize {
        (self.set.len() + 1).saturating_sub(self.need)
    }
}
