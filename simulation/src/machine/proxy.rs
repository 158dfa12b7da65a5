//! A node's service proxy: it is up some time after the node, and behind the endpoints.

use std::collections::BTreeMap;

use vipward_core::delivery::{Answer, Target};

use super::At;

#[derive(Debug, Default)]
pub(crate) struct ServiceProxy {
    /// The time from which it runs.
    up: At,
    /// Per port: when it has learned of a ready endpoint of this node, or of its end.
    ports: BTreeMap<u16, Vec<(At, bool)>>,
}

impl ServiceProxy {
    /// Starts with the node. It has no rules before it runs.
    pub(crate) fn boot(&mut self, up: At) {
        self.up = up;
    }

    /// Learns of a ready endpoint at a port, or of its end, at this time.
    pub(crate) fn learn(&mut self, port: u16, is_ready: bool, at: At) {
        let known = self.ports.entry(port).or_default();
        let at = known.last().map_or(at, |(last, _)| at.max(*last));
        known.push((at, is_ready));
    }

    pub(crate) fn answer(&self, target: Target, now: At) -> Answer {
        match target {
            // The nodes' clocks have run for long: there, an endpoint that is not reached is none.
            Target::Health if now < self.up => Answer::Bad,
            Target::Health => Answer::Good,
            Target::Port(_) if now < self.up => Answer::Unreachable,
            Target::Port(port) if self.delivers_since(port.number, now).is_some() => Answer::Good,
            Target::Port(_) => Answer::Bad,
        }
    }

    /// Returns whether it has delivered to a ready endpoint at some time since `from`.
    pub(crate) fn delivered_after(&self, port: u16, from: At, now: At) -> bool {
        let changes = self.ports.get(&port).into_iter().flatten().map(|(at, _)| *at);
        let mut times = changes.filter(|at| (from..=now).contains(at)).chain([from, now]);
        times.any(|at| self.delivers_since(port, at).is_some())
    }

    /// Returns the time since which it has run.
    pub(crate) fn up_since(&self, now: At) -> Option<At> {
        (self.up <= now).then_some(self.up)
    }

    /// Returns the time since which it delivers to a ready endpoint.
    pub(crate) fn delivers_since(&self, port: u16, now: At) -> Option<At> {
        let known = self.ports.get(&port)?.iter().rev().find(|(at, _)| *at <= now)?;
        Some(known.0.max(self.up_since(now)?)).filter(|_| known.1)
    }
}
