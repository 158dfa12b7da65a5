//! The claims of VIPs: held before, forced by an admin, or with another use of the address.

use std::{net::IpAddr, sync::Arc};

use super::{
    super::{
        Problem, Refusal, ServiceRecord, StatusOwner,
        addresses::{ClaimSummary, Precedence},
        sharing,
    },
    Index,
};
use crate::{
    host::net::Vital,
    records::{NodeName, Session},
};

impl Index {
    /// Returns the conflict about a VIP that is kept although something else needs its address.
    pub fn conflict_about(&self, vip: IpAddr) -> Option<String> {
        let problems = &self.vips.get(&vip)?.problems;
        problems.iter().find_map(|(_, problem)| {
            let Problem::Disputed { why, .. } = problem else { return None };
            Some(why.conflict())
        })
    }

    pub(super) fn put_claim(&mut self, vip: IpAddr, summary: ClaimSummary) {
        if let Some(known) = self.vips.get_mut(&vip) {
            known.was_held |= summary.was_held;
        }
        let is_none = summary == ClaimSummary::default();
        let before = self.claims.get(&vip);
        if before.unwrap_or(&ClaimSummary::default()) != &summary {
            self.touched.vips.extend(self.vips.contains_key(&vip).then_some(vip));
            self.touched.services.extend(self.leftovers.within(vip..=vip).cloned());
        }
        if is_none {
            self.claims.remove(&vip);
        } else {
            self.claims.insert(vip, summary);
        }
    }

    pub(super) fn put_session(&mut self, node: &NodeName, session: Option<Session>) {
        if self.holders.put(node, session) {
            let names = |summary: &ClaimSummary| summary.sessions.iter().any(|(named, _)| named == node);
            let vips = self.claims.iter().filter(|(_, summary)| names(summary)).map(|(vip, _)| *vip);
            self.touched.vips.extend(vips.filter(|vip| self.vips.contains_key(vip)));
        }
    }

    pub(super) fn put_held(&mut self, vip: IpAddr, here: bool) {
        self.touched.services.extend(self.leftovers.within(vip..=vip).cloned());
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

    /// Returns the claim of an address, and records it while Services want the address.
    pub(super) fn record_claim(&mut self, vip: IpAddr) -> ClaimSummary {
        let mut summary = self.claims.get(&vip).cloned().unwrap_or_default();
        summary.was_held |= self.held.get(&vip) == Some(&true);
        let Some(known) = self.vips.get_mut(&vip) else { return summary };
        // A reserved object stays, so no Service of another namespace would ever inherit it. The owner's
        // namespace keeps the VIP while a Service of it still wants what it had.
        if let Some(heir) = &summary.heir
            && !summary.services.is_empty()
            && !sharing::has_heir(&summary.services, &known.services)
        {
            summary.services = [heir.clone()].into();
        }
        let may_pass_on = !sharing::has_heir(&known.former, &known.services);
        if !summary.services.is_empty() {
            // A record that names no Service there is was edited by hand. Its holder repairs it.
            if may_pass_on || sharing::has_heir(&summary.services, &known.services) {
                known.former = Arc::clone(&summary.services);
            }
        } else if may_pass_on && !known.former.is_empty() {
            // The VIP went with its last owner. Whoever wants the address now has no right from that.
            known.former = Arc::default();
            (known.was_held, known.order.came_first) = (false, false);
            self.holders.left.remove(&vip);
        }
        // The claim decides, which all nodes read, so that they agree.
        known.ports.retain(|_, service| known.former.contains(service));
        known.was_held |= summary.was_held;
        summary.was_held = known.was_held;
        summary
    }

    /// Decides if a VIP or one of `others` came first, and records it.
    pub(super) fn record_precedence(
        &mut self,
        address: IpAddr,
        summary: &ClaimSummary,
        others: &[Refusal],
    ) -> Precedence {
        let is_here = self.held.get(&address) == Some(&true);
        let is_held = is_here || self.holders.live(&summary.sessions);
        let may_claim_it = others.is_empty()
            || summary.is_forced && others.iter().all(Refusal::yields_to_force)
            || !self.holders.begun && self.came_first_before(address, others);
        let is_found = !self.holders.begun && self.found.get(&address) == Some(&true);
        let was_named = !self.holders.begun && self.role.awaits_holders() && self.is_in_a_status(address);
        let Some(vip) = self.vips.get_mut(&address) else { return Precedence::Last };
        if is_held {
            self.holders.left.remove(&address);
            vip.order.came_first |= is_here || may_claim_it;
        } else if is_found {
            // The program has answered for it all the time. This node is about to take it back.
            vip.order.came_first = true;
            self.holders.left.insert(address, None);
        } else if was_named {
            // The claim may be lost, and the holder about to write it again.
            self.holders.left.insert(address, None);
        } else if vip.order.is_held && vip.order.came_first && !self.holders.is_behind {
            self.holders.left.insert(address, None);
        } else {
            vip.order.came_first &= self.holders.left.contains_key(&address);
        }
        vip.order.is_held = is_held;
        match (is_here, vip.order.came_first) {
            (true, _) => Precedence::Here,
            (false, true) => Precedence::First,
            (false, false) => Precedence::Last,
        }
    }

    pub fn is_behind(&self) -> bool {
        self.holders.is_behind
    }

    pub fn vital(&self) -> Vital {
        Vital {
            api_servers: self.reserved.api_servers().collect(),
            next_hops: self.reserved.next_hops().collect(),
        }
    }

    /// Returns true if a VIP that was held when this process began came before what else needs its
    /// address: the process before this one has guarded it, or the controller has written its status.
    /// Otherwise a false Lease would darken it.
    fn came_first_before(&self, address: IpAddr, others: &[Refusal]) -> bool {
        self.found.contains_key(&address)
            || self.role.trusts_statuses() && self.is_in_a_status(address)
            || others.iter().all(Refusal::is_by_lease)
    }

    /// Returns true if Vipward has written the address into the status of a Service that wants it.
    fn is_in_a_status(&self, address: IpAddr) -> bool {
        let has_it = |service| {
            let is_own = |it: &ServiceRecord| it.status_owner() == StatusOwner::Vipward;
            self.record(service).is_some_and(|it| is_own(it) && it.has_in_status(address))
        };
        let mut services = self.vips.get(&address).into_iter().flat_map(|vip| &vip.services);
        services.any(|(service, _)| has_it(service))
    }
}
