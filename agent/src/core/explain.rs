//! Why an address is answered for, or is not: facts in, a chain of steps out, from what wants it to who answers.
//!
//! A step is broken when nothing behind it can be right. The first one is what to look at.

mod cluster;
mod host;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    net::Ipv4Addr,
    time::Duration,
};

use serde::Serialize;
use vipward_common::{FenceState, MacAddr, Role};

use super::{
    cluster::{ClaimRecord, LeaseRecord, NodeName},
    config::XdpMode,
    net::LinkTrouble,
    ownership::Disqualified,
    services::Account,
    who_has,
};

#[cfg(test)]
mod tests;

/// What was looked at, or why it was not.
#[derive(Clone, PartialEq, Debug)]
pub enum Look<T> {
    /// What was seen.
    Seen(T),
    /// It is not there to be looked at, or may not be: why.
    Not(String),
    /// It should be there, and could not be read: why.
    Failed(String),
}

/// Everything that is known.
#[derive(Clone, PartialEq, Debug)]
pub struct Facts {
    /// The address.
    pub address: Ipv4Addr,
    /// What the API server has.
    pub cluster: Look<Cluster>,
    /// What the file of a standalone agent says.
    pub config: Look<Listed>,
    /// What is pinned on this host.
    pub pins: Look<Pinned>,
    /// Who answers.
    pub segment: Look<who_has::Report>,
    /// The MACs of this host.
    pub own: BTreeSet<MacAddr>,
}

/// What the API server has.
#[derive(Clone, PartialEq, Debug)]
pub struct Cluster {
    /// What the address is to the Services.
    pub account: Account,
    /// Its claim.
    pub claim: Option<ClaimRecord>,
    /// The Leases.
    pub leases: BTreeMap<NodeName, LeaseSeen>,
    /// Each Node, and what speaks against it.
    pub nodes: Vec<(NodeName, Result<Option<Disqualified>, Disqualified>)>,
    /// Where the agents' Leases and Pods are.
    pub namespace: String,
}

impl Cluster {
    /// The MACs of the nodes that have agents.
    fn macs(&self) -> impl Iterator<Item = MacAddr> {
        self.leases.values().flat_map(|lease| &lease.record.links).map(|link| link.mac)
    }
}

/// A Lease, and what was seen of it for some time. Its own times are another clock's.
#[derive(Clone, PartialEq, Debug)]
pub struct LeaseSeen {
    /// What it says.
    pub record: LeaseRecord,
    /// Whether it changed while it was watched.
    pub renewed: bool,
    /// How long that was.
    pub watched: Duration,
}

impl LeaseSeen {
    /// Whether it was watched for as long as a renewal is good for, and did not change.
    fn is_silent(&self) -> bool {
        !self.renewed && self.watched >= self.record.duration
    }
}

/// What the file of a standalone agent says of the address.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Listed {
    /// Its name.
    pub file: String,
    /// How the program is to be attached.
    pub xdp: XdpMode,
    /// The address's entry there, if it has one.
    pub vip: Option<ListedVip>,
}

/// An entry of the file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ListedVip {
    /// Where it lives, if it is only guarded here.
    pub guarded: Option<MacAddr>,
    /// The interface that it is placed on.
    pub interface: Option<String>,
    /// What stands in the way of placing it.
    pub problems: Vec<String>,
    /// The interface that it is to be bound to, and whether it is there.
    pub bind: Option<(String, bool)>,
}

/// What is pinned on this host.
#[derive(Clone, PartialEq, Debug)]
pub struct Pinned {
    /// Where.
    pub dir: String,
    /// The entries of the address.
    pub entries: Vec<EntryFacts>,
    /// Whether this node may answer.
    pub fence: FenceState,
    /// How long the fence is still valid, or held over.
    pub fence_left: Duration,
}

/// An entry of the address.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EntryFacts {
    /// On which interface.
    pub interface: String,
    /// What this node is to the address there, as the program sees it now.
    pub role: Role,
    /// Where the address is; zero if unknown.
    pub mac: MacAddr,
    /// Whether this node gave way to that MAC.
    pub yielded: bool,
    /// How the program runs on that interface; none when it does not.
    pub running: Option<Running>,
    /// What keeps the interface from answering, whatever the maps say.
    pub link_trouble: Option<LinkTrouble>,
    /// Requests answered, conflicts and requests dropped; none without counters.
    pub counts: Option<(u64, u64, u64)>,
}

impl EntryFacts {
    fn is_ours(&self) -> bool {
        matches!(self.role, Role::Held | Role::Handover)
    }
}

/// How the program runs on an interface, and what that depends on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Running {
    /// How.
    pub mode: Mode,
    /// Whether the interface is one end of a veth.
    pub veth: bool,
    /// Whether its driver says that it runs native XDP; none when the kernel does not tell.
    pub offers_native: Option<bool>,
}

/// Where the program sees a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[cfg_attr(test, derive(serde::Deserialize))]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// In the driver.
    Native,
    /// In the network stack.
    Generic,
}

impl Mode {
    /// As it is shown.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Generic => "generic",
        }
    }
}

/// How the program runs where this host is to answer.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Attached {
    /// On which interface.
    pub interface: String,
    /// How.
    pub mode: Mode,
    /// Why it is not native, when it is not.
    pub because: Option<String>,
}

/// What a step is found to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[cfg_attr(test, derive(serde::Deserialize))]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// As it should be.
    Good,
    /// Not as it should be, and no reason for silence.
    Doubtful,
    /// What comes after it cannot be right.
    Broken,
    /// Nobody has looked, and why.
    Unseen,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Good => "ok",
            Self::Doubtful => "doubtful",
            Self::Broken => "BROKEN",
            Self::Unseen => "not seen",
        })
    }
}

/// The links of the chain, in their order.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[cfg_attr(test, derive(serde::Deserialize))]
#[serde(rename_all = "kebab-case")]
pub enum Link {
    /// The API server is read.
    Cluster,
    /// A Service that is served wants the address.
    Service,
    /// It may be taken.
    Address,
    /// Some node can hold it.
    Candidates,
    /// One has claimed it.
    Claim,
    /// And lives.
    Session,
    /// The file lists it.
    Config,
    /// It belongs to an interface.
    Placement,
    /// This host's entry is as it should be.
    Entry,
    /// The program runs where it should.
    Attached,
    /// This host may answer.
    Fence,
    /// The address is there for local delivery.
    Bound,
    /// The segment answers as it should.
    Segment,
}

impl Link {
    /// As it is shown.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cluster => "cluster",
            Self::Service => "service",
            Self::Address => "address",
            Self::Candidates => "candidates",
            Self::Claim => "claim",
            Self::Session => "session",
            Self::Config => "config",
            Self::Placement => "placement",
            Self::Entry => "entry",
            Self::Attached => "attached",
            Self::Fence => "fence",
            Self::Bound => "bound",
            Self::Segment => "segment",
        }
    }
}

/// One step of the chain.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Step {
    /// Which.
    pub link: Link,
    /// What it is found to be.
    pub verdict: Verdict,
    /// What was found.
    pub says: String,
    /// More of it.
    pub details: Vec<String>,
    /// What to do about it.
    pub remedy: Option<String>,
}

impl Step {
    fn new(link: Link, verdict: Verdict, says: impl Into<String>) -> Self {
        Self { link, verdict, says: says.into(), details: Vec::new(), remedy: None }
    }

    fn good(link: Link, says: impl Into<String>) -> Self {
        Self::new(link, Verdict::Good, says)
    }

    fn unseen(link: Link, why: impl Into<String>) -> Self {
        Self::new(link, Verdict::Unseen, why)
    }

    fn broken(link: Link, says: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { remedy: Some(remedy.into()), ..Self::new(link, Verdict::Broken, says) }
    }

    fn doubtful(link: Link, says: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { remedy: Some(remedy.into()), ..Self::new(link, Verdict::Doubtful, says) }
    }

    fn with(self, details: Vec<String>) -> Self {
        Self { details, ..self }
    }
}

/// The whole chain.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Explanation {
    /// The address.
    pub address: Ipv4Addr,
    /// The first broken step.
    pub broken: Option<Link>,
    /// What to do about it.
    pub remedy: Option<String>,
    /// How the program runs on the interface with which this host answers; none when it has no entry that does, or
    /// the program does not run there.
    pub attached: Option<Attached>,
    /// The steps.
    pub steps: Vec<Step>,
}

/// Goes through the chain.
pub fn explain(facts: &Facts) -> Explanation {
    let mut steps = match (&facts.cluster, &facts.config) {
        (Look::Seen(cluster), _) => cluster::steps(cluster, &answering(facts)),
        (Look::Failed(why), _) => vec![Step::broken(
            Link::Cluster,
            format!("the API server cannot be read: {why}"),
            "mend the way to it, or give another --kubeconfig; what is held is answered on meanwhile",
        )],
        (Look::Not(why), Look::Not(_)) => vec![Step::unseen(Link::Cluster, why.clone())],
        (Look::Not(_), Look::Seen(_) | Look::Failed(_)) => Vec::new(),
    };
    if !matches!(facts.config, Look::Not(_)) {
        steps.extend(host::config_steps(&facts.config));
    }
    steps.extend(host::steps(facts));
    steps.push(host::segment(facts));
    let broken = steps.iter().find(|step| step.verdict == Verdict::Broken);
    Explanation {
        address: facts.address,
        broken: broken.map(|step| step.link),
        remedy: broken.and_then(|step| step.remedy.clone()),
        attached: host::attachment(facts),
        steps,
    }
}

/// Who answers on the segment and is none of ours, as far as this host and the cluster's Leases know.
fn answering(facts: &Facts) -> Vec<String> {
    let Look::Seen(report) = &facts.segment else { return Vec::new() };
    let nodes: BTreeSet<String> = match &facts.cluster {
        Look::Seen(cluster) => cluster.macs().map(|mac| mac.to_string()).collect(),
        Look::Not(_) | Look::Failed(_) => BTreeSet::new(),
    };
    let is_others = |row: &&who_has::Row| {
        matches!(row.relation, who_has::Relation::Stranger | who_has::Relation::Unknown)
            && !nodes.contains(&row.mac)
    };
    let answering = report.answers.iter().filter(is_others);
    answering.map(|row| format!("{} ({})", row.mac, row.vendor)).collect()
}
