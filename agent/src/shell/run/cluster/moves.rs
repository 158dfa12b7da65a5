//! VIPs that come to this node: why, how long that takes, and since when nobody may have answered.
//!
//! Pure, with the time passed in.

use std::{collections::BTreeMap, net::Ipv4Addr};

use crate::{
    core::{
        cluster::{ClaimState, Epoch, LeaseRecord, NodeName, Version},
        ownership::ClaimWrite,
        time::Monotonic,
    },
    shell::metrics::{MoveCause, MoveMetrics},
};

#[cfg(test)]
mod tests;

/// Asked of the API server.
#[derive(Clone, Copy, Debug)]
struct Asked {
    at: Monotonic,
    epoch: Epoch,
    /// Nobody answered for it then.
    taken: bool,
}

/// What is known of another node's life.
#[derive(Debug)]
struct Sign {
    version: Version,
    /// When its Lease was last seen to change while it lived; that it was there is no sign of life.
    last: Option<Monotonic>,
    alive: bool,
}

/// A VIP that has come, and is not announced yet.
#[derive(Clone, Copy, Debug)]
struct Come {
    asked: Monotonic,
    /// When its holder before was last seen to live, if that is dead.
    silent: Option<Monotonic>,
}

/// The moves under way.
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

    /// A Lease was seen: who renews it lives, who is deposed does not.
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

    pub(super) fn on_lease_gone(&mut self, node: &NodeName) {
        self.signs.remove(node);
    }

    /// A claim is about to be written.
    pub(super) fn on_write(&mut self, write: &ClaimWrite, now: Monotonic) {
        if matches!(write.state, ClaimState::Held(_)) {
            let asked = Asked { at: now, epoch: write.epoch, taken: write.can_wait };
            self.asked.insert(write.vip, asked);
        } else {
            self.asked.remove(&write.vip);
        }
    }

    /// This node has become a VIP's holder; `from` is the node that has answered for it until now.
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
        // One that lives again has been silent at a time that is not known any more.
        let silent = sign.filter(|sign| !sign.alive).and_then(|sign| sign.last);
        self.come.insert(vip, Come { asked: asked.at, silent });
    }

    /// Whether its first announcement is waited for.
    pub(super) fn on_announced(&mut self, vip: Ipv4Addr, now: Monotonic) {
        if let Some(come) = self.come.remove(&vip) {
            let gap = come.silent.map(|silent| now.saturating_since(silent));
            self.metrics.announced(now.saturating_since(come.asked), gap);
        }
    }

    /// It is nothing to this node any more.
    pub(super) fn on_gone(&mut self, vip: Ipv4Addr) {
        self.asked.remove(&vip);
        self.come.remove(&vip);
    }
}
