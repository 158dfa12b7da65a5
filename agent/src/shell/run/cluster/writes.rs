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
    /// Not when only the result of what was asked for before is waited for.
    wanted: bool,
    /// A request is under way. There is one at a time: what changes meanwhile is asked for after it.
    asked: bool,
    /// The value is another than the one that the request has.
    changed: bool,
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

    /// A value is to be written, instead of what was before; [`Writes::due`] has it at `at`, and not while a request is under
    /// way.
    pub(super) fn begin(&mut self, key: K, value: V, at: Monotonic) {
        self.leave(&key);
        if let Some(job) = self.jobs.get_mut(&key) {
            (job.value, job.wanted, job.changed, job.failures) = (value, true, true, 0);
            return;
        }
        self.due.insert((at, key.clone()));
        let job = Job { value, wanted: true, asked: false, changed: false, failures: 0, due: Some(at) };
        self.jobs.insert(key, job);
    }

    /// The same, unless anything else is to be written there.
    pub(super) fn begin_if_idle(&mut self, key: K, value: V, at: Monotonic) {
        if !self.jobs.contains_key(&key) {
            self.begin(key, value, at);
        }
    }

    /// Nothing is to be written there any more.
    pub(super) fn leave(&mut self, key: &K) {
        let Some(job) = self.jobs.get_mut(key) else { return };
        job.wanted = false;
        if let Some(due) = job.due.take() {
            self.due.remove(&(due, key.clone()));
        }
        if !job.asked {
            self.jobs.remove(key);
        }
    }

    /// How often in a row it could not be written.
    pub(super) fn failures(&self, key: &K) -> u32 {
        self.jobs.get(key).map_or(0, |job| job.failures)
    }

    /// What was due needs no request.
    pub(super) fn settle(&mut self, key: &K, now: Monotonic) {
        self.on_result(key, true, 0.0, now);
    }

    /// A request has its result. `jitter`, from 0 to 1, keeps the nodes out of step.
    pub(super) fn on_result(&mut self, key: &K, done: bool, jitter: f64, now: Monotonic) {
        let Some(job) = self.jobs.get_mut(key) else { return };
        job.asked = false;
        if !job.wanted || done && !job.changed {
            self.jobs.remove(key);
            return;
        }
        let due = if std::mem::take(&mut job.changed) {
            now
        } else {
            let (shortest, longest) = PAUSE;
            let pause = shortest.saturating_mul(1 << job.failures.min(16)).min(longest);
            job.failures += 1;
            now + pause.mul_f64(1.0 + jitter / 4.0)
        };
        job.due = Some(due);
        self.due.insert((due, key.clone()));
    }

    /// What is to be asked for now; [`Writes::on_result`] or [`Writes::settle`] follows.
    pub(super) fn due(&mut self, now: Monotonic) -> Vec<(K, V)> {
        let mut due_now = Vec::new();
        while self.due.first().is_some_and(|(due, _)| *due <= now)
            && let Some((_, key)) = self.due.pop_first()
        {
            if let Some(job) = self.jobs.get_mut(&key) {
                job.due = None;
                job.asked = true;
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
