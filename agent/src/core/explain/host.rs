//! The steps that are looked at on this host, and on its segment.

use vipward_common::{FenceState, MacAddr, Role};

use super::{EntryFacts, Facts, Link, Listed, ListedVip, Look, Pinned, Step};
use crate::core::{
    cluster::{ClaimState, Holder},
    who_has::{self, Seen},
};

pub(super) fn config_steps(config: &Look<Listed>) -> Vec<Step> {
    let listed = match config {
        Look::Seen(listed) => listed,
        Look::Not(why) => return vec![Step::unseen(Link::Config, why.clone())],
        Look::Failed(why) => {
            let remedy = "mend the file: `vipward agent --check --config FILE` says what is wrong";
            return vec![Step::broken(Link::Config, why.clone(), remedy)];
        }
    };
    let Some(vip) = &listed.vip else {
        return vec![Step::broken(
            Link::Config,
            format!("{} does not list it", listed.file),
            "add it under `vips:`; the agent notices",
        )];
    };
    let says = match vip.guarded {
        Some(mac) => format!("{} guards it: it lives at {mac}", listed.file),
        None => format!("{} lists it", listed.file),
    };
    vec![Step::good(Link::Config, says), placement(vip)]
}

fn placement(vip: &ListedVip) -> Step {
    match (&vip.interface, vip.problems.first()) {
        (Some(interface), None) => Step::good(Link::Placement, format!("on {interface}")),
        (Some(interface), Some(problem)) => {
            Step::doubtful(Link::Placement, format!("on {interface}: {problem}"), "see what is wrong there")
        }
        (None, problem) => Step::broken(
            Link::Placement,
            problem.cloned().unwrap_or_else(|| "it is on no interface".to_owned()),
            "name an interface for it, or give one an address in its subnet",
        )
        .with(vip.problems.get(1..).unwrap_or_default().to_vec()),
    }
}

/// What this host has of it.
pub(super) fn steps(facts: &Facts) -> Vec<Step> {
    let pins = match &facts.pins {
        Look::Seen(pins) => pins,
        Look::Not(why) if matches!(facts.config, Look::Seen(_)) => {
            let remedy = "start the agent: vipward agent --config FILE";
            return vec![Step::broken(Link::Entry, why.clone(), remedy)];
        }
        Look::Not(why) => return vec![Step::unseen(Link::Entry, why.clone())],
        Look::Failed(why) => {
            let why = format!("what is pinned here cannot be read: {why}");
            return vec![Step::unseen(Link::Entry, why)];
        }
    };
    let here = is_here(facts);
    let ours = pins.entries.iter().find(|entry| entry.is_ours());
    let mut steps = vec![entry(facts, pins, here)];
    if let Some(entry) = ours {
        steps.extend([attached(entry), fence(pins)]);
    }
    if let Look::Seen(Listed { vip: Some(ListedVip { bind: Some((interface, there)), .. }), .. }) =
        &facts.config
    {
        steps.push(bound(interface, *there));
    }
    steps
}

/// The holder, as its claim says.
fn holder(facts: &Facts) -> Option<&Holder> {
    match &facts.cluster {
        Look::Seen(cluster) => cluster.claim.as_ref()?.state.holder(),
        Look::Not(_) | Look::Failed(_) => None,
    }
}

/// Whether this host should answer; none when nobody knows.
fn is_here(facts: &Facts) -> Option<bool> {
    let by_config = match &facts.config {
        Look::Seen(listed) => listed.vip.as_ref().map(|vip| vip.guarded.is_none()),
        Look::Not(_) | Look::Failed(_) => None,
    };
    holder(facts).map(|holder| facts.own.contains(&holder.mac)).or(by_config)
}

fn entry(facts: &Facts, pins: &Pinned, here: Option<bool>) -> Step {
    let ours = pins.entries.iter().find(|entry| entry.is_ours());
    let known = pins.entries.iter().find(|entry| !entry.mac.is_zero());
    let log = "the agent here has not made it so: see whether it runs, and its log";
    if let Some(entry) = pins.entries.iter().find(|entry| entry.yielded) {
        let says = format!("this host gave way to {} while its fence had lapsed", entry.mac);
        return match here {
            Some(false) => Step::good(Link::Entry, says),
            Some(true) | None => Step::broken(
                Link::Entry,
                says,
                "if it should be here, stop the other one, then send the agent a SIGHUP: it takes the VIP back",
            ),
        };
    }
    match (here, ours) {
        (Some(true), None) => {
            Step::broken(Link::Entry, "this host should answer, and has no entry that does", log)
        }
        (Some(false), Some(entry)) if entry.role == Role::Held && !is_offered(facts) => {
            Step::broken(Link::Entry, format!("{}, and it should not", held(entry)), log)
        }
        (Some(_) | None, Some(entry)) => Step::good(Link::Entry, held(entry)).with(counts(entry)),
        (Some(false), None) => elsewhere(facts, known),
        (None, None) => match (known, pins.entries.is_empty()) {
            (Some(entry), _) => {
                Step::good(Link::Entry, format!("this host guards it: it is at {}", entry.mac))
            }
            (None, false) => Step::good(Link::Entry, "this host knows the address, and not where it is"),
            (None, true) => match &facts.cluster {
                Look::Seen(_) => Step::good(Link::Entry, "this host has no entry for it"),
                Look::Not(_) | Look::Failed(_) => Step::broken(
                    Link::Entry,
                    format!("there is no entry for it under {}", pins.dir),
                    "have the agent here hold it: list it in its file, or look in the cluster (--kubeconfig)",
                ),
            },
        },
    }
}

/// The old holder answers on until the new one does.
fn is_offered(facts: &Facts) -> bool {
    match &facts.cluster {
        Look::Seen(cluster) => {
            cluster.claim.as_ref().is_some_and(|claim| matches!(claim.state, ClaimState::Offered { .. }))
        }
        Look::Not(_) | Look::Failed(_) => false,
    }
}

/// What this host believes of an address that lives elsewhere.
fn elsewhere(facts: &Facts, known: Option<&EntryFacts>) -> Step {
    let claimed = holder(facts).map(|holder| holder.mac);
    match (known.map(|entry| entry.mac), claimed) {
        (Some(known), Some(claimed)) if known != claimed => Step::doubtful(
            Link::Entry,
            format!(
                "this host takes it for {known}, and the claim says {claimed}: it drops the holder's claims"
            ),
            "see whether the agent here runs and reads the API server: its log",
        ),
        (Some(known), _) => Step::good(Link::Entry, format!("this host knows that it is at {known}")),
        (None, _) => Step::good(Link::Entry, "it is held elsewhere, and this host has no MAC for it"),
    }
}

fn held(entry: &EntryFacts) -> String {
    let EntryFacts { interface, role, mac, .. } = entry;
    format!("this host's entry on {interface} is {} at {mac}", role.name())
}

fn counts(entry: &EntryFacts) -> Vec<String> {
    let text = |(answered, conflicts, suppressed)| {
        format!(
            "requests answered: {answered}, dropped: {suppressed}; conflicting claims dropped: {conflicts}"
        )
    };
    entry.counts.map(text).into_iter().collect()
}

fn attached(entry: &EntryFacts) -> Step {
    match entry.link_trouble {
        // A successor's MAC is none of this host's.
        Some(why) if entry.role == Role::Held || why != "the interface has another MAC" => Step::broken(
            Link::Attached,
            format!("{} does not answer: {why}", entry.interface),
            "see whether the agent runs: it attaches the program and follows the interface; `ip -d link` shows what is there",
        ),
        Some(_) | None => Step::good(Link::Attached, format!("the program runs on {}", entry.interface)),
    }
}

fn fence(pins: &Pinned) -> Step {
    let left = pins.fence_left.as_secs_f64();
    match pins.fence {
        FenceState::Valid => Step::good(Link::Fence, format!("valid for another {left:.1} s")),
        FenceState::HeldOver => Step::doubtful(
            Link::Fence,
            format!("held over for another {left:.0} s: the agent does not move it"),
            "start the agent, or see why it cannot renew: until then a peer that announces the address gets it",
        ),
        FenceState::Over => Step::broken(
            Link::Fence,
            "over: nothing is answered, since the agent does not move it",
            "start the agent, or see why it cannot renew (its log)",
        ),
    }
}

fn bound(interface: &str, there: bool) -> Step {
    if there {
        return Step::good(Link::Bound, format!("on {interface}, for local delivery"));
    }
    Step::broken(
        Link::Bound,
        format!("it is not on {interface}: its traffic arrives here and is not delivered"),
        "see whether the agent runs: it puts it there again within 30 s, or says why not",
    )
}

/// Whether the segment answers, and with the right MAC.
pub(super) fn segment(facts: &Facts) -> Step {
    let report = match &facts.segment {
        Look::Seen(report) => report,
        Look::Not(why) | Look::Failed(why) => return Step::unseen(Link::Segment, why.clone()),
    };
    let expected = expected(facts);
    let row = |row: &who_has::Row| format!("{} ({}; {})", row.mac, row.vendor, row.relation.name());
    let answering: Vec<_> = report.answers.iter().filter(|row| row.answering).collect();
    let details: Vec<_> = answering.iter().map(|answer| row(answer)).chain(report.notes.clone()).collect();
    let on = &report.interface;
    match &answering[..] {
        [] => Step::broken(
            Link::Segment,
            format!("nobody on {on} answers for it"),
            match expected {
                Some(mac) => format!(
                    "explain it on the host with {mac}; look at switch, VLAN and cable between the two"
                ),
                None => "find out who should: the steps above".to_owned(),
            },
        )
        .with(report.notes.clone()),
        [one] => match expected {
            Some(mac) if one.mac != mac.to_string() => Step::broken(
                Link::Segment,
                format!("{} answers, and {mac} should", row(one)),
                "take the address away from that host",
            )
            .with(report.notes.clone()),
            Some(_) | None if one.seen == Seen::ThisHost => {
                Step::good(Link::Segment, "this host answers, and nobody else does")
                    .with(report.notes.clone())
            }
            Some(_) => Step::good(Link::Segment, format!("{} answers, as it should", one.mac)),
            None => Step::good(Link::Segment, format!("{} answers", row(one))).with(report.notes.clone()),
        },
        several => {
            let strangers =
                several.iter().filter(|row| Some(&row.mac) != expected.map(|mac| mac.to_string()).as_ref());
            let strangers: Vec<_> = strangers.map(|row| row.mac.clone()).collect();
            Step::broken(
                Link::Segment,
                format!("CONFLICT: {} MACs answer for it", several.len()),
                format!("take the address away from {}", strangers.join(", ")),
            )
            .with(details)
        }
    }
}

/// The MAC that should answer: as the claim says, else as this host's entry says.
fn expected(facts: &Facts) -> Option<MacAddr> {
    let pinned = || match &facts.pins {
        Look::Seen(pins) => pins.entries.iter().find(|entry| !entry.mac.is_zero()).map(|entry| entry.mac),
        Look::Not(_) | Look::Failed(_) => None,
    };
    holder(facts).map(|holder| holder.mac).or_else(pinned)
}
