//! What a probe found, and what can be read from it.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, SystemTime};

use super::ANSWER_LIMIT;
use crate::arp::Mac;

/// Who answered.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Answerer {
    /// Where the answer says that the address is.
    pub sha: Mac,
    /// Where the answer came from.
    pub eth_src: Mac,
}

/// One answer to a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Answer {
    /// Who gave it.
    pub by: Answerer,
    /// When the kernel received it.
    pub at: SystemTime,
}

/// One request and what became of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Request {
    /// When it was sent.
    pub sent_at: SystemTime,
    /// How much later it was sent than it was due, because the probe itself did not run.
    pub late: Duration,
    /// The answers, in the order in which they came.
    pub answers: Vec<Answer>,
}

impl Request {
    /// The time to the first answer, if there was one in time.
    pub fn latency(&self) -> Option<Duration> {
        let first = self.answers.first()?;
        // A frame can be stamped before this thread's own reading of the clock is stored: then it took no time.
        let latency = first.at.duration_since(self.sent_at).unwrap_or_default();
        (latency <= ANSWER_LIMIT).then_some(latency)
    }

    /// Whether there was an answer in time.
    pub fn is_answered(&self) -> bool {
        self.latency().is_some()
    }
}

/// What a probe found. `Display` is a summary for failure messages.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProbeReport {
    /// The pace at which was asked.
    pub interval: Duration,
    /// The requests, in the order in which they were sent.
    pub requests: Vec<Request>,
}

impl ProbeReport {
    pub(super) fn new(interval: Duration) -> Self {
        Self { interval, requests: Vec::new() }
    }

    /// How many requests were sent.
    pub fn sent(&self) -> usize {
        self.requests.len()
    }

    /// How many were answered.
    pub fn answered(&self) -> usize {
        self.requests.iter().filter(|request| request.is_answered()).count()
    }

    /// Those that were not: their numbers, and when they were sent, counted from the first request.
    pub fn unanswered(&self) -> Vec<(usize, Duration)> {
        let Some(start) = self.requests.first().map(|first| first.sent_at) else { return Vec::new() };
        let silent = self.requests.iter().enumerate().filter(|(_, request)| !request.is_answered());
        silent
            .map(|(number, request)| (number, request.sent_at.duration_since(start).unwrap_or_default()))
            .collect()
    }

    /// How many requests were answered more than once.
    pub fn doubles(&self) -> usize {
        self.requests.iter().filter(|request| request.answers.len() > 1).count()
    }

    /// How many answers came from whom.
    pub fn answers_by(&self) -> BTreeMap<Answerer, usize> {
        let mut counts = BTreeMap::new();
        for answer in self.requests.iter().flat_map(|request| &request.answers) {
            *counts.entry(answer.by).or_default() += 1;
        }
        counts
    }

    /// The longest time without an answer that the requests prove: as many intervals as there are requests in the
    /// longest run of unanswered ones. Time in which the probe itself did not ask proves nothing and is not counted.
    pub fn longest_gap(&self) -> Duration {
        let (mut run, mut longest) = (0_u32, 0);
        for request in &self.requests {
            run = if request.is_answered() { 0 } else { run + 1 };
            longest = longest.max(run);
        }
        self.interval * longest
    }

    /// The longest time to an answer.
    pub fn slowest_answer(&self) -> Duration {
        self.requests.iter().filter_map(Request::latency).max().unwrap_or_default()
    }

    /// The longest time by which the probe itself was late: what it could not have seen.
    pub fn longest_delay_of_probe(&self) -> Duration {
        self.requests.iter().map(|request| request.late).max().unwrap_or_default()
    }

    /// The requests that were sent from `from` on and before `to`, as a report of their own.
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
