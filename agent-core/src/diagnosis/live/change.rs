//! The changes between two readings of the status, as lines for a log.

use std::{collections::BTreeMap, fmt, net::IpAddr};

use schemars::JsonSchema;
use serde::Serialize;

use super::PerSecond;
use crate::{
    base::schema,
    diagnosis::pinned::{InterfaceStatus, OffenderStatus, Status, VipStatus},
    host::answering,
};

/// A change.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Change {
    /// The state at the beginning of watching.
    Start {
        /// The state of the lease deadline.
        #[schemars(schema_with = "schema::deadline_states")]
        lease_deadline: &'static str,
        /// Interfaces that the program is attached to.
        interfaces: usize,
        /// Entries with this role.
        held: usize,
        /// Entries with this role.
        handover: usize,
        /// Entries with this role.
        silent: usize,
        /// Entries with this role.
        foreign: usize,
    },
    /// The lease deadline entered another state.
    LeaseDeadline {
        /// The state before.
        #[schemars(schema_with = "schema::deadline_states")]
        from: &'static str,
        /// The state now.
        #[schemars(schema_with = "schema::deadline_states")]
        to: &'static str,
    },
    /// An interface's pinned link, attachment, carrier, MAC or proof has changed.
    Link {
        /// The interface.
        interface: String,
        /// The text of the change.
        what: String,
    },
    /// An entry has another role, or its VIP is at another MAC.
    Role {
        /// The VIP.
        vip: IpAddr,
        /// The interface of the entry.
        interface: String,
        /// The role before, or `null` when there was no entry.
        #[schemars(schema_with = "answering::role_or_null")]
        from: Option<&'static str>,
        /// The role now, or `null` when the entry is gone.
        #[schemars(schema_with = "answering::role_or_null")]
        to: Option<&'static str>,
        /// True if the program yielded the VIP after the lease deadline had passed.
        yielded: bool,
        /// The MAC that the VIP is at now, or `null` when it is not known or the entry is gone.
        mac: Option<String>,
    },
    /// This node has stopped or resumed answering for a VIP that it has.
    Answering {
        /// The VIP.
        vip: IpAddr,
        /// The interface of the entry.
        interface: String,
        /// Why it is not answered, or `null` when it is answered again.
        #[schemars(schema_with = "answering::silence_or_null")]
        silent_because: Option<&'static str>,
    },
    /// A host has claimed a VIP.
    Offender {
        /// The VIP.
        vip: IpAddr,
        /// The interface that the host is seen through.
        interface: String,
        /// The MAC that its claims name.
        mac: String,
        /// The vendor of that MAC.
        vendor: String,
        /// The Ethernet source of the last claim.
        source: String,
        /// The kind of the last claim, as in `status`.
        #[schemars(schema_with = "schema::offences")]
        kind: &'static str,
        /// Claims since the last reading.
        claims: u64,
        /// Claims in all.
        total: u64,
    },
    /// Events have found the ring buffer full.
    EventsLost {
        /// Their number since the last reading.
        events: u64,
    },
    /// The rates of this node since the last reading.
    Rates {
        /// Requests answered.
        answered: f64,
        /// Claims dropped as conflicts.
        conflicts: f64,
        /// Requests dropped.
        suppressed: f64,
        /// Frames of ARP and neighbour discovery, whatever became of them.
        frames: f64,
    },
    /// The pins can no longer be read. Watching goes on.
    Unread {
        /// The reason.
        error: String,
    },
}

/// Returns the changes since an earlier reading. Returns the state if there is no earlier reading.
pub fn changes(before: Option<&Status>, after: &Status) -> Vec<Change> {
    let Some(before) = before else { return vec![start(after)] };
    let mut changes = Vec::new();
    if before.lease_deadline.state != after.lease_deadline.state {
        changes.push(Change::LeaseDeadline {
            from: before.lease_deadline.state,
            to: after.lease_deadline.state,
        });
    }
    interfaces(before, after, &mut changes);
    vips(before, after, &mut changes);
    let known: BTreeMap<_, _> = before.offenders.iter().map(|it| (offender_id(it), it.claims)).collect();
    changes.extend(after.offenders.iter().filter_map(|it| offended(known.get(&offender_id(it)), it)));
    if after.events_lost > before.events_lost {
        changes.push(Change::EventsLost { events: after.events_lost - before.events_lost });
    }
    changes.push(rates(before, after));
    changes
}

fn start(after: &Status) -> Change {
    let [(_, held), (_, handover), (_, silent), (_, foreign)] = after.roles();
    let interfaces = after.interfaces.iter().filter(|interface| interface.attached).count();
    Change::Start { lease_deadline: after.lease_deadline.state, interfaces, held, handover, silent, foreign }
}

fn interfaces(before: &Status, after: &Status, changes: &mut Vec<Change>) {
    let by_name = |status: &Status| -> BTreeMap<String, InterfaceStatus> {
        status.interfaces.iter().map(|it| (it.label(), it.clone())).collect()
    };
    let (before, after) = (by_name(before), by_name(after));
    let mut report = |interface: &str, what: String| {
        changes.push(Change::Link { interface: interface.to_owned(), what });
    };
    for name in before.keys().filter(|name| !after.contains_key(*name)) {
        report(name, "has no link any more".to_owned());
    }
    for (name, now) in &after {
        let Some(then) = before.get(name) else {
            report(name, format!("{} in {} mode", attached(now), now.mode));
            continue;
        };
        if (then.attached, then.mode) != (now.attached, now.mode) {
            report(name, format!("{} in {} mode", attached(now), now.mode));
        }
        if then.carrier != now.carrier {
            report(name, if now.carrier { "has carrier" } else { "has no carrier" }.to_owned());
        }
        if then.proof != now.proof {
            report(name, format!("is {}", now.proof));
        }
        if let (true, Some(mac)) = (then.mac != now.mac, now.mac) {
            report(name, format!("has the MAC {mac}"));
        }
    }
}

fn attached(interface: &InterfaceStatus) -> &'static str {
    if interface.attached { "attached" } else { "not attached" }
}

fn vips(before: &Status, after: &Status, changes: &mut Vec<Change>) {
    let (before, after) = (before.vips_by_id(), after.vips_by_id());
    for then in before.iter().filter(|(id, _)| !after.contains_key(*id)).map(|(_, then)| *then) {
        changes.push(role(then, Some(then), None));
    }
    for (id, now) in &after {
        let then = before.get(id).copied();
        if !then.is_some_and(|then| is_same_but_for_silence(then, now)) {
            changes.push(role(now, then, Some(now)));
        }
        if then.and_then(|then| then.part.silent_because()) != now.part.silent_because() && now.part.is_ours()
        {
            changes.push(Change::Answering {
                vip: now.address,
                interface: now.interface.clone(),
                silent_because: now.part.silent_because(),
            });
        }
    }
}

/// Returns true if the two differ at most in silence. Silence has a line of its own.
fn is_same_but_for_silence(then: &VipStatus, now: &VipStatus) -> bool {
    let has_fallen_silent = then.part.is_ours()
        && now.part.is_ours()
        && (then.part.silent_because().is_some() || now.part.silent_because().is_some());
    (then.part.name() == now.part.name() || has_fallen_silent)
        && (then.yielded, then.mac) == (now.yielded, now.mac)
}

fn role(vip: &VipStatus, then: Option<&VipStatus>, now: Option<&VipStatus>) -> Change {
    Change::Role {
        vip: vip.address,
        interface: vip.interface.clone(),
        from: then.map(|vip| vip.part.name()),
        to: now.map(|vip| vip.part.name()),
        yielded: now.is_some_and(|vip| vip.yielded),
        mac: now.and_then(|vip| vip.mac).map(|mac| mac.to_string()),
    }
}

fn offender_id(offender: &OffenderStatus) -> (IpAddr, &str, &str) {
    (offender.address, &offender.interface, &offender.mac)
}

fn offended(known: Option<&u64>, now: &OffenderStatus) -> Option<Change> {
    let known = known.copied().unwrap_or_default();
    // The count is smaller: the map dropped the record in between.
    let claims = if now.claims < known { now.claims } else { now.claims - known };
    (claims > 0).then(|| Change::Offender {
        vip: now.address,
        interface: now.interface.clone(),
        mac: now.mac.clone(),
        vendor: now.vendor.clone(),
        source: now.eth_source.clone(),
        kind: now.kind,
        claims,
        total: now.claims,
    })
}

fn rates(before: &Status, after: &Status) -> Change {
    let frames = after.frame_rates(Some(before));
    let sum = |names: &dyn Fn(&str) -> bool| {
        // A sum of floats begins with -0.
        frames.iter().filter(|(name, _)| names(name)).fold(0.0, |sum, (_, PerSecond(rate))| sum + rate)
    };
    Change::Rates {
        answered: sum(&|name| name.starts_with("answered")),
        conflicts: sum(&|name| name == "claim_conflict"),
        suppressed: sum(&|name| name.starts_with("suppressed")),
        frames: sum(&|name| name != "unrelated"),
    }
}

/// Writes the line without its time.
impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Start { lease_deadline, interfaces, held, handover, silent, foreign } => write!(
                f,
                "start     lease deadline {lease_deadline}, interfaces {interfaces}, VIPs {held} held, \
                 {handover} handover, {silent} silent, {foreign} foreign"
            ),
            Self::LeaseDeadline { from, to } => write!(f, "deadline  {from} -> {to}"),
            Self::Link { interface, what } => write!(f, "link      {interface} {what}"),
            Self::Role { vip, interface, from, to, yielded, mac } => {
                let (from, to) = (from.unwrap_or("none"), to.unwrap_or("none"));
                write!(f, "role      {vip} {interface} {from} -> {to}")?;
                if *yielded {
                    f.write_str(" (yielded)")?;
                }
                mac.as_ref().map_or(Ok(()), |mac| write!(f, " at {mac}"))
            }
            Self::Answering { vip, interface, silent_because: Some(why) } => {
                write!(f, "silent    {vip} {interface} is not answered: {why}")
            }
            Self::Answering { vip, interface, silent_because: None } => {
                write!(f, "answering {vip} {interface} is answered")
            }
            Self::Offender { vip, interface, mac, vendor, source, kind, claims, total } => {
                write!(f, "{kind:<9} {vip} {interface} claimed by {mac} ({vendor})")?;
                if source != mac {
                    write!(f, ", Ethernet source {source}")?;
                }
                write!(f, ": {claims} claims, {total} in all")
            }
            Self::EventsLost { events } => write!(f, "lost      {events} events: the ring buffer was full"),
            Self::Rates { answered, conflicts, suppressed, frames } => {
                let rate = |rate: &f64| PerSecond(*rate);
                write!(
                    f,
                    "rates     answered {}/s, conflicts {}/s, suppressed {}/s, frames {}/s",
                    rate(answered),
                    rate(conflicts),
                    rate(suppressed),
                    rate(frames)
                )
            }
            Self::Unread { error } => write!(f, "unread    {error}"),
        }
    }
}
