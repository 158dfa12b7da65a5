//! The witness: pings other nodes, judges their silence, and tells sessions that have ended.

use super::{Act, Boottime, Counts, Plan, Received, Scale, Traffic, Wid};
use crate::cluster::Session;

/// What the program has seen of a peer over one interface. A time of zero stands for never.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Sight {
    /// The time at which the newest ping was sent that the peer has answered.
    pub answered: Boottime,
    /// The time at which its last frame came.
    pub heard: Boottime,
}

/// What the program has seen. The shell reads it from the maps.
pub trait Seen {
    /// Returns what was seen of a holder: the answers to this node's pings.
    fn holder(&self, session: Session, interface: &str) -> Sight;
    /// Returns what was seen of a witness: its pings.
    fn witness(&self, witness: Wid, interface: &str) -> Sight;
    /// Returns the session of this node that the program was told has ended.
    fn ended(&self) -> Option<Session>;
}

/// A node as a witness.
#[derive(Debug)]
pub struct Witness {
    scale: Scale,
    wid: Wid,
}

impl Witness {
    /// Starts with nothing to do. `wid` is the number in the program's maps.
    pub fn new(scale: Scale, wid: Wid) -> Self {
        Self { scale, wid }
    }

    /// Takes in what the engine wants.
    pub fn set_plan(&mut self, _plan: Plan, _now: Boottime) {}

    /// Takes in a poll or the answer to one. [`Witness::on_time`] is due at once.
    pub fn on_frame(&mut self, _received: Received, _now: Boottime) {}

    /// Takes in that a neighbour has answered [`Act::AskNeighbours`]. [`Witness::on_time`] is due at
    /// once.
    pub fn on_third_station(&mut self, _session: Session, _now: Boottime) {}

    /// Does what is due. `seen` is read no earlier than `now`.
    pub fn on_time(&mut self, _seen: &impl Seen, _now: Boottime) -> Vec<Act> {
        Vec::new()
    }

    /// Returns the time of the next [`Witness::on_time`].
    pub fn next_deadline(&self) -> Option<Boottime> {
        None
    }

    /// Returns the traffic with each peer.
    pub fn traffic(&self, _now: Boottime) -> Vec<Traffic> {
        Vec::new()
    }

    /// Returns what has happened so far.
    pub fn counts(&self) -> Counts {
        Counts::default()
    }
}
