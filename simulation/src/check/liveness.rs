//! L1 and L2: that somebody answers.

use std::time::Duration;

use vipward::core::cluster::{ClaimState, NodeName};

use crate::{
    names,
    time::At,
    world::{PROBING, World},
};

/// The wait of each rank, and of a retry, and what a few latencies come to (docs/SIMULATION.md has the sum).
const RANK: Duration = Duration::from_millis(500);
const RETRY: Duration = Duration::from_millis(250);
const LATENCIES: Duration = Duration::from_secs(1);

impl World {
    fn is_bright(&self, vip: usize) -> bool {
        let segment = self.segment_of(vip);
        self.nodes.iter().any(|node| {
            node.answer(vip, segment, self.now).is_some() && !node.links[segment].no_carrier.any()
        })
    }

    /// Since when some node could take the VIP.
    fn takable_since(&self, vip: usize) -> Option<At> {
        let segment = self.segment_of(vip);
        let able = self.nodes.iter().filter(|node| self.may_hold(node.index, vip));
        able.filter_map(|node| Some(node.fit_since?.max(node.links[segment].since))).min()
    }

    /// How long a Lease must be unchanged for its node to be dead: of whom the claim names.
    fn patience(&self, vip: usize) -> Duration {
        let timing = self.plan.timing;
        // Of a Lease that is missing nobody can know for how long it was good.
        let missing = Duration::from_millis(timing.restart_lease_ms.into());
        let of = |node: &NodeName| {
            let last = self.api.renewed_for.get(node).copied();
            Some(last.filter(|_| self.api.leases.contains_key(node)).unwrap_or(missing))
        };
        let named = match self.api.claims.get(&names::vip(vip)).map(|claim| &claim.state) {
            Some(ClaimState::Held(holder)) => of(&holder.node),
            Some(ClaimState::Offered { to, from }) => of(&to.node).max(of(&from.0)),
            // It may have been anybody's.
            Some(ClaimState::Blank) | None => self.api.renewed_for.values().copied().max(),
            Some(ClaimState::Released) => None,
        };
        let lease = Duration::from_millis(timing.lease_ms.into());
        let patience = named.unwrap_or(lease).max(lease) + Duration::from_millis(timing.margin_ms.into());
        patience * 102 / 100
    }

    /// Lease + margin + one retry.
    pub(super) fn longest_dark(&self, vip: usize) -> Duration {
        let ranks = u32::try_from(self.nodes.len()).expect("invariant: runs are small") - 1;
        self.patience(vip) + RANK * ranks * 2 + PROBING * 2 + self.request_timeout() + RETRY + LATENCIES
    }

    /// L1: a VIP that somebody can take is not left without an answer.
    pub(super) fn check_dark(&mut self, vip: usize) {
        let now = self.now;
        if !self.is_wanted(vip) || self.is_bright(vip) {
            if let Some((since, _)) = self.checks.dark[vip].take()
                && now.since(since.max(self.checks.disturbed)) > RANK
            {
                self.facts.brightened += 1;
            }
            return;
        }
        // Whoever the claim names meanwhile, the one that it named first had to be waited for.
        let (since, longest) = self.checks.dark[vip].unwrap_or((now, Duration::ZERO));
        let longest = longest.max(self.longest_dark(vip));
        self.checks.dark[vip] = Some((since, longest));
        let Some(takable) = self.takable_since(vip) else { return };
        let since = since.max(takable).max(self.checks.disturbed);
        if now.since(since) > longest {
            let what =
                format!("nobody answers for {}, and could since {since}: {longest:?}", names::vip(vip));
            self.violate("L1", what);
        }
    }

    /// L2: a guarded VIP is answered at every instant, with a MAC that forwards.
    pub(super) fn check_planned(&mut self, vip: usize) {
        if !self.checks.guarded[vip] {
            return;
        }
        let segment = self.segment_of(vip);
        if !self.is_wanted(vip) || !self.has_reason_to_be_bright(vip) {
            self.checks.guarded[vip] = false;
            return;
        }
        if !self.is_bright(vip) {
            self.violate("L2", format!("nobody answers for {}", names::vip(vip)));
            return;
        }
        for node in 0..self.nodes.len() {
            let Some(mac) = self.nodes[node].answer(vip, segment, self.now) else { continue };
            let owner = &self.nodes[names::mac_node(mac)];
            if !owner.kernel_runs() || owner.links[segment].mac != mac {
                let what = format!(
                    "{} answers for {} with {mac}, which is nobody's",
                    names::node(node),
                    names::vip(vip)
                );
                self.violate("L2", what);
            }
        }
    }

    /// Whether who has it may keep it, or another can take it.
    fn has_reason_to_be_bright(&self, vip: usize) -> bool {
        let segment = self.segment_of(vip);
        let known = self.patience(vip) + Duration::from_secs(2);
        self.nodes.iter().filter(|node| self.may_hold(node.index, vip)).any(|node| {
            let keeps = !node.leaves && node.answer(vip, segment, self.now) == Some(node.links[segment].mac);
            let takes = node
                .fit_since
                .is_some_and(|since| self.now.since(since.max(node.links[segment].since)) > known);
            keeps || takes
        })
    }

    /// How long nothing unplanned must have befallen a cluster before its VIPs are guarded: until then a node may be
    /// dead without anybody being able to know.
    fn calm(&self) -> Duration {
        let timing = self.plan.timing;
        let longest = self.api.renewed_for.values().copied().max().unwrap_or_default();
        let longest = longest.max(Duration::from_millis(timing.lease_ms.into()));
        (longest + Duration::from_millis(timing.margin_ms.into())) * 102 / 100 + LATENCIES
    }

    /// Guards a VIP from when it is settled and nothing unplanned is in force.
    pub(super) fn guard(&mut self, vip: usize) {
        if self.checks.guarded[vip]
            || self.now.since(self.checks.faults_until.max(self.checks.booted)) <= self.calm()
        {
            return;
        }
        let has_holder = self.is_wanted(vip) && self.unsettled(vip).is_none();
        if has_holder && self.is_bright(vip) && self.has_reason_to_be_bright(vip) {
            self.checks.guarded[vip] = true;
            self.facts.guarded += 1;
        }
    }
}
