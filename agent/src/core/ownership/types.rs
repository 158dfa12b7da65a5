//! What the engine is told, and what it asks for.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    net::Ipv4Addr,
    sync::Arc,
    time::Duration,
};

use vipward_common::MacAddr;

use crate::core::{
    cluster::{
        ClaimNote, ClaimRecord, ClaimState, Epoch, LeaseRecord, NodeLink, NodeName, NodeRecord, Selector,
        ServiceName, Session, Version,
    },
    config::InterfacePattern,
    time::Monotonic,
};

/// What is pinned when the agent starts.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Found {
    /// The session that the fence belongs to.
    pub session: Option<Session>,
    /// When the fence lapses.
    pub deadline: Monotonic,
    /// The entries that answer.
    pub entries: BTreeMap<Ipv4Addr, FoundEntry>,
    /// The VIPs that are not answered for, and the MAC that they are said to be at.
    pub foreign: BTreeMap<Ipv4Addr, MacAddr>,
}

/// An entry that answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FoundEntry {
    /// With our own MAC.
    Held,
    /// With a successor's.
    Handover {
        /// The successor's MAC.
        mac: MacAddr,
        /// When it ends by itself.
        until: Monotonic,
    },
}

/// What Services want of a VIP.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Demand {
    /// Which Services, sorted.
    pub services: Vec<ServiceName>,
    /// The nodes that traffic can be delivered on, when it cannot on all (`externalTrafficPolicy: Local`).
    pub local: Option<BTreeSet<NodeName>>,
    /// Only nodes with these labels may hold it.
    pub nodes: Option<Selector>,
    /// Nodes with these labels come first.
    pub preferred: Option<Selector>,
    /// Only on interfaces with such names; all when empty.
    pub interfaces: Vec<InterfacePattern>,
    /// It is taken although its address is in use: nobody is asked.
    pub force: bool,
}

/// What happened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// Everything has been listed once: what was not told does not exist.
    Synced,
    /// A Lease was listed or changed.
    Lease(LeaseRecord),
    /// A Lease is gone.
    LeaseGone(NodeName),
    /// A claim was listed or changed.
    Claim(ClaimRecord),
    /// A claim is gone.
    ClaimGone(Ipv4Addr),
    /// A Node was listed or changed.
    Node(NodeRecord),
    /// A Node is gone.
    NodeGone(NodeName),
    /// Services want this of a VIP; none: they do not want it any more.
    Demand(Ipv4Addr, Option<Demand>),
    /// This node's own interfaces that VIPs can be on.
    Links(Vec<NodeLink>),
    /// What became of [`Command::WriteLease`]; a record is as it was written.
    LeaseWritten {
        /// Whose.
        node: NodeName,
        /// Its result.
        outcome: Outcome<LeaseRecord>,
    },
    /// What [`Command::ReadLease`] found; [`Outcome::Missing`] when there is none.
    LeaseRead {
        /// Whose.
        node: NodeName,
        /// Its result.
        outcome: Outcome<LeaseRecord>,
    },
    /// What became of [`Command::WriteClaim`].
    ClaimWritten {
        /// Which.
        vip: Ipv4Addr,
        /// Its result.
        outcome: Outcome<ClaimRecord>,
    },
    /// What became of [`Command::DeleteClaim`].
    ClaimDeleted {
        /// Which.
        vip: Ipv4Addr,
        /// Its result.
        outcome: Outcome<()>,
    },
    /// What [`Command::ReadClaim`] found; [`Outcome::Missing`] when there is none.
    ClaimRead {
        /// Which.
        vip: Ipv4Addr,
        /// Its result.
        outcome: Outcome<ClaimRecord>,
    },
    /// What [`Command::Probe`] has found out; it may find out something else later.
    Probed {
        /// The VIP.
        vip: Ipv4Addr,
        /// What.
        probed: Probed,
    },
    /// The program heard something about a VIP.
    Wire {
        /// The VIP.
        vip: Ipv4Addr,
        /// What.
        heard: Wire,
    },
    /// The agent is to end.
    Stop(StopReason),
    /// Time has passed.
    Tick,
}

/// What the program tells about a VIP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wire {
    /// A peer claims what we answer for, while our fence is valid.
    Contested {
        /// The peer's MAC.
        mac: MacAddr,
    },
    /// A peer has announced what we hand over, or do not hold.
    Moved {
        /// The peer's MAC.
        mac: MacAddr,
    },
    /// The program gave way to a peer while the fence had lapsed.
    Yielded {
        /// The peer's MAC.
        mac: MacAddr,
    },
}

/// What the segment says about an address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Probed {
    /// Nobody uses it.
    Free,
    /// Somebody does.
    InUse {
        /// Who.
        mac: MacAddr,
        /// Whether that is a peer.
        by_peer: bool,
    },
}

/// Why the agent ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StopReason {
    /// Another process goes on with the pins soon.
    Restart,
    /// The node goes away: others get its VIPs.
    Leave,
    /// Vipward is being removed.
    Uninstall,
}

/// What became of a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome<T> {
    /// Done, or found.
    Done(T),
    /// Somebody else has written meanwhile, or the object exists already. Nothing was changed.
    Conflict,
    /// There is no such object. Nothing was changed.
    Missing,
    /// No answer in time: done or not.
    Unknown,
    /// The API server refuses it. Nothing was changed.
    Refused(Arc<str>),
}

/// What a write rests on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Expected {
    /// There is no such object yet.
    Absent,
    /// It is at this version.
    At(Version),
}

/// A Lease to be written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LeaseWrite {
    /// Whose.
    pub node: NodeName,
    /// Compare and swap.
    pub expected: Expected,
    /// The session that it is to carry.
    pub session: Option<Session>,
    /// The sessions that have ended.
    pub ended: Vec<Session>,
    /// How long it is good for.
    pub duration: Duration,
    /// The interfaces.
    pub links: Vec<NodeLink>,
    /// Whether the node goes away, and takes nothing any more.
    pub leaving: bool,
}

/// A claim to be written. It keeps the finalizer, and clears the operator's wish for a move.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClaimWrite {
    /// Which.
    pub vip: Ipv4Addr,
    /// Compare and swap.
    pub expected: Expected,
    /// Changes of holder.
    pub epoch: Epoch,
    /// Who has it.
    pub state: ClaimState,
    /// What it tells people.
    pub note: ClaimNote,
    /// Whether nobody has the VIP: what keeps others answered may be written before it.
    pub can_wait: bool,
}

/// What a VIP's entry is to be on its segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Entry {
    /// We answer with our own MAC.
    Held,
    /// Another node's; its MAC is zero if unknown.
    Foreign {
        /// Where it is.
        mac: MacAddr,
    },
    /// We answer with the successor's MAC.
    Handover {
        /// The successor's.
        mac: MacAddr,
        /// When it ends by itself.
        until: Monotonic,
    },
}

/// The fence to be written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fenced {
    /// The session that it belongs to.
    pub session: Option<Session>,
    /// The fence is valid before this.
    pub deadline: Monotonic,
    /// And held over from then until this.
    pub hold_until: Monotonic,
}

/// What is to be done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Command {
    /// Move the fence.
    SetFence(Fenced),
    /// Make a VIP's entry this, before the next command is carried out. None: no entry at all.
    ///
    /// [`Entry::Held`] is also said again to take back what was yielded.
    SetEntry {
        /// The VIP.
        vip: Ipv4Addr,
        /// What.
        entry: Option<Entry>,
        /// The name of our interface on its segment; none when we have none there.
        home: Option<Arc<str>>,
    },
    /// The MACs of the other nodes' interfaces.
    SetPeers(BTreeSet<MacAddr>),
    /// Announce a VIP that we hold once more.
    Announce {
        /// The VIP.
        vip: Ipv4Addr,
    },
    /// Find out whether the VIP's address is in use on its segment; [`Event::Probed`] follows, and again when that changes,
    /// until it is free.
    Probe {
        /// The VIP.
        vip: Ipv4Addr,
    },
    /// Find that out no more.
    StopProbing {
        /// The VIP.
        vip: Ipv4Addr,
    },
    /// Write a Lease; [`Event::LeaseWritten`] follows.
    WriteLease(LeaseWrite),
    /// Read a Lease; [`Event::LeaseRead`] follows.
    ReadLease(NodeName),
    /// Write a claim; [`Event::ClaimWritten`] follows.
    WriteClaim(ClaimWrite),
    /// Let go of a claim's object and delete it; [`Event::ClaimDeleted`] follows.
    DeleteClaim {
        /// Which.
        vip: Ipv4Addr,
        /// Compare and swap.
        expected: Version,
    },
    /// Read a claim; [`Event::ClaimRead`] follows.
    ReadClaim(Ipv4Addr),
    /// Tell people.
    Notify(Notice),
    /// The agent may end now.
    Stopped,
}

/// What people are told, in logs and as Events.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Notice {
    /// This node holds a VIP now.
    Holds {
        /// The VIP.
        vip: Ipv4Addr,
        /// Whose it is.
        services: Vec<ServiceName>,
        /// Who had it before, if anybody.
        from: Option<NodeName>,
        /// Why.
        cause: String,
    },
    /// Nobody can hold a VIP.
    Nobody {
        /// The VIP.
        vip: Ipv4Addr,
        /// Whose it is.
        services: Vec<ServiceName>,
        /// Each node, and what disqualifies it.
        why: String,
    },
    /// An operator's wish cannot be fulfilled.
    CannotMove {
        /// The VIP.
        vip: Ipv4Addr,
        /// Whose it is.
        services: Vec<ServiceName>,
        /// Where it was wanted.
        to: NodeName,
        /// What disqualifies it.
        why: String,
    },
    /// A claim or Lease was put right after somebody had edited it.
    Repaired {
        /// What: the VIP, or the Lease's node.
        what: String,
    },
    /// This node's session has ended: its VIPs are others' to take.
    SessionEnded {
        /// Which.
        session: Session,
    },
    /// Another agent runs under this node's name.
    NotAlone {
        /// Its session.
        session: Session,
    },
}

/// Why a node cannot hold a VIP.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Disqualified {
    /// It has no Lease, or no session in it.
    NoAgent,
    /// Its Lease has not been renewed for too long.
    Silent,
    /// None of its interfaces is on the VIP's segment.
    NoInterface,
    /// One is, and the Services want others.
    InterfaceNotNamed {
        /// Its name.
        interface: Arc<str>,
    },
    /// The interface on the VIP's segment has no carrier.
    NoCarrier {
        /// Its name.
        interface: Arc<str>,
    },
    /// There is no Node object of this name.
    NoNode,
    /// `node.kubernetes.io/exclude-from-external-load-balancers`.
    Excluded,
    /// The taint `node.kubernetes.io/out-of-service`.
    OutOfService,
    /// The condition `NetworkUnavailable`.
    NetworkUnavailable,
    /// A Service has `externalTrafficPolicy: Local`, and no ready endpoint there.
    NoLocalEndpoint,
    /// The annotation `vipward.io/nodes` leaves it out.
    NotSelected,
    /// Its MAC is so new that others may not know it yet.
    NewMac,
    /// Its agent is about to end.
    Leaving,
    /// It is not ready, and others are.
    NotReady,
    /// It is cordoned, and others are not.
    Cordoned,
}

impl fmt::Display for Disqualified {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoAgent => f.write_str("no agent is running"),
            Self::Silent => f.write_str("its agent has not renewed its Lease"),
            Self::NoInterface => f.write_str("no interface is in the VIP's subnet"),
            Self::InterfaceNotNamed { interface } => {
                write!(
                    f,
                    "annotation vipward.io/interface leaves out {interface}, which is in the VIP's subnet"
                )
            }
            Self::NoCarrier { interface } => write!(f, "{interface} has no carrier"),
            Self::NoNode => f.write_str("there is no such Node"),
            Self::Excluded => f.write_str("label node.kubernetes.io/exclude-from-external-load-balancers"),
            Self::OutOfService => f.write_str("taint node.kubernetes.io/out-of-service"),
            Self::NetworkUnavailable => f.write_str("condition NetworkUnavailable"),
            Self::NoLocalEndpoint => {
                f.write_str("externalTrafficPolicy is Local and no endpoint is ready there")
            }
            Self::NotSelected => f.write_str("annotation vipward.io/nodes leaves it out"),
            Self::NewMac => f.write_str("its MAC is too new to be known to all"),
            Self::Leaving => f.write_str("its agent is about to end"),
            Self::NotReady => f.write_str("not ready"),
            Self::Cordoned => f.write_str("cordoned"),
        }
    }
}
