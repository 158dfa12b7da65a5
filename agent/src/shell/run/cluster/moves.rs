//! Measures the moves of VIPs to this node: the cause, the time until the announcement, and the
//! longest possible gap since the last holder's answers.

use std::{collections::BTreeMap, net::Ipv4Addr};

use vipward_core::{
    cluster::{ClaimState, Epoch, LeaseRecord, NodeName, Version},
    ownership::ClaimWrite,
    time::Monotonic,
};

use crate::shell::metrics::{MoveCause, MoveMetrics};

#[cfg(test)]
mod tests;

/// A claim that is being written.
#[derive(Clone, Copy, Debug)]
struct Asked {
    at: Monotonic,
    epoch: Epoch,
    /// True if no node answered for the VIP at that time.
    taken: bool,
}

/// Signs of life of another node.
#[derive(Debug)]
struct Sign {
    version: Version,
    /// Time of its Lease's last change while it lived. The first
    /// sight of a Lease is no sign of life.
    last: Option<Monotonic>,
    alive: bool,
}

/// A VIP that this node holds and has not announced yet.
#[derive(Clone, Copy, Debug)]
struct Come {
    asked: Monotonic,
    /// The last sign of life of its former holder, if that node is dead.
    silent: Option<Monotonic>,
}

/// The moves that are under way.
#[derive(Debug)]
pub(super) struct Moves {
    metrics: MoveMetrics,
    asked: BTreeMap<Ipv4Addr, Asked>,
    come: BTreeMap<Ipv4Addr, Come>,
    signs: BTreeMap<NodeName, Sign>,
}

impl Moves {
    pub(super) fn new(metrics: MoveMetrics) -> Self {
        Self { metrics, asked: BTreeMap::new(), come: BTreeMap::new(), signs: BTreeMap::new() }
    }

    /// Handles a Lease that was seen. A node lives while it renews its Lease and is not deposed.
    pub(super) fn on_lease(&mut self, record: &LeaseRecord, now: Monotonic) {
        let alive = record.session.is_some_and(|session| !record.ended.contains(&session));
        let known = self.signs.get(&record.node);
        if known.is_some_and(|known| known.version == record.version) {
            return;
        }
        let last = match known {
            Some(_) if alive => Some(now),
            known => known.and_then(|known| known.last),
        };
        self.signs.insert(record.node.clone(), Sign { version: record.version.clone(), last, alive });
    }

    /// Handles the end of a Lease.
    pub(super) fn on_lease_gone(&mut self, node: &NodeName) {
        self.signs.remove(node);
    }

    /// Handles a claim that is about to be written.
    pub(super) fn on_write(&mut self, write: &ClaimWrite, now: Monotonic) {
        if matches!(write.state, ClaimState::Held(_)) {
            let asked = Asked { at: now, epoch: write.epoch, taken: write.can_wait };
            self.asked.insert(write.vip, asked);
        } else {
            self.asked.remove(&write.vip);
        }
    }

    /// Counts a move: this node holds the VIP now. `from` is the node that answered for it before.
    pub(super) fn on_holds(&mut self, vip: Ipv4Addr, from: Option<&NodeName>) {
        let Some(asked) = self.asked.remove(&vip) else { return };
        let cause = match (asked.taken, from) {
            (true, _) if asked.epoch == Epoch(0).next() => MoveCause::New,
            (true, Some(_)) => MoveCause::Failover,
            (true, None) => MoveCause::Unheld,
            (false, Some(_)) => MoveCause::Handover,
            (false, None) => MoveCause::TakenBack,
        };
        self.metrics.moved(cause);
        let sign = from.filter(|_| cause == MoveCause::Failover).and_then(|from| self.signs.get(from));
        // If the former holder lives again, the begin of its silence is no longer known.
        let silent = sign.filter(|sign| !sign.alive).and_then(|sign| sign.last);
        self.come.insert(vip, Come { asked: asked.at, silent });
    }

    /// Measures the move of a VIP when it is announced for the first time.
    pub(super) fn on_announced(&mut self, vip: Ipv4Addr, now: Monotonic) {
        if let Some(come) = self.come.remove(&vip) {
            let gap = come.silent.map(|silent| now.saturating_since(silent));
            self.metrics.announced(now.saturating_since(come.asked), gap);
        }
    }

    /// Forgets a VIP that no longer concerns this node.
    pub(super) fn on_gone(&mut self, vip: Ipv4Addr) {
        self.asked.remove(&vip);
        self.come.remove(&vip);
    }
}
