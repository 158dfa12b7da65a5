//! Query for the owner of an address on a segment, and its answers.
//!
//! For IPv4 the query is an ARP Probe (RFC 5227, 2.1.1). Its spa is zero, so that no cache changes.
//! For IPv6 it is a Neighbour Solicitation (RFC 4861, 7.2.2), as clients send it: a probe would
//! make a host give up an address that it is about to take, and its answer would go to all hosts. A
//! host that claims the address answers ([`Said::claimed`]). Frames that the XDP program drops do
//! not arrive here, but its records show them.

mod report;
mod segment;

use std::{collections::BTreeMap, net::IpAddr, time::Duration};

use vipward_common::{EventKind, MacAddr, OPER_REPLY, Offender, TYPE_ADVERTISEMENT};

pub use self::{
    report::{HostKnows, Latency, Prober, Relation, Report, Row, Seen, Verdict},
    segment::{SegmentError, choose as choose_segment},
};
use crate::{
    base::time::Monotonic,
    segment::frame::{Frame, Nonce, Said},
};

#[cfg(test)]
mod tests;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Question {
    pub address: IpAddr,
    /// The MAC of the querying interface.
    pub own: MacAddr,
    /// The source address of a query for an IPv6 address. Without one the query is a probe.
    pub source: Option<IpAddr>,
    /// The nonce of such a probe.
    pub nonce: Nonce,
    /// Number of queries, at least one.
    pub count: u32,
    /// Time to wait for answers, after each question.
    pub timeout: Duration,
}

impl Question {
    pub fn frame(&self) -> Frame {
        let source = self.source.filter(|_| self.address.is_ipv6());
        Frame::question(self.own, source, self.address, self.nonce)
    }

    /// Returns true if the frame is an answer. The answer to a probe for an IPv6 address goes to
    /// all hosts, and looks like an announcement.
    fn is_answered_by(&self, said: &Said) -> bool {
        let is_open = self.address.is_ipv6() && self.source.is_none();
        said.is_answer || is_open && said.asked.is_none()
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Command {
    /// Send [`Question::frame`].
    Ask,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Claimant {
    /// The MAC that its claims give.
    pub mac: MacAddr,
    /// The Ethernet source of the last claim.
    pub source: MacAddr,
    /// Number of questions that it answered.
    pub answered: u32,
    /// Number of questions that it was the first to answer.
    pub first: u32,
    pub replies: u64,
    /// Number of claims that were no replies: announcements, and
    /// requests with the address as sender.
    pub announcements: u64,
    /// Time from a question to the first answer of this MAC, for each question that it answered.
    pub latencies: Vec<Duration>,
    /// Time at which it was first received.
    pub since: Monotonic,
    /// True if the program has dropped its claims. Times are then of the kernel's coarse clock.
    pub dropped: bool,
}

/// Largest number of MACs that are distinguished.
const MOST: usize = 64;

#[derive(Debug)]
pub struct Query {
    question: Question,
    asked: u32,
    asked_at: Monotonic,
    done: bool,
    claimants: BTreeMap<MacAddr, Claimant>,
    /// The times of the answers to the last question.
    answers: BTreeMap<MacAddr, Monotonic>,
    /// The other hosts that probe for the address, with the number of their probes.
    probers: BTreeMap<MacAddr, u64>,
    /// Number of frames from further MACs.
    unlisted: u64,
    /// Number of claims of each MAC that the program had dropped at the last look.
    dropped: BTreeMap<MacAddr, u64>,
}

impl Query {
    /// Sends the first query. `dropped` is the program's record of this address on this segment so
    /// far.
    pub fn start(
        question: Question,
        dropped: &BTreeMap<MacAddr, Offender>,
        now: Monotonic,
    ) -> (Self, Vec<Command>) {
        let mut asking = Self {
            question,
            asked: 0,
            asked_at: now,
            done: false,
            claimants: BTreeMap::new(),
            answers: BTreeMap::new(),
            probers: BTreeMap::new(),
            unlisted: 0,
            dropped: dropped.iter().map(|(mac, record)| (*mac, record.claims)).collect(),
        };
        let commands = asking.ask(now);
        (asking, commands)
    }

    /// Records a frame that was received at `now`.
    pub fn on_frame(&mut self, frame: &Frame, now: Monotonic) {
        let Some(said) = frame.said().filter(|said| !self.done && said.mac != self.question.own) else {
            return;
        };
        let address = Some(self.question.address);
        if said.claimed == address {
            let reply = self.question.is_answered_by(&said);
            let Some(claimant) = self.claimant(said.mac, said.source, now) else { return };
            if reply {
                claimant.replies += 1;
                self.answer(said.mac, now);
            } else {
                claimant.announcements += 1;
            }
        } else if said.claimed.is_none() && said.asked == address && self.probers.len() < MOST {
            *self.probers.entry(said.mac).or_default() += 1;
        }
    }

    /// Applies the program's record of this address on this segment. The caller reads it at every
    /// deadline, before [`Query::on_tick`].
    pub fn on_dropped(&mut self, records: &BTreeMap<MacAddr, Offender>) {
        for (mac, record) in records {
            let known = self.dropped.insert(*mac, record.claims).unwrap_or_default();
            // There are fewer claims than before: the record made room
            // for others, and has started again.
            let claims = if record.claims < known { record.claims } else { record.claims - known };
            if self.done || claims == 0 || *mac == self.question.own {
                continue;
            }
            match record.kind {
                EventKind::Conflict | EventKind::Contested => self.dropped_claims(*mac, record, claims),
                EventKind::Probed if self.probers.len() < MOST => {
                    *self.probers.entry(*mac).or_default() += claims;
                }
                // The program passes these frames, so they are received.
                EventKind::Probed | EventKind::Sighted | EventKind::Moved | EventKind::Yielded => {}
            }
        }
    }

    fn dropped_claims(&mut self, mac: MacAddr, record: &Offender, claims: u64) {
        let (first, last) = (Monotonic::from_nanos(record.first_ns), Monotonic::from_nanos(record.last_ns));
        // The coarse clock lags. It may show a time before the question to which this is an answer.
        let at = if first < self.asked_at { last } else { first }.max(self.asked_at);
        let is_reply = match self.question.address {
            IpAddr::V4(_) => record.oper == OPER_REPLY,
            IpAddr::V6(_) => record.oper == u16::from(TYPE_ADVERTISEMENT),
        };
        let Some(claimant) = self.claimant(mac, MacAddr(record.source), at) else { return };
        claimant.dropped = true;
        if is_reply {
            claimant.replies += claims;
            self.answer(mac, at);
        } else {
            claimant.announcements += claims;
        }
    }

    /// Sends the next query or ends, if it is time.
    pub fn on_tick(&mut self, now: Monotonic) -> Vec<Command> {
        if self.done || now < self.asked_at + self.question.timeout {
            return Vec::new();
        }
        self.close();
        if self.asked < self.question.count {
            return self.ask(now);
        }
        self.done = true;
        Vec::new()
    }

    /// Returns the time of the next [`Query::on_tick`]. Returns none after the end.
    pub fn next_deadline(&self) -> Option<Monotonic> {
        (!self.done).then(|| self.asked_at + self.question.timeout)
    }

    /// Returns the number of questions so far.
    pub fn asked(&self) -> u32 {
        self.asked
    }

    pub fn question(&self) -> &Question {
        &self.question
    }

    /// Returns the claimants of the address. The one that was most often the first comes first.
    pub fn claimants(&self) -> Vec<&Claimant> {
        let mut claimants: Vec<_> = self.claimants.values().collect();
        claimants.sort_by_key(|claimant| (std::cmp::Reverse(claimant.first), claimant.since, claimant.mac));
        claimants
    }

    /// Returns the number of frames from further MACs, beyond those that are listed.
    pub fn unlisted(&self) -> u64 {
        self.unlisted
    }

    /// Returns the other hosts that probe for the address, with the number of their probes.
    pub fn probers(&self) -> &BTreeMap<MacAddr, u64> {
        &self.probers
    }

    fn ask(&mut self, now: Monotonic) -> Vec<Command> {
        self.asked += 1;
        self.asked_at = now;
        vec![Command::Ask]
    }

    /// Returns the claimant with this MAC. Returns none if there are too many
    /// MACs: a flood may come from ever new ones.
    fn claimant(&mut self, mac: MacAddr, source: MacAddr, now: Monotonic) -> Option<&mut Claimant> {
        if self.claimants.len() >= MOST && !self.claimants.contains_key(&mac) {
            self.unlisted += 1;
            return None;
        }
        let claimant = self.claimants.entry(mac).or_insert_with(|| Claimant {
            mac,
            source,
            answered: 0,
            first: 0,
            replies: 0,
            announcements: 0,
            latencies: Vec::new(),
            since: now,
            dropped: false,
        });
        claimant.source = source;
        Some(claimant)
    }

    fn answer(&mut self, mac: MacAddr, at: Monotonic) {
        let earliest = self.answers.get(&mac).map_or(at, |known| at.min(*known));
        self.answers.insert(mac, earliest);
    }

    /// Ends the last question. Counts the answers to it, and the first one.
    fn close(&mut self) {
        let answers = std::mem::take(&mut self.answers);
        let first = answers.iter().min_by_key(|(_, at)| **at).map(|(mac, _)| *mac);
        for (mac, at) in answers {
            let Some(claimant) = self.claimants.get_mut(&mac) else { continue };
            claimant.answered += 1;
            claimant.first += u32::from(first == Some(mac));
            claimant.latencies.push(at.saturating_since(self.asked_at));
        }
    }
}
