//! The pings that a monitor of this node sends.

use std::{collections::BTreeMap, sync::Arc};

use crate::{base::time::Boottime, liveness::Scale};

#[derive(Clone, Copy, Debug, Default)]
struct Way {
    received: Boottime,
    /// True if the monitor pings often. It does so only when it has read that it is a voter.
    often: bool,
}

#[derive(Debug)]
pub(super) struct PingedBy {
    ways: BTreeMap<Arc<str>, Way>,
    begun: Boottime,
    reported: Option<bool>,
}

impl PingedBy {
    pub(super) fn new(now: Boottime) -> Self {
        Self { ways: BTreeMap::new(), begun: now, reported: None }
    }

    /// Records the last ping over an interface. `is_member` is true if the monitor is a voter.
    pub(super) fn update(&mut self, interface: &Arc<str>, received: Boottime, is_member: bool, scale: Scale) {
        let way = self.ways.entry(Arc::clone(interface)).or_default();
        if received > way.received {
            way.often |= received.saturating_since(way.received) <= scale.endangered();
            way.received = received;
        }
        way.often &= is_member;
    }

    /// Returns the time until which the monitor counts as one that pings.
    fn until(&self, scale: Scale) -> Boottime {
        let until = |way: &Way| way.received + if way.often { scale.endangered() } else { scale.one_way() };
        let received = self.ways.values().filter(|way| way.received >= self.begun);
        received.map(until).max().unwrap_or_default()
    }

    /// Returns whether the monitor pings, if that has changed.
    pub(super) fn news(&mut self, scale: Scale, now: Boottime) -> Option<bool> {
        let lately = now < self.until(scale);
        let is_known = lately || self.reported.is_some() || self.begun + scale.one_way() <= now;
        (is_known && self.reported.replace(lately) != Some(lately)).then_some(lately)
    }

    pub(super) fn deadline(&self, scale: Scale) -> Boottime {
        if self.reported.is_none() { self.begun + scale.one_way() } else { self.until(scale) }
    }
}
