//! Checks of the data plane: the pin directory, the agent that uses it, and the pinned state.

use std::{collections::BTreeMap, time::Duration};

use vipward_common::{FenceState, MAX_PEERS, Policy};

use super::{
    check::{Check, known},
    facts::{Agent, Facts, Heartbeat, PinDir},
    machine,
};
use crate::diagnosis::pinned::{Contents, Fact, Plane};

/// The usual mount point of bpffs.
const BPFFS: &str = "/sys/fs/bpf";
const GROUP_OR_OTHERS_WRITE: u32 = 0o022;
/// Percentage from which a map counts as nearly full.
const NEARLY_FULL: usize = 80;
const FENCE: &str = "fence";
const START_OR_SEE: &str =
    "start the agent again, or see in its log why it cannot renew (no API server, no CPU time)";

pub(super) fn checks(facts: &Facts) -> Vec<Check> {
    let bpffs = known("bpffs", &facts.pin_dir, |dir| bpffs(facts, dir));
    let mut checks = vec![bpffs, agent(facts), pins(facts)];
    checks.extend(contents(facts));
    checks
}

fn bpffs(facts: &Facts, found: &PinDir) -> Check {
    let (name, dir) = ("bpffs", facts.dir.display());
    if !found.on_bpffs && facts.dir.starts_with(BPFFS) {
        let remedy = format!("mount -t bpf bpf {BPFFS} (an agent with CAP_SYS_ADMIN does it by itself)");
        return Check::red(name, format!("no bpffs is mounted on {BPFFS}"), remedy);
    }
    if !found.on_bpffs {
        let remedy = format!(
            "choose a --pin-dir below {BPFFS}, or mount one there: mount -t bpf bpf {}",
            found.at.display()
        );
        return Check::red(name, format!("{dir} is not on a bpffs"), remedy);
    }
    if !found.exists {
        return Check::green(name, format!("{dir} does not exist yet, and would be on a bpffs"));
    }
    let (owner, mode) = (found.owner, found.mode);
    if mode & GROUP_OR_OTHERS_WRITE != 0 {
        return Check::red(
            name,
            format!("others than its owner may write {dir} (mode {mode:o}), and take the pins away"),
            format!("chmod 0700 {dir}"),
        );
    }
    if owner != found.user && facts.agent == Ok(Agent::None) {
        return Check::yellow(
            name,
            format!("{dir} belongs to user {owner}: an agent that user {} starts is refused", found.user),
            format!("start the agent as user {owner}, or chown {} {dir}", found.user),
        );
    }
    Check::green(name, format!("{dir} is on a bpffs (owner {owner}, mode {mode:o})"))
}

fn agent(facts: &Facts) -> Check {
    let name = "agent";
    known(name, &facts.agent, |agent| {
        if let Some(runs) = machine::process(*agent) {
            return Check::green(name, runs);
        }
        match &facts.plane {
            Ok(None) => Check::yellow(
                name,
                "no agent runs, and nothing is pinned",
                "start one: vipward agent --config FILE",
            ),
            Ok(Some(_)) | Err(_) => Check::yellow(
                name,
                format!("no agent uses {}: the pinned program is on its own", facts.dir.display()),
                "start it again; its log says why it ended (journalctl -u vipward, kubectl logs --previous)",
            ),
        }
    })
}

fn pins(facts: &Facts) -> Check {
    let name = "pins";
    let dir = facts.dir.display();
    known(name, &facts.plane, |plane| match plane {
        None if matches!(facts.agent, Ok(Agent::Runs(_))) => Check::red(
            name,
            format!("an agent runs, and nothing is pinned under {dir}: what it has ends with it"),
            "stop the agent and start it again: it pins anew",
        ),
        None => Check::not_applicable(name, format!("nothing is pinned under {dir}")),
        Some(Plane { missing, .. }) if !missing.is_empty() => Check::red(
            name,
            format!("the pins of {} are missing", missing.join(", ")),
            "they were removed: start the agent again, it takes over the entries and pins anew",
        ),
        Some(Plane { missing: _, links, contents: _ }) => {
            let links = match links.len() {
                1 => "1 link".to_owned(),
                many => format!("{many} links"),
            };
            Check::green(name, format!("all maps and {links} under {dir}"))
        }
    })
}

fn contents(facts: &Facts) -> Vec<Check> {
    const NAMES: [&str; 3] = [FENCE, "map-fill", "events-lost"];
    let contents: Fact<&Contents> = match &facts.plane {
        Ok(None) => {
            return NAMES.map(|name| Check::not_applicable(name, "nothing is pinned")).into();
        }
        Ok(Some(plane)) => plane.contents.as_ref().map_err(Clone::clone),
        Err(unread) => Err(unread.clone()),
    };
    let checks: [fn(&Facts, &Contents) -> Check; 3] =
        [fence, |_, contents| map_fill(contents), |_, contents| events_lost(contents)];
    NAMES
        .into_iter()
        .zip(checks)
        .map(|(name, check)| known(name, &contents, |contents| check(facts, contents)))
        .collect()
}

/// The reason why a fence has lapsed before its deadline.
const ENDED: &str = "a peer says that this node's session has ended";

fn fence(facts: &Facts, contents: &Contents) -> Check {
    let fence = &contents.fence;
    match contents.fence_state() {
        FenceState::Valid => valid(facts.heartbeat, contents.left(fence.deadline_ns)),
        FenceState::HeldOver => held_over(facts, contents),
        FenceState::Over => {
            let end_ns = match fence.policy {
                Policy::Stop => fence.deadline_ns,
                Policy::Hold => fence.deadline_ns.max(fence.hold_until_ns),
            };
            let had = contents.entries.iter().filter(|entry| entry.is_own()).count();
            let over = if contents.has_ended() {
                ENDED.to_owned()
            } else {
                format!("over since {}", span(contents.passed(end_ns)))
            };
            let found = format!("{over}; {had} of this node's VIPs not answered");
            Check::red(FENCE, found, START_OR_SEE)
        }
    }
}

/// Checks a fence that is held over. A node of a cluster gives way to its peers only. If
/// it knows no peer, another node may answer beside it.
fn held_over(facts: &Facts, contents: &Contents) -> Check {
    let fence = &contents.fence;
    let why = if contents.has_ended() {
        ENDED.to_owned()
    } else {
        let passed = span(contents.passed(fence.deadline_ns));
        format!("the agent has not moved it in time, and the deadline passed {passed} ago")
    };
    let found =
        format!("held over: {why}; answering goes on for {}", span(contents.left(fence.hold_until_ns)));
    let alone = alone(facts, contents);
    if !alone.is_empty() {
        return Check::red(
            FENCE,
            format!(
                "{found}; it answers for {}, where it knows no peer and yields to no host: two may answer",
                alone.join(" and ")
            ),
            "let the agent reach the API server: its log says what fails. When another node has the VIPs (`vipward \
             who-has ADDRESS` lists who answers), stop the agent here and run `vipward unload`",
        );
    }
    let remedy = match &facts.agent {
        Ok(Agent::Runs(_)) if contents.is_in_cluster() => {
            "the agent runs, and does not renew its Lease: let it reach the API server, or give it CPU time; its log \
             says which"
        }
        Ok(Agent::Runs(_) | Agent::None) | Err(_) => START_OR_SEE,
    };
    Check::yellow(FENCE, found, remedy)
}

/// Returns the interfaces on which a node of a cluster answers and knows
/// no peer. Each comes with its number of VIPs.
fn alone(facts: &Facts, contents: &Contents) -> Vec<String> {
    let mut answered: BTreeMap<u32, usize> = BTreeMap::new();
    let in_cluster = contents.is_in_cluster();
    for entry in contents.entries.iter().filter(|entry| in_cluster && entry.is_own()) {
        *answered.entry(entry.key.ifindex).or_default() += 1;
    }
    answered.retain(|ifindex, _| contents.peers_on(*ifindex) == 0);
    let name = |ifindex: u32| match &facts.network {
        Ok(view) => view.name_of(ifindex),
        Err(_) => format!("#{ifindex}"),
    };
    answered.into_iter().map(|(ifindex, vips)| format!("{vips} VIPs on {}", name(ifindex))).collect()
}

/// Checks a valid fence. A heartbeat sets the deadline to a fixed time ahead, so
/// the time left shows the age of the last heartbeat.
fn valid(heartbeat: Heartbeat, time_left: Duration) -> Check {
    let left = span(time_left);
    match heartbeat {
        Heartbeat::Seen { good_for } => {
            let age = span(good_for.saturating_sub(time_left));
            Check::green(FENCE, format!("the last heartbeat was {age} ago; valid for another {left}"))
        }
        Heartbeat::Missed { watched } => {
            let watched = span(watched);
            Check::yellow(
                FENCE,
                format!("not moved while it was watched for {watched}; valid for another {left}"),
                format!(
                    "see whether the agent hangs, or why it cannot renew: its log, and its /livez; a heartbeat that is \
                     set to come more seldom than every {watched} is as it should be"
                ),
            )
        }
    }
}

/// Returns a time for people, in tenths of a second. From a minute on, returns it in seconds.
fn span(time: Duration) -> String {
    const LONG: Duration = Duration::from_mins(1);
    let tenths = if time < LONG { time.subsec_millis() / 100 } else { 0 };
    humantime::format_duration(Duration::new(time.as_secs(), tenths * 100_000_000)).to_string()
}

fn map_fill(contents: &Contents) -> Check {
    let name = "map-fill";
    let maps = [
        (
            "vip_state",
            contents.entries.len(),
            contents.max_vips as usize,
            "start the agent with a larger --max-vips",
        ),
        (
            "peers",
            contents.peers.len(),
            MAX_PEERS as usize,
            "attach to fewer interfaces (--interface, interfaces:)",
        ),
    ];
    let found: Vec<_> = maps.iter().map(|(map, used, max, _)| format!("{map} {used} of {max}")).collect();
    let found = found.join(", ");
    let fullest = maps.iter().max_by_key(|(_, used, max, _)| used * 100 / (*max).max(1));
    match fullest {
        Some((map, used, max, remedy)) if used >= max => {
            Check::red(name, format!("{map} is full: {found}"), *remedy)
        }
        Some((map, used, max, remedy)) if used * 100 >= max * NEARLY_FULL => {
            Check::yellow(name, format!("{map} is nearly full: {found}"), *remedy)
        }
        Some(_) | None => Check::green(name, found),
    }
}

fn events_lost(contents: &Contents) -> Check {
    let name = "events-lost";
    match contents.counters.events_lost + contents.counters_v6.events_lost {
        0 => Check::green(name, "none"),
        lost => Check::yellow(
            name,
            format!("{lost} events found the ring buffer full: their claims were dropped, but not reported"),
            "give the agent more CPU time (its cgroup's limit), or find who floods the segment: vipward watch",
        ),
    }
}
