//! Steps that concern this host and its segment.

use std::net::IpAddr;

use vipward_common::{FenceState, MacAddr, Role, VipCounters};

use super::{
    facts::{Facts, Listed, ListedVip, Look},
    step::{Attached, Link, Step},
};
use crate::{
    diagnosis::{
        pinned::{Entry, State},
        who_has::{self, Seen},
    },
    host::attaching::{Attach, Mode, WhyNotNative},
    records::{ClaimState, Holder},
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

/// Returns the steps of the pinned state.
pub(super) fn steps(facts: &Facts) -> Vec<Step> {
    let state = match &facts.pins {
        Look::Seen(state) => state,
        Look::Not(why) if matches!(facts.config, Look::Seen(_)) => {
            let remedy = "start the agent: vipward agent --config FILE";
            return vec![Step::broken(Link::Entry, why.clone(), remedy)];
        }
        Look::Not(why) => return vec![Step::unseen(Link::Entry, why.clone()).with(unseen_there(facts))],
        Look::Failed(why) => {
            let why = format!("what is pinned here cannot be read: {why}");
            return vec![Step::unseen(Link::Entry, why).with(unseen_there(facts))];
        }
    };
    let entry = entry(facts, state, is_here(facts));
    let details = entry.details.iter().cloned().chain(unseen_there(facts)).collect();
    let mut steps = vec![entry.with(details)];
    if let Some((state, own)) = own(facts) {
        steps.extend([attached(state, own, attachment(facts).as_ref()), fence(facts, state, own)]);
    }
    if let Look::Seen(Listed { vip: Some(ListedVip { bind: Some((interface, there)), .. }), .. }) =
        &facts.config
    {
        steps.push(bound(interface, *there));
    }
    steps
}

/// Returns the pinned state and the entry with which this host answers.
fn own(facts: &Facts) -> Option<(&State, &Entry)> {
    match &facts.pins {
        Look::Seen(state) => {
            let own = state.contents.entries_of(facts.address).find(|entry| entry.is_own())?;
            Some((state, own))
        }
        Look::Not(_) | Look::Failed(_) => None,
    }
}

/// Returns the facts that only the host that should answer can see, and the command for it. Returns
/// nothing if this is that host. The maps of this host do not have these facts.
fn unseen_there(facts: &Facts) -> Vec<String> {
    if is_here(facts) != Some(false) {
        return Vec::new();
    }
    let (whose, how) = match (&facts.cluster, holder(facts)) {
        (Look::Seen(cluster), Some(holder)) => {
            let node = &holder.node;
            let by = explain_on(facts.address, &cluster.namespace, holder);
            (node.to_string(), format!("there: {by}"))
        }
        _ => ("the host that has it".to_owned(), format!("there: vipward explain {}", facts.address)),
    };
    let looked = match facts.pins {
        Look::Seen(_) => "only this host's entry was looked at",
        Look::Not(_) | Look::Failed(_) => "no entry was looked at",
    };
    vec![
        format!("{looked}: the entry, the program and the fence of {whose} can only be looked at there"),
        how,
    ]
}

/// Returns the command that explains the address on its holder.
pub(super) fn explain_on(address: IpAddr, namespace: &str, holder: &Holder) -> String {
    let node = &holder.node;
    format!(
        "kubectl -n {namespace} exec POD -- /vipward explain {address} (POD: the agent's on {node}), or on \
        {node} itself: vipward explain {address}"
    )
}

/// Returns the holder by the claim.
fn holder(facts: &Facts) -> Option<&Holder> {
    match &facts.cluster {
        Look::Seen(cluster) => cluster.claim.as_ref()?.state.holder(),
        Look::Not(_) | Look::Failed(_) => None,
    }
}

/// Returns true if this host should answer. Returns none if that is unknown.
fn is_here(facts: &Facts) -> Option<bool> {
    let by_config = match &facts.config {
        Look::Seen(listed) => listed.vip.as_ref().map(|vip| vip.guarded.is_none()),
        Look::Not(_) | Look::Failed(_) => None,
    };
    holder(facts).map(|holder| facts.own.contains(&holder.mac)).or(by_config)
}

fn entry(facts: &Facts, state: &State, here: Option<bool>) -> Step {
    let entries = || state.contents.entries_of(facts.address);
    let own = entries().find(|entry| entry.is_own());
    let known = entries().find(|entry| !entry.mac.is_zero());
    let log = "the agent here has not made it so: see whether it runs, and its log";
    if let Some(entry) = entries().find(|entry| entry.yielded) {
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
    match (here, own) {
        (Some(true), None) => {
            Step::broken(Link::Entry, "this host should answer, and has no entry that does", log)
        }
        (Some(false), Some(entry)) if entry.role == Role::Held && !is_offered(facts) => {
            Step::broken(Link::Entry, format!("{}, and it should not be there", say(entry, state)), log)
        }
        (Some(_) | None, Some(entry)) => Step::good(Link::Entry, say(entry, state)).with(counts(entry)),
        (Some(false), None) => elsewhere(facts, known),
        (None, None) => match (known, entries().next().is_none()) {
            (Some(entry), _) => {
                Step::good(Link::Entry, format!("this host guards it: it is at {}", entry.mac))
            }
            (None, false) => Step::good(Link::Entry, "this host knows the address, and not where it is"),
            (None, true) => match &facts.cluster {
                Look::Seen(_) => Step::good(Link::Entry, "this host has no entry for it"),
                Look::Not(_) | Look::Failed(_) => Step::broken(
                    Link::Entry,
                    format!("there is no entry for it under {}", state.dir.display()),
                    "have the agent here hold it: list it in its file, or look in the cluster (--kubeconfig)",
                ),
            },
        },
    }
}

/// Returns true if the address is being handed over. The old holder answers until the new one does.
fn is_offered(facts: &Facts) -> bool {
    match &facts.cluster {
        Look::Seen(cluster) => {
            cluster.claim.as_ref().is_some_and(|claim| matches!(claim.state, ClaimState::Offered { .. }))
        }
        Look::Not(_) | Look::Failed(_) => false,
    }
}

/// Returns the step of the entry if another host should answer.
fn elsewhere(facts: &Facts, known: Option<&Entry>) -> Step {
    let claimed = holder(facts).map(|holder| holder.mac);
    match (known.map(|entry| entry.mac), claimed) {
        (Some(known), Some(claimed)) if known != claimed => Step::doubtful(
            Link::Entry,
            format!(
                "this host takes it for {known}, and the claim says {claimed}: it drops the holder's claims"
            ),
            "see whether the agent here runs and reads the API server: its log",
        ),
        (Some(known), _) => {
            Step::good(Link::Entry, format!("this host's entry has it at {known}, which is another host"))
        }
        (None, _) => Step::good(Link::Entry, "it is held elsewhere, and this host has no MAC for it"),
    }
}

/// Returns the effect of this host's own entry, in words.
fn say(entry: &Entry, state: &State) -> String {
    let part = state.part(entry);
    let why = part.silence().map(|why| format!(": {}", why.name())).unwrap_or_default();
    let interface = state.network.label_of(entry.key.ifindex);
    format!("this host's entry on {interface} is {} at {}{why}", part.name(), entry.mac)
}

fn counts(entry: &Entry) -> Vec<String> {
    let text = |count: VipCounters| {
        format!(
            "requests answered: {}, dropped: {}; conflicting claims dropped: {}",
            count.answered, count.suppressed, count.conflicts
        )
    };
    entry.count.map(text).into_iter().collect()
}

/// Returns the mode and the interface with which this host answers.
pub(super) fn attachment(facts: &Facts) -> Option<Attached> {
    let (state, entry) = own(facts)?;
    let ifindex = entry.key.ifindex;
    let mode = state.running(ifindex)?;
    let (point, _, ids) = state.link_of(ifindex)?;
    let interface = state.network.interfaces.get(&point)?;
    let because = match mode {
        Mode::Native => None,
        Mode::Tc | Mode::Generic => {
            let own = (mode == Mode::Generic).then_some(ids.program);
            let why = WhyNotNative::of(interface, &state.network, own, facts.native.get(&point).copied());
            Some(why_not_native(facts, mode, why))
        }
    };
    Some(Attached { interface: state.network.label_of(ifindex), mode, because })
}

fn why_not_native(facts: &Facts, mode: Mode, why: WhyNotNative) -> String {
    if let Look::Seen(Listed { file, attach, .. }) = &facts.config
        && matches!((attach, mode), (Attach::Tc, Mode::Tc) | (Attach::Generic, Mode::Generic))
    {
        return format!("{file} asks for it (`attach: {mode}`)");
    }
    match why {
        WhyNotNative::Software if mode == Mode::Generic => "the agent was started so (--attach generic)",
        WhyNotNative::Software => "a software device gets tc",
        WhyNotNative::StripsTags => "the card takes the tags of its VLAN devices off before XDP",
        WhyNotNative::Occupied => "another XDP program is on the interface, which takes one",
        WhyNotNative::Refused => {
            "the driver offers native XDP, and has refused it (often for a large MTU or for too few \
            queues), unless the agent was started so (--attach); the agent's line `attached` says why (`refused`)"
        }
        WhyNotNative::NotOffered => "the driver has no native XDP; each answer costs more",
        WhyNotNative::Unknown => {
            "the driver has no native XDP or has refused it, or the agent was started so (--attach); this \
            kernel does not say which (Linux 6.3 and later do)"
        }
    }
    .to_owned()
}

fn attached(state: &State, entry: &Entry, attached: Option<&Attached>) -> Step {
    let interface = state.network.label_of(entry.key.ifindex);
    let runs =
        |attached: &Attached| format!("the program runs on {} in {} mode", attached.interface, attached.mode);
    let because = attached.and_then(|attached| attached.because.clone());
    let because = because.map(|because| format!("not in native mode: {because}"));
    match state.interface_fault(entry) {
        Some(why) if why.silences(entry.role) => Step::broken(
            Link::Attached,
            format!("{interface} does not answer: {}", why.name()),
            "see whether the agent runs: it attaches the program and follows the interface; `ip -d link` \
            shows what is there",
        )
        .with(attached.map(runs).into_iter().chain(because).collect()),
        Some(_) | None => {
            let runs = attached.map(runs);
            let runs = runs.unwrap_or_else(|| format!("the program runs on {interface}"));
            Step::good(Link::Attached, runs).with(because.into_iter().collect())
        }
    }
}

fn fence(facts: &Facts, state: &State, own: &Entry) -> Step {
    let contents = &state.contents;
    let left = contents.left(contents.fence.hold_until_ns).as_secs_f64();
    let gives_way_to_nobody = contents.is_in_cluster() && contents.peers_on(own.key.ifindex) == 0;
    match contents.fence_state() {
        FenceState::Valid => {
            let left = contents.left(contents.fence.deadline_ns).as_secs_f64();
            Step::good(Link::Fence, format!("valid for another {left:.1} s"))
        }
        FenceState::HeldOver if gives_way_to_nobody => Step::broken(
            Link::Fence,
            format!(
                "held over for another {left:.0} s: this host answers, knows no peer on {}, and yields to no host",
                state.network.label_of(own.key.ifindex)
            ),
            format!(
                "find out who else answers: vipward who-has {}. If another node has it, stop the agent here and run \
                 `vipward unload`; else let the agent here reach the API server: its log says what fails",
                facts.address
            ),
        ),
        FenceState::HeldOver if contents.has_ended() => Step::doubtful(
            Link::Fence,
            format!("held over for another {left:.0} s: a peer says that this node's session has ended"),
            "start the agent, if it does not run: it begins a new session. Until then a peer that announces the \
             address gets it",
        ),
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

/// Returns the step of the segment: exactly one host should answer, with the right MAC.
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
        [] => Step::broken(Link::Segment, format!("no host on {on} answers for it"), silent(facts, expected))
            .with(report.notes.clone()),
        [one] => match expected {
            Some(mac) if one.mac != mac.to_string() => Step::broken(
                Link::Segment,
                format!("{} answers, and {mac} should", row(one)),
                "take the address away from that host",
            )
            .with(report.notes.clone()),
            Some(_) | None if one.seen == Seen::ThisHost => {
                Step::good(Link::Segment, "this host alone answers").with(report.notes.clone())
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

/// Returns the remedy if no host answers, although `expected` should.
fn silent(facts: &Facts, expected: Option<MacAddr>) -> String {
    const WAY: &str = "look at switch, VLAN and cable between the two";
    let Some(mac) = expected else { return "find out who should: the steps above".to_owned() };
    match (&facts.cluster, holder(facts), is_here(facts)) {
        (Look::Seen(cluster), Some(holder), Some(false)) => {
            format!(
                "explain it on the host with {mac}: {}; {WAY}",
                explain_on(facts.address, &cluster.namespace, holder)
            )
        }
        _ => format!("explain it on the host with {mac}; {WAY}"),
    }
}

/// Returns the MAC that should answer: that of the claim, or else that of this host's entry.
fn expected(facts: &Facts) -> Option<MacAddr> {
    let pinned = || match &facts.pins {
        Look::Seen(state) => state.contents.entries_of(facts.address).find_map(Entry::known_mac),
        Look::Not(_) | Look::Failed(_) => None,
    };
    holder(facts).map(|holder| holder.mac).or_else(pinned)
}
