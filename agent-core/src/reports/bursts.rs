//! Choice of the changes that are logged one by one. Of many at once, only the number is logged.

use std::{collections::BTreeMap, time::Duration};

use crate::base::{pace::Pace, time::Monotonic};

#[cfg(test)]
mod tests;

/// Time between two lines of their own after a burst of them, and from the first change without one
/// to a line with a number.
const EVERY: Duration = Duration::from_secs(1);
/// Longest time between two lines with a number. Each is twice as long as the one before.
const LONGEST: Duration = Duration::from_secs(8);

/// Changes of the kinds `K` that have no line of their own.
#[derive(Debug)]
pub struct Bursts<K> {
    pace: Pace,
    /// The number of changes since the last line with a number, by kind.
    more: BTreeMap<K, u64>,
    /// The time between two lines with a number.
    pause: Duration,
    /// The time of the next one. It is none when no change has come for a whole pause.
    due: Option<Monotonic>,
}

impl<K: Ord> Bursts<K> {
    /// Starts without changes. The first `at_once` of a burst get lines of their own.
    pub fn start(at_once: u32, now: Monotonic) -> Self {
        let pace = Pace::with_burst(at_once, EVERY, now);
        Self { pace, more: BTreeMap::new(), pause: EVERY, due: None }
    }

    /// Counts a change. Returns true if it gets a line of its own.
    pub fn on_change(&mut self, kind: K, now: Monotonic) -> bool {
        // No line comes between those that are only counted.
        if self.due.is_none() && self.pace.is_open(now) {
            self.pace.take();
            return true;
        }
        *self.more.entry(kind).or_default() += 1;
        self.due.get_or_insert(now + self.pause);
        false
    }

    /// Returns the number of changes without a line of their own since the last call, by kind, if
    /// lines about them are due.
    pub fn due(&mut self, now: Monotonic) -> BTreeMap<K, u64> {
        if self.due.is_none_or(|due| now < due) {
            return BTreeMap::new();
        }
        let more = self.rest();
        self.pause = if more.is_empty() { EVERY } else { LONGEST.min(self.pause * 2) };
        self.due = (!more.is_empty()).then_some(now + self.pause);
        more
    }

    /// Returns the number of changes without a line of their own since the last call, by kind,
    /// whether lines are due or not. No later line would have them at the agent's end.
    pub fn rest(&mut self) -> BTreeMap<K, u64> {
        std::mem::take(&mut self.more)
    }

    /// Returns the time of the next [`Bursts::due`].
    pub fn next_deadline(&self) -> Option<Monotonic> {
        self.due
    }
}
