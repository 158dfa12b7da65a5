//! Which agents accept a new key, by their Leases.

use std::collections::BTreeMap;

use crate::{
    base::time::Monotonic,
    records::{KeyId, LeaseRecord, NodeName, Version},
};

#[cfg(test)]
mod tests;

/// An observer of the agents' Leases, for the time until all agents accept a key.
///
/// An agent takes part if its Lease has an offer. An agent does not run if its Lease names no
/// session, or was not renewed for as long as a renewal is good. Such an agent reads the Secret
/// anew when it starts.
#[derive(Debug)]
pub struct Acceptance {
    key: KeyId,
    seen: BTreeMap<NodeName, Seen>,
}

#[derive(Debug)]
struct Seen {
    record: LeaseRecord,
    version: Version,
    /// The time at which it was last seen to change.
    since: Monotonic,
}

impl Acceptance {
    /// Starts to observe for a key. No Lease has been seen yet.
    pub fn of(key: KeyId) -> Self {
        Self { key, seen: BTreeMap::new() }
    }

    pub fn see(&mut self, leases: Vec<LeaseRecord>, now: Monotonic) {
        let mut before = std::mem::take(&mut self.seen);
        for record in leases {
            let known = before.remove(&record.node).filter(|known| known.version == record.version);
            let since = known.map_or(now, |known| known.since);
            let (node, version) = (record.node.clone(), record.version.clone());
            self.seen.insert(node, Seen { record, version, since });
        }
    }

    /// Returns the nodes whose agents take part and do not accept the key yet.
    pub fn missing(&self, now: Monotonic) -> Vec<NodeName> {
        let lacks = |seen: &&Seen| {
            let record = &seen.record;
            let accepts = record.wire.as_ref().is_none_or(|offer| offer.keys.contains(&self.key));
            let runs = record.live_session().is_some() && now.saturating_since(seen.since) <= record.duration;
            runs && !accepts
        };
        self.seen.values().filter(lacks).map(|seen| seen.record.node.clone()).collect()
    }

    pub fn taking_part(&self) -> usize {
        let takes_part = |seen: &&Seen| seen.record.wire.is_some() && seen.record.live_session().is_some();
        self.seen.values().filter(takes_part).count()
    }
}
