//! Steps that concern this host and its segment.

use std::net::IpAddr;

use schemars::JsonSchema;
use serde::Serialize;
use vipward_common::{MacAddr, Role, VipCounters};

use super::{
    facts::{Facts, Listed, ListedVip},
    link,
};
use crate::{
    diagnosis::{
        doctor::{self, Link, Program},
        fact::{Cause, Fact, Unread},
        finding::{Finding, State::Green},
        pinned::{Entry, LinkIds, State},
        who_has::{self, Seen},
    },
    host::{
        attaching::{Attach, Mode},
        net::{Interface, InterfaceFault},
    },
    records::{ClaimState, Holder, object_name},
    segment::confirming::Answerer,
};

/// The remedy if the agent has not followed the interface.
const FOLLOWS: &str = "see whether the agent runs: it attaches the program and follows the interface; `ip -d link` \
                       shows what is there";

/// Returns the steps of the file, if there is one.
pub(super) fn config_steps(config: &Fact<Listed>) -> Vec<Finding> {
    let listed = match config {
        Fact::Read(listed) => listed,
        Fact::Unread(why) => {
            let remedy = "mend the file: `vipward agent --check --config FILE` names the fault";
            return match why.cause {
                Cause::Skipped => Vec::new(),
                Cause::Denied => vec![Finding::unknown(link::CONFIG, why)],
                Cause::Failed => vec![Finding::red(link::CONFIG, &why.reason, remedy)],
            };
        }
    };
    let Some(vip) = &listed.vip else {
        return vec![Finding::red(
            link::CONFIG,
            format!("{} does not list it", listed.file),
            "add it under `vips:`; the agent notices",
        )];
    };
    let says = match vip.guarded {
        Some(mac) => format!("{} guards it: it lives at {mac}", listed.file),
        None => format!("{} lists it", listed.file),
    };
    vec![Finding::green(link::CONFIG, says), placement(vip)]
}

fn placement(vip: &ListedVip) -> Finding {
    match (&vip.interface, vip.problems.first()) {
        (Some(interface), None) => Finding::green(link::PLACEMENT, format!("on {interface}")),
        (Some(interface), Some(problem)) => {
            Finding::yellow(link::PLACEMENT, format!("on {interface}: {problem}"), "see what is wrong there")
        }
        (None, problem) => Finding::red(
            link::PLACEMENT,
            problem.cloned().unwrap_or_else(|| "it is on no interface".to_owned()),
            "name an interface for it, or give one an address in its subnet",
        )
        .with(vip.problems.iter().skip(1).cloned()),
    }
}

/// Returns the steps of the pinned state.
pub(super) fn steps(facts: &Facts) -> Vec<Finding> {
    let state = match &facts.pins {
        Fact::Read(Some(state)) => state,
        Fact::Read(None) if matches!(facts.config, Fact::Read(_)) => {
            let remedy = "start the agent: vipward agent --config FILE";
            return vec![Finding::red(link::ENTRY, nothing_pinned(facts), remedy)];
        }
        Fact::Read(None) => {
            let why = Unread::skipped(nothing_pinned(facts));
            return vec![Finding::unknown(link::ENTRY, &why).with(unseen_there(facts))];
        }
        Fact::Unread(why) => {
            let why = why.of("what is pinned here cannot be read");
            return vec![Finding::unknown(link::ENTRY, &why).with(unseen_there(facts))];
        }
    };
    let mut steps = vec![entry(facts, state, is_here(facts)).with(unseen_there(facts))];
    if let Some((state, own)) = own(facts) {
        let name_of = |ifindex: u32| state.network.label_of(ifindex);
        let lease_deadline =
            doctor::judge_deadline(&state.contents, &facts.agent, &name_of, Some(facts.address));
        steps.extend([attached(facts, state, own), lease_deadline]);
    }
    if let Fact::Read(Listed { vip: Some(ListedVip { bind: Some((interface, there)), .. }), .. }) =
        &facts.config
    {
        steps.push(bound(interface, *there));
    }
    steps
}

fn nothing_pinned(facts: &Facts) -> String {
    let dir = facts.pin_dir.display();
    format!("nothing is pinned under {dir}: no agent has run here (another directory: --pin-dir)")
}

/// Returns the pinned state and the entry with which this host answers.
fn own(facts: &Facts) -> Option<(&State, &Entry)> {
    match &facts.pins {
        Fact::Read(Some(state)) => {
            let own = state.contents.entries_of(facts.address).find(|entry| entry.is_own())?;
            Some((state, own))
        }
        Fact::Read(None) | Fact::Unread(_) => None,
    }
}

/// Returns the facts that only the host that should answer can see, and the command for it. Returns
/// nothing if this is that host. The maps of this host do not have these facts.
fn unseen_there(facts: &Facts) -> Vec<String> {
    if is_here(facts) != Some(false) {
        return Vec::new();
    }
    let (whose, how) = match (&facts.cluster, holder(facts)) {
        (Fact::Read(cluster), Some(holder)) => {
            let node = &holder.node;
            let by = explain_on(facts.address, &cluster.namespace, holder);
            (node.to_string(), format!("there: {by}"))
        }
        _ => ("the host that has it".to_owned(), format!("there: vipward explain {}", facts.address)),
    };
    let looked = match facts.pins {
        Fact::Read(Some(_)) => "only this host's entry was read",
        Fact::Read(None) | Fact::Unread(_) => "no entry was read",
    };
    vec![
        format!("{looked}: the entry, the program and the lease deadline of {whose} can only be read there"),
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
        Fact::Read(cluster) => cluster.claim.as_ref()?.state.holder(),
        Fact::Unread(_) => None,
    }
}

/// Returns true if this host should answer. Returns none if that is unknown.
fn is_here(facts: &Facts) -> Option<bool> {
    let by_config = match &facts.config {
        Fact::Read(listed) => listed.vip.as_ref().map(|vip| vip.guarded.is_none()),
        Fact::Unread(_) => None,
    };
    holder(facts).map(|holder| facts.own.contains(&holder.mac)).or(by_config)
}

fn entry(facts: &Facts, state: &State, here: Option<bool>) -> Finding {
    let entries = || state.contents.entries_of(facts.address);
    let own = entries().find(|entry| entry.is_own());
    let known = entries().find(|entry| !entry.mac.is_zero());
    let log = "the agent here has not made it so: see whether it runs, and its log";
    if let (Fact::Read(Some(waiting)), None) = (&facts.waiting, own) {
        let on = waiting.interface.as_ref().map(|name| format!(" on {name}")).unwrap_or_default();
        let says = format!("this host is to hold it{on}, and does not: {}", waiting.because);
        return Finding::red(link::ENTRY, says, &waiting.remedy);
    }
    if let Some(entry) = entries().find(|entry| entry.yielded) {
        let says = format!("this host yielded to {} after its lease deadline had passed", entry.mac);
        return match here {
            Some(false) => Finding::green(link::ENTRY, says),
            Some(true) | None => Finding::red(
                link::ENTRY,
                says,
                "if it should be here, stop the other one, then send the agent a SIGHUP: it takes the VIP back",
            ),
        };
    }
    match (here, own) {
        (Some(true), None) => {
            let says = "this host should answer, and has no entry that does";
            match facts.answerers.first_key_value() {
                None => {
                    let unread = match &facts.waiting {
                        Fact::Unread(why) if !why.is_skipped() => Some(why.reason.clone()),
                        Fact::Read(_) | Fact::Unread(_) => None,
                    };
                    Finding::red(link::ENTRY, says, log).with(unread)
                }
                Some((mac, answerer)) => {
                    let says = format!("{says}: it waits, since {mac} answers: {}", answerer.says());
                    Finding::red(link::ENTRY, says, free_of(facts, *answerer))
                }
            }
        }
        (Some(false), Some(entry)) if entry.role == Role::Held && !is_offered(facts) => {
            Finding::red(link::ENTRY, format!("{}, and it should not be there", say(entry, state)), log)
        }
        (Some(_) | None, Some(entry)) => Finding::green(link::ENTRY, say(entry, state)).with(counts(entry)),
        (Some(false), None) => elsewhere(facts, known),
        (None, None) => match (known, entries().next().is_none()) {
            (Some(entry), _) => {
                Finding::green(link::ENTRY, format!("this host guards it: it is at {}", entry.mac))
            }
            (None, false) => Finding::green(link::ENTRY, "this host knows the address, and not where it is"),
            (None, true) => match &facts.cluster {
                Fact::Read(_) => Finding::green(link::ENTRY, "this host has no entry for it"),
                Fact::Unread(_) => Finding::red(
                    link::ENTRY,
                    format!("there is no entry for it under {}", state.dir.display()),
                    "have the agent here hold it: list it in its file, or look in the cluster (--kubeconfig)",
                ),
            },
        },
    }
}

/// Returns the remedy if a host of this sort answers for the address, and no node or agent has it.
fn free_of(facts: &Facts, answerer: Answerer) -> String {
    let force = match facts.cluster {
        Fact::Read(_) => {
            let claim = object_name(facts.address);
            format!("kubectl annotate virtualip {claim} vipward.io/force=true")
        }
        Fact::Unread(_) => "`force: true` of the VIP".to_owned(),
    };
    format!("{}; or have it taken all the same ({force})", answerer.remedy())
}

/// Returns true if the address is being handed over. The old holder answers until the new one does.
fn is_offered(facts: &Facts) -> bool {
    match &facts.cluster {
        Fact::Read(cluster) => {
            cluster.claim.as_ref().is_some_and(|claim| matches!(claim.state, ClaimState::Offered { .. }))
        }
        Fact::Unread(_) => false,
    }
}

/// Returns the step of the entry if another host should answer.
fn elsewhere(facts: &Facts, known: Option<&Entry>) -> Finding {
    let claimed = holder(facts).map(|holder| holder.mac);
    match (known.map(|entry| entry.mac), claimed) {
        (Some(known), Some(claimed)) if known != claimed => Finding::yellow(
            link::ENTRY,
            format!(
                "this host has it at {known}, and the claim names {claimed}: it drops the holder's claims"
            ),
            "see whether the agent here runs and reads the API server: its log",
        ),
        (Some(known), _) => {
            Finding::green(link::ENTRY, format!("this host's entry has it at {known}, which is another host"))
        }
        (None, _) => Finding::green(link::ENTRY, "it is held elsewhere, and this host has no MAC for it"),
    }
}

/// Returns the text about the effect of this host's own entry.
fn say(entry: &Entry, state: &State) -> String {
    let part = state.part(entry);
    let why = part.silent_because().map(|why| format!(": {why}")).unwrap_or_default();
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

/// Returns the mode and the interface with which this host answers.
pub(super) fn attachment(facts: &Facts) -> Option<Attached> {
    let (state, entry) = own(facts)?;
    let mode = state.running(entry.key.ifindex)?;
    let (point, _, ids) = state.link_of(entry.key.ifindex)?;
    let program = program(facts, state, state.network.interfaces.get(&point)?);
    let because = program.because(Link { ifindex: point, mode, program: ids.program });
    let because = because.map(|(_, words)| asked(facts, mode).unwrap_or_else(|| words.into_owned()));
    Some(Attached { interface: state.network.label_of(entry.key.ifindex), mode, because })
}

/// Returns the text about the mode that the file requests, if it does.
fn asked(facts: &Facts, mode: Mode) -> Option<String> {
    match &facts.config {
        Fact::Read(Listed { file, attach, .. })
            if matches!((attach, mode), (Attach::Tc, Mode::Tc) | (Attach::Generic, Mode::Generic)) =>
        {
            Some(format!("{file} sets it (`attach: {mode}`)"))
        }
        Fact::Read(_) | Fact::Unread(_) => None,
    }
}

fn program<'a>(facts: &Facts, state: &'a State, interface: &'a Interface) -> Program<'a> {
    let unasked = || Fact::skipped("the driver was not queried");
    let link = |(ifindex, mode, ids): (u32, Mode, LinkIds)| Link { ifindex, mode, program: ids.program };
    Program {
        view: &state.network,
        interface,
        link: Fact::Read(state.link_of(interface.index).map(link)),
        native: facts.native.get(&interface.index).cloned().unwrap_or_else(unasked),
        contents: Fact::Read(Some(&state.contents)),
    }
}

/// Returns the step of the program, as `doctor` judges it, or of what else keeps the interface from
/// answering.
fn attached(facts: &Facts, state: &State, own: &Entry) -> Finding {
    let ifindex = own.key.ifindex;
    let name = state.network.label_of(ifindex);
    let silent = |why: &str, remedy: Option<String>| {
        let remedy = remedy.unwrap_or_else(|| FOLLOWS.to_owned());
        Finding::red(link::ATTACHED, format!("{name} does not answer: {why}"), remedy)
    };
    let Some(interface) = state.network.interfaces.get(&ifindex) else { return silent("it is gone", None) };
    let program = program(facts, state, interface);
    let runs = program.runs();
    let attached = attachment(facts);
    let because = attached.as_ref().and_then(|attached| attached.because.as_ref());
    let because = because.map(|because| format!("not in native mode: {because}"));
    let is_asked = attached.as_ref().is_some_and(|attached| asked(facts, attached.mode).is_some());
    let mode = attached.map(|attached| format!("the program runs on {name} in {} mode", attached.mode));
    let fault = state.interface_fault(own).filter(|fault| fault.silences(own.role));
    match fault.or_else(|| InterfaceFault::of_proof(state.contents.proof(ifindex))) {
        None => {}
        Some(InterfaceFault::OtherMac) => return silent(&format!("its MAC is {}", interface.mac), None),
        Some(fault) => {
            let Finding { found, remedy, .. } = match fault {
                InterfaceFault::Down | InterfaceFault::NoCarrier => program.carrier(""),
                InterfaceFault::Blind | InterfaceFault::Bypassed => program.proof(),
                InterfaceFault::Gone | InterfaceFault::NotAttached | InterfaceFault::OtherMac => runs,
            };
            return silent(&found, remedy).with(mode.into_iter().chain(because));
        }
    }
    if own.fault.is_some() {
        let Finding { found, remedy, .. } = program.egress();
        let red = Finding::red(link::ATTACHED, format!("{name}: {found}"), remedy.unwrap_or_default());
        return red.with(mode.into_iter().chain(because));
    }
    let found = mode.unwrap_or_else(|| format!("the program runs on {name}"));
    if runs.state == Green || is_asked {
        return Finding::green(link::ATTACHED, found).with(because);
    }
    let because = because.unwrap_or(runs.found);
    Finding::new(link::ATTACHED, runs.state, found, runs.remedy).with([because])
}

fn bound(interface: &str, there: bool) -> Finding {
    if there {
        return Finding::green(link::BOUND, format!("on {interface}, for local delivery"));
    }
    Finding::red(
        link::BOUND,
        format!("it is not on {interface}: its traffic arrives here and is not delivered"),
        "see whether the agent runs: it puts it there again within 30 s, or logs why not",
    )
}

/// Returns the step of the segment: exactly one host should answer, with the right MAC.
pub(super) fn segment(facts: &Facts) -> Finding {
    let report = match &facts.segment {
        Fact::Read(report) => report,
        Fact::Unread(why) => return Finding::unknown(link::SEGMENT, why),
    };
    let expected = expected(facts);
    let row = |row: &who_has::Row| format!("{} ({}; {})", row.mac, row.vendor, row.relation.name());
    let answering: Vec<_> = report.answers.iter().filter(|row| row.answering).collect();
    let details: Vec<_> = answering.iter().map(|answer| row(answer)).chain(report.notes.clone()).collect();
    let on = &report.interface;
    match &answering[..] {
        [] => Finding::red(link::SEGMENT, format!("no host on {on} answers for it"), silent(facts, expected))
            .with(report.notes.clone()),
        [one] => match expected {
            Some(mac) if one.mac != mac.to_string() => Finding::red(
                link::SEGMENT,
                format!("{} answers, and {mac} should", row(one)),
                "give that host, or the VIP, another address",
            )
            .with(report.notes.clone()),
            Some(_) | None if one.seen == Seen::ThisHost => {
                Finding::green(link::SEGMENT, "this host alone answers").with(report.notes.clone())
            }
            Some(_) => Finding::green(link::SEGMENT, format!("{} answers, as it should", one.mac)),
            None => match facts.answerers.get(&one.mac) {
                Some(answerer @ (Answerer::Proxy | Answerer::Router)) => Finding::yellow(
                    link::SEGMENT,
                    format!("{} answers: {}", row(one), answerer.says()),
                    free_of(facts, *answerer),
                ),
                Some(Answerer::Host) | None => Finding::green(link::SEGMENT, format!("{} answers", row(one))),
            }
            .with(report.notes.clone()),
        },
        several => {
            let unknown_hosts =
                several.iter().filter(|row| Some(&row.mac) != expected.map(|mac| mac.to_string()).as_ref());
            let unknown_hosts: Vec<_> = unknown_hosts.map(|row| row.mac.clone()).collect();
            Finding::red(
                link::SEGMENT,
                format!("CONFLICT: {} MACs answer for it", several.len()),
                format!("give {} another address, or choose another VIP", unknown_hosts.join(", ")),
            )
            .with(details)
        }
    }
}

/// Returns the remedy if no host answers, although `expected` should.
fn silent(facts: &Facts, expected: Option<MacAddr>) -> String {
    const WAY: &str = "check switch, VLAN and cable between the two";
    let Some(mac) = expected else { return "find out who should: the steps above".to_owned() };
    match (&facts.cluster, holder(facts), is_here(facts)) {
        (Fact::Read(cluster), Some(holder), Some(false)) => {
            format!(
                "explain it on the host with {mac}: {}; {WAY}",
                explain_on(facts.address, &cluster.namespace, holder)
            )
        }
        _ => format!("explain it on the host with {mac}; {WAY}"),
    }
}

/// Returns the MAC that should answer: the claim's, or else the MAC of this host's entry.
fn expected(facts: &Facts) -> Option<MacAddr> {
    let pinned = || match &facts.pins {
        Fact::Read(Some(state)) => state.contents.entries_of(facts.address).find_map(Entry::known_mac),
        Fact::Read(None) | Fact::Unread(_) => None,
    };
    holder(facts).map(|holder| holder.mac).or_else(pinned)
}
