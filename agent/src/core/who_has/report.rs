//! What the answers mean: whose each MAC is, and whether more than one answers.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::Ipv4Addr,
};

use serde::Serialize;
use vipward_common::{MacAddr, Role};

use super::{Asking, Claimant};
use crate::core::{net::Interface, vendor};

/// What this host knows by itself.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct HostKnows {
    /// The MACs of its interfaces, and the names of these.
    pub own: BTreeMap<MacAddr, String>,
    /// The interface that the address is on, and whether the kernel answers for it on this segment.
    pub bound: Option<(String, bool)>,
    /// What is pinned; none on a host without an agent.
    pub agent: Option<AgentKnows>,
    /// Why the pins that are there could not be read.
    pub trouble: Option<String>,
}

/// What an agent has left in its maps, about one segment.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct AgentKnows {
    /// The address's entry.
    pub entry: Option<EntrySeen>,
    /// The peers' MACs.
    pub peers: BTreeSet<MacAddr>,
}

/// The entry of an address, as the program sees it now.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EntrySeen {
    /// What this node is to the address.
    pub role: Role,
    /// Where it is; zero when unknown.
    pub mac: MacAddr,
    /// Why this node does not answer, when it has the address.
    pub silent_because: Option<&'static str>,
}

impl EntrySeen {
    fn is_ours(&self) -> bool {
        matches!(self.role, Role::Held | Role::Handover)
    }
}

/// What a MAC is to the address.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[cfg_attr(test, derive(serde::Deserialize))]
#[serde(rename_all = "kebab-case")]
pub enum Relation {
    /// The agent on this host knows it as the one that holds the address.
    Holder,
    /// Another agent's.
    Peer,
    /// Neither.
    Stranger,
    /// An interface of this host's.
    ThisHost,
    /// Nobody here knows who should hold the address.
    Unknown,
}

impl Relation {
    /// As it is shown.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Holder => "holder",
            Self::Peer => "peer",
            Self::Stranger => "stranger",
            Self::ThisHost => "this host",
            Self::Unknown => "unknown",
        }
    }
}

/// How a claim became known.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[cfg_attr(test, derive(serde::Deserialize))]
#[serde(rename_all = "kebab-case")]
pub enum Seen {
    /// It was heard.
    Wire,
    /// The XDP program on this host has dropped it, and told.
    Dropped,
    /// This host answers others, and was not asked: no host hears its own question.
    ThisHost,
}

/// How long the answers took.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Latency {
    /// The first.
    pub first_seconds: f64,
    /// The shortest.
    pub min_seconds: f64,
    /// The longest.
    pub max_seconds: f64,
    /// Whether they were measured by the kernel's coarse clock, to some milliseconds.
    pub coarse: bool,
}

/// One MAC that has the address.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Row {
    /// 1 for the one whose answers came first; this host comes last, since it does not hear its own.
    pub order: u32,
    /// Its MAC.
    pub mac: String,
    /// Whose the MAC is.
    pub vendor: String,
    /// What it is to the address.
    pub relation: Relation,
    /// How it became known.
    pub seen: Seen,
    /// Whether it answers: this host may have the address, and be silent.
    pub answering: bool,
    /// Why not.
    pub silent_because: Option<&'static str>,
    /// The Ethernet source of its frames, when that is another MAC.
    pub ethernet_source: Option<String>,
    /// How many questions it answered.
    pub answered: u32,
    /// For how many of them it was the first.
    pub first: u32,
    /// Replies in all.
    pub replies: u64,
    /// Claims that answered no question.
    pub announcements: u64,
    /// How long it took.
    pub latency: Option<Latency>,
}

/// Somebody who asks whether the address is free.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Prober {
    /// Its MAC.
    pub mac: String,
    /// Whose the MAC is.
    pub vendor: String,
    /// How often it asked.
    pub probes: u64,
}

/// How many MACs answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[cfg_attr(test, derive(serde::Deserialize))]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// None.
    Nobody,
    /// One: as it should be.
    One,
    /// More than one: a conflict.
    Several,
}

/// What was asked, and who has answered.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Report {
    /// The address.
    pub address: Ipv4Addr,
    /// Through which interface.
    pub interface: String,
    /// Its index.
    pub ifindex: u32,
    /// Its MAC.
    pub asked_from: String,
    /// How often.
    pub questions: u32,
    /// How long answers were waited for, each time.
    pub timeout_seconds: f64,
    /// How many answer.
    pub verdict: Verdict,
    /// Who has the address, in the order of their answers.
    pub answers: Vec<Row>,
    /// Who else asks whether it is free.
    pub probing: Vec<Prober>,
    /// Whether pins of an agent were there to ask who should hold it.
    pub agent: bool,
    /// The MAC that should answer, as far as this host knows.
    pub expected: Option<String>,
    /// What else is to be known.
    pub notes: Vec<String>,
    /// The day of the table of vendors.
    pub vendors_of: &'static str,
}

impl Report {
    /// Puts together what was heard and what is known.
    pub fn new(asking: &Asking, interface: &Interface, knows: &HostKnows) -> Self {
        let question = asking.question();
        let mut answers: Vec<Row> =
            asking.claimants().into_iter().map(|claimant| Row::heard(claimant, knows)).collect();
        add_this_host(&mut answers, interface, knows);
        for (order, row) in (1..).zip(&mut answers) {
            row.order = order;
        }
        let verdict = match answers.iter().filter(|row| row.answering).count() {
            0 => Verdict::Nobody,
            1 => Verdict::One,
            _ => Verdict::Several,
        };
        let expected = expected(knows);
        let prober = |(mac, probes): (&MacAddr, &u64)| Prober {
            mac: mac.to_string(),
            vendor: vendor::of(*mac).to_string(),
            probes: *probes,
        };
        let mut notes = notes(&answers, interface, knows, expected);
        if asking.untold() > 0 {
            let told = answers.len();
            notes.push(format!("{} frames came from more MACs than the {told} listed", asking.untold()));
        }
        Self {
            address: question.address,
            interface: interface.name.clone(),
            ifindex: interface.index,
            asked_from: question.own.to_string(),
            questions: asking.asked(),
            timeout_seconds: question.timeout.as_secs_f64(),
            verdict,
            notes,
            answers,
            // Who has the address asks too, to find rivals.
            probing: asking
                .probers()
                .iter()
                .filter(|(mac, _)| {
                    expected != Some(**mac) && asking.claimants().iter().all(|one| one.mac != **mac)
                })
                .map(prober)
                .collect(),
            agent: knows.agent.is_some(),
            expected: expected.map(|mac| mac.to_string()),
            vendors_of: vendor::table_date(),
        }
    }
}

impl Row {
    fn heard(claimant: &Claimant, knows: &HostKnows) -> Self {
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
            vendor: vendor::of(claimant.mac).to_string(),
            relation: relation(claimant.mac, knows),
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
            vendor: vendor::of(mac).to_string(),
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

fn relation(mac: MacAddr, knows: &HostKnows) -> Relation {
    if knows.own.contains_key(&mac) {
        return Relation::ThisHost;
    }
    let Some(agent) = &knows.agent else { return Relation::Unknown };
    match &agent.entry {
        Some(entry) if entry.mac == mac => Relation::Holder,
        _ if agent.peers.contains(&mac) => Relation::Peer,
        Some(entry) if !entry.mac.is_zero() => Relation::Stranger,
        Some(_) | None => Relation::Unknown,
    }
}

/// The MAC that this host knows, or is itself, as the address's.
fn expected(knows: &HostKnows) -> Option<MacAddr> {
    let entry = knows.agent.as_ref()?.entry.as_ref()?;
    (!entry.mac.is_zero()).then_some(entry.mac)
}

/// No host hears its own question, so that what it would answer is put beside what was heard.
fn add_this_host(answers: &mut Vec<Row>, interface: &Interface, knows: &HostKnows) {
    let entry = knows.agent.as_ref().and_then(|agent| agent.entry.as_ref());
    let row = match (entry, &knows.bound) {
        (Some(entry), _) if entry.is_ours() => {
            Row::this_host(entry.mac, Relation::Holder, entry.silent_because)
        }
        (None, Some((_, true))) => Row::this_host(interface.mac, Relation::ThisHost, None),
        (Some(_) | None, _) => return,
    };
    // In a handover both name the successor.
    if !answers.iter().any(|other| other.mac == row.mac) {
        answers.push(row);
    }
}

fn notes(
    answers: &[Row],
    interface: &Interface,
    knows: &HostKnows,
    expected: Option<MacAddr>,
) -> Vec<String> {
    let mut notes = Vec::new();
    let entry = knows.agent.as_ref().and_then(|agent| agent.entry.as_ref());
    if !interface.carrier {
        notes.push(format!("{} has no carrier: nobody can be heard", interface.name));
    }
    match (entry.map(EntrySeen::is_ours), &knows.bound) {
        (Some(false), Some((name, _))) => notes.push(format!(
            "the address is on {name} of this host, and the XDP program keeps the kernel from answering for it"
        )),
        (None, Some((name, false))) => notes.push(format!(
            "the address is on {name} of this host, whose kernel does not answer for it on {} (arp_ignore)",
            interface.name
        )),
        (Some(_) | None, _) => {}
    }
    if let Some(mac) = expected.filter(|mac| !answers.iter().any(|row| row.mac == mac.to_string())) {
        notes.push(format!("{mac} should answer as far as this host knows, and does not"));
    }
    if let Some(why) = &knows.trouble {
        notes.push(format!(
            "what an agent has pinned here could not be read, so that nobody can be told apart: {why}"
        ));
    } else if knows.agent.is_none() {
        notes.push(
            "no agent has left pins here: nobody can be told apart as holder, peer or stranger".to_owned(),
        );
    }
    let other = answers.iter().any(|row| row.seen != Seen::ThisHost);
    if other && answers.iter().any(|row| row.seen == Seen::ThisHost && row.answering) {
        notes.push(
            "this host does not hear its own answers: ask from another one to see who is first".to_owned(),
        );
    }
    if answers.iter().any(|row| row.seen == Seen::Dropped) {
        notes.push(
            "what is dropped here by the XDP program is counted by it: its latency is to some milliseconds"
                .to_owned(),
        );
    }
    notes
}
