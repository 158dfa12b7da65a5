//! What the engine wants of a witness, and what the witness finds.

use std::{sync::Arc, time::Duration};

use vipward_common::MacAddr;

use super::{KeyId, Wid};
use crate::cluster::{NodeName, Session};

/// What a witness is to do.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Plan {
    /// The key of the frames. Without one no frame is sent.
    pub key: Option<KeyId>,
    /// The nodes to ping.
    pub peers: Vec<Peer>,
    /// The sessions that have ended, and whose nodes may not know it.
    pub ended: Vec<Ended>,
}

/// A node to ping: one that has invited this node, or that this node has invited.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Peer {
    /// Its name.
    pub node: NodeName,
    /// Its session.
    pub session: Session,
    /// Its number as a witness.
    pub wid: Wid,
    /// The ways to it: one for each segment that both are on.
    pub paths: Vec<Path>,
    /// Set if this node's word counts.
    pub watched: Option<Watched>,
}

/// The way to a node over one segment.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Path {
    /// This node's interface.
    pub interface: Arc<str>,
    /// The other node's MAC there.
    pub mac: MacAddr,
}

/// A holder whose session this node may help to end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Watched {
    /// The other members of its set, in their order, with the ways to them.
    pub others: Vec<(Wid, Vec<Path>)>,
    /// The number of members before this one.
    pub place: u32,
    /// The number of members that must find it silent, this one included.
    pub quorum: usize,
}

/// A session that has ended, to be told to its node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ended {
    /// The session.
    pub session: Session,
    /// The ways to its node.
    pub paths: Vec<Path>,
}

/// What a witness has found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Finding {
    /// A session is silent, as enough members of its set agree.
    Silent {
        /// The session.
        session: Session,
    },
    /// The session answers again.
    Answers {
        /// The session.
        session: Session,
    },
    /// A witness of this node pings it, or no longer does.
    Pinged {
        /// The witness.
        by: Wid,
        /// True if its last ping is not older than [`Scale::endangered`](super::Scale::endangered).
        lately: bool,
    },
    /// An interface hears peers, or no longer does.
    Contact {
        /// The interface.
        interface: Arc<str>,
        /// True if a frame of a peer came within [`Scale::deaf`](super::Scale::deaf).
        heard: bool,
    },
    /// The program has been told that this node's session has ended.
    Ended {
        /// The session.
        session: Session,
    },
}

/// The traffic with a peer, for people.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Traffic {
    /// The session of the peer.
    pub session: Session,
    /// Time since the last ping that it answered.
    pub answered_ago: Option<Duration>,
    /// The round-trip time of that ping.
    pub round_trip: Option<Duration>,
    /// Pings sent.
    pub sent: u64,
    /// Pings that no answer to them or to a later one has come for in time.
    pub lost: u64,
}
