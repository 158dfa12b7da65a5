//! What a monitor saw of each VIP, and what can be read from it.

#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result};

use super::INTERVAL;
use crate::arp::Mac;
use crate::probe::{Answerer, Request};

/// Who answers again within this time, although another has answered meanwhile, has not moved away and back: both
/// answer at once.
const OVERLAP: Duration = Duration::from_secs(2);

/// What a monitor saw. `Display` is a table of what happened when.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MonitorReport {
    /// When it began.
    pub started: SystemTime,
    /// What was seen of each VIP.
    pub vips: BTreeMap<Ipv4Addr, VipReport>,
    /// What the test did meanwhile.
    pub notes: Vec<Note>,
}

/// Something that a test did.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Note {
    /// When.
    pub at: SystemTime,
    /// What.
    pub text: String,
}

/// What was seen of one VIP.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VipReport {
    /// Which.
    pub vip: Ipv4Addr,
    /// When the monitor began.
    pub started: SystemTime,
    /// The requests, in the order in which they were sent.
    pub requests: Vec<Request>,
    /// The announcements, in the order in which they came.
    pub announcements: Vec<Announcement>,
}

/// Requests in a row that were not answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Gap {
    /// When the first of them was sent.
    pub from: SystemTime,
    /// When the next one that was answered was sent; none when there was none.
    pub until: Option<SystemTime>,
    /// How many they are.
    pub unanswered: u32,
}

impl Gap {
    /// The time without an answer that the requests prove: as many intervals as there are requests.
    pub fn proven(&self) -> Duration {
        INTERVAL * self.unanswered
    }

    /// The time from the first unanswered request to the next answered one; time in which the monitor itself did not
    /// ask is in it.
    pub fn elapsed(&self) -> Option<Duration> {
        self.until.map(|until| until.duration_since(self.from).unwrap_or_default())
    }
}

/// Two MACs that answered at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Double {
    /// When the request was sent that shows it.
    pub at: SystemTime,
    /// How it shows.
    pub kind: DoubleKind,
}

/// How two answerers show.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DoubleKind {
    /// Two answers to one request.
    SameRequest {
        /// The first answer's.
        first: Mac,
        /// The other one.
        second: Mac,
    },
    /// A later request was answered by the old MAC after the new one had answered.
    Overlap {
        /// The MAC that answers again.
        again: Mac,
        /// The one that had answered meanwhile.
        after: Mac,
    },
}

/// The answers changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Move {
    /// When the first request was sent that the new MAC answered.
    pub at: SystemTime,
    /// Who answered before.
    pub from: Mac,
    /// Who answers.
    pub to: Mac,
}

/// An ARP frame whose spa and tpa are the VIP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Announcement {
    /// When it was received.
    pub at: SystemTime,
    /// The MAC announced, and who sent it.
    pub by: Answerer,
    /// What it looks like.
    pub form: AnnouncementForm,
}

/// What an announcement looks like.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AnnouncementForm {
    /// oper 1.
    Request,
    /// oper 2.
    Reply,
}

impl MonitorReport {
    /// What was seen of a VIP.
    pub fn vip(&self, vip: Ipv4Addr) -> Result<&VipReport> {
        self.vips.get(&vip).with_context(|| format!("{vip} was not watched"))
    }
}

impl VipReport {
    pub(super) fn new(vip: Ipv4Addr, started: SystemTime) -> Self {
        Self { vip, started, requests: Vec::new(), announcements: Vec::new() }
    }

    /// How many requests were answered.
    pub fn answered(&self) -> usize {
        self.requests.iter().filter(|request| request.is_answered()).count()
    }

    /// The times without an answer, longest first. A VIP that was not answered yet when the monitor began has one too.
    pub fn gaps(&self) -> Vec<Gap> {
        let mut gaps = Vec::new();
        let mut open: Option<Gap> = None;
        for request in &self.requests {
            if request.is_answered() {
                gaps.extend(open.take().map(|gap| Gap { until: Some(request.sent_at), ..gap }));
            } else {
                open.get_or_insert(Gap { from: request.sent_at, until: None, unanswered: 0 }).unanswered += 1;
            }
        }
        gaps.extend(open);
        gaps.sort_by_key(|gap| Reverse(gap.unanswered));
        gaps
    }

    /// The longest time without an answer that the requests prove.
    pub fn longest_gap(&self) -> Duration {
        self.gaps().first().map(Gap::proven).unwrap_or_default()
    }

    /// The instants at which two different MACs answered, in order.
    pub fn doubles(&self) -> Vec<Double> {
        let mut doubles = Vec::new();
        let mut last_answered: BTreeMap<Mac, SystemTime> = BTreeMap::new();
        let mut answering = None;
        for request in &self.requests {
            let at = request.sent_at;
            let Some(first) = request.answers.first().map(|answer| answer.by.sha) else { continue };
            if let Some(other) = request.answers.iter().find(|answer| answer.by.sha != first) {
                doubles.push(Double { at, kind: DoubleKind::SameRequest { first, second: other.by.sha } });
            }
            let before = last_answered.insert(first, at);
            let just_before =
                before.is_some_and(|before| at.duration_since(before).unwrap_or_default() < OVERLAP);
            if let Some(after) = answering.replace(first).filter(|after| *after != first && just_before) {
                doubles.push(Double { at, kind: DoubleKind::Overlap { again: first, after } });
            }
        }
        doubles
    }

    /// The changes of the MAC that answers, in order.
    pub fn moves(&self) -> Vec<Move> {
        let answered =
            self.requests.iter().filter_map(|request| Some((request.sent_at, request.answers.first()?.by)));
        let answered: Vec<_> = answered.collect();
        let pairs = answered.windows(2).map(|pair| (pair[0], pair[1]));
        pairs
            .filter(|((_, old), (_, new))| old.sha != new.sha)
            .map(|((_, old), (at, new))| Move { at, from: old.sha, to: new.sha })
            .collect()
    }

    /// How many answers came from whom, and who sent them.
    pub fn answers_by(&self) -> BTreeMap<Answerer, usize> {
        let mut counts = BTreeMap::new();
        for answer in self.requests.iter().flat_map(|request| &request.answers) {
            *counts.entry(answer.by).or_default() += 1;
        }
        counts
    }

    /// When a request was first sent that was answered, from `instant` on.
    pub fn first_answered_after(&self, instant: SystemTime) -> Option<SystemTime> {
        let later = self.requests.iter().filter(|request| request.sent_at >= instant);
        later.filter(|request| request.is_answered()).map(|request| request.sent_at).next()
    }

    /// When `mac` was first announced, from `instant` on.
    pub fn first_announced_after(&self, instant: SystemTime, mac: Mac) -> Option<SystemTime> {
        self.announcements
            .iter()
            .find(|heard| heard.at >= instant && heard.by.sha == mac)
            .map(|heard| heard.at)
    }

    /// The longest time by which the monitor itself was late: what it could not have seen.
    pub fn longest_delay_of_monitor(&self) -> Duration {
        self.requests.iter().map(|request| request.late).max().unwrap_or_default()
    }

    /// The longest time by which the monitor was late with a request that it sent about then.
    pub fn delay_of_monitor_about(&self, instant: SystemTime) -> Duration {
        const ABOUT: Duration = Duration::from_millis(50);
        let about = self.between(instant - ABOUT, instant + ABOUT);
        about.longest_delay_of_monitor()
    }

    /// What was asked from `from` on and before `to`, and heard then, as a report of its own.
    #[must_use]
    pub fn between(&self, from: SystemTime, to: SystemTime) -> Self {
        let requests = self.requests.iter().filter(|request| from <= request.sent_at && request.sent_at < to);
        let heard = self.announcements.iter().filter(|heard| from <= heard.at && heard.at < to);
        Self { requests: requests.cloned().collect(), announcements: heard.copied().collect(), ..*self }
    }
}
