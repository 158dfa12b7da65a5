//! What is to be written for people to see: what failed is tried again, later each time.
//!
//! Pure, with the time passed in. The core asks for each change once; that it comes about is seen to here.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use crate::core::time::Monotonic;

#[cfg(test)]
mod tests;

/// The shortest and the longest time between two attempts.
const PAUSE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_mins(1));

#[derive(Debug)]
struct Job<V> {
    /// What is to be written.
    value: V,
    /// Not when only the results of what was asked for before are waited for.
    wanted: bool,
    /// Requests whose results have not come.
    asked: u32,
    failures: u32,
    /// When it is asked for.
    due: Option<Monotonic>,
}

/// What is not known to be written, by where it is to be seen.
#[derive(Debug)]
pub(super) struct Writes<K, V> {
    jobs: BTreeMap<K, Job<V>>,
    due: BTreeSet<(Monotonic, K)>,
}

impl<K: Ord + Clone, V: Clone> Writes<K, V> {
    pub(super) fn new() -> Self {
        Self { jobs: BTreeMap::new(), due: BTreeSet::new() }
    }

    /// A value is asked to be written, instead of what was asked for before.
    pub(super) fn begin(&mut self, key: K, value: V) {
        self.leave(&key);
        let asked = self.jobs.get(&key).map_or(0, |job| job.asked) + 1;
        self.jobs.insert(key, Job { value, wanted: true, asked, failures: 0, due: None });
    }

    /// A value will be asked to be written, unless anything else is under way.
    pub(super) fn begin_later(&mut self, key: K, value: V, due: Monotonic) {
        if self.jobs.contains_key(&key) {
            return;
        }
        self.due.insert((due, key.clone()));
        self.jobs.insert(key, Job { value, wanted: true, asked: 0, failures: 0, due: Some(due) });
    }

    /// Nothing is to be written there any more.
    pub(super) fn leave(&mut self, key: &K) {
        let Some(job) = self.jobs.get_mut(key) else { return };
        job.wanted = false;
        if let Some(due) = job.due.take() {
            self.due.remove(&(due, key.clone()));
        }
        if job.asked == 0 {
            self.jobs.remove(key);
        }
    }

    /// A request has its result. `jitter`, from 0 to 1, keeps the nodes out of step.
    pub(super) fn on_result(&mut self, key: &K, done: bool, jitter: f64, now: Monotonic) {
        let Some(job) = self.jobs.get_mut(key) else { return };
        job.asked = job.asked.saturating_sub(1);
        if job.asked > 0 {
            // Results come in the order of the requests: this one is of what is not wanted any more.
            return;
        }
        if done || !job.wanted {
            self.jobs.remove(key);
            return;
        }
        let (shortest, longest) = PAUSE;
        let pause = shortest.saturating_mul(1 << job.failures.min(16)).min(longest);
        job.failures += 1;
        let due = now + pause.mul_f64(1.0 + jitter / 4.0);
        job.due = Some(due);
        self.due.insert((due, key.clone()));
    }

    /// What is to be asked for now.
    pub(super) fn due(&mut self, now: Monotonic) -> Vec<(K, V)> {
        let mut due_now = Vec::new();
        while self.due.first().is_some_and(|(due, _)| *due <= now)
            && let Some((_, key)) = self.due.pop_first()
        {
            if let Some(job) = self.jobs.get_mut(&key) {
                job.due = None;
                job.asked += 1;
                due_now.push((key, job.value.clone()));
            }
        }
        due_now
    }

    /// When something is.
    pub(super) fn next_deadline(&self) -> Option<Monotonic> {
        self.due.first().map(|(due, _)| *due)
    }
}
