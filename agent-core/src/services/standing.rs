//! Standing of VIPs in the cluster: held before, forced by an admin, or needed by something else too.

use std::{net::IpAddr, sync::Arc};

use super::{Problem, Services, sharing};
use crate::records::{NodeName, ServiceName, Session};

/// Standing of an address in the cluster.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Standing {
    /// True if it is a VIP that has had a holder.
    pub(super) was_held: bool,
    /// The sessions that its claim names. While one of them lives, its node may hold the VIP.
    pub(super) sessions: Box<[(NodeName, Session)]>,
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
            known.was_held |= standing.was_held;
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

    /// Records the session that a node's Lease carries.
    pub(super) fn put_session(&mut self, node: &NodeName, session: Option<Session>) {
        if self.holders.put(node, session) {
            let names = |standing: &Standing| standing.sessions.iter().any(|(named, _)| named == node);
            let vips = self.claims.iter().filter(|(_, standing)| names(standing)).map(|(vip, _)| *vip);
            self.touched.vips.extend(vips.filter(|vip| self.vips.contains_key(vip)));
        }
    }

    pub(super) fn put_held(&mut self, vip: IpAddr, here: bool) {
        if here || self.vips.contains_key(&vip) && self.held.contains_key(&vip) {
            self.held.insert(vip, here);
        } else {
            self.held.remove(&vip);
        }
        if let Some(known) = self.vips.get_mut(&vip) {
            known.was_held |= here;
            self.touched.vips.insert(vip);
            self.touched.statuses.extend(known.services.iter().map(|(service, _)| service.clone()));
        }
    }

    /// Returns the standing of an address, and remembers it while Services want the address.
    pub(super) fn note_standing(&mut self, vip: IpAddr) -> Standing {
        let mut standing = self.claims.get(&vip).cloned().unwrap_or_default();
        standing.was_held |= self.held.get(&vip) == Some(&true);
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
            (known.was_held, known.order.came_first) = (false, false);
            self.holders.left.remove(&vip);
        }
        known.was_held |= standing.was_held;
        standing.was_held = known.was_held;
        standing
    }
}
