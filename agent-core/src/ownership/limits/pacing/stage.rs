//! One stage on the way of new VIPs, with room for some at a time. The others wait in lines, and
//! the namespaces take turns, however many VIPs each has.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    ops::Bound,
    sync::Arc,
    time::Duration,
};

use crate::base::{address, time::Monotonic};

/// The VIPs of a namespace that wait for room.
#[derive(Debug)]
struct Line {
    waiting: BTreeSet<IpAddr>,
    /// The VIP that was evaluated last; the one after it is next.
    last: IpAddr,
}

impl Default for Line {
    fn default() -> Self {
        Self { waiting: BTreeSet::new(), last: address::FIRST }
    }
}

impl Line {
    fn next(&mut self) -> Option<IpAddr> {
        let after = (Bound::Excluded(self.last), Bound::Unbounded);
        let next = *self.waiting.range(after).next().or_else(|| self.waiting.first())?;
        self.waiting.remove(&next);
        self.last = next;
        Some(next)
    }
}

/// The VIPs in a stage, and those that wait for room in it.
#[derive(Debug)]
pub(super) struct Stage {
    /// Number of VIPs that the stage has room for.
    most: usize,
    /// Time for which a VIP keeps its place.
    stay: Duration,
    /// The VIPs in the stage, and the time at which each has entered.
    inside: BTreeMap<IpAddr, Monotonic>,
    /// Time before which none of them loses its place.
    stays_until: Monotonic,
    /// VIPs that wait for room, by the namespace of their owner. When there is room, they are
    /// evaluated again, because another node may have them by then.
    lines: BTreeMap<Arc<str>, Line>,
    /// The namespace of the waiting VIP that was evaluated last. The next namespace has the next
    /// turn.
    last: Arc<str>,
    /// The waiting VIP whose turn it is.
    turn: Option<IpAddr>,
}

impl Stage {
    pub(super) fn new(most: usize, stay: Duration) -> Self {
        let (inside, lines) = (BTreeMap::new(), BTreeMap::new());
        Self { most, stay, inside, stays_until: Monotonic::default(), lines, last: "".into(), turn: None }
    }

    /// Changes the number of VIPs that the stage has room for.
    pub(super) fn set_most(&mut self, most: usize) {
        self.most = most;
    }

    /// Returns true if there is room for a VIP, or if it is in the stage. Without room, or before
    /// its turn, the VIP waits.
    pub(super) fn has_room(&mut self, vip: IpAddr, namespace: &Arc<str>) -> bool {
        let is_its_turn = self.lines.is_empty() || self.turn == Some(vip);
        let has_room = self.inside.contains_key(&vip) || self.inside.len() < self.most && is_its_turn;
        if !has_room {
            self.lines.entry(Arc::clone(namespace)).or_default().waiting.insert(vip);
        }
        has_room
    }

    pub(super) fn enter(&mut self, vip: IpAddr, now: Monotonic) {
        if self.inside.is_empty() {
            self.stays_until = now + self.stay;
        }
        self.inside.insert(vip, now);
    }

    pub(super) fn leave(&mut self, vip: IpAddr) {
        self.inside.remove(&vip);
    }

    /// Returns the next waiting VIP, if there is room again.
    pub(super) fn next(&mut self, now: Monotonic) -> Option<IpAddr> {
        if self.lines.is_empty() {
            return None;
        }
        if self.inside.len() >= self.most && self.stays_until <= now {
            self.inside.retain(|_, since| now < *since + self.stay);
            self.stays_until = self.inside.values().min().map_or(now, |first| *first + self.stay);
        }
        if self.inside.len() >= self.most {
            return None;
        }
        let after = (Bound::Excluded(Arc::clone(&self.last)), Bound::Unbounded);
        let next = self.lines.range(after).next().or_else(|| self.lines.first_key_value());
        let namespace = Arc::clone(next?.0);
        let line = self.lines.get_mut(&namespace)?;
        self.turn = line.next();
        if line.waiting.is_empty() {
            self.lines.remove(&namespace);
        }
        self.last = namespace;
        self.turn
    }

    /// Returns the number of VIPs in the stage, and the number of those that wait for room.
    pub(super) fn sizes(&self) -> (usize, usize) {
        (self.inside.len(), self.lines.values().map(|line| line.waiting.len()).sum())
    }
}
