//! The data plane: the pin directory, who uses it, and what is pinned there.

use std::time::Duration;

use vipward_common::{MAX_PEERS, Policy, Role};

use super::{
    Agent, Check, Contents, Fact, Facts, FenceFact, Heartbeat, PinDir, Plane, Validity, known, machine,
};

/// Where bpffs belongs.
const BPFFS: &str = "/sys/fs/bpf";
const GROUP_OR_OTHERS_WRITE: u32 = 0o022;
/// A map that is fuller than so many percent is told before it is full.
const NEARLY_FULL: usize = 80;
const FENCE: &str = "fence";

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
            "somebody removed them: start the agent again, it takes over the entries and pins anew",
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

/// What the maps say, when there are any.
fn contents(facts: &Facts) -> Vec<Check> {
    const NAMES: [&str; 3] = [FENCE, "map-fill", "events-lost"];
    let contents: Fact<&Contents> = match &facts.plane {
        Ok(None) => {
            return NAMES.map(|name| Check::not_applicable(name, "nothing is pinned")).into();
        }
        Ok(Some(plane)) => plane.contents.as_ref().map_err(Clone::clone),
        Err(unread) => Err(unread.clone()),
    };
    let checks: [fn(&Contents) -> Check; 3] = [fence, map_fill, events_lost];
    NAMES
        .into_iter()
        .zip(checks)
        .map(|(name, check)| known(name, &contents, |contents| check(contents)))
        .collect()
}

fn fence(contents: &Contents) -> Check {
    let FenceFact { state, policy, left_ns, hold_left_ns } = contents.fence;
    let had = contents.vips.iter().filter(|vip| vip.role != Role::Foreign).count();
    let remedy = "start the agent again, or see in its log why it cannot renew (no API server, no CPU time)";
    match state {
        Validity::Valid(heartbeat) => valid(heartbeat, left_ns),
        Validity::HeldOver => Check::yellow(
            FENCE,
            format!(
                "held over: the agent has not moved it in time, and the deadline passed {} ago; answering goes on \
                 for {}",
                time(left_ns),
                time(hold_left_ns)
            ),
            remedy,
        ),
        Validity::Over => {
            let passed = match policy {
                Policy::Stop => left_ns,
                Policy::Hold => left_ns.max(hold_left_ns),
            };
            let found = format!("over since {}: {had} VIPs of this node are not answered", time(passed));
            Check::red(FENCE, found, remedy)
        }
    }
}

/// A heartbeat moves the deadline to as long after it as it is good for, so that what a fence has left says when it was.
fn valid(heartbeat: Heartbeat, left_ns: i64) -> Check {
    let left = time(left_ns);
    match heartbeat {
        Heartbeat::Seen { good_for_ns } => {
            let age = time(good_for_ns.saturating_sub(left_ns).max(0));
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

/// A time for people, whichever side of now it is on.
fn time(ns: i64) -> String {
    span(Duration::from_nanos(ns.unsigned_abs()))
}

/// A time without what is less than a tenth of a second, and after a minute less than a second.
fn span(time: Duration) -> String {
    const LONG: Duration = Duration::from_mins(1);
    let tenths = if time < LONG { time.subsec_millis() / 100 } else { 0 };
    humantime::format_duration(Duration::new(time.as_secs(), tenths * 100_000_000)).to_string()
}

fn map_fill(contents: &Contents) -> Check {
    let name = "map-fill";
    let maps = [
        (
            "vips_v4",
            contents.vips.len(),
            contents.max_vips as usize,
            "start the agent with a larger --max-vips",
        ),
        (
            "peers",
            contents.peers,
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
    match contents.events_lost {
        0 => Check::green(name, "none"),
        lost => Check::yellow(
            name,
            format!("{lost} events found the ring buffer full: claims of theirs were dropped, but not told"),
            "give the agent more CPU time (its cgroup's limit), or find who floods the segment: vipward watch",
        ),
    }
}
