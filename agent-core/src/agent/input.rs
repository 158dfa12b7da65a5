//! Inputs of the agent, and the results of its effects.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use vipward_common::{
    DeadlineState, Event, MacAddr, Offender, OffenderKey, SeenEntry, Twin, VipEntry, VipKey, Yield,
};

use super::cluster;
use crate::{
    config::Config,
    host::{attaching::Attachments, net::NetView, stale::Left},
    segment::{
        announce::Round,
        confirming::Answerer,
        egress,
        failover::Notice,
        groups::{Command as Change, Membership},
        inquiry::Answered,
        rivals::Hold,
    },
};

/// An input of [`Agent`](super::Agent).
#[derive(Debug)]
pub enum Input {
    /// Everything is open: the agent begins.
    Begin,
    /// The deadline has come, and everything that was reported before it has been passed on.
    Deadline,
    /// The kernel has notified of changes of the network.
    Changed(Changed),
    /// The program has reported events.
    Program(Vec<Event>),
    /// A round of listening on a segment has ended.
    Listened(Listened),
    /// A host was told from a router.
    Told { key: VipKey, mac: MacAddr, answerer: Answerer },
    /// The first frame of another host was received in a round of listening on this segment.
    Heard(u32),
    /// A host has answered this host's own address in a round of listening.
    Answered { segment: u32, round: u64, host: IpAddr, mac: MacAddr, own: IpAddr },
    /// Half of a round of listening is over, in which these VIPs were answered.
    Halfway { segment: u32, round: u64, heard: BTreeSet<IpAddr> },
    /// A host states which VIPs it holds.
    Stated(Stated),
    /// The file was read again.
    File(File),
    /// News of the cluster, for an agent that has one.
    Cluster(cluster::Input),
    /// The agent of a file is to end.
    Stop,
    /// An effect has a result.
    Result(Outcome),
}

/// The result of an effect. It comes before any other input.
#[derive(Debug)]
pub enum Outcome {
    /// The result of [`Effect::Read`](super::Effect::Read), or why nothing could be read.
    Read(Result<Readout, String>),
    /// The result of [`Effect::Prepare`](super::Effect::Prepare).
    Prepared(Box<Prepared>),
    /// The results of the actions of [`Effect::Write`](super::Effect::Write), in their order.
    Written(Vec<Result<(), Unwritten>>),
    /// The result of [`Effect::ChangeGroup`](super::Effect::ChangeGroup).
    Group(Change, Result<(), String>),
    /// An announcement of [`Effect::Announce`](super::Effect::Announce) has left.
    Announced { key: VipKey, round: Round },
    /// A probe of [`Effect::Probe`](super::Effect::Probe), or a request of
    /// [`Effect::AskHost`](super::Effect::AskHost), could not be sent.
    NotSent(VipKey),
    /// A host was asked by [`Effect::AskAs`](super::Effect::AskAs), in the names of these VIPs.
    Asked { segment: u32, round: u64, host: IpAddr, sent: BTreeSet<IpAddr> },
    /// The counts of [`Effect::Count`](super::Effect::Count).
    Counted(BTreeMap<OffenderKey, Offender>),
    /// The network and what is attached after [`Effect::AttachAgain`](super::Effect::AttachAgain), unless
    /// it has failed.
    AttachedAgain(Option<Box<(NetView, Attachments)>>),
}

/// The result of a [`Reading`](super::Reading).
#[derive(Debug)]
pub enum Readout {
    Network(Box<Network>),
    Yields(u64),
    Maps(Box<Maps>),
    Entries(Entries),
    Records(BTreeMap<u32, Yield>),
    Macs(Macs),
    /// The held entries.
    Held(Vec<(VipKey, VipEntry)>),
    /// The lease deadline, and whether the program has ever yielded a VIP.
    LeaseDeadline(DeadlineState, bool),
    Seen(BTreeMap<VipKey, SeenEntry>),
    Groups(BTreeSet<Membership>),
}

/// The network, and what the program is attached to.
#[derive(Debug)]
pub struct Network {
    /// The interfaces, addresses and routes.
    pub view: NetView,
    /// The attached programs.
    pub attachments: Attachments,
    /// The DNS servers of this host.
    pub name_servers: BTreeSet<IpAddr>,
}

/// Notifications of the kernel. They call for an observation.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Changed {
    pub notices: BTreeSet<Notice>,
    /// Interfaces that may have left groups: they were taken down, have lost their carrier, or another
    /// program has removed something. An observation need not show it.
    pub may_have_left: BTreeSet<u32>,
    /// True if notifications were lost.
    pub overrun: bool,
}

/// The maps, for a full round.
#[derive(Debug, Default)]
pub struct Maps {
    /// The number of yields, read before the entries.
    pub yields: u64,
    pub entries: BTreeMap<VipKey, VipEntry>,
    /// The MACs of this node and its peers.
    pub macs: Macs,
    /// The VIPs that are bound to interfaces.
    pub binds: BTreeSet<(String, IpAddr)>,
    /// False if something that should be pinned is not.
    pub is_pinned: bool,
}

#[derive(Debug, Default)]
pub struct Macs {
    /// This node's, by interface.
    pub own: BTreeMap<u32, MacAddr>,
    pub peers: BTreeSet<(u32, MacAddr)>,
}

/// The host after attaching, and what else a full round needs.
#[derive(Debug)]
pub struct Prepared {
    /// The network, with the attached programs.
    pub view: NetView,
    /// The attached programs.
    pub attachments: Attachments,
    /// The records of the requested slots, or why attaching or reading has failed.
    pub records: Result<BTreeMap<u32, Yield>, String>,
    pub groups: Result<BTreeSet<Membership>, String>,
    /// Warnings about bound addresses from which the kernel may send requests.
    pub warnings: Vec<String>,
}

/// Entries, and the number of yields, read before them.
#[derive(Debug, Default)]
pub struct Entries {
    pub yields: u64,
    pub entries: BTreeMap<VipKey, VipEntry>,
}

/// A write that has failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unwritten {
    /// Its effect on the entry, if it was one.
    pub left: Left,
    /// The error with its causes.
    pub error: String,
}

/// The result of listening on a segment.
#[derive(Debug)]
pub struct Listened {
    pub segment: u32,
    pub round: u64,
    /// The frames that the sockets received.
    pub frames: u32,
    /// The frames that the program counted.
    pub counted: u64,
    /// The requested VIPs for which the program answers now, by its maps.
    pub answered: BTreeSet<IpAddr>,
    /// The answers of other hosts to this host.
    pub egress: egress::Outcome,
    /// The VIPs of others for which this host asked, with their answers.
    pub of_others: BTreeMap<IpAddr, Option<Answered>>,
    /// The finding about frames with this host's own MAC.
    pub twin: Twin,
}

/// A statement of a host about the VIPs that it holds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stated {
    /// The interface that it came in by.
    pub ifindex: u32,
    /// Its Ethernet source.
    pub from: MacAddr,
    pub holds: Vec<Hold>,
}

/// The reason why a file gave no configuration.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unread {
    /// It is faulty or gone.
    Faulty,
    /// It could not be read, and may be as it was.
    Unknown,
}

/// A file that was read again.
#[derive(Debug)]
pub struct File {
    /// Its configuration. Without one, the running one stays.
    pub config: Result<Box<Config>, Unread>,
    /// True if an operator takes yielded VIPs back.
    pub reclaim: bool,
}
