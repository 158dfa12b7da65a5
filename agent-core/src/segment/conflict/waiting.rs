//! Announcements by peers that no claim object explains yet.
//!
//! The new holder of a VIP announces it as soon as its claim object is written.
//! Other nodes read that object a moment later. So an announcement waits for
//! the object, and becomes a conflict only if the object does not come.

use std::{collections::BTreeMap, time::Duration};

use vipward_common::{MacAddr, VipKey};

use super::{Right, Sight, What};
use crate::{base::time::Monotonic, records::Epoch};

/// Time between two checks of the waiting announcements. An announcement without its claim object
/// at two checks in a row is a conflict.
const LOOK: Duration = Duration::from_secs(30);
/// Largest number of waiting announcements: as many as VIPs by the default of `--max-vips`.
const MOST: usize = 65_536;

#[derive(Debug)]
struct Waiter {
    sight: Sight,
    /// The epoch of the VIP's claim object when the announcement arrived.
    epoch: Epoch,
    /// True if the last look found no claim object that explains it.
    looked_at: bool,
}

#[derive(Debug, Default)]
pub(super) struct Waiting {
    waiters: BTreeMap<(VipKey, What, MacAddr), Waiter>,
    next_look: Option<Monotonic>,
}

impl Waiting {
    /// Adds an announcement. Returns false if there is no room for it.
    pub(super) fn add(&mut self, sight: Sight, epoch: Epoch, now: Monotonic) -> bool {
        let key = (sight.key, sight.what, sight.mac);
        if let Some(waiter) = self.waiters.get_mut(&key) {
            waiter.sight.times = waiter.sight.times.saturating_add(sight.times);
            return true;
        }
        if self.waiters.len() >= MOST {
            return false;
        }
        self.waiters.insert(key, Waiter { sight, epoch, looked_at: false });
        self.next_look.get_or_insert(now + LOOK);
        true
    }

    /// Returns the announcements that have waited in vain. Forgets those
    /// that a claim object explains, and those from before a move.
    pub(super) fn look(&mut self, right: impl Fn(&Sight) -> Right, now: Monotonic) -> Vec<Sight> {
        let mut in_vain = Vec::new();
        if self.next_look.is_none_or(|next| now < next) {
            return in_vain;
        }
        self.waiters.retain(|_, waiter| match right(&waiter.sight) {
            Right::Given => false,
            // The VIP has moved since, and the peer may have held it in between.
            // If the peer goes on announcing, its next announcement waits anew.
            Right::NotGiven(epoch) | Right::Unknown(epoch) if epoch != waiter.epoch => false,
            // The wait begins anew. Once claim objects can be read again, their news takes a while.
            Right::Unknown(_) => {
                waiter.looked_at = false;
                true
            }
            Right::NotGiven(_) if !waiter.looked_at => {
                waiter.looked_at = true;
                true
            }
            Right::NotGiven(_) | Right::NoClaims => {
                in_vain.push(waiter.sight);
                false
            }
        });
        self.next_look = (!self.waiters.is_empty()).then(|| now + LOOK);
        in_vain
    }

    pub(super) fn next_look(&self) -> Option<Monotonic> {
        self.next_look
    }
}
