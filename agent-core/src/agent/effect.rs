//! The effects of the agent, and the lines that it logs.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::Arc,
    time::Duration,
};

use vipward_common::{LeaseDeadline, MacAddr, Proof, Twin, VipEntry, VipFault, VipKey};

use super::segment::Note;
use crate::{
    delivery::{self, Target},
    host::{
        attaching::{Mode, OwnProgram},
        heartbeat::Late,
        net::Interface,
        plan::{Action, Cause},
        stale::Changes,
    },
    liveness::Plan,
    ownership::{ClaimWrite, LeaseWrite, Notice, StopReason},
    records::{NodeName, ServiceName, Session, Version},
    reports::{
        claim_findings::{Aspect, Finding},
        moves::{Cause as Move, Took},
        outbox::Message,
        refusals::News,
    },
    segment::{announce, conflict, groups, inquiry::Question, proving::Received, rivals::Hold},
    services::Problem,
};

/// An action for the caller. Effects are carried out in their order. Their results come before other
/// inputs.
#[derive(Clone, PartialEq, Debug)]
pub enum Effect {
    /// Read this. [`Outcome::Read`](super::Outcome::Read) follows.
    Read(Reading),
    /// Attach to these interfaces, and detach from all others; then read the records of these slots and
    /// the memberships in groups. [`Outcome::Prepared`](super::Outcome::Prepared) follows.
    Prepare {
        attach: Vec<u32>,
        slots: BTreeSet<u32>,
        /// True to check whether the kernel may send requests from a bound address.
        binds: bool,
    },
    /// Carry out these actions. [`Outcome::Written`](super::Outcome::Written) follows.
    Write(Vec<Action>),
    /// Join or leave a group. [`Outcome::Group`](super::Outcome::Group) follows.
    ChangeGroup(groups::Command),
    /// Move the lease deadline. If that fails, the agent must end.
    SetDeadline(LeaseDeadline),
    /// Record in the maps whether the program sees an interface's frames.
    PutProof(u32, Proof),
    /// Record in the maps a finding about a VIP, if this node holds it.
    PutFault(VipKey, Option<VipFault>),
    /// Record in the maps whether frames with this host's own MAC come from an interface.
    PutTwin(u32, Twin),
    /// Attach a program again that sees no frame of a segment.
    /// [`Outcome::AttachedAgain`](super::Outcome::AttachedAgain) follows.
    AttachAgain(u32),
    /// Send an announcement, if the maps state by then that this node holds the VIP: the entry is
    /// held with the command's MAC and has not yielded, and the lease deadline lies ahead. The
    /// state that all VIPs share may be read once for the effects of one input. Effects that change
    /// the lease deadline or the entries need another read.
    /// [`Outcome::Announced`](super::Outcome::Announced) follows when a round has left.
    Announce {
        command: announce::Command,
        /// True if the VIP was taken back: then the grace period is enough.
        is_taken_back: bool,
    },
    /// Probe an address. [`Outcome::NotSent`](super::Outcome::NotSent) follows on failure.
    Probe(VipKey),
    /// Ask this host for an address by unicast. [`Outcome::NotSent`](super::Outcome::NotSent) follows on
    /// failure.
    AskHost {
        key: VipKey,
        mac: MacAddr,
    },
    /// Tell whether this MAC, which answers for an address, is a host or a router.
    /// [`Input::Told`](super::Input::Told) follows.
    TellApart {
        key: VipKey,
        mac: MacAddr,
    },
    /// Send one probe after an announcement, from which switches learn the port.
    ShowPort(VipKey),
    /// Request a VIP that this node holds, if the maps state by then that it does.
    ProbeHeld {
        key: VipKey,
        /// True if the VIP was taken back: then the grace period is enough.
        is_taken_back: bool,
    },
    /// State to a peer which of these VIPs this node holds, if the maps state by then that it does, as
    /// for an announcement.
    State {
        ifindex: u32,
        to: MacAddr,
        holds: Vec<Hold>,
    },
    /// Read the program's counts of claims. [`Outcome::Counted`](super::Outcome::Counted) follows.
    Count,
    /// Listen on a segment, and request answers from gateways, these peers and neighbours, and for these
    /// VIPs of others.
    /// [`Input::Listened`](super::Input::Listened) follows.
    Listen {
        segment: u32,
        round: u64,
        peers: Vec<IpAddr>,
        questions: Vec<Question>,
    },
    /// Ask a host by unicast in the name of each of these VIPs, if the maps state by then that this node holds
    /// it; and then in the name of this host's own address. [`Outcome::Asked`](super::Outcome::Asked)
    /// follows.
    AskAs {
        segment: u32,
        round: u64,
        host: IpAddr,
        mac: MacAddr,
        vips: Vec<IpAddr>,
        own: IpAddr,
    },
    Cluster(Cluster),
    /// Read the file again. [`Input::File`](super::Input::File) follows.
    ReadFile,
    /// The texts of the present problems.
    Problems(BTreeSet<String>),
    Log(Line),
    /// Undo everything. The lease deadline comes first: without it, no VIP is answered for.
    Withdraw,
    Stopped(Option<StopReason>),
    /// End with an error: another agent has this node's name, in this session.
    NotAlone(Session),
}

/// A part of the kernel's state that the agent reads.
#[derive(Clone, PartialEq, Debug)]
pub enum Reading {
    Network,
    Yields,
    Maps,
    Entries(Vec<VipKey>),
    /// The records of these slots.
    Records(BTreeSet<u32>),
    /// The MACs of this node and its peers.
    Macs,
    Held,
    LeaseDeadline,
    /// These entries as they count now.
    Seen(Vec<VipKey>),
    Groups,
}

/// A VIP that this node holds, as `MetalLB`'s objects show it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HeldVip {
    pub services: Vec<ServiceName>,
    pub interface: Arc<str>,
    pub uid: Option<Arc<str>>,
}

/// An effect of an agent that has a cluster.
#[derive(Clone, PartialEq, Debug)]
pub enum Cluster {
    /// Send a request. Its outcome is an input.
    Ask(Request),
    /// Read the `EndpointSlice`s, which this Service needs.
    ListSlices(ServiceName),
    /// List all objects anew.
    ListAnew,
    /// Send no request to an API server on this node for now: the node is unresponsive.
    AvoidServer(NodeName),
    /// Give the monitor another plan.
    Watch(Plan),
    /// Give the program the keys of the failure detector, or take them away. The program's last
    /// expiry notice, if any, is an input then.
    SetHeeding(bool),
    /// Notify a VIP's former holder that its session has ended. The announcement follows.
    NotifyFormer {
        ifindex: u32,
        /// The former holder's MAC.
        mac: MacAddr,
        session: Session,
    },
    /// Ask this node's service proxy. Its answer is an input.
    AskProxy(Target),
    /// Show in `MetalLB`'s objects where this node holds a VIP. None: it does not.
    ShowHolder(IpAddr, Option<HeldVip>),
    /// Remove what `MetalLB`'s objects state of a dead node.
    ForgetHolder(Vec<ServiceName>, NodeName),
    /// Write an Event.
    Post(Box<Message>),
    Problem(ServiceName, Problem),
    ProblemOver(ServiceName, Problem),
    /// This node no longer writes the status of a Service.
    LeaveStatus(ServiceName),
    /// Count a VIP that this node gets.
    Moved(Move),
    /// Measure a move that has ended with the first announcement.
    Took(Took),
}

/// A request to the API server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Request {
    WriteLease(LeaseWrite),
    ReadLease(NodeName),
    WriteClaim(ClaimWrite),
    /// Delete a claim that has this version.
    DeleteClaim(IpAddr, Version),
    ReadClaim(IpAddr),
    /// Show a finding on a VIP's claim.
    Show(IpAddr, Finding),
    /// Write the status of a Service, or with none take back what Vipward wrote.
    WriteStatus {
        service: ServiceName,
        addresses: Option<Vec<IpAddr>>,
        /// The version of a Service with another manager's status, which is overwritten. A later
        /// version may have another status.
        over: Option<Version>,
    },
}

#[derive(Clone, PartialEq, Debug)]
pub enum Line {
    /// The file was applied.
    Configured,
    /// An operator wants yielded VIPs back.
    Reclaims,
    /// The file takes something away, and is applied if it does not change meanwhile.
    Unsettled {
        /// The number of VIPs that it leaves out.
        vips: usize,
        within: Duration,
    },
    /// The network could not be observed.
    Unobserved(String),
    /// Notifications of the network were lost.
    Overrun,
    /// Another program has removed the agent's from an interface. It is attached again.
    Removed {
        interface: String,
        own: OwnProgram,
        /// The programs that run there instead.
        instead: Vec<u32>,
    },
    /// The kernel's state could not be read back.
    Unread(String),
    /// Peers could not be written.
    PeersUnwritten(String),
    /// Memberships could not be read or changed.
    Groups(String),
    /// An entry has changed.
    Entry {
        key: VipKey,
        from: Option<VipEntry>,
        to: Option<VipEntry>,
        cause: Cause,
    },
    /// The failures of writes that have begun or are over.
    Stale(Changes),
    /// VIPs that this node has and does not answer.
    Silences {
        /// With the reasons.
        begun: Vec<(IpAddr, Option<String>)>,
        /// They are answered again.
        over: Vec<IpAddr>,
        /// This node has them no longer.
        gone: Vec<IpAddr>,
    },
    Conflict(Box<conflict::Line>),
    Segment(Note),
    /// This node takes VIPs back, which were announced with these MACs.
    TakesBack(BTreeMap<IpAddr, MacAddr>),
    /// A finding about what the program sees.
    Proof {
        segment: u32,
        /// The finding before.
        from: Proof,
        to: Proof,
        /// The frames that the finding rests on.
        received: Received,
    },
    /// VIPs on this segment from which the network drops the frames, and those from which it no longer does.
    /// The host answered this host's own address.
    Egress {
        segment: u32,
        begun: Vec<IpAddr>,
        over: Vec<IpAddr>,
        host: Option<IpAddr>,
    },
    /// VIPs of this node whose clients do not reach it, as another node found, or do so again.
    Unreached(Vec<(IpAddr, Option<VipFault>)>),
    /// A finding why frames with this host's own MAC come from a segment.
    Twin {
        segment: u32,
        /// The finding before.
        from: Twin,
        to: Twin,
    },
    /// Hosts are heard again on this segment, whose VIPs are announced and probed.
    HeardAgain(u32),
    /// The heartbeat was late. The lease deadline is this many milliseconds ahead now.
    Late(Late, u64),
    /// This many addresses are being probed.
    Probing(usize),
    /// The addresses have been probed, and this many are in use.
    Probed(usize),
    Proxy(delivery::News),
    /// The cluster has been read.
    Synced,
    /// A notice of the engine. A repair has the number of those before it that were not logged.
    Notice(Notice, Option<u64>),
    Refused(News),
    /// A finding on a claim is up to date again.
    Shown(IpAddr, Aspect),
    /// A finding on a claim is not up to date, for this reason.
    NotShown(IpAddr, Aspect, String),
}

impl Line {
    /// Returns the line about a program that another one has removed from an interface.
    pub(super) fn removed((interface, own): (&Interface, OwnProgram)) -> Self {
        let instead = match own.mode {
            Mode::Native | Mode::Generic => interface.xdp_programs.clone(),
            Mode::Tc => interface.tc_programs.clone().unwrap_or_default(),
        };
        Self::Removed { interface: interface.name.clone(), own, instead }
    }
}
