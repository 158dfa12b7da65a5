//! Checks the promise owner: no VIP is a stranger's, nor is its status.

use vipward_core::records::ServiceName;

use crate::{machine::Process, schedule::names, world::World};

impl World {
    /// Notes the VIPs without a claim when an agent that knows none yet lists the claims: it can only
    /// go by the age of Services.
    pub(crate) fn note_unrecorded(&mut self, node: usize) {
        if self.nodes[node].process.as_ref().is_some_and(Process::is_synced) {
            return;
        }
        for vip in 0..self.plan.vips.len() {
            self.record.people.unrecorded[vip] |= !self.api.claims.contains_key(&names::vip(vip));
        }
    }

    /// Notes that a Service of the stranger has a VIP, or its status.
    pub(crate) fn note_strangers(&mut self, vip: usize, service: &ServiceName, what: &str) {
        if names::is_strangers(service) && !self.record.people.unrecorded[vip] {
            self.violate("owner", format!("{what} {service}, which has no right to {}", names::vip(vip)));
        }
    }
}
