//! Checks convergence: one holder for each VIP, and then only heartbeats.

use std::time::Duration;

use vipward_common::{MacAddr, Role};
use vipward_core::{base::time::Monotonic, records::ClaimState};

use crate::{
    machine::Node,
    record::trace,
    schedule::{REFRESH, names},
    world::World,
};

/// The time in which agents may only send heartbeats.
const QUIET: Duration = Duration::from_secs(10);
/// The time that an end, a giver's lingering, and everything else may take.
const ENDS: Duration = Duration::from_secs(30);
const LINGERS: Duration = Duration::from_secs(15);

impl World {
    /// Returns what is not settled about a VIP.
    pub(crate) fn unsettled(&self, vip: usize) -> Option<String> {
        let segment = self.segment_of(vip);
        if self.plan.has_controller() {
            let wrong = self.unsettled_reservation(vip);
            if wrong.is_some() || !self.is_wanted(vip) {
                return wrong.or_else(|| self.unsettled_unwanted(vip));
            }
        }
        let could = |node: usize| self.nodes[node].times.fit.is_some() && self.may_hold(node, vip);
        if !(0..self.nodes.len()).any(could) {
            return None;
        }
        let Some(claim) = self.api.claims.get(&names::vip(vip)) else {
            return Some("it has no claim".to_owned());
        };
        let is_right = match &claim.reservation {
            Some(reservation) => claim.note.services.contains(&reservation.service),
            None => claim.note.services == [names::service(vip)],
        };
        if !is_right {
            return Some(format!("its claim names {:?}", claim.note.services));
        }
        let ClaimState::Held(holder) = &claim.state else {
            return Some(format!("its claim says {:?}", claim.state));
        };
        let lease = self.api.leases.get(&holder.node).and_then(|lease| lease.session);
        if lease != Some(holder.session) {
            return Some(format!("its claim names {} in a session that is over", holder.node));
        }
        let Some(index) = names::node_index(&holder.node).filter(|node| could(*node)) else {
            return Some(format!("its claim names {}, which cannot hold it", holder.node));
        };
        if self.nodes[index].links[segment].mac != holder.mac {
            return Some(format!("its claim names {} at an old MAC", holder.node));
        }
        (0..self.nodes.len()).find_map(|node| self.unsettled_on(node, vip, index, holder.mac))
    }

    /// Returns the holder of a VIP that does not serve all its Services, if another node could.
    fn unserved(&self, vip: usize) -> Option<String> {
        let claim = self.api.claims.get(&names::vip(vip))?;
        let holder = claim.state.holder().and_then(|holder| names::node_index(&holder.node))?;
        let is_better = |node: &usize| {
            let Node { marks, times, .. } = &self.nodes[*node];
            let is_hard = times.fit.is_none() || !self.may_hold(*node, vip);
            let is_soft = marks.cordoned.any() || marks.not_ready.any() || self.rests(*node, vip);
            !is_hard && !is_soft && self.serves_all(*node, vip)
        };
        // An operator's choice stays.
        if self.serves_all(holder, vip) || claim.note.cause == "an operator requested it" {
            return None;
        }
        let better = (0..self.nodes.len()).find(is_better)?;
        let (holder, better) = (names::node(holder), names::node(better));
        Some(format!("{holder} does not serve all its Services, and {better} could"))
    }

    /// Returns whether a node has endpoints of all Services that share a VIP and have any.
    fn serves_all(&self, node: usize, vip: usize) -> bool {
        let services = &self.api.claims[&names::vip(vip)].note.services;
        let local = services.iter().filter_map(|service| self.api.services.get(service)?.local());
        local.filter(|nodes| !nodes.is_empty()).all(|nodes| nodes.contains(&names::node(node)))
    }

    /// Returns what is not settled about an address that no Service has.
    fn unsettled_unwanted(&self, vip: usize) -> Option<String> {
        let segment = self.segment_of(vip);
        let answers = |it: &&Node| it.times.fit.is_some() && it.answer(vip, segment, self.now).is_some();
        let node = self.nodes.iter().find(answers)?;
        Some(format!("{} answers for it, and no Service has it", names::node(node.index)))
    }

    fn unsettled_on(&self, node: usize, vip: usize, holder: usize, mac: MacAddr) -> Option<String> {
        let it = &self.nodes[node];
        let answer = it.answer(vip, self.segment_of(vip), self.now);
        let name = names::node(node);
        if node == holder {
            return (answer != Some(mac)).then(|| format!("{name} holds it and answers with {answer:?}"));
        }
        if let Some(answer) = answer {
            return Some(format!("{name} does not hold it and answers with {answer}"));
        }
        let entry = it.program.entry(names::key(vip, self.segment_of(vip)));
        let is_foreign = entry.is_some_and(|entry| entry.role == Role::Foreign && entry.mac == mac.0);
        (it.times.fit.is_some() && !is_foreign)
            .then(|| format!("{name} does not hold it, and its entry is {entry:?}"))
    }

    fn converges_in(&self) -> Duration {
        let timing = self.plan.timing;
        let ms = |millis: u32| Duration::from_millis(millis.into());
        let longest = ms(timing.lease_ms.max(timing.restart_lease_ms) + timing.margin_ms) * 2;
        let handovers = (LINGERS + ms(timing.lease_ms)) * u32::try_from(self.plan.vips.len()).unwrap_or(1);
        longest + ms(timing.lease_ms) * 4 + ms(timing.hold_for_ms) + ENDS + REFRESH + handovers + QUIET
    }

    /// Checks that the cluster settles after all disturbances, and goes quiet.
    pub(super) fn check_quiet(&mut self) {
        let unsettled = match self.under_way.open {
            0 => {
                let of_vip = |vip| {
                    let what = self.unsettled(vip).or_else(|| self.unserved(vip))?;
                    Some(format!("{}: {what}", names::vip(vip)))
                };
                (0..self.plan.vips.len())
                    .find_map(of_vip)
                    .or_else(|| self.unsettled_maps().or_else(|| self.unsettled_tenants()))
            }
            _ => None,
        };
        if self.under_way.open > 0
            || unsettled.is_some()
            || self.record.rest.from <= self.record.trouble.disturbed
        {
            self.record.rest.from = self.now;
            self.record.rest.renewals.fill(0);
        }
        if self.under_way.open > 0 {
            return;
        }
        if self.now.since(self.record.rest.from) >= QUIET {
            self.check_renewals();
            self.record.rest.done = true;
        } else if self.now.since(self.record.trouble.disturbed) > self.converges_in() {
            let what = match (unsettled, &self.record.rest.last_noise) {
                (Some(what), _) => what,
                (None, Some((node, effect))) => {
                    let what = trace::effect(effect, Monotonic::default());
                    format!("{} goes on: {}", names::node(*node), what.trim())
                }
                (None, None) => "there is no end to the heartbeats".to_owned(),
            };
            self.violate("convergence", what);
        }
    }

    /// Checks that each node writes its Lease at most once per renewal.
    fn check_renewals(&mut self) {
        let wanted = QUIET.as_millis() / u128::from(self.plan.timing.renewal_ms);
        let many = u32::try_from(wanted).unwrap_or(u32::MAX) + 2;
        for node in 0..self.nodes.len() {
            let renewals = self.record.rest.renewals[node];
            if renewals > many {
                let what = format!("{} renewed {renewals} times in {QUIET:?}", names::node(node));
                self.violate("quiet", what);
            }
        }
    }
}
