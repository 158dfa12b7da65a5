//! Writes a run down, line by line, for people.

use std::{collections::BTreeMap, fmt, time::Duration};

use vipward_common::{MacAddr, Role, VipEntry, VipKey};
use vipward_core::{
    agent::{
        ClusterEffect, Effect, Input, Line, Request,
        cluster::{self, Reply, Seen},
    },
    base::time::Monotonic,
    controller,
    ownership::{ClaimWrite, Event, Expected, LeaseWrite, Outcome},
    records::{ClaimRecord, ClaimState, LeaseRecord, Mode, NodeName, Offer, Session, Wid},
};

use super::served::served;
use crate::{machine::At, schedule::names};

/// The contents of a Lease without its version.
type Contents = (Option<Session>, Vec<Session>, Duration, Option<Offer>);

/// The lines, if they are wanted.
#[derive(Debug, Default)]
pub(crate) struct Trace {
    lines: Option<Vec<String>>,
    /// The last Lease that each node got of each node. Heartbeats without news are left
    /// out.
    received: BTreeMap<(usize, NodeName), Contents>,
}

impl Trace {
    pub(crate) fn new(wanted: bool) -> Self {
        Self { lines: wanted.then(Vec::new), received: BTreeMap::new() }
    }

    /// Adds an engine's event, unless it is a mere heartbeat.
    pub(crate) fn event(&mut self, at: At, node: usize, notified: &Event) {
        if self.lines.is_some() && !self.is_heartbeat(node, notified) {
            self.line(at, names::node(node), || event(notified));
        }
    }

    fn is_heartbeat(&mut self, node: usize, notified: &Event) -> bool {
        match notified {
            Event::Lease(record) | Event::LeaseWritten { outcome: Outcome::Done(record), .. } => {
                let said = (record.session, record.ended.clone(), record.duration, record.wire.clone());
                self.received.insert((node, record.node.clone()), said.clone()) == Some(said)
            }
            notified => matches!(notified, Event::Tick),
        }
    }

    /// Adds what an agent gets, unless it is a mere heartbeat or the result of an effect.
    pub(crate) fn input(&mut self, at: At, node: usize, input: &Input) {
        if self.lines.is_none() {
            return;
        }
        match input {
            Input::Cluster(cluster::Input::Seen(all)) => {
                for seen in all {
                    match seen {
                        Seen::Object(Some(notified), _) => self.event(at, node, notified),
                        Seen::Object(None, Some(notified)) => {
                            self.line(at, names::node(node), || served(notified));
                        }
                        seen => self.line(at, names::node(node), || format!("sees {seen:?}")),
                    }
                }
            }
            Input::Cluster(cluster::Input::Replies { replies, .. }) => {
                for reply in replies {
                    if let Reply::Owned(notified) = reply {
                        self.event(at, node, notified);
                    } else {
                        self.line(at, names::node(node), || format!("has {reply:?}"));
                    }
                }
            }
            Input::Cluster(cluster::Input::Owned(events)) => {
                for notified in events {
                    self.event(at, node, notified);
                }
            }
            Input::Program(events) => {
                for event in events {
                    let (kind, vip, sha) = (event.kind, event.key().addr, MacAddr(event.sha));
                    self.line(at, names::node(node), || format!("learns of {vip}: {kind:?} by {sha}"));
                }
            }
            Input::Deadline
            | Input::Heard(_)
            | Input::Answered { .. }
            | Input::Halfway { .. }
            | Input::Listened(_)
            | Input::Result(_) => {}
            input => self.line(at, names::node(node), || format!("has {input:?}")),
        }
    }

    /// Adds what a controller gets, unless it is a mere heartbeat.
    pub(crate) fn leader_input(&mut self, at: At, who: usize, input: &controller::Input) {
        match input {
            controller::Input::Seen(all) => {
                for seen in all {
                    match seen {
                        Seen::Object(Some(Event::Lease(_)), _) => {}
                        Seen::Object(Some(notified), _) => {
                            self.line(at, names::node(who), || event(notified));
                        }
                        Seen::Object(None, Some(notified)) => {
                            self.line(at, names::node(who), || served(notified));
                        }
                        seen => self.line(at, names::node(who), || format!("sees {seen:?}")),
                    }
                }
            }
            controller::Input::Replies(replies) => {
                for reply in replies {
                    self.line(at, names::node(who), || format!("has {reply:?}"));
                }
            }
            controller::Input::Deadline => {}
        }
    }

    pub(crate) fn leader_effect(&mut self, at: At, who: usize, effect: &controller::Effect) {
        if *effect != controller::Effect::ShowPools {
            self.line(at, names::node(who), || format!("  {effect:?}"));
        }
    }

    /// Adds an effect, unless it is a mere heartbeat or reads something.
    pub(crate) fn effect(&mut self, at: At, node: usize, said: &Effect, local: Monotonic) {
        if self.lines.is_none() {
            return;
        }
        let is_heartbeat = match said {
            Effect::Cluster(ClusterEffect::Ask(Request::WriteLease(write))) => {
                let known = self.received.get(&(node, write.node.clone()));
                known == Some(&(write.session, write.ended.clone(), write.duration, write.wire.clone()))
            }
            Effect::Log(Line::Notice(..) | Line::Stale(_) | Line::TakesBack(_)) => false,
            // The entries and the frames have lines of their own.
            Effect::SetDeadline(_)
            | Effect::Write(_)
            | Effect::Announce { .. }
            | Effect::Problems(_)
            | Effect::Log(_)
            | Effect::Read(_)
            | Effect::Prepare { .. }
            | Effect::AskAs { .. }
            | Effect::Listen { .. } => true,
            _ => false,
        };
        if !is_heartbeat {
            self.line(at, names::node(node), || effect(said, local));
        }
    }

    /// Adds an entry that was written.
    pub(crate) fn entry(&mut self, at: At, node: usize, key: VipKey, entry: Option<&VipEntry>) {
        self.line(at, names::node(node), || {
            let interface = names::interface(names::segment_behind(key.ifindex));
            let entry = entry.map(|entry| {
                let mac = MacAddr(entry.mac);
                match entry.role {
                    Role::Held => format!("HELD, {mac}, generation {}", entry.generation),
                    Role::Handover => format!("HANDOVER, {mac}"),
                    Role::Foreign => format!("foreign, {mac}"),
                }
            });
            format!("  entry of {} on {interface}: {}", key.addr, entry.as_deref().unwrap_or("none"))
        });
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
    let wanted = record.move_to.as_ref().map(|node| format!(", wanted on {node}")).unwrap_or_default();
    let reserved = record.reservation.as_ref().map(|reservation| {
        let kept = reservation.kept.map(|until| format!(", kept until {until:?}")).unwrap_or_default();
        let release = if record.release { ", to be released" } else { "" };
        format!(", reserved for {}{kept}{release}", reservation.service)
    });
    format!(
        "claim of {} v{}: epoch {}, {}{deleting}{wanted}{}",
        record.vip,
        record.version,
        record.epoch,
        state(&record.state),
        reserved.unwrap_or_default()
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

/// Describes an event in brief.
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
        Event::Proxy(proxy) => {
            format!("has a proxy that states {:?}", proxy.as_ref().map(ToString::to_string))
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
        Event::Wire { vip, received } => format!("learns of {vip}: {received:?}"),
        Event::Detected(finding) => format!("has the finding {finding:?}"),
        Event::WireKeys(keys) => format!("has the keys {keys:?}"),
        Event::WireSelf(wid) => format!("is monitor {wid:?}"),
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

/// Describes an effect in brief. `now` is the node's time.
pub(crate) fn effect(effect: &Effect, now: Monotonic) -> String {
    let request = match effect {
        Effect::Cluster(ClusterEffect::Ask(request)) => request,
        Effect::Cluster(effect) => return format!("  {effect:?}"),
        Effect::SetDeadline(lease_deadline) => {
            let until = Monotonic::from_nanos(lease_deadline.deadline_ns);
            let left = if until >= now {
                format!("{:?} ahead", until.saturating_since(now))
            } else {
                format!("{:?} ago", now.saturating_since(until))
            };
            return format!(
                "  lease deadline: {}, {left}",
                session(Session::from_number(lease_deadline.session))
            );
        }
        effect => return format!("  {effect:?}"),
    };
    match request {
        Request::WriteLease(LeaseWrite { node, expected: at, session: of, ended, wire: offer, .. }) => {
            let ended: Vec<String> = ended.iter().copied().map(short).collect();
            format!(
                "  writes lease of {node} {}: {}, ended [{}]{}",
                expected(at),
                session(*of),
                ended.join(" "),
                wire(offer.as_ref())
            )
        }
        Request::ReadLease(node) => format!("  reads lease of {node}"),
        Request::WriteClaim(ClaimWrite { vip, expected: at, epoch, state: to, note, can_wait: _ }) => {
            format!("  writes claim of {vip} {}: epoch {epoch}, {} ({})", expected(at), state(to), note.cause)
        }
        Request::DeleteClaim(vip, expected) => format!("  deletes claim of {vip} at v{expected}"),
        Request::ReadClaim(vip) => format!("  reads claim of {vip}"),
        request @ (Request::Show(..) | Request::WriteStatus { .. }) => format!("  {request:?}"),
    }
}
