//! Reports the requests of a probe and the answers.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, SystemTime};

use crate::frames::Mac;

/// Time limit of an answer. On a busy machine answers are late.
pub const ANSWER_LIMIT: Duration = Duration::from_secs(1);

/// Source of an answer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Answerer {
    /// MAC in the answer.
    pub sha: Mac,
    /// Ethernet source of the answer.
    pub eth_src: Mac,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Answer {
    pub by: Answerer,
    /// Time at which the kernel received it.
    pub at: SystemTime,
}

/// Request and its answers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Request {
    pub sent_at: SystemTime,
    /// Delay of the probe itself.
    pub late: Duration,
    /// Answers, in the order of arrival.
    pub answers: Vec<Answer>,
}

impl Request {
    /// Returns the time to the first answer, if it came in time.
    pub fn latency(&self) -> Option<Duration> {
        let first = self.answers.first()?;
        // The frame's timestamp may be earlier than this thread's reading of the clock.
        let latency = first.at.duration_since(self.sent_at).unwrap_or_default();
        (latency <= ANSWER_LIMIT).then_some(latency)
    }

    /// Returns true if there was an answer in time.
    pub fn is_answered(&self) -> bool {
        self.latency().is_some()
    }
}

/// Report of a probe. `Display` is a summary for failure messages.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProbeReport {
    pub interval: Duration,
    /// Requests, in the order of sending.
    pub requests: Vec<Request>,
}

impl ProbeReport {
    pub(super) fn new(interval: Duration) -> Self {
        Self { interval, requests: Vec::new() }
    }

    /// Returns the number of requests.
    pub fn sent(&self) -> usize {
        self.requests.len()
    }

    /// Returns the number of answered requests.
    pub fn answered(&self) -> usize {
        self.requests.iter().filter(|request| request.is_answered()).count()
    }

    /// Returns the unanswered requests: their numbers,
    /// and send times relative to the first request.
    pub fn unanswered(&self) -> Vec<(usize, Duration)> {
        let Some(start) = self.requests.first().map(|first| first.sent_at) else { return Vec::new() };
        let silent = self.requests.iter().enumerate().filter(|(_, request)| !request.is_answered());
        silent
            .map(|(number, request)| (number, request.sent_at.duration_since(start).unwrap_or_default()))
            .collect()
    }

    /// Returns the number of requests with more than one answer.
    pub fn doubles(&self) -> usize {
        self.requests.iter().filter(|request| request.answers.len() > 1).count()
    }

    /// Returns the number of answers by source.
    pub fn answers_by(&self) -> BTreeMap<Answerer, usize> {
        let mut counts = BTreeMap::new();
        for answer in self.requests.iter().flat_map(|request| &request.answers) {
            *counts.entry(answer.by).or_default() += 1;
        }
        counts
    }

    /// Returns the longest gap that the requests prove: one interval
    /// for each request in the longest run of unanswered ones. Time
    /// without requests proves nothing and does not count.
    pub fn longest_gap(&self) -> Duration {
        let (mut run, mut longest) = (0_u32, 0);
        for request in &self.requests {
            run = if request.is_answered() { 0 } else { run + 1 };
            longest = longest.max(run);
        }
        self.interval * longest
    }

    /// Returns the longest time to an answer.
    pub fn slowest_answer(&self) -> Duration {
        self.requests.iter().filter_map(Request::latency).max().unwrap_or_default()
    }

    /// Returns the longest delay of the probe itself, in which it cannot have seen anything.
    pub fn longest_delay_of_probe(&self) -> Duration {
        self.requests.iter().map(|request| request.late).max().unwrap_or_default()
    }

    /// Returns a report of the requests between `from` and `to`.
    #[must_use]
    pub fn between(&self, from: SystemTime, to: SystemTime) -> Self {
        let within = |request: &&Request| from <= request.sent_at && request.sent_at < to;
        Self { interval: self.interval, requests: self.requests.iter().filter(within).cloned().collect() }
    }
}

impl fmt::Display for ProbeReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unanswered = self.unanswered();
        write!(
            f,
            "{} requests, {} answered, {} twice; longest gap {:?}, slowest answer {:?}, probe late by up to {:?}",
            self.sent(),
            self.answered(),
            self.doubles(),
            self.longest_gap(),
            self.slowest_answer(),
            self.longest_delay_of_probe()
        )?;
        for (Answerer { sha, eth_src }, count) in self.answers_by() {
            write!(f, "; {count} by {sha} from {eth_src}")?;
        }
        if let (Some(first), Some(last)) = (unanswered.first(), unanswered.last()) {
            write!(f, "; unanswered from number {} at {:?} to {} at {:?}", first.0, first.1, last.0, last.1)?;
        }
        Ok(())
    }
}
