//! Decides which repairs of claims and Leases are logged: each object's first, then one a minute, and
//! not too many at once.
//!
//! Somebody may edit a claim as often as its holder puts it right, and a store that went back may have
//! thousands of old ones.

use std::{collections::BTreeMap, time::Duration};

use vipward_core::time::Monotonic;

#[cfg(test)]
mod tests;

/// A repair of the same object is logged again after this.
const AGAIN: Duration = Duration::from_mins(1);
/// So many objects are told apart within [`AGAIN`].
const MOST: usize = 64;

/// The repairs that were logged lately.
#[derive(Default, Debug)]
pub(super) struct Repairs {
    logged: BTreeMap<String, Monotonic>,
    /// Repairs that were not logged since the last one that was.
    not_logged: u64,
}

impl Repairs {
    /// Takes note of a repair. Returns the number of those not logged before it, if this one is to be logged.
    pub(super) fn on_repaired(&mut self, what: &str, now: Monotonic) -> Option<u64> {
        self.logged.retain(|_, at| now < *at + AGAIN);
        if self.logged.len() >= MOST || self.logged.contains_key(what) {
            self.not_logged += 1;
            return None;
        }
        self.logged.insert(what.to_owned(), now);
        Some(std::mem::take(&mut self.not_logged))
    }
}
