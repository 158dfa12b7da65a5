//! What has changed from one snapshot to the next, as lines for a log.

use std::{fmt, net::Ipv4Addr};

use serde::Serialize;

use super::{Interface, Offender, OffenderId, PerSecond, Snapshot, Vip, VipId};

/// One thing that changed.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[cfg_attr(test, derive(serde::Deserialize))]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Change {
    /// What there was when watching began.
    Start {
        /// The fence's state.
        fence: &'static str,
        /// Interfaces that the program is attached to.
        interfaces: usize,
        /// Entries by role.
        held: usize,
        /// Entries by role.
        handover: usize,
        /// Entries by role.
        foreign: usize,
    },
    /// The fence is in another state.
    Fence {
        /// The state before.
        from: &'static str,
        /// The state now.
        to: &'static str,
    },
    /// An interface has or has no pinned link any more, runs the program or not, has carrier or not.
    Link {
        /// The interface.
        interface: String,
        /// In words.
        what: String,
    },
    /// This node has become something else to a VIP, or the VIP is somewhere else.
    Role {
        /// The VIP.
        vip: Ipv4Addr,
        /// Where.
        interface: String,
        /// The role before; none when there was no entry.
        from: Option<&'static str>,
        /// The role now; none when there is no entry any more.
        to: Option<&'static str>,
        /// Whether it was yielded.
        yielded: bool,
        /// The MAC that it is at now.
        mac: Option<String>,
    },
    /// A VIP of this node is not answered, or is again.
    Answering {
        /// The VIP.
        vip: Ipv4Addr,
        /// Where.
        interface: String,
        /// Why it is not; none when it is.
        silent_because: Option<&'static str>,
    },
    /// Somebody claims a VIP, for the first time or again.
    Offender {
        /// The VIP.
        vip: Ipv4Addr,
        /// Where.
        interface: String,
        /// sha of the claims.
        mac: String,
        /// Whose the MAC is.
        vendor: String,
        /// Ethernet source of the last claim.
        source: String,
        /// What it was.
        kind: &'static str,
        /// Claims since the last snapshot.
        claims: u64,
        /// Claims in all.
        total: u64,
    },
    /// Events found the ring buffer full.
    EventsLost {
        /// So many.
        events: u64,
    },
    /// What the node did in the last interval.
    Rates {
        /// Requests answered, a second.
        answered: f64,
        /// Claims dropped as conflicts.
        conflicts: f64,
        /// Requests dropped.
        suppressed: f64,
        /// Frames that were looked at, whatever became of them.
        frames: f64,
    },
    /// The pins cannot be read any more.
    Unread {
        /// Why.
        error: String,
    },
}

/// What changed. Without a snapshot before, what there is.
pub fn changes(before: Option<&Snapshot>, after: &Snapshot) -> Vec<Change> {
    let Some(before) = before else { return vec![start(after)] };
    let mut changes = Vec::new();
    if before.fence.state != after.fence.state {
        changes.push(Change::Fence { from: before.fence.state, to: after.fence.state });
    }
    links(before, after, &mut changes);
    vips(before, after, &mut changes);
    for (id, offender) in after.latest_offenders() {
        changes.extend(offended(id, before.offenders.get(id), offender));
    }
    if after.events_lost > before.events_lost {
        changes.push(Change::EventsLost { events: after.events_lost - before.events_lost });
    }
    changes.push(rates(before, after));
    changes
}

fn start(after: &Snapshot) -> Change {
    let [(_, held), (_, handover), (_, foreign)] = after.roles();
    let interfaces = after.interfaces.values().filter(|interface| interface.attached).count();
    Change::Start { fence: after.fence.state, interfaces, held, handover, foreign }
}

fn links(before: &Snapshot, after: &Snapshot, changes: &mut Vec<Change>) {
    let mut tell = |interface: &str, what: String| {
        changes.push(Change::Link { interface: interface.to_owned(), what });
    };
    for (name, _) in before.interfaces.iter().filter(|(name, _)| !after.interfaces.contains_key(*name)) {
        tell(name, "has no link any more".to_owned());
    }
    for (name, now) in &after.interfaces {
        let Some(then) = before.interfaces.get(name) else {
            tell(name, format!("{} in {} mode", attached(now), now.mode));
            continue;
        };
        if (then.attached, &then.mode) != (now.attached, &now.mode) {
            tell(name, format!("{} in {} mode", attached(now), now.mode));
        }
        if then.carrier != now.carrier {
            tell(name, if now.carrier { "has carrier" } else { "has no carrier" }.to_owned());
        }
        if let (true, Some(mac)) = (then.mac != now.mac, &now.mac) {
            tell(name, format!("has the MAC {mac}"));
        }
    }
}

fn attached(interface: &Interface) -> &'static str {
    if interface.attached { "attached" } else { "not attached" }
}

fn vips(before: &Snapshot, after: &Snapshot, changes: &mut Vec<Change>) {
    for (id, then) in before.vips.iter().filter(|(id, _)| !after.vips.contains_key(*id)) {
        changes.push(role(id, Some(then), None));
    }
    for (id, now) in &after.vips {
        let then = before.vips.get(id);
        let same = then
            .is_some_and(|then| (then.role, then.yielded, &then.mac) == (now.role, now.yielded, &now.mac));
        if !same {
            changes.push(role(id, then, Some(now)));
        }
        if then.and_then(|then| then.silent_because) != now.silent_because && now.role != "foreign" {
            changes.push(Change::Answering {
                vip: id.address,
                interface: id.interface.clone(),
                silent_because: now.silent_because,
            });
        }
    }
}

fn role(id: &VipId, then: Option<&Vip>, now: Option<&Vip>) -> Change {
    Change::Role {
        vip: id.address,
        interface: id.interface.clone(),
        from: then.map(|vip| vip.role),
        to: now.map(|vip| vip.role),
        yielded: now.is_some_and(|vip| vip.yielded),
        mac: now.and_then(|vip| vip.mac.clone()),
    }
}

fn offended(id: &OffenderId, before: Option<&Offender>, after: &Offender) -> Option<Change> {
    let known = before.map_or(0, |before| before.claims);
    // One that is smaller now was forgotten in between, and came again.
    let claims = if after.claims < known { after.claims } else { after.claims - known };
    (claims > 0).then(|| Change::Offender {
        vip: id.vip.address,
        interface: id.vip.interface.clone(),
        mac: id.mac.to_string(),
        vendor: after.vendor.clone(),
        source: after.source.to_string(),
        kind: after.kind,
        claims,
        total: after.claims,
    })
}

fn rates(before: &Snapshot, after: &Snapshot) -> Change {
    let frames = after.frame_rates(Some(before));
    let sum = |names: &dyn Fn(&str) -> bool| {
        // From nothing, and not from the -0 that a sum begins with.
        frames.iter().filter(|(name, _)| names(name)).fold(0.0, |sum, (_, PerSecond(rate))| sum + rate)
    };
    Change::Rates {
        answered: sum(&|name| name.starts_with("answered")),
        conflicts: sum(&|name| name == "claim_conflict"),
        suppressed: sum(&|name| name.starts_with("suppressed")),
        frames: sum(&|name| name != "not_arp"),
    }
}

/// The line for people, without its time.
impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Start { fence, interfaces, held, handover, foreign } => write!(
                f,
                "start     fence {fence}, interfaces {interfaces}, VIPs {held} held, {handover} handover, {foreign} foreign"
            ),
            Self::Fence { from, to } => write!(f, "fence     {from} -> {to}"),
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
                    "rates     answered {}/s, conflicts {}/s, suppressed {}/s, ARP frames {}/s",
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
