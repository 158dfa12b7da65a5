//! The VIPs whose answers are to be examined, and what was found.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    time::Duration,
};

use vipward_common::{FenceState, MacAddr};
use vipward_core::{base::time::Monotonic, host::net::InterfaceFault, reports::unanswered::Silences};

/// The VIPs to examine, and the results.
pub(super) struct Silent {
    pub(super) silences: Silences,
    pub(super) some: BTreeSet<IpAddr>,
    pub(super) all: bool,
    /// The earliest time of the next examination.
    pub(super) next: Monotonic,
    /// State of the interfaces and the fence at the last examination.
    pub(super) seen: Option<Surroundings>,
}

/// State that the answers for all VIPs depend on.
#[derive(PartialEq, Eq)]
pub(super) struct Surroundings {
    pub(super) fence: FenceState,
    /// True if the program has ever yielded a VIP.
    pub(super) any_yielded: bool,
    /// MAC of each attached interface, and the reason why it cannot answer with that MAC.
    pub(super) interfaces: BTreeMap<u32, (MacAddr, Option<InterfaceFault>)>,
}

impl Silent {
    pub(super) fn start(grace: Duration, now: Monotonic) -> Self {
        let silences = Silences::start(grace);
        Self { silences, some: BTreeSet::new(), all: true, next: now, seen: None }
    }

    /// Marks some VIPs to be examined.
    pub(super) fn look_at(&mut self, vips: impl IntoIterator<Item = IpAddr>) {
        self.some.extend(vips);
    }

    /// Marks all VIPs to be examined.
    pub(super) fn look_at_all(&mut self) {
        self.all = true;
    }

    /// Returns the time of the next examination or report, at
    /// least `PACE` after the last examination.
    pub(super) fn next_deadline(&self) -> Option<Monotonic> {
        let look = (self.all || !self.some.is_empty()).then_some(self.next);
        let due = self.silences.next_deadline();
        look.into_iter().chain(due).min().map(|deadline| deadline.max(self.next))
    }
}
