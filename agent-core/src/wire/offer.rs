//! What a node says of itself in its Lease: whether it may be deposed by its witnesses, and by whom.

use std::fmt;

/// The version of the protocol. A node whose Lease names another is nobody's witness.
pub const PROTO: u32 = 1;
/// The largest number of witnesses that a node invites.
pub const MOST_INVITED: usize = 4;

/// A node as a witness: a random number, never zero, made together with the pinned maps.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Wid(u64);

impl Wid {
    /// Returns the witness with this number. Returns none for zero.
    pub const fn from_number(number: u64) -> Option<Self> {
        if number == 0 { None } else { Some(Self(number)) }
    }

    /// Returns the number that frames and maps have.
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
    /// Only when its Lease is not renewed.
    #[default]
    Off,
    /// Also when its witnesses find it silent. It answers on until it hears of that.
    Notice,
}

/// What a Lease says about wire failover (annotation `vipward.io/wire`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Offer {
    /// The node as a witness of others.
    pub wid: Wid,
    /// The mode of its session.
    pub mode: Mode,
    /// The number of this configuration. It grows with each change.
    pub round: u64,
    /// The witnesses that are asked to ping it; [`MOST_INVITED`] at most.
    pub invited: Vec<Wid>,
    /// Those of the invited whose word counts; three at most. Empty in mode [`Mode::Off`].
    pub set: Vec<Wid>,
    /// The number of them that keep the session by hearing it. The others, and one more, may end it.
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
