//! Statuses of Services that are to be written: what failed is tried again, later each time.
//!
//! Pure, with the time passed in. The core asks for each change once; that it comes about is seen to here.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::Ipv4Addr,
    time::Duration,
};

use crate::core::{cluster::ServiceName, time::Monotonic};

#[cfg(test)]
mod tests;

/// The shortest and the longest time between two attempts.
const PAUSE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_mins(1));

/// What is to be written: these addresses, or nothing.
type Addresses = Option<Vec<Ipv4Addr>>;

#[derive(Debug)]
struct Job {
    addresses: Addresses,
    /// Not when only the results of what was asked for before are waited for.
    wanted: bool,
    /// Requests whose results have not come.
    asked: u32,
    failures: u32,
    /// When it is tried again.
    due: Option<Monotonic>,
}

/// The statuses that are not known to be written.
#[derive(Debug, Default)]
pub(super) struct Statuses {
    jobs: BTreeMap<ServiceName, Job>,
    due: BTreeSet<(Monotonic, ServiceName)>,
}

impl Statuses {
    /// A status is asked to be written, instead of what was asked for before.
    pub(super) fn begin(&mut self, service: ServiceName, addresses: Addresses) {
        self.leave(&service);
        let asked = self.jobs.get(&service).map_or(0, |job| job.asked) + 1;
        self.jobs.insert(service, Job { addresses, wanted: true, asked, failures: 0, due: None });
    }

    /// A status is nothing to this node any more.
    pub(super) fn leave(&mut self, service: &ServiceName) {
        let Some(job) = self.jobs.get_mut(service) else { return };
        job.wanted = false;
        if let Some(due) = job.due.take() {
            self.due.remove(&(due, service.clone()));
        }
        if job.asked == 0 {
            self.jobs.remove(service);
        }
    }

    /// A request has its result. `jitter`, from 0 to 1, keeps the nodes out of step.
    pub(super) fn on_result(&mut self, service: &ServiceName, done: bool, jitter: f64, now: Monotonic) {
        let Some(job) = self.jobs.get_mut(service) else { return };
        job.asked = job.asked.saturating_sub(1);
        if job.asked > 0 {
            // Results come in the order of the requests: this one is of what is not wanted any more.
            return;
        }
        if done || !job.wanted {
            self.jobs.remove(service);
            return;
        }
        let (shortest, longest) = PAUSE;
        let pause = shortest.saturating_mul(1 << job.failures.min(16)).min(longest);
        job.failures += 1;
        let due = now + pause.mul_f64(1.0 + jitter / 4.0);
        job.due = Some(due);
        self.due.insert((due, service.clone()));
    }

    /// What is to be asked for again now.
    pub(super) fn due(&mut self, now: Monotonic) -> Vec<(ServiceName, Addresses)> {
        let mut again = Vec::new();
        while self.due.first().is_some_and(|(due, _)| *due <= now)
            && let Some((_, service)) = self.due.pop_first()
        {
            if let Some(job) = self.jobs.get_mut(&service) {
                job.due = None;
                job.asked += 1;
                again.push((service, job.addresses.clone()));
            }
        }
        again
    }

    /// When something is.
    pub(super) fn next_deadline(&self) -> Option<Monotonic> {
        self.due.first().map(|(due, _)| *due)
    }
}
