//! The last report about each subject: it is repeated when it has changed, or after a minute.

use std::{collections::BTreeMap, time::Duration};

use crate::base::time::Monotonic;

#[cfg(test)]
mod tests;

/// Time for which a report stands.
pub(super) const STANDS: Duration = Duration::from_mins(1);

/// The last report about each subject. Reports that no longer stand make room when there is none.
#[derive(Debug)]
pub struct Seldom<K, V> {
    said: BTreeMap<K, (V, Monotonic)>,
    /// The most subjects of which something stands.
    most: usize,
    /// Number of findings since the last reported one.
    left_out: u64,
}

impl<K: Ord, V: PartialEq> Seldom<K, V> {
    pub const fn start(most: usize) -> Self {
        Self { said: BTreeMap::new(), most, left_out: 0 }
    }

    /// Handles a finding. If it is to be reported, returns the number of unreported findings before
    /// it.
    pub fn on(&mut self, subject: K, finding: V, now: Monotonic) -> Option<u64> {
        let is_standing = |at: &Monotonic| now < *at + STANDS;
        let is_known = self.said.contains_key(&subject);
        if !is_known && self.said.len() >= self.most {
            self.said.retain(|_, (_, at)| is_standing(at));
        }
        let is_full = !is_known && self.said.len() >= self.most;
        if is_full || self.said.get(&subject).is_some_and(|(said, at)| *said == finding && is_standing(at)) {
            self.left_out += 1;
            return None;
        }
        self.said.insert(subject, (finding, now));
        Some(std::mem::take(&mut self.left_out))
    }

    /// Lets the last report about a subject stand for a minute from now. Returns false if none
    /// stands.
    pub fn go_on(&mut self, subject: &K, now: Monotonic) -> bool {
        self.said.get_mut(subject).map(|(_, at)| *at = now).is_some()
    }

    /// Handles that a finding is over. Returns true if it was reported.
    pub fn end(&mut self, subject: &K) -> bool {
        self.said.remove(subject).is_some()
    }

    /// Returns the number of subjects with a report.
    pub fn number(&self) -> usize {
        self.said.len()
    }
}
