//! Moves of VIPs to this node: the cause, the time until the announcement, and the longest possible
//! gap since the last holder's answers.

use std::{collections::BTreeMap, net::IpAddr, time::Duration};

use crate::{
    base::time::Monotonic,
    ownership::ClaimWrite,
    records::{ClaimState, Epoch, LeaseRecord, NodeName, Version},
};

#[cfg(test)]
mod tests;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cause {
    /// No node held it before.
    New,
    /// Another node held it, and that node's session was ended.
    Failover,
    /// Another node held it and handed it over.
    Handover,
    /// No node held it, or this node did in an earlier session.
    Unheld,
    /// This node held it already: an offer was not taken, or a claim was edited.
    TakenBack,
}

impl Cause {
    pub const ALL: [Self; 5] = [Self::New, Self::Failover, Self::Handover, Self::Unheld, Self::TakenBack];

    /// Returns the name that the metrics use.
    pub const fn name(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Failover => "failover",
            Self::Handover => "handover",
            Self::Unheld => "unheld",
            Self::TakenBack => "taken_back",
        }
    }
}

/// The durations of a move, which end at the first announcement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Took {
    /// The time since the claim was written.
    pub since_write: Duration,
    /// The time since the last sign of life of the former holder, if that node is dead.
    pub gap: Option<Duration>,
}

/// A claim that is being written.
#[derive(Clone, Copy, Debug)]
struct PendingClaim {
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

#[derive(Debug, Default)]
pub struct Moves {
    asked: BTreeMap<IpAddr, PendingClaim>,
    come: BTreeMap<IpAddr, Come>,
    signs: BTreeMap<NodeName, Sign>,
}

impl Moves {
    /// Handles a Lease that was seen. A node lives while it renews its Lease and is not expired.
    pub fn on_lease(&mut self, record: &LeaseRecord, now: Monotonic) {
        let alive = record.live_session().is_some();
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

    pub fn on_lease_gone(&mut self, node: &NodeName) {
        self.signs.remove(node);
    }

    /// Handles a claim that is about to be written.
    pub fn on_write(&mut self, write: &ClaimWrite, now: Monotonic) {
        if matches!(write.state, ClaimState::Held(_)) {
            let asked = PendingClaim { at: now, epoch: write.epoch, taken: write.can_wait };
            self.asked.insert(write.vip, asked);
        } else {
            self.asked.remove(&write.vip);
        }
    }

    /// Handles a VIP that this node holds now, and returns the cause of the move.
    /// `from` is the node that answered for the VIP before.
    pub fn on_holds(&mut self, vip: IpAddr, from: Option<&NodeName>) -> Option<Cause> {
        let asked = self.asked.remove(&vip)?;
        let cause = match (asked.taken, from) {
            (true, _) if asked.epoch == Epoch(0).next() => Cause::New,
            (true, Some(_)) => Cause::Failover,
            (true, None) => Cause::Unheld,
            (false, Some(_)) => Cause::Handover,
            (false, None) => Cause::TakenBack,
        };
        let sign = from.filter(|_| cause == Cause::Failover).and_then(|from| self.signs.get(from));
        // If the former holder lives again, the start of its silence is no longer known.
        let silent = sign.filter(|sign| !sign.alive).and_then(|sign| sign.last);
        self.come.insert(vip, Come { asked: asked.at, silent });
        Some(cause)
    }

    /// Handles an announcement of a VIP. Returns the durations of the move at the first one.
    pub fn on_announced(&mut self, vip: IpAddr, now: Monotonic) -> Option<Took> {
        let come = self.come.remove(&vip)?;
        Some(Took {
            since_write: now.saturating_since(come.asked),
            gap: come.silent.map(|silent| now.saturating_since(silent)),
        })
    }

    /// Forgets a VIP that no longer concerns this node.
    pub fn on_gone(&mut self, vip: IpAddr) {
        self.asked.remove(&vip);
        self.come.remove(&vip);
    }
}
