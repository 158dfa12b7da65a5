//! The slots of the map `wire_seen`, and the peers that have them.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::Duration,
};

use vipward_common::{WIRE_SLOTS, WireIndexKey};
use vipward_core::base::time::Boottime;

#[cfg(test)]
mod tests;

/// The time for which a slot has no owner before it gets another one. A processor that was stopped
/// within the program may still write a record of the former owner.
const REST: Duration = Duration::from_mins(1);

#[derive(Debug)]
pub(super) struct Slots {
    owned: BTreeMap<WireIndexKey, u32>,
    free: BTreeSet<u32>,
    /// Slots without an owner, with the time at which it has gone, the earliest first.
    resting: VecDeque<(Boottime, u32, WireIndexKey)>,
}

/// The changes of the index, to be made in this order.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Changes {
    pub(super) removed: Vec<WireIndexKey>,
    /// Slots to clear: they get another owner, with another clock.
    pub(super) cleared: Vec<u32>,
    pub(super) added: Vec<(WireIndexKey, u32)>,
    /// The number of peers for which there is no slot.
    pub(super) left_out: usize,
}

impl Slots {
    /// Starts with the entries that the index has. `is_used` returns true if the program has ever
    /// written to a slot. Also returns the entries that no agent makes, to remove.
    pub(super) fn start(
        found: impl IntoIterator<Item = (WireIndexKey, u32)>,
        is_used: impl Fn(u32) -> bool,
        now: Boottime,
    ) -> (Self, Vec<WireIndexKey>) {
        let (mut owned, mut faulty) = (BTreeMap::new(), Vec::new());
        let mut free: BTreeSet<u32> = (0..WIRE_SLOTS).collect();
        for (key, slot) in found {
            if free.remove(&slot) {
                owned.insert(key, slot);
            } else {
                faulty.push(key);
            }
        }
        let used: Vec<u32> = free.iter().copied().filter(|slot| is_used(*slot)).collect();
        free.retain(|slot| !used.contains(slot));
        let no_peer = WireIndexKey::new(0, 0);
        let resting = used.into_iter().map(|slot| (now, slot, no_peer)).collect();
        (Self { owned, free, resting }, faulty)
    }

    /// Gives each of these peers a slot, and frees the slots of all others.
    pub(super) fn set(&mut self, wanted: &BTreeSet<WireIndexKey>, now: Boottime) -> Changes {
        let mut changes = Changes::default();
        let gone: Vec<_> = self.owned.keys().filter(|key| !wanted.contains(key)).copied().collect();
        for key in gone {
            if let Some(slot) = self.owned.remove(&key) {
                self.resting.push_back((now, slot, key));
                changes.removed.push(key);
            }
        }
        while let Some((since, slot, _)) = self.resting.front().copied()
            && now.saturating_since(since) >= REST
        {
            self.resting.pop_front();
            self.free.insert(slot);
        }
        for key in wanted {
            if self.owned.contains_key(key) {
                continue;
            }
            // The records in its former slot are about this peer.
            let own = self.resting.iter().position(|(_, _, owner)| owner == key);
            let own = own.and_then(|place| self.resting.remove(place)).map(|(_, slot, _)| slot);
            match own.or_else(|| self.free.pop_first()) {
                Some(slot) => {
                    changes.cleared.extend(own.is_none().then_some(slot));
                    self.owned.insert(*key, slot);
                    changes.added.push((*key, slot));
                }
                None => changes.left_out += 1,
            }
        }
        changes
    }

    pub(super) fn of(&self, key: WireIndexKey) -> Option<u32> {
        self.owned.get(&key).copied()
    }
}
