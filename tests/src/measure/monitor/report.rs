//! Reports gaps, double answers, moves and announcements of each VIP.

#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result};

use crate::{
    frames::Mac,
    measure::{Answerer, Request},
};

/// Interval between two requests for a VIP.
pub(super) const INTERVAL: Duration = Duration::from_millis(1);

/// Time in which two MACs that answer by turns count as answering at the same time. After it, the VIP has
/// moved away and back.
const OVERLAP: Duration = Duration::from_secs(2);

/// Report of a monitor. `Display` is a timeline.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MonitorReport {
    pub started: SystemTime,
    pub vips: BTreeMap<IpAddr, VipReport>,
    /// Steps of the test.
    pub notes: Vec<Note>,
}

/// Step of a test.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Note {
    pub at: SystemTime,
    pub text: String,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VipReport {
    pub vip: IpAddr,
    pub started: SystemTime,
    /// Requests, in the order of sending.
    pub requests: Vec<Request>,
    /// Announcements, in the order of arrival.
    pub announcements: Vec<Announcement>,
}

/// Run of unanswered requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Gap {
    /// Send time of the first.
    pub from: SystemTime,
    /// Send time of the next answered request, if there was one.
    pub until: Option<SystemTime>,
    pub unanswered: u32,
}

impl Gap {
    /// Returns the time without an answer that the requests prove: one interval for each.
    pub fn proven(&self) -> Duration {
        INTERVAL * self.unanswered
    }

    /// Returns the time from the first unanswered request to the next
    /// answered one, including time without requests.
    pub fn elapsed(&self) -> Option<Duration> {
        self.until.map(|until| until.duration_since(self.from).unwrap_or_default())
    }
}

/// Two MACs that answered at the same time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Double {
    /// Send time of the request that proves it.
    pub at: SystemTime,
    pub kind: DoubleKind,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DoubleKind {
    /// Two answers to one request.
    SameRequest {
        /// MAC of the first answer.
        first: Mac,
        /// MAC of the other answer.
        second: Mac,
    },
    /// The old MAC answered a later request after the new one had answered.
    Overlap {
        /// MAC that answers again.
        again: Mac,
        /// MAC that answered in between.
        after: Mac,
    },
}

/// Change of the answering MAC.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Move {
    /// Send time of the first request that the new MAC answered.
    pub at: SystemTime,
    pub from: Mac,
    pub to: Mac,
}

/// An ARP frame whose spa and tpa are the VIP, or an unsolicited advertisement of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Announcement {
    /// Time of receipt.
    pub at: SystemTime,
    /// Announced MAC, and sender.
    pub by: Answerer,
    pub form: AnnouncementForm,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AnnouncementForm {
    /// oper 1.
    Request,
    /// oper 2.
    Reply,
    /// Neighbour advertisement.
    Advertisement,
}

impl MonitorReport {
    pub fn vip(&self, vip: impl Into<IpAddr>) -> Result<&VipReport> {
        let vip = vip.into();
        self.vips.get(&vip).with_context(|| format!("{vip} was not watched"))
    }
}

impl VipReport {
    pub(super) fn new(vip: IpAddr, started: SystemTime) -> Self {
        Self { vip, started, requests: Vec::new(), announcements: Vec::new() }
    }

    /// Returns the number of answered requests.
    pub fn answered(&self) -> usize {
        self.requests.iter().filter(|request| request.is_answered()).count()
    }

    /// Returns the gaps, longest first. A VIP that was
    /// not answered at the start has a gap there too.
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

    /// Returns the longest gap that the requests prove.
    pub fn longest_gap(&self) -> Duration {
        self.gaps().first().map(Gap::proven).unwrap_or_default()
    }

    /// Returns the times at which two MACs answered, in order.
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

    /// Returns the changes of the answering MAC, in order.
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

    /// Returns the number of answers by MAC and sender.
    pub fn answers_by(&self) -> BTreeMap<Answerer, usize> {
        let mut counts = BTreeMap::new();
        for answer in self.requests.iter().flat_map(|request| &request.answers) {
            *counts.entry(answer.by).or_default() += 1;
        }
        counts
    }

    /// Returns the send time of the first answered request since `instant`.
    pub fn first_answered_after(&self, instant: SystemTime) -> Option<SystemTime> {
        let later = self.requests.iter().filter(|request| request.sent_at >= instant);
        later.filter(|request| request.is_answered()).map(|request| request.sent_at).next()
    }

    /// Returns the time of the first announcement of `mac` since `instant`.
    pub fn first_announced_after(&self, instant: SystemTime, mac: Mac) -> Option<SystemTime> {
        self.announcements
            .iter()
            .find(|received| received.at >= instant && received.by.sha == mac)
            .map(|received| received.at)
    }

    /// Returns the longest delay of the monitor itself, in which it cannot have seen anything.
    pub fn longest_delay_of_monitor(&self) -> Duration {
        self.requests.iter().map(|request| request.late).max().unwrap_or_default()
    }

    /// Returns the longest delay of the monitor itself around that time.
    pub fn delay_of_monitor_about(&self, instant: SystemTime) -> Duration {
        const ABOUT: Duration = Duration::from_millis(50);
        let about = self.between(instant - ABOUT, instant + ABOUT);
        about.longest_delay_of_monitor()
    }

    /// Returns a report of the requests and announcements between `from` and `to`.
    #[must_use]
    pub fn between(&self, from: SystemTime, to: SystemTime) -> Self {
        let requests = self.requests.iter().filter(|request| from <= request.sent_at && request.sent_at < to);
        let received = self.announcements.iter().filter(|received| from <= received.at && received.at < to);
        Self { requests: requests.cloned().collect(), announcements: received.copied().collect(), ..*self }
    }
}
