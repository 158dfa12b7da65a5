//! Reads of the claims that peers contest on the wire, paced so that forged frames
//! cannot flood the API server.
//!
//! While a read waits, its VIP stays as it is. The VIP that has waited longest comes first.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    time::Duration,
};

use crate::{base::time::Monotonic, ownership::times::RETRY};

#[cfg(test)]
mod tests;

/// Least time between two disputed reads, over all VIPs.
const PACE: Duration = Duration::from_millis(200);
/// Longest time between two disputed reads of one VIP. A VIP that
/// no frame contests for as long is forgotten.
const LONGEST: Duration = Duration::from_mins(1);

/// A VIP that a peer contests.
#[derive(Debug)]
struct Dispute {
    /// Time at which its claim is to be read.
    due: Option<Monotonic>,
    /// True if its claim is being read.
    is_read: bool,
    /// Earliest time of the next read.
    not_before: Monotonic,
    /// The pause after the next read.
    pause: Duration,
}

/// The contested VIPs, and the reads of their claims.
#[derive(Debug)]
pub(crate) struct Disputes {
    renewal: Duration,
    vips: BTreeMap<IpAddr, Dispute>,
    waiting: BTreeSet<(Monotonic, IpAddr)>,
    /// Time of the next read of any claim.
    next: Monotonic,
}

impl Disputes {
    pub(crate) fn new(renewal: Duration, now: Monotonic) -> Self {
        Self { renewal, vips: BTreeMap::new(), waiting: BTreeSet::new(), next: now }
    }

    /// Records a frame that contests a VIP. Schedules a read, unless one waits already.
    pub(crate) fn receive(&mut self, vip: IpAddr, now: Monotonic) {
        let fresh = || Dispute { due: None, is_read: false, not_before: now, pause: self.renewal };
        let dispute = self.vips.entry(vip).or_insert_with(fresh);
        if dispute.due.is_some() {
            return;
        }
        if !dispute.is_read && dispute.not_before + LONGEST < now {
            *dispute = fresh();
        }
        let due = dispute.not_before.max(now);
        dispute.due = Some(due);
        self.waiting.insert((due, vip));
    }

    /// Returns a VIP whose claim is to be read now, if the pace allows a read.
    pub(crate) fn take(&mut self, now: Monotonic) -> Option<IpAddr> {
        let (due, vip) = self.waiting.first().copied().filter(|(due, _)| *due.max(&self.next) <= now)?;
        self.waiting.remove(&(due, vip));
        self.next = now + PACE;
        if let Some(dispute) = self.vips.get_mut(&vip) {
            dispute.due = None;
            dispute.not_before = now + dispute.pause;
        }
        Some(vip)
    }

    /// Records that the claim is being read because its VIP is contested.
    pub(crate) fn begin(&mut self, vip: IpAddr) {
        if let Some(dispute) = self.vips.get_mut(&vip) {
            dispute.is_read = true;
        }
    }

    /// Records that the claim still names this node: the frames were forged, or their sender is
    /// wrong. The next pause is longer.
    pub(crate) fn confirm(&mut self, vip: IpAddr) {
        if let Some(dispute) = self.vips.get_mut(&vip).filter(|dispute| dispute.is_read) {
            dispute.is_read = false;
            dispute.pause = (dispute.pause * 2).min(LONGEST.max(self.renewal));
        }
    }

    /// Records a failed read. Returns true if it was a disputed read. It is repeated.
    pub(crate) fn fail(&mut self, vip: IpAddr, now: Monotonic) -> bool {
        let Some(dispute) = self.vips.get_mut(&vip).filter(|dispute| dispute.is_read) else { return false };
        dispute.is_read = false;
        if dispute.due.is_none() {
            let due = dispute.not_before.max(now + RETRY);
            dispute.due = Some(due);
            self.waiting.insert((due, vip));
        }
        true
    }

    /// Forgets a VIP: its claim has changed, or must be read for another reason.
    pub(crate) fn forget(&mut self, vip: IpAddr) {
        if let Some(due) = self.vips.remove(&vip).and_then(|dispute| dispute.due) {
            self.waiting.remove(&(due, vip));
        }
    }

    /// Returns the time of the next read.
    pub(crate) fn next(&self) -> Option<Monotonic> {
        self.waiting.first().map(|(due, _)| *due.max(&self.next))
    }
}
