//! Holds that may be given back: they began because no host answered a probe.
//!
//! A host may answer late: a printer that sleeps, a station of a wireless LAN that saves power, a
//! proxy that waits (`proxy_delay`). RFC 5227 waits [`ANNOUNCE_WAIT`] after the last probe. This agent
//! begins to answer sooner, and gives the VIP back if a host answers within that time: no client
//! depends on it yet.
//!
//! |the segment|a hold is provisional from the result of the probe until|
//! |---|---|
//! |a host was heard|[`ANNOUNCE_WAIT`] after the VIP was taken|
//! |no other host was heard|[`ANNOUNCE_WAIT`] after one is heard|

use std::{collections::BTreeMap, time::Duration};

use vipward_common::VipKey;

use super::probing::ANNOUNCE_WAIT;
use crate::base::time::Monotonic;

#[cfg(test)]
mod tests;

/// The longest time from the result of a probe until the VIP is taken.
const TAKEN_WITHIN: Duration = Duration::from_mins(1);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// The address was found free at this time, and this node does not hold the VIP yet.
    Free(Monotonic),
    /// This node holds the VIP, and no other host was heard on its segment.
    InSilence,
    /// This node holds the VIP, for good after this time.
    Until(Monotonic),
}

#[derive(Debug, Default)]
pub struct Provisional {
    phases: BTreeMap<VipKey, Phase>,
}

impl Provisional {
    /// Records that probes have found an address free.
    pub fn on_free(&mut self, key: VipKey, now: Monotonic) {
        self.phases.insert(key, Phase::Free(now));
    }

    /// Records that this node has begun to hold a VIP, on a segment where no other host was heard or one was.
    pub fn on_taken(&mut self, key: VipKey, is_unheard: bool, now: Monotonic) {
        if let Some(phase) = self.phases.get_mut(&key).filter(|phase| matches!(phase, Phase::Free(_))) {
            *phase = if is_unheard { Phase::InSilence } else { Phase::Until(now + ANNOUNCE_WAIT) };
        }
    }

    /// Records that this node holds a VIP no longer, or wants it no longer.
    pub fn forget(&mut self, key: VipKey) {
        self.phases.remove(&key);
    }

    /// Records on which interfaces another host was heard.
    pub fn on_heard(&mut self, is_heard: impl Fn(u32) -> bool, now: Monotonic) {
        for (key, phase) in &mut self.phases {
            if *phase == Phase::InSilence && is_heard(key.ifindex) {
                *phase = Phase::Until(now + ANNOUNCE_WAIT);
            }
        }
    }

    /// Returns true if another host's answer shows that the address was in use.
    pub fn contains(&self, key: &VipKey, now: Monotonic) -> bool {
        match self.phases.get(key) {
            Some(Phase::Free(_) | Phase::InSilence) => true,
            Some(Phase::Until(until)) => now < *until,
            None => false,
        }
    }

    /// Forgets the holds that are for good, and those that never began.
    pub fn on_tick(&mut self, now: Monotonic) {
        self.phases.retain(|_, phase| match *phase {
            Phase::Free(since) => now < since + TAKEN_WITHIN,
            Phase::InSilence => true,
            Phase::Until(until) => now < until,
        });
    }
}
