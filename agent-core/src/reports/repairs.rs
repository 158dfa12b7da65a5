//! Choice of the repairs of claims and Leases that are logged: each object's first, then one a
//! minute, and not too many at once.
//!
//! A user or a program may edit a claim as often as its holder repairs it. A store that went back
//! may have thousands of old objects.

use std::{collections::BTreeMap, time::Duration};

use crate::base::time::Monotonic;

#[cfg(test)]
mod tests;

/// Time after which a repair of the same object is logged again.
const AGAIN: Duration = Duration::from_mins(1);
/// The most repairs that are logged within [`AGAIN`].
const MOST: usize = 64;

/// The repairs that were logged within `AGAIN`.
#[derive(Default, Debug)]
pub struct Repairs {
    logged: BTreeMap<String, Monotonic>,
    /// Number of repairs since the last logged one.
    not_logged: u64,
}

impl Repairs {
    /// Handles a repair. If it is to be logged, returns the
    /// number of repairs before it that were not.
    pub fn on_repaired(&mut self, what: &str, now: Monotonic) -> Option<u64> {
        self.logged.retain(|_, at| now < *at + AGAIN);
        if self.logged.len() >= MOST || self.logged.contains_key(what) {
            self.not_logged += 1;
            return None;
        }
        self.logged.insert(what.to_owned(), now);
        Some(std::mem::take(&mut self.not_logged))
    }
}
