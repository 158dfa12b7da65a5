//! Events that could not be written and are tried again, later each time: pure, with the time passed in.

use std::{
    collections::{BTreeMap, btree_map::OccupiedEntry},
    time::Duration,
};

use k8s_openapi::jiff::Timestamp;

use super::Message;

#[cfg(test)]
mod tests;

/// The shortest and the longest time between two attempts.
const PAUSE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));
/// What was said longer ago is old news.
const FRESH: Duration = Duration::from_mins(5);
/// So many wait.
const MOST: usize = 64;

/// An Event to be written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Job {
    pub(super) message: Message,
    /// The Event's.
    pub(super) name: String,
    /// How often it was said; none: it is to be made.
    pub(super) count: Option<u32>,
    /// When it was said.
    pub(super) at: Timestamp,
    /// The same, since some beginning.
    pub(super) said: Duration,
    pub(super) failures: u32,
}

/// What waits for its next attempt.
#[derive(Default, Debug)]
pub(super) struct Again {
    /// By when that is, and the number that it came with.
    jobs: BTreeMap<(Duration, u64), Job>,
    numbers: u64,
}

impl Again {
    /// Whether one more may come.
    pub(super) fn has_room(&self) -> bool {
        self.jobs.len() < MOST
    }

    /// Takes one that has failed, or gives it back when it is not to be tried again. `jitter`, from 0 to 1, keeps the nodes
    /// out of step.
    pub(super) fn put(&mut self, mut job: Job, jitter: f64, now: Duration) -> Option<Job> {
        let (shortest, longest) = PAUSE;
        let pause = shortest.saturating_mul(1 << job.failures.min(16)).min(longest);
        let due = now + pause.mul_f64(1.0 + jitter / 4.0);
        if due > job.said + FRESH || !self.has_room() {
            return Some(job);
        }
        job.failures += 1;
        self.numbers += 1;
        self.jobs.insert((due, self.numbers), job);
        None
    }

    /// The first whose time has come.
    pub(super) fn take_due(&mut self, now: Duration) -> Option<Job> {
        self.jobs.first_entry().filter(|entry| entry.key().0 <= now).map(OccupiedEntry::remove)
    }

    /// When that is.
    pub(super) fn next_due(&self) -> Option<Duration> {
        self.jobs.first_key_value().map(|((due, _), _)| *due)
    }
}
