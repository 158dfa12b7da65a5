//! Checks the promise `owner`: no Service of a stranger has a VIP, in a claim or in its status.

use vipward_core::records::ServiceName;

use crate::{machine::Process, schedule::names, world::World};

impl World {
    /// Records the VIPs without a claim when an agent that knows none yet lists the claims. It can only
    /// go by the age of Services.
    pub(crate) fn record_unclaimed(&mut self, node: usize) {
        if self.nodes[node].process.as_ref().is_some_and(Process::is_synced) {
            return;
        }
        for vip in 0..self.plan.vips.len() {
            self.record.people.unrecorded[vip] |= !self.api.claims.contains_key(&names::vip(vip));
        }
    }

    /// Checks that a Service that has a VIP, or names it in its status, is no stranger's.
    pub(crate) fn note_strangers(&mut self, vip: usize, service: &ServiceName, what: &str) {
        if names::is_strangers(service) && !self.record.people.unrecorded[vip] {
            self.violate("owner", format!("{what} {service}, which has no right to {}", names::vip(vip)));
        }
    }
}
