//! Writes a run down, line by line, for people.

use std::{collections::BTreeMap, fmt, time::Duration};

use vipward_core::{
    base::time::Monotonic,
    ownership::{ClaimWrite, Command, Entry, Event, Expected, LeaseWrite, Outcome},
    records::{ClaimRecord, ClaimState, LeaseRecord, Mode, NodeName, Offer, Session, Wid},
};

use crate::{machine::At, schedule::names};

/// The contents of a Lease without its version.
type Said = (Option<Session>, Vec<Session>, Duration, Option<Offer>);

/// The lines, if they are wanted.
#[derive(Debug, Default)]
pub(crate) struct Trace {
    lines: Option<Vec<String>>,
    /// The last Lease that each node got of each node. Heartbeats that say nothing new are left
    /// out.
    heard: BTreeMap<(usize, NodeName), Said>,
}

impl Trace {
    pub(crate) fn new(wanted: bool) -> Self {
        Self { lines: wanted.then(Vec::new), heard: BTreeMap::new() }
    }

    /// Adds an engine's event, unless it is a mere heartbeat.
    pub(crate) fn event(&mut self, at: At, node: usize, told: &Event) {
        if self.lines.is_some() && !self.is_heartbeat(node, told) {
            self.line(at, names::node(node), || event(told));
        }
    }

    fn is_heartbeat(&mut self, node: usize, told: &Event) -> bool {
        match told {
            Event::Lease(record) | Event::LeaseWritten { outcome: Outcome::Done(record), .. } => {
                let said = (record.session, record.ended.clone(), record.duration, record.wire.clone());
                self.heard.insert((node, record.node.clone()), said.clone()) == Some(said)
            }
            told => matches!(told, Event::Tick),
        }
    }

    /// Adds a command, unless it is a mere heartbeat.
    pub(crate) fn command(&mut self, at: At, node: usize, said: &Command, local: Monotonic) {
        let is_heartbeat = match said {
            Command::SetFence(_) => true,
            Command::WriteLease(write) => {
                let known = self.heard.get(&(node, write.node.clone()));
                known == Some(&(write.session, write.ended.clone(), write.duration, write.wire.clone()))
            }
            Command::SetEntry { .. }
            | Command::SetPeers(_)
            | Command::Announce { .. }
            | Command::Probe { .. }
            | Command::StopProbing { .. }
            | Command::SetSuccessor { .. }
            | Command::ReadLease(_)
            | Command::WriteClaim(_)
            | Command::DeleteClaim { .. }
            | Command::ReadClaim(_)
            | Command::SetWire(_)
            | Command::SetHeeding(_)
            | Command::TellFormer { .. }
            | Command::ListAnew
            | Command::Notify(_)
            | Command::Stopped => false,
        };
        if !is_heartbeat {
            self.line(at, names::node(node), || command(said, local));
        }
    }

    pub(crate) fn line(&mut self, at: At, who: impl fmt::Display, what: impl FnOnce() -> String) {
        if let Some(lines) = &mut self.lines {
            lines.push(format!("{at}  {who:<7} {}", what()));
        }
    }

    pub(crate) fn into_lines(self) -> Vec<String> {
        self.lines.unwrap_or_default()
    }
}

fn state(state: &ClaimState) -> String {
    match state {
        ClaimState::Held(holder) => {
            format!("held by {} in {} at {}", holder.node, short(holder.session), holder.mac)
        }
        ClaimState::Offered { to, from } => format!(
            "offered to {} in {} at {} by {} in {}",
            to.node,
            short(to.session),
            to.mac,
            from.0,
            short(from.1)
        ),
        ClaimState::Released => "released".to_owned(),
        ClaimState::Blank => "blank".to_owned(),
    }
}

fn short(session: Session) -> String {
    session.to_string()[..4].to_owned()
}

fn session(session: Option<Session>) -> String {
    session.map_or_else(|| "no session".to_owned(), |session| format!("session {}", short(session)))
}

fn lease(record: &LeaseRecord) -> String {
    let ended: Vec<String> = record.ended.iter().copied().map(short).collect();
    format!(
        "lease of {} v{}: {}, ended [{}], {:?}{}",
        record.node,
        record.version,
        session(record.session),
        ended.join(" "),
        record.duration,
        wire(record.wire.as_ref())
    )
}

fn wire(offer: Option<&Offer>) -> String {
    let Some(offer) = offer else { return String::new() };
    let short =
        |wids: &[Wid]| wids.iter().map(|wid| wid.to_string()[..4].to_owned()).collect::<Vec<_>>().join(" ");
    let mode = match offer.mode {
        Mode::Off => "off".to_owned(),
        Mode::Notice => format!("notice, [{}] without {}", short(&offer.set), offer.need),
    };
    format!(
        ", wire {} round {}: {mode}, invited [{}]",
        short(&[offer.wid]),
        offer.round,
        short(&offer.invited)
    )
}

fn claim(record: &ClaimRecord) -> String {
    let deleting = if record.deleting { ", deleting" } else { "" };
    let wish = record.move_to.as_ref().map(|node| format!(", wanted on {node}")).unwrap_or_default();
    format!(
        "claim of {} v{}: epoch {}, {}{deleting}{wish}",
        record.vip,
        record.version,
        record.epoch,
        state(&record.state)
    )
}

fn outcome<T>(outcome: &Outcome<T>, what: impl FnOnce(&T) -> String) -> String {
    match outcome {
        Outcome::Done(record) => format!("done: {}", what(record)),
        Outcome::Conflict => "conflict".to_owned(),
        Outcome::Missing => "missing".to_owned(),
        Outcome::Unknown => "unknown".to_owned(),
        Outcome::Refused(message) => format!("refused: {message}"),
    }
}

/// Returns an event in a few words.
pub(crate) fn event(event: &Event) -> String {
    match event {
        Event::Synced => "everything is listed".to_owned(),
        Event::Lease(record) => format!("sees {}", lease(record)),
        Event::LeaseGone(node) => format!("sees that the lease of {node} is gone"),
        Event::Claim(record) => format!("sees {}", claim(record)),
        Event::ClaimGone(vip) => format!("sees that the claim of {vip} is gone"),
        Event::Node(node) => format!(
            "sees node {}: cordoned {}, ready {}, labels {:?}",
            node.name, node.cordoned, node.ready, node.labels
        ),
        Event::NodeGone(node) => format!("sees that node {node} is gone"),
        Event::Demand(vip, Some(demand)) => format!("sees {vip} wanted, on {:?}", demand.reach),
        Event::Demand(vip, None) => format!("sees that {vip} is not wanted"),
        Event::Interfaces(interfaces) => {
            let interfaces: Vec<String> = interfaces
                .iter()
                .map(|interface| {
                    format!("{} {} carrier {}", interface.name, interface.mac, interface.carrier)
                })
                .collect();
            format!("has {}", interfaces.join(", "))
        }
        Event::LeaseWritten { node, outcome: came } => {
            format!("wrote lease of {node}: {}", outcome(came, lease))
        }
        Event::LeaseRead { node, outcome: came } => format!("read lease of {node}: {}", outcome(came, lease)),
        Event::ClaimWritten { vip, outcome: came } => {
            format!("wrote claim of {vip}: {}", outcome(came, claim))
        }
        Event::ClaimDeleted { vip, outcome: came } => {
            format!("deleted claim of {vip}: {}", outcome(came, |()| "gone".to_owned()))
        }
        Event::ClaimRead { vip, outcome: came } => format!("read claim of {vip}: {}", outcome(came, claim)),
        Event::Probed { vip, probed } => format!("has the probe result of {vip}: {probed:?}"),
        Event::Wire { vip, heard } => format!("hears of {vip}: {heard:?}"),
        Event::Witnessed(finding) => format!("has the finding {finding:?}"),
        Event::WireKeys(keys) => format!("has the keys {keys:?}"),
        Event::WireSelf(wid) => format!("is witness {wid:?}"),
        Event::Stop(reason) => format!("must end: {reason:?}"),
        Event::Tick => "tick".to_owned(),
    }
}

fn expected(expected: &Expected) -> String {
    match expected {
        Expected::Absent => "new".to_owned(),
        Expected::At(version) => format!("at v{version}"),
    }
}

/// Returns a command in a few words. `now` is the node's time.
pub(crate) fn command(command: &Command, now: Monotonic) -> String {
    let left = |until: Monotonic| {
        if until >= now {
            format!("{:?} ahead", until.saturating_since(now))
        } else {
            format!("{:?} ago", now.saturating_since(until))
        }
    };
    match command {
        Command::SetFence(fence) => format!("  fence: {}, {}", session(fence.session), left(fence.deadline)),
        Command::SetEntry { vip, entry, home } => {
            let entry = match entry {
                None => "none".to_owned(),
                Some(Entry::Held) => "HELD".to_owned(),
                Some(Entry::Foreign { mac }) => format!("foreign, {mac}"),
                Some(Entry::Handover { mac, until }) => format!("HANDOVER, {mac}, until {}", left(*until)),
            };
            format!("  entry of {vip}: {entry} on {}", home.as_deref().unwrap_or("nothing"))
        }
        Command::SetPeers(peers) => {
            let peers: Vec<String> = peers.iter().map(ToString::to_string).collect();
            format!("  peers: {}", peers.join(" "))
        }
        Command::SetWire(plan) => format!("  wire: {plan:?}"),
        Command::SetHeeding(heeds) => format!("  its program heeds frames: {heeds}"),
        Command::TellFormer { vip, session, mac } => {
            format!("  tells {mac} the end of {} for {vip}", short(*session))
        }
        Command::ListAnew => "  lists everything anew".to_owned(),
        Command::Probe { vip, often: _ } => format!("  probes {vip}"),
        Command::SetSuccessor { vip, hears } => format!("  is next for {vip}: {hears}"),
        Command::StopProbing { vip } => format!("  stops probing {vip}"),
        Command::Announce { vip } => format!("  announces {vip} again"),
        Command::WriteLease(LeaseWrite { node, expected: at, session: of, ended, wire: offer, .. }) => {
            let ended: Vec<String> = ended.iter().copied().map(short).collect();
            format!(
                "  writes lease of {node} {}: {}, ended [{}]{}",
                expected(at),
                session(*of),
                ended.join(" "),
                wire(offer.as_ref())
            )
        }
        Command::ReadLease(node) => format!("  reads lease of {node}"),
        Command::WriteClaim(ClaimWrite { vip, expected: at, epoch, state: to, note, can_wait: _ }) => {
            format!("  writes claim of {vip} {}: epoch {epoch}, {} ({})", expected(at), state(to), note.cause)
        }
        Command::DeleteClaim { vip, expected } => format!("  deletes claim of {vip} at v{expected}"),
        Command::ReadClaim(vip) => format!("  reads claim of {vip}"),
        Command::Notify(notice) => format!("  notice: {notice:?}"),
        Command::Stopped => "  has ended".to_owned(),
    }
}
