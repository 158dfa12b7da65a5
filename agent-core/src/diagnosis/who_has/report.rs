//! Report of `who-has`: the owner of each answering MAC, and the number of MACs that answer.

use std::{collections::BTreeSet, net::IpAddr};

use schemars::JsonSchema;
use serde::Serialize;
use vipward_common::{MacAddr, VipKey};

use super::{Claimant, Query};
use crate::{
    diagnosis::{
        fact::Fact,
        pinned::{Entry, State},
    },
    host::{
        answering::{self, Part},
        net::Interface,
    },
};

/// Knowledge of this host about an address.
#[derive(Clone, Debug)]
pub struct HostKnows {
    /// The unicast MACs of its interfaces.
    pub own: BTreeSet<MacAddr>,
    /// The interface that has the address. True if the kernel answers for it on this segment.
    pub bound: Option<(String, Fact<bool>)>,
    /// The pinned state. None on a host without an agent.
    pub pins: Fact<Option<State>>,
}

/// An address on a segment, with this host's knowledge about it.
struct Known<'a> {
    host: &'a HostKnows,
    interface: &'a Interface,
    address: IpAddr,
    /// The pinned state, if it could be read.
    state: Option<&'a State>,
    /// The entry of the address on the segment, and this node's part in answering.
    entry: Option<(&'a Entry, Part)>,
}

impl<'a> Known<'a> {
    fn new(host: &'a HostKnows, interface: &'a Interface, address: IpAddr) -> Self {
        let state = match &host.pins {
            Fact::Read(state) => state.as_ref(),
            Fact::Unread(_) => None,
        };
        let key = VipKey::new(interface.index, address);
        let entry = state.and_then(|state| {
            let entry = state.contents.entries.iter().find(|entry| entry.key == key)?;
            Some((entry, state.part(entry)))
        });
        Self { host, interface, address, state, entry }
    }

    /// Returns the MAC that should answer, as far as this host knows.
    fn expected(&self) -> Option<MacAddr> {
        self.entry.and_then(|(entry, _)| entry.known_mac())
    }

    fn relation(&self, mac: MacAddr) -> Relation {
        if self.host.own.contains(&mac) {
            return Relation::ThisHost;
        }
        let Some(state) = self.state else { return Relation::Unknown };
        match self.expected() {
            Some(expected) if expected == mac => Relation::Holder,
            _ if state.contents.peers.contains(&(self.interface.index, mac)) => Relation::Peer,
            Some(_) => Relation::UnknownHost,
            None => Relation::Unknown,
        }
    }

    /// Returns the row of this host. No host receives its own query, so its answer is added here.
    fn this_host(&self) -> Option<Row> {
        match (self.entry, &self.host.bound) {
            (Some((entry, part)), _) if part.is_ours() => {
                Some(Row::this_host(entry.mac, Relation::Holder, part.silent_because()))
            }
            (None, Some((_, Fact::Read(true)))) => {
                Some(Row::this_host(self.interface.mac, Relation::ThisHost, None))
            }
            (Some(_) | None, _) => None,
        }
    }
}

/// The relation of a MAC to the address.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Relation {
    /// The agent on this host knows it as the holder of the address.
    Holder,
    /// It is another agent's.
    Peer,
    /// It is neither.
    UnknownHost,
    /// It is this host's.
    ThisHost,
    /// This host does not know who should hold the address.
    Unknown,
}

impl Relation {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Holder => "holder",
            Self::Peer => "peer",
            Self::UnknownHost => "unknown host",
            Self::ThisHost => "this host",
            Self::Unknown => "unknown",
        }
    }
}

/// The way in which an answer became known.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Seen {
    /// It was received on the segment.
    Wire,
    /// The program on this host dropped and recorded it.
    Dropped,
    /// This host gives it to others, and does not receive its own query.
    ThisHost,
}

/// The time from a question to the first answer to it.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, JsonSchema)]
pub struct Latency {
    /// For the first question that it answered.
    pub first_seconds: f64,
    /// The shortest.
    pub min_seconds: f64,
    /// The longest.
    pub max_seconds: f64,
    /// True if a clock with a resolution of some milliseconds measured it, as for a dropped answer.
    pub coarse: bool,
}

/// A MAC that has the address.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
pub struct Row {
    /// The place in the order of answers, from 1. This host comes last, since it does not receive its
    /// own answers.
    pub order: u32,
    /// Its MAC.
    pub mac: String,
    /// The vendor of that MAC.
    pub vendor: String,
    /// Its relation to the address.
    pub relation: Relation,
    /// The way in which its answer became known.
    pub seen: Seen,
    /// True if it answers. This host may have the address and be silent.
    pub answering: bool,
    /// Why not, or `null` when it answers.
    #[schemars(schema_with = "answering::silence_or_null")]
    pub silent_because: Option<&'static str>,
    /// The Ethernet source of its frames, or `null` when that is the same MAC.
    pub ethernet_source: Option<String>,
    /// Questions that it answered.
    pub answered: u32,
    /// Questions that it was the first to answer.
    pub first: u32,
    /// Replies in all.
    pub replies: u64,
    /// Announcements: claims that answer no question.
    pub announcements: u64,
    /// The time that it took to answer, or `null` when it has answered no question.
    pub latency: Option<Latency>,
}

/// A host that probes the address.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub struct Prober {
    /// Its MAC.
    pub mac: String,
    /// The vendor of that MAC.
    pub vendor: String,
    /// The number of its probes.
    pub probes: u64,
}

/// The number of MACs that answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    NoHost,
    /// One answers, as it should be.
    One,
    /// More than one answers: a conflict.
    Several,
}

/// The answers that a segment gave for an address. The exit code reports the `verdict`, too
/// (docs/commands.md#who-answers).
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
pub struct Report {
    /// The address.
    pub address: IpAddr,
    /// The interface that sent the query.
    pub interface: String,
    /// Its VLAN ID, or `null` when it is no VLAN device.
    pub vlan: Option<u16>,
    /// Its index.
    pub ifindex: u32,
    /// Its MAC.
    pub asked_from: String,
    /// The number of questions.
    pub questions: u32,
    /// The time that each question waited for answers.
    pub timeout_seconds: f64,
    /// The number of MACs that answer.
    pub verdict: Verdict,
    /// The MACs that have the address, in the order of their answers.
    pub answers: Vec<Row>,
    /// Hosts that probe the address.
    pub probing: Vec<Prober>,
    /// True if an agent's pins show who should answer.
    pub agent: bool,
    /// The MAC that should answer, or `null` when this host does not know it.
    pub expected: Option<String>,
    /// Remarks for users.
    pub notes: Vec<String>,
    /// The date of the vendor table, such as `2026-10-17`.
    pub vendors_of: &'static str,
}

impl Report {
    /// Returns the report of the received answers, with what the host knows.
    pub fn new(asking: &Query, interface: &Interface, host: &HostKnows) -> Self {
        let question = asking.question();
        let known = Known::new(host, interface, question.address);
        let mut answers: Vec<Row> =
            asking.claimants().into_iter().map(|claimant| Row::received(claimant, &known)).collect();
        // In a handover both nodes name the successor.
        answers.extend(known.this_host().filter(|own| answers.iter().all(|other| other.mac != own.mac)));
        for (order, row) in (1..).zip(&mut answers) {
            row.order = order;
        }
        let verdict = match answers.iter().filter(|row| row.answering).count() {
            0 => Verdict::NoHost,
            1 => Verdict::One,
            _ => Verdict::Several,
        };
        let expected = known.expected();
        let prober = |(mac, probes): (&MacAddr, &u64)| Prober {
            mac: mac.to_string(),
            vendor: vipward_vendors::of(*mac).to_string(),
            probes: *probes,
        };
        let mut notes = notes(&answers, &known);
        if asking.unlisted() > 0 {
            let listed = answers.len();
            notes.push(format!("{} frames came from more MACs than the {listed} listed", asking.unlisted()));
        }
        Self {
            address: question.address,
            interface: interface.name.clone(),
            vlan: interface.vlan_id(),
            ifindex: interface.index,
            asked_from: question.own.to_string(),
            questions: asking.asked(),
            timeout_seconds: question.timeout.as_secs_f64(),
            verdict,
            notes,
            answers,
            // A holder probes for its own address, to find rivals.
            probing: asking
                .probers()
                .iter()
                .filter(|(mac, _)| {
                    expected != Some(**mac) && asking.claimants().iter().all(|one| one.mac != **mac)
                })
                .map(prober)
                .collect(),
            agent: known.state.is_some(),
            expected: expected.map(|mac| mac.to_string()),
            vendors_of: vipward_vendors::table_date(),
        }
    }
}

impl Row {
    fn received(claimant: &Claimant, known: &Known<'_>) -> Self {
        let latency = claimant.latencies.iter().min().zip(claimant.latencies.iter().max());
        let latency = latency.zip(claimant.latencies.first()).map(|((min, max), first)| Latency {
            first_seconds: first.as_secs_f64(),
            min_seconds: min.as_secs_f64(),
            max_seconds: max.as_secs_f64(),
            coarse: claimant.dropped,
        });
        Self {
            order: 0,
            mac: claimant.mac.to_string(),
            vendor: vipward_vendors::of(claimant.mac).to_string(),
            relation: known.relation(claimant.mac),
            seen: if claimant.dropped { Seen::Dropped } else { Seen::Wire },
            answering: true,
            silent_because: None,
            ethernet_source: (claimant.source != claimant.mac).then(|| claimant.source.to_string()),
            answered: claimant.answered,
            first: claimant.first,
            replies: claimant.replies,
            announcements: claimant.announcements,
            latency,
        }
    }

    fn this_host(mac: MacAddr, relation: Relation, silent_because: Option<&'static str>) -> Self {
        Self {
            order: 0,
            mac: mac.to_string(),
            vendor: vipward_vendors::of(mac).to_string(),
            relation,
            seen: Seen::ThisHost,
            answering: silent_because.is_none(),
            silent_because,
            ethernet_source: None,
            answered: 0,
            first: 0,
            replies: 0,
            announcements: 0,
            latency: None,
        }
    }
}

fn notes(answers: &[Row], known: &Known<'_>) -> Vec<String> {
    let Known { host, interface, .. } = known;
    let mut notes = Vec::new();
    if !interface.carrier {
        notes.push(format!("{} has no carrier: no answer can arrive", interface.name));
    }
    match (known.entry.map(|(_, part)| part.is_ours()), &host.bound) {
        (Some(false), Some((name, _))) => notes.push(format!(
            "the address is on {name} of this host, and the program keeps the kernel from answering for it"
        )),
        (None, Some((name, Fact::Read(false)))) => notes.push(format!(
            "the address is on {name} of this host, whose kernel does not answer for it on {}{}",
            interface.name,
            if known.address.is_ipv4() { " (arp_ignore)" } else { "" }
        )),
        (None, Some((name, Fact::Unread(why)))) => notes.push(format!(
            "the address is on {name} of this host, and whether its kernel answers for it is unknown: {why}"
        )),
        (Some(_) | None, _) => {}
    }
    let expected = known.expected();
    if let Some(mac) = expected.filter(|mac| !answers.iter().any(|row| row.mac == mac.to_string())) {
        notes.push(format!("{mac} should answer as far as this host knows, and does not"));
    }
    match &host.pins {
        Fact::Read(Some(_)) => {}
        Fact::Read(None) => notes.push(
            "no agent has pins here: holders, peers and unknown hosts cannot be distinguished".to_owned(),
        ),
        Fact::Unread(unread) => notes.push(format!(
            "the pins here could not be read, so holders, peers and unknown hosts cannot be distinguished: {unread}"
        )),
    }
    let other = answers.iter().any(|row| row.seen != Seen::ThisHost);
    if other && answers.iter().any(|row| row.seen == Seen::ThisHost && row.answering) {
        notes.push(
            "this host does not receive its own answers: probe from another one to see which is first"
                .to_owned(),
        );
    }
    if answers.iter().any(|row| row.seen == Seen::Dropped) {
        notes.push(
            "what is dropped here by the program is counted by it: its latency is to some milliseconds"
                .to_owned(),
        );
    }
    notes
}
