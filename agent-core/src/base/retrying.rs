//! Writes that are repeated until they succeed. Each pause is longer than the last.
//!
//! The core requests each change once. [`Writes`] makes sure that the change is made.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use super::{pace::Backoff, time::Monotonic};

#[cfg(test)]
mod tests;

const BACKOFF: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_mins(1));

#[derive(Debug)]
struct Job<V> {
    value: V,
    /// False if the value is no longer to be written, and only a result is awaited.
    wanted: bool,
    /// True if a request is under way. There is one request at a
    /// time. A change waits until it has ended.
    asked: bool,
    /// True if the value has changed since the request was sent.
    changed: bool,
    failures: u32,
    /// Time of the next request.
    due: Option<Monotonic>,
}

/// Values that may not have been written, by the place where they belong.
#[derive(Debug)]
pub struct Writes<K, V> {
    jobs: BTreeMap<K, Job<V>>,
    due: BTreeSet<(Monotonic, K)>,
}

impl<K, V> Default for Writes<K, V> {
    fn default() -> Self {
        Self { jobs: BTreeMap::new(), due: BTreeSet::new() }
    }
}

impl<K: Ord + Clone, V: Clone> Writes<K, V> {
    /// Requests the write of a value, in place of any earlier value. [`Writes::due`] returns it at
    /// `at`, or after the request that is under way.
    pub fn begin(&mut self, key: K, value: V, at: Monotonic) {
        self.leave(&key);
        if let Some(job) = self.jobs.get_mut(&key) {
            (job.value, job.wanted, job.changed, job.failures) = (value, true, true, 0);
            return;
        }
        self.due.insert((at, key.clone()));
        let job = Job { value, wanted: true, asked: false, changed: false, failures: 0, due: Some(at) };
        self.jobs.insert(key, job);
    }

    /// Does the same as [`Writes::begin`], unless the place already has a value to be written.
    pub fn begin_if_idle(&mut self, key: K, value: V, at: Monotonic) {
        if !self.jobs.contains_key(&key) {
            self.begin(key, value, at);
        }
    }

    pub fn leave(&mut self, key: &K) {
        let Some(job) = self.jobs.get_mut(key) else { return };
        job.wanted = false;
        if let Some(due) = job.due.take() {
            self.due.remove(&(due, key.clone()));
        }
        if !job.asked {
            self.jobs.remove(key);
        }
    }

    pub fn failures(&self, key: &K) -> u32 {
        self.jobs.get(key).map_or(0, |job| job.failures)
    }

    /// Ends a value that was due, but needs no request.
    pub fn settle(&mut self, key: &K, now: Monotonic) {
        self.on_result(key, true, 0.0, now);
    }

    /// Records the result of a request. `jitter` is from 0 to 1.
    pub fn on_result(&mut self, key: &K, done: bool, jitter: f64, now: Monotonic) {
        let Some(job) = self.jobs.get_mut(key) else { return };
        job.asked = false;
        if !job.wanted || done && !job.changed {
            self.jobs.remove(key);
            return;
        }
        let due = if std::mem::take(&mut job.changed) {
            now
        } else {
            let pause = BACKOFF.pause(job.failures, jitter);
            job.failures += 1;
            now + pause
        };
        job.due = Some(due);
        self.due.insert((due, key.clone()));
    }

    /// Returns the values to request now. [`Writes::on_result`] or [`Writes::settle`] follows for
    /// each.
    pub fn due(&mut self, now: Monotonic) -> Vec<(K, V)> {
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

    pub fn next_deadline(&self) -> Option<Monotonic> {
        self.due.first().map(|(due, _)| *due)
    }
}
