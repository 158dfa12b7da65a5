//! Limits on the number of VIPs that are probed, taken and handed over at a time.
//!
//! A new VIP goes through two stages: its address is probed, then its claim is created. Both stages
//! work at the same time. A VIP that was found free keeps its place in the first stage until its
//! creation begins. So probes never run far ahead of the creation of claims.

mod stage;

use std::{collections::BTreeSet, net::IpAddr, sync::Arc, time::Duration};

use self::stage::Stage;
use crate::{
    base::time::Monotonic,
    ownership::{settings::Settings, times::STAYS_FREE},
};

#[cfg(test)]
mod tests;

/// Largest number of offers under way. If the API server goes away, no
/// more VIPs than these depend on unknown outcomes.
const MOST_OFFERS: usize = 32;
/// Shortest time between two urgent handovers.
const URGENT_PACE: Duration = Duration::from_millis(2);
/// Number of new VIPs a second for which there are enough probes under way. Most API servers create
/// fewer claims for one node, and what was found free longer ago must be probed again.
const NEW_A_SECOND: u32 = 600;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Urgency {
    /// The VIP must leave this node.
    Urgent,
    /// Another node is a better place for it.
    Calm,
}

/// Handovers of one kind.
#[derive(Debug)]
struct Lane {
    pace: Duration,
    /// Earliest time of the next handover.
    next: Monotonic,
    /// Time at which the next waiting VIP is evaluated again.
    next_slot: Monotonic,
}

/// The VIPs that are being taken and handed over, and those that wait for room.
#[derive(Debug)]
pub(crate) struct Pacing {
    /// New VIPs whose addresses are being probed, or were found free.
    asking: Stage,
    /// New VIPs whose claims are being created.
    creating: Stage,
    /// VIPs whose offers are under way, or have an unknown outcome.
    offering: BTreeSet<IpAddr>,
    urgent: Lane,
    calm: Lane,
}

impl Pacing {
    pub(crate) fn new(settings: &Settings, now: Monotonic) -> Self {
        let lane = |pace| Lane { pace, next: now, next_slot: now };
        Self {
            asking: Stage::new(most_asked(settings), settings.probing.unwrap_or_default() + STAYS_FREE),
            creating: Stage::new(settings.most_new, settings.lease),
            offering: BTreeSet::new(),
            urgent: lane(URGENT_PACE),
            calm: lane(settings.handover_pace),
        }
    }

    /// Changes the number of claims that are created at a time.
    pub(crate) fn set_most_new(&mut self, most: usize) {
        self.creating.set_most(most);
    }

    /// Returns true if the address of a new VIP may be probed. Without room, or before its turn, the
    /// VIP waits.
    pub(crate) fn may_ask(&mut self, vip: IpAddr, namespace: &Arc<str>) -> bool {
        self.asking.has_room(vip, namespace)
    }

    /// Records that a new VIP's address is being probed.
    pub(crate) fn begin_asking(&mut self, vip: IpAddr, now: Monotonic) {
        self.asking.enter(vip, now);
    }

    /// Records that a VIP's address is in use, or does not matter now.
    pub(crate) fn end_asking(&mut self, vip: IpAddr) {
        self.asking.leave(vip);
    }

    /// Returns true if the claim of a new VIP may be created. Without room, or before its turn, the
    /// VIP waits.
    pub(crate) fn may_create(&mut self, vip: IpAddr, namespace: &Arc<str>) -> bool {
        self.creating.has_room(vip, namespace)
    }

    /// Records that a new VIP's claim is being created.
    pub(crate) fn begin_creating(&mut self, vip: IpAddr, now: Monotonic) {
        self.asking.leave(vip);
        self.creating.enter(vip, now);
    }

    /// Records that the write of a claim is over.
    pub(crate) fn end_creating(&mut self, vip: IpAddr) {
        self.creating.leave(vip);
    }

    /// Returns the next VIP that waits for room, if there is room again.
    pub(crate) fn next_new(&mut self, now: Monotonic) -> Option<IpAddr> {
        self.creating.next(now).or_else(|| self.asking.next(now))
    }

    /// Begins a handover. If it is not its turn, fails with the time at which the VIP is evaluated
    /// again. Waiting VIPs get different times, because only one of them can go on.
    pub(crate) fn begin_handover(&mut self, urgency: Urgency, now: Monotonic) -> Result<(), Monotonic> {
        let is_full = self.offering.len() >= MOST_OFFERS;
        let lane = match urgency {
            Urgency::Urgent => &mut self.urgent,
            Urgency::Calm => &mut self.calm,
        };
        if lane.next > now || is_full {
            let slot = lane.next.max(now + URGENT_PACE).max(lane.next_slot);
            lane.next_slot = slot + lane.pace.max(URGENT_PACE);
            return Err(slot);
        }
        lane.next = now + lane.pace;
        Ok(())
    }

    pub(crate) fn begin_offer(&mut self, vip: IpAddr) {
        self.offering.insert(vip);
    }

    /// Records that the outcome of an offer is known.
    pub(crate) fn end_offer(&mut self, vip: IpAddr) {
        self.offering.remove(&vip);
    }

    /// Forgets all offers: the session that made them is over.
    pub(crate) fn forget_offers(&mut self) {
        self.offering.clear();
    }

    /// Returns the number of VIPs whose claims are being created, and of the new VIPs before them:
    /// those that are probed or wait.
    pub(crate) fn sizes(&self) -> (usize, usize) {
        let (creating, probed) = self.creating.sizes();
        let (asked, waiting) = self.asking.sizes();
        // A VIP that was found free and waits for its creation is in both stages.
        (creating, waiting + asked.max(probed))
    }
}

/// Returns the number of addresses to probe at a time.
fn most_asked(settings: &Settings) -> usize {
    let millis = settings.probing.unwrap_or_default().as_millis() * u128::from(NEW_A_SECOND) / 1_000;
    usize::try_from(millis).unwrap_or(usize::MAX).max(1)
}
