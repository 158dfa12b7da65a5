//! A round of actions, with those that have failed so far.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use crate::host::{
    placement::{Desired, Placement},
    plan::{Action, Observed},
    stale::{Failure, Left},
};

#[derive(Debug)]
pub struct Round {
    pub(super) actions: Vec<Action>,
    pub(super) observed: Observed,
    pub(super) placement: Placement,
    pub(super) placed: BTreeMap<IpAddr, u32>,
    pub(super) yields: u64,
    /// True if the source knew the VIPs.
    pub(super) is_known: bool,
    /// The VIPs whose entries are not as they should be.
    pub(super) unchanged: BTreeMap<IpAddr, Failure>,
    /// The number of failed entries that were to stay silent.
    pub(super) left_silent: usize,
    /// The texts of problems.
    pub(super) problems: BTreeSet<String>,
}

impl Round {
    /// Returns the actions, in their order.
    pub fn actions(&self) -> &[Action] {
        &self.actions
    }

    /// Returns the kernel's state before the round.
    pub fn observed(&self) -> &Observed {
        &self.observed
    }

    pub fn desired(&self) -> &Desired {
        &self.placement.desired
    }

    pub fn note(&mut self, problems: impl IntoIterator<Item = String>) {
        self.problems.extend(problems);
    }

    /// Records that an entry could not be changed.
    pub fn failed(&mut self, vip: IpAddr, failure: Failure) {
        failed(&mut self.unchanged, vip, failure);
    }
}

#[derive(Debug)]
pub struct SomeRound {
    pub(super) actions: Vec<Action>,
    pub(super) observed: Observed,
    pub(super) desired: Desired,
    pub(super) left_out: Vec<IpAddr>,
    pub(super) unchanged: BTreeMap<IpAddr, Failure>,
}

impl SomeRound {
    /// Returns the actions, in their order: they change entries alone.
    pub fn actions(&self) -> &[Action] {
        &self.actions
    }

    /// Returns the kernel's state before the round.
    pub fn observed(&self) -> &Observed {
        &self.observed
    }

    /// Records that an entry could not be changed.
    pub fn failed(&mut self, vip: IpAddr, failure: Failure) {
        failed(&mut self.unchanged, vip, failure);
    }

    /// Returns the VIPs with actions, and those whose entries are not as they should be.
    pub(super) fn results(self) -> (BTreeSet<IpAddr>, BTreeMap<IpAddr, Failure>) {
        let concerned = concerned(&self.actions);
        let mut unchanged = self.unchanged;
        // An entry without a free slot is not even planned.
        let found: BTreeSet<IpAddr> = self.observed.entries.keys().map(|key| key.addr).collect();
        let desired = self.desired.entries.keys().map(|key| key.addr);
        let without = desired.filter(|vip| !found.contains(vip) && !concerned.contains(vip));
        let no_room = || no_room(self.observed.max_slots);
        unchanged.extend(without.chain(self.left_out).map(|vip| (vip, no_room())));
        (concerned, unchanged)
    }
}

/// Records a failure, unless a worse one of the VIP is known.
pub(super) fn failed(unchanged: &mut BTreeMap<IpAddr, Failure>, vip: IpAddr, failure: Failure) {
    if unchanged.get(&vip).is_none_or(|known| known.left < failure.left) {
        unchanged.insert(vip, failure);
    }
}

fn no_room(max: u32) -> Failure {
    let error = format!("the map holds {max} entries; start the agent with a larger --max-vips");
    Failure { left: Left::Silent, interface: None, error }
}

/// Returns the VIPs whose entries the actions change.
pub(super) fn concerned(actions: &[Action]) -> BTreeSet<IpAddr> {
    actions.iter().filter_map(Action::key).map(|key| key.addr).collect()
}
