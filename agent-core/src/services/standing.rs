//! Standing of VIPs in the cluster: held before, forced by an admin, or needed by something else too.

use std::{net::IpAddr, sync::Arc};

use super::{Problem, Services, sharing};
use crate::cluster::ServiceName;

/// Standing of an address in the cluster.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Standing {
    /// True if it is a VIP that has had a holder.
    pub(super) is_held: bool,
    /// True if an admin has it taken by force.
    pub(super) is_forced: bool,
    /// The Services that have it, in the order of their rights.
    pub(super) services: Arc<[ServiceName]>,
}

impl Services {
    /// Returns the conflict about a VIP that is kept although something else needs its address.
    pub fn conflict_about(&self, vip: IpAddr) -> Option<String> {
        let problems = &self.vips.get(&vip)?.problems;
        problems.iter().find_map(|(_, problem)| {
            let Problem::Disputed { why, .. } = problem else { return None };
            Some(why.conflict())
        })
    }

    pub(super) fn put_claim(&mut self, vip: IpAddr, standing: Standing) {
        if let Some(known) = self.vips.get_mut(&vip) {
            known.was_held |= standing.is_held;
        }
        let is_none = standing == Standing::default();
        let before = self.claims.get(&vip);
        if before.unwrap_or(&Standing::default()) != &standing {
            self.touch_wanted(&[vip.into()].into());
        }
        if is_none {
            self.claims.remove(&vip);
        } else {
            self.claims.insert(vip, standing);
        }
    }

    /// Returns true if a VIP that Services want has had a holder: its address belongs to the cluster.
    pub fn was_held(&self, vip: IpAddr) -> bool {
        self.vips.get(&vip).is_some_and(|known| known.was_held)
    }

    pub(super) fn put_held(&mut self, vip: IpAddr, here: bool) {
        if here || self.vips.contains_key(&vip) && self.held.contains_key(&vip) {
            self.held.insert(vip, here);
        } else {
            self.held.remove(&vip);
        }
        if let Some(known) = self.vips.get_mut(&vip) {
            if here && !std::mem::replace(&mut known.was_held, true) {
                self.touched.vips.insert(vip);
            }
            self.touched.statuses.extend(known.services.iter().map(|(service, _)| service.clone()));
        }
    }

    /// Returns the standing of an address, and remembers it while Services want the address.
    pub(super) fn note_standing(&mut self, vip: IpAddr) -> Standing {
        let mut standing = self.claims.get(&vip).cloned().unwrap_or_default();
        standing.is_held |= self.held.get(&vip) == Some(&true);
        let Some(known) = self.vips.get_mut(&vip) else { return standing };
        let may_pass_on = !sharing::has_heir(&known.former, &known.services);
        if !standing.services.is_empty() {
            // A record that names no Service there is was edited by hand. Its holder repairs it.
            if may_pass_on || sharing::has_heir(&standing.services, &known.services) {
                known.former = Arc::clone(&standing.services);
            }
        } else if may_pass_on && !known.former.is_empty() {
            // The VIP went with its last owner. Whoever wants the address now has no right from that.
            known.former = Arc::default();
            known.was_held = false;
        }
        known.was_held |= standing.is_held;
        standing.is_held = known.was_held;
        standing
    }
}
