//! The check of wire failover: who witnesses whom, and what keeps a node from it.

use std::time::Duration;

use vipward_common::Policy;

use super::{
    check::{Check, State, known, list},
    facts::{Agent, Facts, WirePeer, WireReport, WireThread},
};
use crate::{
    diagnosis::pinned::{Contents, Fact},
    ownership::{Quiet, WireNodeView, WireView},
};

const NAME: &str = "wire";
/// Lost pings of a peer from which on something is wrong with the way to it: one in this number.
const LOSES_ONE_OF: u64 = 50;
/// Number of pings to a peer that say enough.
const ENOUGH_PINGS: u64 = 200;
/// The remedy for an interface without contact.
pub(crate) const MEND_CONTACT: &str = "look at the switch port and the cable: frames (EtherType 0x88b5) do \
     not come in there, or do not go out; `vipward status` says when each peer was heard and answered";

pub(super) fn check(facts: &Facts) -> Check {
    let contents: Fact<Option<&Contents>> = match &facts.plane {
        Ok(Some(plane)) => plane.contents.as_ref().map(Some).map_err(Clone::clone),
        Ok(None) => Ok(None),
        Err(unread) => Err(unread.clone()),
    };
    known(NAME, &contents, |contents| match contents {
        None => Check::not_applicable(NAME, "nothing is pinned"),
        Some(contents) if !contents.is_in_cluster() => {
            Check::not_applicable(NAME, "the VIPs are those of a file")
        }
        Some(contents) => in_cluster(facts, contents),
    })
}

fn in_cluster(facts: &Facts, contents: &Contents) -> Check {
    let heard = heard(contents);
    if facts.agent == Ok(Agent::None) {
        let found = format!("no agent runs, and none watches other nodes here; {heard}");
        return Check::not_applicable(NAME, found);
    }
    let report = match &facts.wire {
        Ok(report) => report,
        Err(unread) => {
            let check = Check::unknown(NAME, unread);
            return Check { found: format!("{}; {heard}", check.found), ..check };
        }
    };
    match &report.view {
        None if contents.fence.policy == Policy::Stop => Check::not_applicable(
            NAME,
            "off, since the policy is `stop`: only the Lease shows that this node is dead",
        ),
        None => Check::not_applicable(NAME, "off (--wire): only the Lease shows that this node is dead"),
        Some(view) => taking_part(facts, view, report),
    }
}

/// Returns what the program has heard, which its maps show without an agent.
fn heard(contents: &Contents) -> String {
    let last = contents.wire.heard.iter().filter_map(|peer| peer.heard_ago).min();
    match last {
        Some(last) => format!("the program has heard a peer {} ago", seconds(last.as_secs_f64())),
        None => "the program has heard no peer".to_owned(),
    }
}

/// Checks the agent's account. The first fault has the remedy.
fn taking_part(facts: &Facts, view: &WireView, report: &WireReport) -> Check {
    let (is_well, state, remedy) = match view.quiet {
        None => (true, witnessed(view), None),
        Some(quiet) => quiet_state(quiet, view),
    };
    let pinged = pinged(view, report);
    let thread = facts.machine.wire_thread.as_ref().ok().copied().flatten();
    let deaf = (!view.deaf.is_empty()).then(|| {
        format!("{} has no contact with peers that live, and counts as without carrier", list(&view.deaf))
    });
    let without: Vec<String> =
        view.without_contact.iter().filter(|name| !view.deaf.contains(name)).cloned().collect();
    let without = (!without.is_empty()).then(|| {
        format!("it takes no VIP on {}: no peer answers there, although one lives there", list(&without))
    });
    let parts = [Some(state), Some(times(view)), Some(pinged), deaf.clone(), without.clone()];
    let parts = parts.into_iter().flatten().chain(thread.map(rights));
    let found = parts.collect::<Vec<_>>().join("; ");
    let deaf = deaf.or(without).map(|_| MEND_CONTACT);
    let lossy = report.peers.iter().any(loses);
    let lossy = lossy.then_some(
        "look for what drops or delays frames between the nodes: vipward_wire_frames_total, the NICs' \
         counters",
    );
    let remedy = remedy.or(deaf).or(lossy);
    let is_well = is_well && remedy.is_none();
    Check::new(NAME, if is_well { State::Green } else { State::Yellow }, found, remedy.map(str::to_owned))
}

fn witnessed(view: &WireView) -> String {
    format!("on: if {} of {} find this node silent, they end its session", view.quorum, view.set.join(", "))
}

/// Returns the times that this node goes by.
fn times(view: &WireView) -> String {
    format!("by --wire {} a node is silent after {}", view.scale, seconds(view.silent_after_seconds))
}

/// Returns true if the reason is no fault, the reason in words, and a remedy.
fn quiet_state(quiet: Quiet, view: &WireView) -> (bool, String, Option<&'static str>) {
    let off = |why: &str| format!("off: {why}; only the Lease shows that this node is dead");
    match quiet {
        Quiet::NoVip => (true, off("this node answers for no VIP"), None),
        Quiet::Alone => (true, off("no other living node is on its segments"), None),
        Quiet::NoKey => (
            false,
            off("there is no key"),
            Some(
                "vipward wire init, or a controller, creates the Secret vipward-wire; or start the agents with \
                 --wire off",
            ),
        ),
        Quiet::NoCommonKey => (
            false,
            off("no key of this node is accepted by all living nodes on its segments"),
            Some(
                "let all agents read the Secret vipward-wire (their logs say what fails), and start all with \
                 --wire; kubectl get leases shows the keys of each in vipward.io/wire",
            ),
        ),
        Quiet::NoWitness => (
            false,
            off("the thread that pings does not run"),
            Some("see in the agent's log why it ended, and start the agent again"),
        ),
        Quiet::FalseMoves => {
            let left = view.slow_for_seconds.map(seconds).unwrap_or_default();
            let why = format!(
                "this node was taken for dead twice in ten minutes although it lived, and waits for {left} \
                 more"
            );
            (
                false,
                off(&why),
                Some(
                    "see why the host stood still (docs/RUNBOOKS.md), or start the agents with a larger --wire, \
                     or off",
                ),
            )
        }
        Quiet::FalseEnds => {
            let left = view.slow_for_seconds.map(seconds).unwrap_or_default();
            let why = format!(
                "peers said twice in ten minutes that this node's session had ended although it lived, and \
                 this node waits for {left} more"
            );
            (false, off(&why), Some("another host has the key: replace it (vipward wire rotate)"))
        }
        Quiet::TooFew => {
            let invited = |node: &&WireNodeView| node.pings && view.invited.contains(&node.node);
            let pings = view.nodes.iter().filter(invited).count();
            let why = format!("{pings} of the {} nodes that it invited ping it", view.invited.len());
            (
                false,
                off(&why),
                Some("start the agents of all nodes with --wire, and let switches pass EtherType 0x88b5"),
            )
        }
    }
}

/// Returns the nodes that this one pings, with the answers.
fn pinged(view: &WireView, report: &WireReport) -> String {
    let node = |node: &WireNodeView| {
        let counts = if node.watched { ", counts" } else { "" };
        let silent = if node.silent { ", SILENT" } else { "" };
        let traffic = report.peers.iter().find(|peer| peer.session == node.session);
        let traffic = traffic.map_or_else(|| "not pinged yet".to_owned(), traffic_of);
        format!("{} ({traffic}{counts}{silent})", node.node)
    };
    match &view.nodes[..] {
        [] => "it pings none".to_owned(),
        nodes => format!("it pings {}", list(&nodes.iter().map(node).collect::<Vec<_>>())),
    }
}

fn traffic_of(peer: &WirePeer) -> String {
    let answered = match (peer.answered_seconds_ago, peer.round_trip_seconds) {
        (Some(ago), Some(took)) => format!("answered {} ago in {:.2} ms", seconds(ago), took * 1e3),
        _ => "never answered".to_owned(),
    };
    format!("{answered}, {} of {} lost", peer.lost, peer.sent)
}

fn loses(peer: &WirePeer) -> bool {
    peer.sent >= ENOUGH_PINGS && peer.lost * LOSES_ONE_OF > peer.sent
}

fn rights(thread: WireThread) -> String {
    // The capability is optional: without it, a host that is very busy finds no dead node.
    let first = if thread.runs_first {
        "runs before ordinary ones"
    } else {
        "pings without real-time priority (CAP_SYS_NICE would give it)"
    };
    let memory = if thread.locked_bytes > 0 { "locked" } else { "not locked" };
    format!("its thread {first}, and its memory is {memory}")
}

/// Returns a time for people, to the hundredth of a second; from a minute on, to the second.
fn seconds(seconds: f64) -> String {
    let time = Duration::try_from_secs_f64(seconds).unwrap_or_default();
    let whole = Duration::from_secs(time.as_secs());
    if time < Duration::from_mins(1) {
        format!("{seconds:.2} s")
    } else {
        humantime::format_duration(whole).to_string()
    }
}
