//! Explanation why an address is answered for, or is not: a chain of steps from the
//! Service that wants the address to the host that answers. That of a Service begins before: with
//! what it asks for, and which addresses it has.
//!
//! A step is broken if no later step can be right. Operators should look at the first broken step.

mod cluster;
mod host;
mod service;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    net::IpAddr,
    time::Duration,
};

use schemars::JsonSchema;
use serde::Serialize;
use vipward_common::MacAddr;

use super::{
    attaching::{Attach, Mode},
    cluster::{ClaimRecord, LeaseRecord, NodeName, NodeRecord, ServiceName},
    pinned::State,
    services::{Account, ServiceAccount},
    who_has,
};

#[cfg(test)]
mod tests;

/// An observation, or the reason why there is none.
#[derive(Clone, PartialEq, Debug)]
pub enum Look<T> {
    /// The observation.
    Seen(T),
    /// Reason why there is nothing to observe, or why no observation was wanted.
    Not(String),
    /// Reason why the observation failed.
    Failed(String),
}

/// The facts about an address.
#[derive(Clone, PartialEq, Debug)]
pub struct Facts {
    /// The address.
    pub address: IpAddr,
    /// The objects of the API server.
    pub cluster: Look<Cluster>,
    /// The file of a standalone agent.
    pub config: Look<Listed>,
    /// The pinned state of this host.
    pub pins: Look<State>,
    /// True for each interface whose driver has native XDP, by
    /// ifindex. Some kernels do not say that.
    pub native: BTreeMap<u32, bool>,
    /// The interfaces on which the agent here takes no VIP that is new or was another's, since no peer
    /// answers there.
    pub without_contact: Vec<String>,
    /// The answers of the segment.
    pub segment: Look<who_has::Report>,
    /// The unicast MACs of this host.
    pub own: BTreeSet<MacAddr>,
}

/// The facts about a Service.
#[derive(Clone, PartialEq, Debug)]
pub struct ServiceFacts {
    /// Its name.
    pub service: ServiceName,
    /// Its account, by the objects of the API server. None if there is no such Service.
    pub account: Look<Option<ServiceAccount>>,
    /// The controller that has the lead. If no controller runs, there are no pools, and the agents
    /// write the statuses.
    pub leader: Look<String>,
    /// Reason why pools could not be read.
    pub pools_unread: Option<String>,
    /// The namespace of the controller.
    pub namespace: String,
}

impl ServiceFacts {
    /// Returns the addresses that are to be explained after the Service.
    pub fn addresses(&self) -> Vec<IpAddr> {
        match &self.account {
            Look::Seen(Some(account)) => service::addresses(account),
            Look::Seen(None) | Look::Not(_) | Look::Failed(_) => Vec::new(),
        }
    }
}

/// The objects of the API server that concern an address.
#[derive(Clone, PartialEq, Debug)]
pub struct Cluster {
    /// The Services' view of the address.
    pub account: Account,
    /// Its claim.
    pub claim: Option<ClaimRecord>,
    /// Reason why no node answers for the address, by its claim.
    pub unanswered: Option<String>,
    /// The Leases.
    pub leases: BTreeMap<NodeName, LeaseSeen>,
    /// The Nodes.
    pub nodes: BTreeMap<NodeName, NodeRecord>,
    /// True if nodes with the exclude label are left out.
    pub honour_exclude_label: bool,
    /// The namespace of the agents' Leases and Pods.
    pub namespace: String,
}

impl Cluster {
    /// Returns the MACs of the nodes that have agents.
    fn macs(&self) -> impl Iterator<Item = MacAddr> {
        self.leases.values().flat_map(|lease| &lease.record.interfaces).map(|interface| interface.mac)
    }
}

/// A Lease that was watched for some time. Its own times come from another clock.
#[derive(Clone, PartialEq, Debug)]
pub struct LeaseSeen {
    /// Its contents.
    pub record: LeaseRecord,
    /// True if it changed while it was watched.
    pub renewed: bool,
    /// Time for which it was watched.
    pub watched: Duration,
}

impl LeaseSeen {
    /// Returns true if it was watched for the duration of a renewal, and did not change.
    fn is_silent(&self) -> bool {
        !self.renewed && self.watched >= self.record.duration
    }
}

/// The file of a standalone agent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Listed {
    /// Its name.
    pub file: String,
    /// The hook that the file names.
    pub attach: Attach,
    /// The address's entry, if it has one.
    pub vip: Option<ListedVip>,
}

/// An entry of the file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ListedVip {
    /// The MAC of the VIP's host, if this host only guards the VIP.
    pub guarded: Option<MacAddr>,
    /// The interface on which it is placed.
    pub interface: Option<String>,
    /// Problems with placing it.
    pub problems: Vec<String>,
    /// The interface to which it is to be bound. True if it is bound.
    pub bind: Option<(String, bool)>,
}

/// The mode in which the program runs on the interface with which this host answers.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub struct Attached {
    /// The interface.
    pub interface: String,
    /// The mode.
    pub mode: Mode,
    /// Why it is not native, or `null` when it is.
    pub because: Option<String>,
}

/// The verdict on a step. The table shows `ok`, `doubtful`, `BROKEN` and `not seen`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// As it should be.
    Good,
    /// Not as it should be, but no reason for silence.
    Doubtful,
    /// No later step can be right.
    Broken,
    /// It was not looked at.
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

/// The links of the chain, in order.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Link {
    /// The API server can be read.
    Cluster,
    /// A Service that is served wants the address.
    Service,
    /// The Service asks for addresses.
    Request,
    /// The pools give it addresses.
    Pool,
    /// Its status names them.
    Status,
    /// The address may be announced.
    Address,
    /// A node can hold it.
    Candidates,
    /// A node has claimed it.
    Claim,
    /// That node lives.
    Session,
    /// The file lists the address.
    Config,
    /// The address belongs to an interface.
    Placement,
    /// The entry of this host is as it should be.
    Entry,
    /// The program runs on the interface.
    Attached,
    /// The fence lets this host answer.
    Fence,
    /// The address is bound for local delivery.
    Bound,
    /// The segment answers as it should.
    Segment,
}

impl Link {
    /// Returns the name for people.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cluster => "cluster",
            Self::Service => "service",
            Self::Request => "request",
            Self::Pool => "pool",
            Self::Status => "status",
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

/// A step of the chain.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub struct Step {
    /// The link of the chain.
    pub link: Link,
    /// The verdict on it.
    pub verdict: Verdict,
    /// What was found, or why it was not looked at.
    pub says: String,
    /// Details of what was found.
    pub details: Vec<String>,
    /// What to do about it, or `null` when it is `good` or `unseen`.
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

/// The whole chain. A step that does not apply is not in the list
/// ([COMMANDS.md](COMMANDS.md#vipward-explain)).
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub struct Explanation {
    /// The address.
    pub address: IpAddr,
    /// The first broken step, or `null` when none is broken.
    pub broken: Option<Link>,
    /// What to do about that step, or `null` when none is broken.
    pub remedy: Option<String>,
    /// How the program runs on the interface with which this host answers, or `null` when this host
    /// has no entry that answers or the program does not run there.
    pub attached: Option<Attached>,
    /// The steps, from the Service that wants the address to the host that answers.
    pub steps: Vec<Step>,
}

/// A Service's chain, and then those of its addresses.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub struct ServiceExplanation {
    /// The Service: its namespace and name.
    pub service: String,
    /// The first broken step, or `null` when none is broken.
    pub broken: Option<Link>,
    /// What to do about that step, or `null` when none is broken.
    pub remedy: Option<String>,
    /// The steps, from the Service to its status.
    pub steps: Vec<Step>,
    /// The chains of its addresses: those that it has, and those that it asks for.
    pub addresses: Vec<Explanation>,
}

/// Returns the chain of steps for a Service. `addresses` has the facts of
/// [`ServiceFacts::addresses`].
pub fn explain_service(facts: &ServiceFacts, addresses: &[Facts]) -> ServiceExplanation {
    let steps = service::steps(facts);
    let addresses: Vec<_> = addresses.iter().map(explain).collect();
    let own = broken(&steps);
    let of_addresses = addresses.iter().find_map(|one| Some((one.broken?, one.remedy.clone())));
    let (broken, remedy) = own.or(of_addresses).unzip();
    let service = facts.service.to_string();
    ServiceExplanation { service, broken, remedy: remedy.flatten(), steps, addresses }
}

/// Returns the first broken step, and what to do about it.
fn broken(steps: &[Step]) -> Option<(Link, Option<String>)> {
    let step = steps.iter().find(|step| step.verdict == Verdict::Broken)?;
    Some((step.link, step.remedy.clone()))
}

/// Returns the chain of steps for these facts.
pub fn explain(facts: &Facts) -> Explanation {
    let mut steps = match (&facts.cluster, &facts.config) {
        (Look::Seen(cluster), _) => cluster::steps(cluster, facts),
        (Look::Failed(why), _) => vec![unreadable(why)],
        (Look::Not(why), Look::Not(_)) => vec![Step::unseen(Link::Cluster, why.clone())],
        (Look::Not(_), Look::Seen(_) | Look::Failed(_)) => Vec::new(),
    };
    if !matches!(facts.config, Look::Not(_)) {
        steps.extend(host::config_steps(&facts.config));
    }
    steps.extend(host::steps(facts));
    steps.push(host::segment(facts));
    let (broken, remedy) = broken(&steps).unzip();
    Explanation {
        address: facts.address,
        broken,
        remedy: remedy.flatten(),
        attached: host::attachment(facts),
        steps,
    }
}

/// Returns the step for an API server that cannot be read.
fn unreadable(why: &str) -> Step {
    Step::broken(
        Link::Cluster,
        format!("the API server cannot be read: {why}"),
        "mend the way to it, or give another --kubeconfig; what is held is answered on meanwhile",
    )
}

/// Returns the strangers that answer on the segment. A stranger is a MAC that
/// neither this host nor the cluster's Leases know.
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
