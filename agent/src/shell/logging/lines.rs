//! Log lines that thousands of VIPs or Services may cause at once.

use tracing::{info, warn};
use vipward_core::{base::time::Monotonic, reports::bursts::Bursts};

/// Most lines about trouble at once. Of more, the numbers are logged.
const MOST: u32 = 64;

/// The choice of the lines of the kinds `K` that are logged. Of the others, the number is logged.
#[derive(Debug)]
pub(crate) struct Lines<K: Ord> {
    bursts: Bursts<K>,
    /// Logs the number of lines of a kind.
    report: fn(K, u64),
}

impl<K: Ord> Lines<K> {
    pub(crate) fn start(at_once: u32, report: fn(K, u64), now: Monotonic) -> Self {
        Self { bursts: Bursts::start(at_once, now), report }
    }

    /// Returns true if a line of this kind is to be logged. Otherwise a number includes it later.
    pub(crate) fn admits(&mut self, kind: K, now: Monotonic) -> bool {
        self.bursts.on_change(kind, now)
    }

    /// Logs the numbers that are due.
    pub(crate) fn on_time(&mut self, now: Monotonic) {
        for (kind, number) in self.bursts.due(now) {
            (self.report)(kind, number);
        }
    }

    /// Returns the time of the next [`Lines::on_time`].
    pub(crate) fn next_deadline(&self) -> Option<Monotonic> {
        self.bursts.next_deadline()
    }
}

impl<K: Ord> Drop for Lines<K> {
    fn drop(&mut self) {
        for (kind, number) in self.bursts.rest() {
            (self.report)(kind, number);
        }
    }
}

/// A line about trouble, by its message.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Trouble {
    /// The trouble has begun, or goes on.
    Is(&'static str),
    Over(&'static str),
}

impl Trouble {
    pub(crate) fn lines(now: Monotonic) -> Lines<Self> {
        let report = |line, lines| match line {
            Self::Is(of) => warn!(lines, of, "lines left out"),
            Self::Over(of) => info!(lines, of, "lines left out"),
        };
        Lines::start(MOST, report, now)
    }
}
