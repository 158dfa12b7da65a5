//! Plays many schedules on all processors. The result does not depend on their number.

use std::{
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
        mpsc::{self, RecvTimeoutError},
    },
    thread,
    time::{Duration, Instant},
};

use super::run::run;
use crate::{
    record::{Tally, Violation},
    schedule::{Options, Schedule},
};

/// The number of schedules that a thread takes at a time.
const CHUNK: u64 = 16;

/// The schedules to play.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Campaign {
    /// The first seed.
    pub first: u64,
    /// The number of schedules.
    pub seeds: u64,
    /// The number of threads.
    pub threads: usize,
    /// The options of each run.
    pub options: Options,
}

/// The result of a campaign.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Outcome {
    /// Counts of all runs.
    pub tally: Tally,
    /// The seeds that broke a promise, in ascending order.
    pub failures: Vec<(u64, Violation)>,
}

/// The progress of a campaign.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Progress {
    /// The number of schedules played.
    pub played: u64,
    /// The number of those that broke a promise.
    pub failed: u64,
    /// The time since the beginning.
    pub elapsed: Duration,
}

impl Campaign {
    /// Plays all schedules, and calls `progress` once a second.
    pub fn play(&self, mut progress: impl FnMut(Progress)) -> Outcome {
        let begun = Instant::now();
        let (next, played, failed) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
        let total = Mutex::new(Outcome::default());
        let (done, ends) = mpsc::channel::<()>();
        thread::scope(|scope| {
            for _ in 0..self.threads.max(1) {
                let done = done.clone();
                let (next, played, failed, total) = (&next, &played, &failed, &total);
                scope.spawn(move || {
                    let outcome = self.play_chunks(next, played, failed);
                    let mut total = total.lock().expect("invariant: no thread panics with the lock");
                    total.tally += outcome.tally;
                    total.failures.extend(outcome.failures);
                    drop(done);
                });
            }
            drop(done);
            while ends.recv_timeout(Duration::from_secs(1)) == Err(RecvTimeoutError::Timeout) {
                progress(Progress {
                    played: played.load(Ordering::Relaxed),
                    failed: failed.load(Ordering::Relaxed),
                    elapsed: begun.elapsed(),
                });
            }
        });
        let mut total = total.into_inner().expect("invariant: no thread panics with the lock");
        total.failures.sort_by_key(|(seed, _)| *seed);
        total
    }

    fn play_chunks(&self, next: &AtomicU64, played: &AtomicU64, failed: &AtomicU64) -> Outcome {
        let mut outcome = Outcome::default();
        loop {
            let from = next.fetch_add(CHUNK, Ordering::Relaxed);
            if from >= self.seeds {
                return outcome;
            }
            for offset in from..(from + CHUNK).min(self.seeds) {
                let seed = self.first.wrapping_add(offset);
                let report = run(&Schedule::generate(seed), self.options);
                outcome.tally += report.facts.into();
                if let Some(violation) = report.violation {
                    outcome.failures.push((seed, violation));
                    failed.fetch_add(1, Ordering::Relaxed);
                }
                played.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}
