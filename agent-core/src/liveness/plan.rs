//! The plan that the engine gives a monitor, and the findings that the monitor returns.

use std::{collections::BTreeSet, sync::Arc};

use serde::{Deserialize, Serialize};
use vipward_common::{MacAddr, WireState};

use crate::records::{KeyId, NodeName, Session, Wid};

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Plan {
    /// The key of the frames. Without one no frame is sent.
    pub key: Option<KeyId>,
    pub peers: Vec<Peer>,
    /// The voters of this node. They ping it often.
    pub set: Vec<Wid>,
    /// The sessions that have ended, and whose nodes may not know it.
    pub ended: Vec<Ended>,
}

/// A node to ping: one that has invited this node, or that this node has invited.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Peer {
    pub node: NodeName,
    pub session: Session,
    pub wid: Wid,
    /// The ways to it: one for each segment that both are on.
    pub paths: Vec<Path>,
    /// Set if this node is a voter.
    pub watched: Option<Watched>,
}

/// The way to a node over one segment.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Path {
    pub interface: Arc<str>,
    pub mac: MacAddr,
}

/// A holder whose session this node may help to end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Watched {
    /// The number of the configuration that names the set.
    pub round: u64,
    /// The other members of its set, in their order, with the ways to them.
    pub others: Vec<(Wid, Vec<Path>)>,
    /// The number of members before this one.
    pub place: u32,
    /// The quorum: the number of voters that must find it unresponsive, this one included.
    pub quorum: usize,
}

/// An expired session, whose node gets expiry notices.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ended {
    pub session: Session,
    /// The ways to its node.
    pub paths: Vec<Path>,
    /// The ways to the other nodes, which may take its VIPs.
    pub takers: Vec<Path>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Finding {
    /// A quorum of voters finds a session unresponsive.
    Unresponsive {
        session: Session,
        /// The number of the configuration that names the set.
        round: u64,
    },
    /// The session answers again, or this node can no longer judge it.
    Answers { session: Session },
    /// A monitor of this node pings it, or no longer does.
    Pinged {
        by: Wid,
        /// True if its last ping is not older than [`Scale::endangered`](super::Scale::endangered).
        /// For a monitor that does not ping often, [`Scale::one_way`](super::Scale::one_way) is the
        /// limit.
        lately: bool,
    },
    /// The contact of an interface with all peers has changed.
    Contact {
        interface: Arc<str>,
        /// True if a frame of a peer came within [`Scale::one_way`](super::Scale::one_way).
        received: bool,
        /// The answers to this node's pings there. One shows that both directions work.
        answers: Answers,
    },
    /// The program has an expiry notice for this node's session.
    Ended(ExpiryNotice),
    /// An expiry notice for another node's session has come.
    Expired { session: Session },
}

/// The last expiry notice for a session of this node, as the program has recorded it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ExpiryNotice {
    pub session: Session,
    /// The number of the notice. The program counts them.
    pub number: u64,
}

impl ExpiryNotice {
    /// Returns the last expiry notice that the program has recorded, if any.
    pub fn of(notified: WireState) -> Option<Self> {
        Some(Self { session: Session::from_number(notified.ended)?, number: notified.notices })
    }
}

/// Least number of peers that must have become unresponsive together, for the fault to be this
/// node's.
pub(crate) const LEAST_UNANSWERED: usize = 2;

/// The answers of all peers over an interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answers {
    /// None has come since this node began to ping there, or from fewer than two peers.
    None,
    /// A ping that was sent within [`Scale::one_way`](super::Scale::one_way) was answered.
    Lately,
    /// Two or more peers have answered, but no ping that was sent within that time.
    NoLonger,
}

impl Plan {
    /// Returns the ids of sessions and monitors that the program must know. Each has an interface
    /// on which frames about it may arrive.
    pub fn ids(&self) -> BTreeSet<(u64, Arc<str>)> {
        let mut ids = BTreeSet::new();
        for peer in &self.peers {
            for path in &peer.paths {
                ids.insert((peer.session.number(), Arc::clone(&path.interface)));
                ids.insert((peer.wid.number(), Arc::clone(&path.interface)));
            }
            // The other monitors' votes about a holder may come by a segment that it is not on.
            let others = peer.watched.iter().flat_map(|watched| &watched.others);
            for path in others.flat_map(|(_, paths)| paths) {
                ids.insert((peer.session.number(), Arc::clone(&path.interface)));
            }
        }
        ids
    }
}

/// The state of the thread that pings.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Thread {
    /// The reason why it does not run before all ordinary threads (`SCHED_FIFO`). None if it does.
    pub not_first: Option<String>,
    /// The reason why the memory of its process is not locked. None if it is.
    pub not_locked: Option<String>,
    pub peers: Vec<Traffic>,
    #[serde(flatten)]
    pub counts: Counts,
    pub frames_unsent: u64,
    /// Frames that came to the agent and were not for it, or had a wrong tag.
    pub frames_refused: u64,
    /// Peers for which the map has no slot.
    pub peers_left_out: usize,
}

/// The pings to a peer.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Traffic {
    pub session: String,
    /// Time since the last ping that it answered.
    pub answered_seconds_ago: Option<f64>,
    /// The round-trip time of that ping.
    pub round_trip_seconds: Option<f64>,
    /// Pings sent.
    pub sent: u64,
    /// Pings for which no answer came in time, to them or to a later one.
    pub lost: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Counts {
    /// Pings sent, to all peers so far.
    pub pings: u64,
    /// Pings for which no answer came in time, to them or to a later one.
    pub lost: u64,
    /// Times that it began to find a holder unresponsive.
    pub suspicions: u64,
    /// Times that it requested votes.
    pub vote_requests: u64,
    /// Times that it voted for another monitor.
    pub seconded: u64,
    /// Times that enough of them agreed.
    pub agreed: u64,
    /// Times that its own pings were late, so that it began anew.
    pub late: u64,
}
