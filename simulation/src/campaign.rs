//! Plays many schedules on all processors; what it reports does not depend on how many there are.

#![expect(clippy::disallowed_methods, reason = "progress is told once a second of real time")]

use std::{
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
        mpsc::{self, RecvTimeoutError},
    },
    thread,
    time::{Duration, Instant},
};

use crate::{Options, Schedule, Tally, Violation, run};

/// So many schedules are taken at a time.
const CHUNK: u64 = 16;

/// Which schedules are played.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Campaign {
    /// The first seed.
    pub first: u64,
    /// How many.
    pub seeds: u64,
    /// How many threads play them.
    pub threads: usize,
    /// How they are played.
    pub options: Options,
}

/// What came of them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Outcome {
    /// What was seen.
    pub tally: Tally,
    /// The seeds that broke a promise, the least first.
    pub failures: Vec<(u64, Violation)>,
}

/// How far a campaign is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Progress {
    /// Schedules that were played.
    pub played: u64,
    /// Those that broke a promise.
    pub failed: u64,
    /// Since the beginning.
    pub elapsed: Duration,
}

impl Campaign {
    /// Plays all schedules; tells `progress` once a second.
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
                outcome.tally += report.facts;
                if let Some(violation) = report.violation {
                    outcome.failures.push((seed, violation));
                    failed.fetch_add(1, Ordering::Relaxed);
                }
                played.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}
