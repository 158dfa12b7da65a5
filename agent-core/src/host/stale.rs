//! VIPs whose map entries could not be written, with the effect of each failure.

use std::{collections::BTreeMap, net::IpAddr};

use vipward_common::{Role, VipEntry};

#[cfg(test)]
mod tests;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Left {
    /// This node does not answer for the VIP on any interface.
    Silent,
    /// This node may answer: the entry says so, or could not be read.
    Answering,
}

impl Left {
    /// Returns the effect of a failed write, by the entry that was read after it. `None` means that it
    /// could not be read.
    pub fn of(entry: Option<Option<&VipEntry>>) -> Self {
        match entry {
            Some(None | Some(VipEntry { role: Role::Foreign, .. })) => Self::Silent,
            Some(Some(VipEntry { role: Role::Held | Role::Handover, .. })) | None => Self::Answering,
        }
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    pub left: Left,
    /// The interface; none if it is unknown.
    pub interface: Option<String>,
    /// The error with its causes.
    pub error: String,
}

#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Changes {
    pub begun: Vec<IpAddr>,
    pub over: Vec<IpAddr>,
}

/// VIPs whose last map write failed, each with a flag: true while the failure is outstanding.
///
/// A failure is settled without a write if the map already has the entry that is
/// wanted by now. The VIP stays in the list until a write succeeds, so that a
/// wish that goes back and forth is reported once.
#[derive(Default, Debug)]
pub struct Stale(BTreeMap<IpAddr, (Failure, bool)>);

impl Stale {
    /// Returns the effect of an outstanding failure on a VIP's entry.
    pub fn left(&self, vip: IpAddr) -> Option<Left> {
        self.failure(vip).map(|failure| failure.left)
    }

    pub fn failure(&self, vip: IpAddr) -> Option<&Failure> {
        self.0.get(&vip).filter(|(_, outstanding)| *outstanding).map(|(failure, _)| failure)
    }

    /// Returns the VIPs for which this node may still answer, wanted or not.
    pub fn answering(&self) -> impl Iterator<Item = IpAddr> {
        self.0.keys().copied().filter(|vip| self.left(*vip) == Some(Left::Answering))
    }

    /// Returns true if this node may answer by the stale entry of any VIP.
    pub fn may_answer(&self) -> bool {
        self.answering().next().is_some()
    }

    /// Returns all VIPs with their failures, settled ones included.
    pub fn all(&self) -> impl Iterator<Item = (IpAddr, &Failure)> {
        self.0.iter().map(|(vip, (failure, _))| (*vip, failure))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Records the outcome of a round of writes. `is_tried` is true for the VIPs of the round. A
    /// tried VIP that is not in `failed` is settled. `is_changed` is true if its entry was written,
    /// or is no longer wanted.
    pub fn on_tried(
        &mut self,
        is_tried: impl Fn(&IpAddr) -> bool,
        is_changed: impl Fn(&IpAddr) -> bool,
        failed: BTreeMap<IpAddr, Failure>,
    ) -> Changes {
        let mut changes = Changes::default();
        self.0.retain(|vip, (_, outstanding)| {
            if !is_tried(vip) || failed.contains_key(vip) {
                return true;
            }
            *outstanding = false;
            let is_over = is_changed(vip);
            changes.over.extend(is_over.then_some(*vip));
            !is_over
        });
        for (vip, failure) in failed {
            if self.0.insert(vip, (failure, true)).is_none() {
                changes.begun.push(vip);
            }
        }
        changes
    }
}
