//! Commands that the engine gives.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    net::IpAddr,
    sync::Arc,
    time::Duration,
};

use vipward_common::{MacAddr, VipFault};

use crate::{
    base::time::Monotonic,
    host::placement::Entry,
    liveness::Plan,
    records::{
        ClaimNote, ClaimState, Epoch, NodeInterface, NodeName, Offer, Proxy, ServiceName, Session, Version,
    },
    segment::probing::Manner,
};

/// The state of an object that a write rests on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Expected {
    Absent,
    At(Version),
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LeaseWrite {
    pub node: NodeName,
    /// The state that the write rests on (compare and swap).
    pub expected: Expected,
    pub session: Option<Session>,
    pub ended: Vec<Session>,
    /// Validity of the renewal.
    pub duration: Duration,
    pub interfaces: Vec<NodeInterface>,
    /// True if the node leaves and takes no more VIPs.
    pub leaving: bool,
    /// The node's offer of wire failover. None if it takes no part.
    pub wire: Option<Offer>,
    /// The state of the node's service proxy. None if it states nothing.
    pub proxy: Option<Proxy>,
}

/// A claim to be written. The write clears the operator's wish for a move.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClaimWrite {
    pub vip: IpAddr,
    /// The state that the write rests on (compare and swap).
    pub expected: Expected,
    /// Its place in the order of the VIP's claims.
    pub epoch: Epoch,
    pub state: ClaimState,
    /// Its remarks for users.
    pub note: ClaimNote,
    /// True if the VIP has no holder. Writes that keep VIPs answered may overtake this one.
    pub can_wait: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NewDeadline {
    pub session: Option<Session>,
    pub deadline: Monotonic,
    /// End of the grace period, under the policy `hold`.
    pub grace_until: Monotonic,
    /// One more than the number of the last false expiry notice for this session; 0 for none.
    pub notices_settled: u64,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Command {
    SetDeadline(NewDeadline),
    /// Write a VIP's entry before the next command is carried out. If none: remove the entry.
    ///
    /// A repeated [`Entry::Held`] takes back a VIP that the program has yielded.
    SetEntry {
        vip: IpAddr,
        entry: Option<Entry>,
        /// This node's interface on the VIP's segment, if it has one.
        home: Option<Arc<str>>,
    },
    /// Group pre-join: join or leave the solicited-node group of a VIP that another node holds.
    /// This node is the first that would take it. So a failover need not wait for the switch.
    SetSuccessor {
        /// The VIP, which is an IPv6 address. In IPv4 every host receives all requests.
        vip: IpAddr,
        /// True to join, false to leave.
        receives: bool,
    },
    /// Set the known peers: the MACs of the other nodes' interfaces. This command does not come
    /// before all Leases have been listed, so that a pinned peer stays known until then.
    SetPeers(BTreeSet<MacAddr>),
    /// Record what other nodes found about VIPs that this node holds: their clients do not reach it.
    SetUnreached(BTreeMap<IpAddr, VipFault>),
    /// Announce a held VIP once more.
    Announce {
        vip: IpAddr,
    },
    /// Probe the VIP's address on its segment. [`Event::Probed`](super::Event::Probed) follows. It
    /// follows again when the result changes, until the address is free.
    Probe {
        vip: IpAddr,
        /// The command is given again when this changes.
        manner: Manner,
    },
    StopProbing {
        vip: IpAddr,
    },
    /// Write a Lease; [`Event::LeaseWritten`](super::Event::LeaseWritten) follows.
    WriteLease(LeaseWrite),
    /// Read a Lease; [`Event::LeaseRead`](super::Event::LeaseRead) follows.
    ReadLease(NodeName),
    /// Write a claim; [`Event::ClaimWritten`](super::Event::ClaimWritten) follows.
    WriteClaim(ClaimWrite),
    /// Delete a claim's object; [`Event::ClaimDeleted`](super::Event::ClaimDeleted) follows.
    DeleteClaim {
        vip: IpAddr,
        /// The version that the object must have.
        expected: Version,
    },
    /// Read a claim; [`Event::ClaimRead`](super::Event::ClaimRead) follows.
    ReadClaim(IpAddr),
    /// Give this node's monitor another plan.
    SetWire(Plan),
    /// Give the program the keys of the failure detector, or take them away, so that it refuses all
    /// frames. Then [`Event::Detected`](super::Event::Detected) reports the last expiry notice,
    /// if any.
    SetHeeding(bool),
    /// Notify the former holder of a VIP that its session has ended, before the VIP is announced, and
    /// repeat the announcement to it alone. [`Command::SetEntry`] follows.
    NotifyFormer {
        vip: IpAddr,
        /// The session that has ended.
        session: Session,
        /// The MAC with which it answered.
        mac: MacAddr,
    },
    /// List all objects anew. The API server's store may have gone back
    /// to an older state, which no watch shows.
    ListAnew,
    /// Send no request to an API server on this node for now: the node is unresponsive.
    AvoidServer(NodeName),
    /// Log a notice, and write its Event.
    Notify(Notice),
    /// The agent may end now.
    Stopped,
}

/// A notice for the log and for Events.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Notice {
    /// This node holds a VIP now.
    Holds {
        vip: IpAddr,
        services: Vec<ServiceName>,
        /// The previous holder, if there was one.
        from: Option<NodeName>,
        cause: String,
    },
    /// No node can hold a VIP.
    NoHolder {
        vip: IpAddr,
        services: Vec<ServiceName>,
        /// Each node, and the reason that disqualifies it.
        why: String,
    },
    /// An operator's wish cannot be fulfilled.
    CannotMove {
        vip: IpAddr,
        services: Vec<ServiceName>,
        /// The node to which the operator wants to move it.
        to: NodeName,
        /// The reason that disqualifies the node.
        why: String,
    },
    /// This node has repaired its claim or Lease.
    Repaired {
        /// The VIP, or the Lease's node.
        what: String,
        fault: Fault,
    },
    /// The API server's store went back to an older state.
    WentBack,
    /// This node's session has been ended. Other nodes may take its VIPs.
    SessionEnded { session: Session },
    /// A false positive: this node's session was expired as unresponsive although the node lived,
    /// `moves` times in a short time. Only its Lease counts for a while.
    WireSlow {
        moves: usize,
        /// The time for which only the Lease counts.
        lasts: Duration,
    },
    /// A false expiry notice: the Lease shows that this node's session has not ended. The frame was
    /// forged, or a peer is broken.
    FalseEnd {
        session: Session,
        /// The time for which this node leaves the failure detector, after several such notices in
        /// a short time.
        mute_for: Option<Duration>,
    },
    /// An interface has no contact with several peers that live, and counts as without carrier, or does
    /// so no longer.
    WireContact {
        interface: Arc<str>,
        /// True if it counts as without carrier.
        is_one_way: bool,
    },
    /// Another agent runs under this node's name.
    NotAlone { session: Session },
}

/// The fault of a claim or Lease that its owner has repaired.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    Edited,
    Missing,
    /// The object was older than its owner's last write.
    Older,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Edited => "edited by hand",
            Self::Missing => "missing",
            Self::Older => "older than what this node had written",
        })
    }
}
