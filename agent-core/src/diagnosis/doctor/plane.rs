//! Checks of the data plane: the pin directory, the agent that uses it, and the pinned state.

use std::{collections::BTreeSet, time::Duration};

use vipward_common::{DeadlineState, MAX_PEERS};

use super::{
    check::{known, pinned},
    facts::{Agent, Facts, Heartbeat, OtherPins, PinDir},
    lease_deadline::{self, LEASE_DEADLINE, span},
    machine,
};
use crate::{
    diagnosis::{
        fact::{Cause, Fact, Unread},
        finding::Finding,
        pinned::{Contents, Plane},
    },
    host::net::NetView,
};

/// The usual mount point of bpffs.
const BPFFS: &str = "/sys/fs/bpf";
const GROUP_OR_OTHERS_WRITE: u32 = 0o022;
/// Percentage from which a map counts as nearly full.
const NEARLY_FULL: usize = 80;

pub(super) fn checks(facts: &Facts) -> Vec<Finding> {
    let bpffs = known("bpffs", facts.pin_dir.as_ref(), |dir| bpffs(facts, dir));
    let mut checks = vec![bpffs, agent(facts), pins(facts), other_pins(facts)];
    checks.extend(contents(facts));
    checks
}

fn bpffs(facts: &Facts, found: &PinDir) -> Finding {
    let (name, dir) = ("bpffs", facts.dir.display());
    if !found.on_bpffs && facts.dir.starts_with(BPFFS) {
        let remedy = format!("mount -t bpf bpf {BPFFS} (an agent with CAP_SYS_ADMIN does it by itself)");
        return Finding::red(name, format!("no bpffs is mounted on {BPFFS}"), remedy);
    }
    if !found.on_bpffs {
        let remedy = format!(
            "choose a --pin-dir below {BPFFS}, or mount one there: mount -t bpf bpf {}",
            found.at.display()
        );
        return Finding::red(name, format!("{dir} is not on a bpffs"), remedy);
    }
    if !found.exists {
        return Finding::green(name, format!("{dir} does not exist yet, and would be on a bpffs"));
    }
    let (owner, mode) = (found.owner, found.mode);
    if mode & GROUP_OR_OTHERS_WRITE != 0 {
        return Finding::red(
            name,
            format!("others than its owner may write {dir} (mode {mode:o}), and take the pins away"),
            format!("chmod 0700 {dir}"),
        );
    }
    let well = || Finding::green(name, format!("{dir} is on a bpffs (owner {owner}, mode {mode:o})"));
    if owner == found.user {
        return well();
    }
    known(name, facts.agent.as_ref(), |agent| match agent {
        Agent::Runs(_) => well(),
        Agent::None => Finding::yellow(
            name,
            format!("{dir} belongs to user {owner}: an agent that user {} starts is refused", found.user),
            format!("start the agent as user {owner}, or chown {} {dir}", found.user),
        ),
    })
}

fn agent(facts: &Facts) -> Finding {
    let name = "agent";
    known(name, facts.agent.as_ref(), |agent| {
        if let Some(runs) = machine::process(*agent) {
            return Finding::green(name, runs);
        }
        let again =
            "start it again; its log states why it ended (journalctl -u vipward, kubectl logs --previous)";
        let dir = facts.dir.display();
        match &facts.plane {
            Fact::Read(None) => Finding::yellow(
                name,
                "no agent runs, and nothing is pinned",
                "start one: vipward agent --config FILE",
            ),
            Fact::Read(Some(_)) => {
                Finding::yellow(name, format!("no agent uses {dir}: the pinned program is on its own"), again)
            }
            Fact::Unread(_) => Finding::yellow(name, format!("no agent uses {dir}"), again),
        }
    })
}

fn pins(facts: &Facts) -> Finding {
    let name = "pins";
    let dir = facts.dir.display();
    known(name, facts.plane.as_ref(), |plane| match plane {
        None => known(name, facts.agent.as_ref(), |agent| match agent {
            Agent::Runs(_) => Finding::red(
                name,
                format!("an agent runs, and nothing is pinned under {dir}: what it has ends with it"),
                "stop the agent and start it again: it pins anew",
            ),
            Agent::None => Finding::not_applicable(name, format!("nothing is pinned under {dir}")),
        }),
        Some(Plane { missing, .. }) if !missing.is_empty() => Finding::red(
            name,
            format!("the pins of {} are missing", missing.join(", ")),
            "they were removed: start the agent again, it takes over the entries and pins anew",
        ),
        Some(Plane { missing: _, links, contents: _ }) => {
            let links = match links.len() {
                1 => "1 link".to_owned(),
                many => format!("{many} links"),
            };
            Finding::green(name, format!("all maps and {links} under {dir}"))
        }
    })
}

/// Looks for programs of other pin directories. They answer for VIPs of which this agent does not know.
fn other_pins(facts: &Facts) -> Finding {
    const NAME: &str = "other-pins";
    known(NAME, facts.others.as_ref().zip(facts.network.as_ref()), |(others, view)| {
        let on = |other: &OtherPins| {
            let names: Vec<_> = other.programs.iter().map(|(ifindex, _)| view.name_of(*ifindex)).collect();
            format!("{} on {}", other.dir.display(), names.join(", "))
        };
        let orphans: Vec<_> = others.iter().filter(|other| other.agent == Agent::None).collect();
        if let Some(first) = orphans.first() {
            let all: Vec<_> = orphans.iter().map(|other| on(other)).collect();
            return Finding::red(
                NAME,
                format!("programs without an agent run, and may answer for VIPs: {}", all.join("; ")),
                format!("vipward unload --pin-dir {} (--all: all of them)", first.dir.display()),
            );
        }
        if !others.is_empty() {
            let all = others.iter().map(|other| match other.agent {
                Agent::Runs(Some(pid)) => format!("{} (pid {pid})", on(other)),
                Agent::Runs(None) | Agent::None => on(other),
            });
            let found =
                format!("other agents run on interfaces here: {}", all.collect::<Vec<_>>().join("; "));
            return Finding::yellow(NAME, found, "stop one of two agents that share an interface");
        }
        known(NAME, unpinned(facts, view), |unpinned| match unpinned {
            Some((program, interface)) => Finding::yellow(
                NAME,
                format!("program {program} on {interface} is Vipward's, and its pins are not in sight"),
                "its pin directory was removed, or is on a bpffs of another mount namespace: see the agent's log",
            ),
            None => Finding::green(NAME, "no other pin directory has a program here"),
        })
    })
}

/// Returns a program with Vipward's name that no pin in this directory is for, and its interface.
fn unpinned(facts: &Facts, view: &NetView) -> Fact<Option<(u32, String)>> {
    facts.plane.as_ref().and_then(|plane| {
        let (mut own, mut unread) = (BTreeSet::new(), None);
        for link in plane.iter().flat_map(|plane| &plane.links) {
            match &link.ids {
                Fact::Read(ids) => own.extend([ids.program]),
                Fact::Unread(why) => return Fact::Unread(why.clone()),
            }
        }
        for (ifindex, nic) in &facts.nics {
            let interface = view.name_of(*ifindex);
            let xdp = view.interfaces.get(ifindex).into_iter().flat_map(|it| &it.xdp_programs);
            let xdp = xdp.map(|id| (*id, nic.xdp_names.get(id)));
            let tc = match &nic.tc {
                Fact::Read(tc) => tc.as_slice(),
                Fact::Unread(why) => {
                    unread.get_or_insert_with(|| why.of(format_args!("traffic control on {interface}")));
                    &[]
                }
            };
            let all = xdp.chain(tc.iter().map(|program| (program.id, program.name.as_ref())));
            for (id, name) in all.filter(|(id, _)| !own.contains(id)) {
                match name {
                    Some(name) if name.starts_with("vipward") => return Fact::Read(Some((id, interface))),
                    Some(_) => {}
                    None => {
                        let reason = format!("the name of program {id} on {interface} was denied");
                        unread.get_or_insert(Unread { reason, cause: Cause::Denied });
                    }
                }
            }
        }
        unread.map_or(Fact::Read(None), Fact::Unread)
    })
}

fn contents(facts: &Facts) -> Vec<Finding> {
    type Judge = fn(&Facts, &Contents) -> Finding;
    let checks: [(&str, Judge); 3] = [
        (LEASE_DEADLINE, lease_deadline),
        ("map-fill", |_, contents| map_fill(contents)),
        ("events-lost", |_, contents| events_lost(contents)),
    ];
    checks.map(|(name, judge)| pinned(name, facts, |contents| judge(facts, contents))).into()
}

/// Checks the lease deadline. While it lies ahead, the heartbeat counts.
fn lease_deadline(facts: &Facts, contents: &Contents) -> Finding {
    if contents.lease_deadline_state() == DeadlineState::Valid {
        let left = contents.left(contents.lease_deadline.deadline_ns);
        return known(LEASE_DEADLINE, facts.heartbeat.as_ref(), |heartbeat| valid(*heartbeat, left));
    }
    let name_of = |ifindex: u32| match &facts.network {
        Fact::Read(view) => view.name_of(ifindex),
        Fact::Unread(_) => format!("#{ifindex}"),
    };
    lease_deadline::judge(contents, &facts.agent, &name_of, None)
}

/// Checks a lease deadline that lies ahead. A heartbeat sets it to a fixed time ahead, so the time
/// left shows the age of the last heartbeat.
fn valid(heartbeat: Heartbeat, time_left: Duration) -> Finding {
    let left = span(time_left);
    match heartbeat {
        Heartbeat::Seen { good_for } => {
            let age = span(good_for.saturating_sub(time_left));
            Finding::green(
                LEASE_DEADLINE,
                format!("the last heartbeat was {age} ago; valid for another {left}"),
            )
        }
        Heartbeat::Missed { watched } => {
            let watched = span(watched);
            Finding::yellow(
                LEASE_DEADLINE,
                format!("not moved while it was watched for {watched}; valid for another {left}"),
                format!(
                    "see whether the agent hangs, or why it cannot renew: its log, and its /livez; a heartbeat that is \
                     set to come more seldom than every {watched} is as it should be"
                ),
            )
        }
    }
}

fn map_fill(contents: &Contents) -> Finding {
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
            Finding::red(name, format!("{map} is full: {found}"), *remedy)
        }
        Some((map, used, max, remedy)) if used * 100 >= max * NEARLY_FULL => {
            Finding::yellow(name, format!("{map} is nearly full: {found}"), *remedy)
        }
        Some(_) | None => Finding::green(name, found),
    }
}

fn events_lost(contents: &Contents) -> Finding {
    let name = "events-lost";
    match contents.counters.events_lost + contents.counters_v6.events_lost {
        0 => Finding::green(name, "none"),
        lost => Finding::yellow(
            name,
            format!("{lost} events found the ring buffer full: their claims were dropped, but not reported"),
            "give the agent more CPU time (its cgroup's limit), or find who floods the segment: vipward watch",
        ),
    }
}
