//! Frames of the failure detector that an agent sends and gets. Their format is in `vipward-common`; echoes
//! are a matter of the programs alone.

use std::sync::Arc;

use vipward_common::MacAddr;

use crate::{
    base::time::Boottime,
    records::{KeyId, Session, Wid},
};

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Kind {
    /// A monitor pings a holder. The holder's program answers.
    Ping,
    /// A monitor's vote request: does another monitor find the holder unresponsive too?
    VoteRequest,
    /// A vote: its sender finds the holder unresponsive.
    Vote,
    /// The session has ended: the receiver's own, or another node's whose VIPs it may take.
    Ended,
}

/// A frame, without its addresses and its tag.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Frame {
    pub kind: Kind,
    /// The session that it is about.
    pub holder: Session,
    /// The monitor that sends it. None in [`Kind::Ended`].
    pub wid: Option<Wid>,
    /// The field `sent_ns`: the time of a ping, or the number of a vote request and of the vote.
    pub stamp: u64,
}

impl Frame {
    pub(super) const fn ping(holder: Session, wid: Wid, now: Boottime) -> Self {
        Self { kind: Kind::Ping, holder, wid: Some(wid), stamp: now.as_nanos() }
    }

    pub(super) const fn vote_request(holder: Session, wid: Wid, number: u64) -> Self {
        Self { kind: Kind::VoteRequest, holder, wid: Some(wid), stamp: number }
    }

    pub(super) const fn vote(holder: Session, wid: Wid, number: u64) -> Self {
        Self { kind: Kind::Vote, holder, wid: Some(wid), stamp: number }
    }

    pub const fn ended(holder: Session) -> Self {
        Self { kind: Kind::Ended, holder, wid: None, stamp: 0 }
    }
}

/// A frame that has come, with a tag that was right.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Received {
    pub interface: Arc<str>,
    pub from: MacAddr,
    pub frame: Frame,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Act {
    Send {
        interface: Arc<str>,
        to: MacAddr,
        key: KeyId,
        frame: Frame,
    },
    /// Probe up to three neighbours other than the holder by ARP. When the first one answers,
    /// [`Monitor::on_third_station`](super::Monitor::on_third_station) is due.
    AskNeighbours {
        session: Session,
        interface: Arc<str>,
        holder: MacAddr,
    },
    Report(super::Finding),
}
