//! Standing of VIPs in the cluster: held before, forced by an admin, or needed by something else too.

use std::net::Ipv4Addr;

use super::{Problem, Services};

/// Standing of an address in the cluster.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Standing {
    /// True if it is a VIP that has had a holder.
    pub(super) is_held: bool,
    /// True if an admin has it taken by force.
    pub(super) is_forced: bool,
}

impl Services {
    /// Returns the conflict about a VIP that is kept although something else needs its address.
    pub fn conflict_about(&self, vip: Ipv4Addr) -> Option<String> {
        let problems = &self.vips.get(&vip)?.problems;
        problems.iter().find_map(|(_, problem)| {
            let Problem::Disputed { why, .. } = problem else { return None };
            Some(why.conflict())
        })
    }

    pub(super) fn put_claim(&mut self, vip: Ipv4Addr, standing: Standing) {
        if let Some(known) = self.vips.get_mut(&vip) {
            known.was_held |= standing.is_held;
        }
        let before = if standing == Standing::default() {
            self.claims.remove(&vip)
        } else {
            self.claims.insert(vip, standing)
        };
        if before.unwrap_or_default() != standing {
            self.touch_wanted([vip].into());
        }
    }

    /// Returns true if a VIP that Services want has had a holder: its address belongs to the cluster.
    pub fn was_held(&self, vip: Ipv4Addr) -> bool {
        self.vips.get(&vip).is_some_and(|known| known.was_held)
    }

    pub(super) fn put_held(&mut self, vip: Ipv4Addr, here: bool) {
        if here || self.vips.contains_key(&vip) && self.held.contains_key(&vip) {
            self.held.insert(vip, here);
        } else {
            self.held.remove(&vip);
        }
        if let Some(known) = self.vips.get_mut(&vip) {
            if here && !std::mem::replace(&mut known.was_held, true) && known.refusal.is_some() {
                self.touched.vips.insert(vip);
            }
            self.touched.statuses.extend(known.services.iter().map(|(service, _)| service.clone()));
        }
    }

    /// Returns the standing of an address, and remembers it while Services want the address.
    pub(super) fn note_standing(&mut self, vip: Ipv4Addr) -> Standing {
        let Standing { is_held, is_forced } = self.claims.get(&vip).copied().unwrap_or_default();
        let is_held = is_held || self.held.get(&vip) == Some(&true);
        let Some(known) = self.vips.get_mut(&vip) else { return Standing { is_held, is_forced } };
        known.was_held |= is_held;
        Standing { is_held: known.was_held, is_forced }
    }
}
