//! The check of the failure detector: which node monitors which, and what keeps a node from it.

use std::time::Duration;

use vipward_common::Policy;

use super::{
    check::{list, pinned},
    facts::{Agent, Facts, WireReport},
};
use crate::{
    diagnosis::{
        fact::Fact,
        finding::{Finding, State},
        pinned::Contents,
    },
    liveness::{Thread, Traffic},
    ownership::{LeaseOnly, WireNodeView, WireView},
};

const NAME: &str = "wire";
/// Lost pings of a peer from which on something is wrong with the way to it: one in this number.
const LOSES_ONE_OF: u64 = 50;
/// Number of pings to a peer that are enough for a verdict.
const ENOUGH_PINGS: u64 = 200;
/// The remedy for an interface without contact.
pub(crate) const MEND_CONTACT: &str = "check the switch port and the cable: frames (EtherType 0x88b5) do not \
    arrive there, or do not leave; `vipward status` shows when a frame and an answer of each peer came last";

pub(super) fn check(facts: &Facts) -> Finding {
    pinned(NAME, facts, |contents| {
        if contents.is_in_cluster() {
            return in_cluster(facts, contents);
        }
        Finding::not_applicable(NAME, "the VIPs are those of a file")
    })
}

fn in_cluster(facts: &Facts, contents: &Contents) -> Finding {
    let received = received(contents);
    if facts.agent == Fact::Read(Agent::None) {
        let found = format!("no agent runs, and so no failure detector; {received}");
        return Finding::not_applicable(NAME, found);
    }
    let report = match &facts.wire {
        Fact::Read(report) => report,
        Fact::Unread(why) => {
            let check = Finding::unknown(NAME, why);
            return Finding { found: format!("{}; {received}", check.found), ..check };
        }
    };
    match &report.view {
        None if contents.lease_deadline.policy == Policy::Stop => Finding::not_applicable(
            NAME,
            "off, since the policy is `stop`: only the Lease shows that this node is dead",
        ),
        None => Finding::not_applicable(NAME, "off (--wire): only the Lease shows that this node is dead"),
        Some(view) => taking_part(view, report),
    }
}

/// Returns the frames that the program has received. Its maps show them without an agent.
fn received(contents: &Contents) -> String {
    let last = contents.wire.received.iter().filter_map(|peer| peer.received_seconds_ago).reduce(f64::min);
    match last {
        Some(last) => format!("the last frame of a peer came {} ago", seconds(last)),
        None => "no frame of a peer has come".to_owned(),
    }
}

/// Checks the agent's account. The first fault has the remedy.
fn taking_part(view: &WireView, report: &WireReport) -> Finding {
    let (state, remedy) = match view.quiet {
        None => (voters(view), None),
        Some(quiet) => {
            let (why, remedy) = off(quiet, view);
            (format!("off: {why}; only the Lease shows that this node is dead"), remedy)
        }
    };
    let pinged = pinged(view, report);
    let thread = report.thread.as_ref().map(rights);
    let one_way = (!view.one_way.is_empty()).then(|| {
        format!(
            "{} has a one-way link to peers that live, and counts as without carrier",
            list(&view.one_way)
        )
    });
    let without: Vec<String> =
        view.without_contact.iter().filter(|name| !view.one_way.contains(name)).cloned().collect();
    let without = (!without.is_empty()).then(|| {
        format!("it takes no VIP on {}: no peer answers there, although one lives there", list(&without))
    });
    let parts = [Some(state), Some(times(view)), Some(pinged), one_way.clone(), without.clone()];
    let parts = parts.into_iter().flatten().chain(thread);
    let found = parts.collect::<Vec<_>>().join("; ");
    let one_way = one_way.or(without).map(|_| MEND_CONTACT);
    let lossy = peers(report).any(loses);
    let lossy = lossy.then_some(
        "find what drops or delays frames between the nodes: vipward_wire_frames_total, the NICs' \
         counters",
    );
    let remedy = remedy.or(one_way).or(lossy);
    let state = if remedy.is_none() { State::Green } else { State::Yellow };
    Finding::new(NAME, state, found, remedy.map(str::to_owned))
}

fn voters(view: &WireView) -> String {
    format!(
        "on: if {} of {} find this node unresponsive, they expire its session",
        view.quorum,
        view.set.join(", ")
    )
}

/// Returns the times that this node goes by.
fn times(view: &WireView) -> String {
    format!(
        "by --wire {} a node is unresponsive after {}",
        view.scale,
        seconds(view.unresponsive_after_seconds)
    )
}

/// Returns the reason why wire failover is off, and a remedy if that is a fault.
fn off(quiet: LeaseOnly, view: &WireView) -> (String, Option<&'static str>) {
    let left = view.slow_for_seconds.map(seconds).unwrap_or_default();
    let (why, remedy) = match quiet {
        LeaseOnly::NoVip => return ("this node answers for no VIP".to_owned(), None),
        LeaseOnly::Alone => return ("no other living node is on its segments".to_owned(), None),
        LeaseOnly::NoKey => (
            "there is no key".to_owned(),
            "vipward wire init, or a controller, creates the Secret vipward-wire; or start the agents with --wire off",
        ),
        LeaseOnly::NoCommonKey => (
            "no key of this node is accepted by all living nodes on its segments".to_owned(),
            "let all agents read the Secret vipward-wire (their logs state what fails), and start all with --wire; \
             kubectl get leases shows the keys of each in vipward.io/wire",
        ),
        LeaseOnly::NoThread => (
            "the thread that pings does not run".to_owned(),
            "see in the agent's log why it ended, and start the agent again",
        ),
        LeaseOnly::FalseMoves => (
            format!(
                "this node lived, and the failure detector expired its session twice in ten minutes; it takes \
                 no part for {left} more"
            ),
            "see why the host stood still (docs/kubernetes/failures.md), or start the agents with a larger \
             --wire, or off",
        ),
        LeaseOnly::FalseEnds => (
            format!(
                "peers sent two false expiry notices to this node in ten minutes; it takes no part for {left} more"
            ),
            "another host has the key: replace it (vipward wire rotate)",
        ),
        LeaseOnly::TooFew => {
            let invited = |node: &&WireNodeView| node.pings && view.invited.contains(&node.node);
            let pings = view.nodes.iter().filter(invited).count();
            (
                format!("{pings} of its {} monitors ping it", view.invited.len()),
                "start the agents of all nodes with --wire, and let switches pass EtherType 0x88b5",
            )
        }
    };
    (why, Some(remedy))
}

/// Returns the nodes that this one pings, with the answers.
fn pinged(view: &WireView, report: &WireReport) -> String {
    let node = |node: &WireNodeView| {
        let counts = if node.watched { ", counts" } else { "" };
        let unresponsive = if node.unresponsive { ", UNRESPONSIVE" } else { "" };
        let traffic = peers(report).find(|peer| peer.session == node.session);
        let traffic = traffic.map_or_else(|| "not pinged yet".to_owned(), traffic_of);
        format!("{} ({traffic}{counts}{unresponsive})", node.node)
    };
    match &view.nodes[..] {
        [] => "it pings none".to_owned(),
        nodes => format!("it pings {}", list(&nodes.iter().map(node).collect::<Vec<_>>())),
    }
}

fn peers(report: &WireReport) -> impl Iterator<Item = &Traffic> {
    report.thread.iter().flat_map(|thread| &thread.peers)
}

fn traffic_of(peer: &Traffic) -> String {
    let answered = match (peer.answered_seconds_ago, peer.round_trip_seconds) {
        (Some(ago), Some(took)) => format!("answered {} ago in {:.2} ms", seconds(ago), took * 1e3),
        _ => "never answered".to_owned(),
    };
    format!("{answered}, {} of {} lost", peer.lost, peer.sent)
}

fn loses(peer: &Traffic) -> bool {
    peer.sent >= ENOUGH_PINGS && peer.lost * LOSES_ONE_OF > peer.sent
}

fn rights(thread: &Thread) -> String {
    // The capability is optional: without it, a host that is very busy finds no dead node.
    let first = if thread.not_first.is_none() {
        "runs before ordinary ones"
    } else {
        "pings without real-time priority (it takes CAP_SYS_NICE, and with RT_GROUP_SCHED also cpu.rt_runtime_us)"
    };
    let memory = if thread.not_locked.is_none() { "locked" } else { "not locked" };
    format!("its thread {first}, and its memory is {memory}")
}

/// Returns the text of a time, in hundredths of a second. From a minute on, in seconds.
fn seconds(seconds: f64) -> String {
    let time = Duration::try_from_secs_f64(seconds).unwrap_or_default();
    let whole = Duration::from_secs(time.as_secs());
    if time < Duration::from_mins(1) {
        format!("{seconds:.2} s")
    } else {
        humantime::format_duration(whole).to_string()
    }
}
