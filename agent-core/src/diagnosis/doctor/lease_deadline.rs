//! Judgement of the lease deadline, for `doctor` and for `explain`.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    time::Duration,
};

use vipward_common::{DeadlineState, Policy};

use super::facts::Agent;
use crate::diagnosis::{
    fact::Fact,
    finding::Finding,
    pinned::{Contents, Entry},
};

pub(crate) const LEASE_DEADLINE: &str = "lease-deadline";
/// The reason why a lease deadline counts as passed before its time.
const ENDED: &str = "a peer's expiry notice ended this node's session";

/// Returns the finding about the lease deadline, for an address or for all VIPs of this node.
pub(crate) fn judge(
    contents: &Contents,
    agent: &Fact<Agent>,
    name_of: &dyn Fn(u32) -> String,
    address: Option<IpAddr>,
) -> Finding {
    let lease_deadline = &contents.lease_deadline;
    let is_meant = |it: &&Entry| it.is_own() && address.is_none_or(|address| it.address() == address);
    match contents.lease_deadline_state() {
        DeadlineState::Valid => Finding::green(
            LEASE_DEADLINE,
            format!("valid for another {}", span(contents.left(lease_deadline.deadline_ns))),
        ),
        DeadlineState::Grace => {
            let who_has = address.map_or_else(|| "ADDRESS".to_owned(), |address| address.to_string());
            let alone = alone(contents, contents.entries.iter().filter(is_meant), name_of);
            grace(contents, agent, &alone, &who_has)
        }
        DeadlineState::Over => {
            let end_ns = match lease_deadline.policy {
                Policy::Stop => lease_deadline.deadline_ns,
                Policy::Hold => lease_deadline.deadline_ns.max(lease_deadline.grace_until_ns),
            };
            let over = if contents.has_ended() {
                ENDED.to_owned()
            } else {
                format!("over since {}", span(contents.passed(end_ns)))
            };
            let found = if address.is_some() {
                format!("{over}: it is not answered")
            } else {
                let had: BTreeSet<_> = contents.entries.iter().filter(is_meant).map(Entry::address).collect();
                format!("{over}; {} of this node's VIPs not answered", had.len())
            };
            Finding::red(LEASE_DEADLINE, found, start(contents))
        }
    }
}

/// Judges a grace period. A node of a cluster gives way to its peers only. If it knows no peer,
/// another node may answer beside it.
fn grace(contents: &Contents, agent: &Fact<Agent>, alone: &[String], who_has: &str) -> Finding {
    let lease_deadline = &contents.lease_deadline;
    let why = if contents.has_ended() {
        ENDED.to_owned()
    } else {
        let passed = span(contents.passed(lease_deadline.deadline_ns));
        format!("the agent has not moved it in time, and the deadline passed {passed} ago")
    };
    let found = format!(
        "grace period: {why}; answering goes on for {}",
        span(contents.left(lease_deadline.grace_until_ns))
    );
    if !alone.is_empty() {
        return Finding::red(
            LEASE_DEADLINE,
            format!(
                "{found}; it answers for {}, where it knows no peer and yields to no host: two may answer",
                alone.join(" and ")
            ),
            format!(
                "let the agent reach the API server: its log states what fails. When another node has the VIPs \
                 (`vipward who-has {who_has}` lists who answers), stop the agent here and run `vipward unload`"
            ),
        );
    }
    let remedy = match agent {
        Fact::Read(Agent::Runs(_)) if contents.is_in_cluster() => {
            "the agent runs, and does not renew its Lease: let it reach the API server, or give it CPU time; its log \
             says which"
        }
        Fact::Read(Agent::Runs(_) | Agent::None) | Fact::Unread(_) => start(contents),
    };
    Finding::yellow(LEASE_DEADLINE, found, remedy)
}

/// Returns the remedy if no agent renews.
fn start(contents: &Contents) -> &'static str {
    if contents.has_ended() {
        "start the agent again: it begins a new session; if it runs, let it reach the API server"
    } else {
        "start the agent again, or see in its log why it cannot renew (no API server, no CPU time)"
    }
}

/// Returns the interfaces on which a node of a cluster answers and knows no peer. Each comes with its
/// number of VIPs.
fn alone<'a>(
    contents: &Contents,
    entries: impl Iterator<Item = &'a Entry>,
    name_of: &dyn Fn(u32) -> String,
) -> Vec<String> {
    let mut answered: BTreeMap<u32, usize> = BTreeMap::new();
    let in_cluster = contents.is_in_cluster();
    for entry in entries.filter(|_| in_cluster) {
        *answered.entry(entry.key.ifindex).or_default() += 1;
    }
    answered.retain(|ifindex, _| contents.peers_on(*ifindex) == 0);
    answered.into_iter().map(|(ifindex, vips)| format!("{vips} VIPs on {}", name_of(ifindex))).collect()
}

/// Returns the text of a time, in tenths of a second. From a minute on, in seconds.
pub(super) fn span(time: Duration) -> String {
    const LONG: Duration = Duration::from_mins(1);
    let tenths = if time < LONG { time.subsec_millis() / 100 } else { 0 };
    humantime::format_duration(Duration::new(time.as_secs(), tenths * 100_000_000)).to_string()
}
