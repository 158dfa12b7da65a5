//! Limits on the number of VIPs that are taken and handed over at a time.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::Ipv4Addr,
    ops::Bound,
    sync::Arc,
    time::Duration,
};

use super::Settings;
use crate::time::Monotonic;

#[cfg(test)]
mod tests;

/// Largest number of offers under way. If the API server goes away, no
/// more VIPs than these depend on unknown outcomes.
const MOST_OFFERS: usize = 32;
/// Shortest time between two urgent handovers.
const URGENT_PACE: Duration = Duration::from_millis(2);

/// The kind of a handover.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Urgency {
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

/// The VIPs of a namespace that wait for room.
#[derive(Debug)]
struct Line {
    waiting: BTreeSet<Ipv4Addr>,
    /// The VIP that was evaluated last; the one after it is next.
    last: Ipv4Addr,
}

impl Default for Line {
    fn default() -> Self {
        Self { waiting: BTreeSet::new(), last: Ipv4Addr::UNSPECIFIED }
    }
}

impl Line {
    fn next(&mut self) -> Option<Ipv4Addr> {
        let after = (Bound::Excluded(self.last), Bound::Unbounded);
        let next = *self.waiting.range(after).next().or_else(|| self.waiting.first())?;
        self.waiting.remove(&next);
        self.last = next;
        Some(next)
    }
}

/// The VIPs that are being taken and handed over, and those that wait for room.
#[derive(Debug)]
pub(super) struct Pacing {
    most_new: usize,
    /// VIPs without a claim that are being taken, `most_new` at a time.
    creating: BTreeSet<Ipv4Addr>,
    /// VIPs that this node could take, and that wait for room, by the namespace of their owner.
    /// When there is room, they are evaluated again, because another node may have them by then.
    crowded_out: BTreeMap<Arc<str>, Line>,
    /// The namespace of the waiting VIP that was evaluated last. The next namespace has the next
    /// turn, however many VIPs the others have.
    last_namespace: Arc<str>,
    /// The waiting VIP whose turn it is.
    turn: Option<Ipv4Addr>,
    /// VIPs whose offers are under way, or have an unknown outcome.
    offering: BTreeSet<Ipv4Addr>,
    urgent: Lane,
    calm: Lane,
}

impl Pacing {
    pub(super) fn new(settings: &Settings, now: Monotonic) -> Self {
        let lane = |pace| Lane { pace, next: now, next_slot: now };
        Self {
            most_new: settings.most_new,
            creating: BTreeSet::new(),
            crowded_out: BTreeMap::new(),
            last_namespace: "".into(),
            turn: None,
            offering: BTreeSet::new(),
            urgent: lane(URGENT_PACE),
            calm: lane(settings.handover_pace),
        }
    }

    /// Returns true if there is room to take a VIP without a claim. Without room, or before its
    /// turn, the VIP waits.
    pub(super) fn has_room(&mut self, vip: Ipv4Addr, namespace: &Arc<str>) -> bool {
        let is_its_turn = self.crowded_out.is_empty() || self.turn == Some(vip);
        let has_room = self.creating.len() < self.most_new && is_its_turn;
        if !has_room {
            self.crowded_out.entry(Arc::clone(namespace)).or_default().waiting.insert(vip);
        }
        has_room
    }

    /// Takes in that a VIP without a claim is being taken.
    pub(super) fn begin_creating(&mut self, vip: Ipv4Addr) {
        self.creating.insert(vip);
    }

    /// Takes in that the write of a claim is over.
    pub(super) fn end_creating(&mut self, vip: Ipv4Addr) {
        self.creating.remove(&vip);
    }

    /// Returns the next waiting VIP, if there is room again.
    pub(super) fn next_of_crowd(&mut self) -> Option<Ipv4Addr> {
        if self.creating.len() >= self.most_new {
            return None;
        }
        let after = (Bound::Excluded(Arc::clone(&self.last_namespace)), Bound::Unbounded);
        let next = self.crowded_out.range(after).next().or_else(|| self.crowded_out.first_key_value());
        let namespace = Arc::clone(next?.0);
        let line = self.crowded_out.get_mut(&namespace)?;
        self.turn = line.next();
        if line.waiting.is_empty() {
            self.crowded_out.remove(&namespace);
        }
        self.last_namespace = namespace;
        self.turn
    }

    /// Begins a handover. If it is not its turn, fails with the time at which the VIP is evaluated
    /// again. Waiting VIPs get different times, because only one of them can go on.
    pub(super) fn begin_handover(&mut self, urgency: Urgency, now: Monotonic) -> Result<(), Monotonic> {
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

    /// Takes in that an offer is sent.
    pub(super) fn begin_offer(&mut self, vip: Ipv4Addr) {
        self.offering.insert(vip);
    }

    /// Takes in that the outcome of an offer is known.
    pub(super) fn end_offer(&mut self, vip: Ipv4Addr) {
        self.offering.remove(&vip);
    }

    /// Forgets all offers: the session that made them is over.
    pub(super) fn forget_offers(&mut self) {
        self.offering.clear();
    }

    /// Returns the number of VIPs that are being taken, and the number of those that wait for room.
    pub(super) fn creating(&self) -> (usize, usize) {
        (self.creating.len(), self.crowded_out.values().map(|line| line.waiting.len()).sum())
    }
}
