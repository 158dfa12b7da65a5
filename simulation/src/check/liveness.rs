//! Checks L1 and L2: wanted VIPs are answered.

use std::time::Duration;

use vipward_core::records::{ClaimState, NodeName};

use crate::{
    machine::At,
    schedule::{Denied, names},
    world::World,
};

/// The summands of the bound of L1 (docs/internals/simulation.md): the wait of each rank, of a retry, and a
/// few latencies.
const RANK: Duration = Duration::from_millis(500);
const RETRY: Duration = Duration::from_millis(250);
const LATENCIES: Duration = Duration::from_secs(1);
/// The longest time that it takes to find an address free: half an interval, and three probes.
const PROBING: Duration = Duration::from_millis(700);
/// The longest time that it takes to find that nobody but a fabric answers: two attempts, 2 s apart, and after
/// each the requests by unicast.
const CONFIRMING: Duration = Duration::from_secs(8);

/// The time after which an agent has asked its proxy again.
const ASKED: Duration = Duration::from_millis(700);
/// The same at rest, and the second question.
const ASKED_AT_REST: Duration = Duration::from_secs(4);

impl World {
    pub(super) fn is_bright(&self, vip: usize) -> bool {
        let segment = self.segment_of(vip);
        self.nodes.iter().any(|node| {
            node.answer(vip, segment, self.now).is_some() && !node.links[segment].no_carrier.any()
        })
    }

    /// Returns since when some node among these could take the VIP.
    pub(super) fn takable_since(&self, vip: usize, among: impl Fn(usize) -> bool) -> Option<At> {
        let segment = self.segment_of(vip);
        let able = self.nodes.iter().filter(|node| among(node.index) && self.may_hold(node.index, vip));
        let since = able.filter_map(|node| {
            let proxied = self.proxied_since(node.index, vip)?;
            Some(node.times.fit?.max(node.links[segment].since).max(proxied + ASKED))
        });
        let since = since.min();
        since.map(|since| since.max(self.record.people.listed[vip]))
    }

    /// Returns whether the claim names a node whose entry could not be written, or which may not write
    /// claims: it keeps the VIP until then.
    pub(super) fn is_stuck(&self, vip: usize) -> bool {
        let address = names::vip(vip);
        let holder = self.api.claims.get(&address).and_then(|claim| claim.state.holder());
        let Some(node) = holder.and_then(|holder| names::node_index(&holder.node)) else { return false };
        let process = self.nodes[node].process.as_ref();
        self.nodes[node].faults.denied[Denied::Claims as usize].any()
            || process.is_some_and(|process| process.agent.stale().left(address).is_some())
    }

    /// Returns how long the Lease of the node that the claim names must stand unchanged before the
    /// node counts as dead.
    fn patience(&self, vip: usize) -> Duration {
        let timing = self.plan.timing;
        let lease = Duration::from_millis(timing.lease_ms.into());
        // The duration of a missing Lease is not known to an agent that has not seen it.
        let missing = Duration::from_millis(timing.restart_lease_ms.into());
        let longest = self.api.renewed_for.values().copied().max();
        let of = |node: &NodeName| {
            // The node of a restored claim never was. Any other may have held the VIP.
            if names::node_index(node).is_none() {
                return longest;
            }
            let last = self.api.renewed_for.get(node).copied();
            let has_node = self.api.nodes.contains_key(node);
            let known = last.filter(|_| self.api.leases.contains_key(node) || !has_node);
            Some(known.unwrap_or(if has_node { missing } else { lease }))
        };
        let named = match self.api.claims.get(&names::vip(vip)).map(|claim| &claim.state) {
            Some(ClaimState::Held(holder)) => of(&holder.node),
            Some(ClaimState::Offered { to, from }) => of(&to.node).max(of(&from.0)),
            // Any node may have held it.
            Some(ClaimState::Blank) | None => longest,
            Some(ClaimState::Released) => None,
        };
        // The backup may have a Lease from a restart of its agent.
        let named = if self.record.backup.last_restored.is_some() { Some(missing) } else { named };
        let patience = named.unwrap_or(lease).max(lease) + Duration::from_millis(timing.margin_ms.into());
        patience * 102 / 100
    }

    /// Returns the bound of L1: lease + margin + one retry.
    pub(super) fn longest_dark(&self, vip: usize) -> Duration {
        let ranks = u32::try_from(self.nodes.len()).expect("invariant: runs are small") - 1;
        let is_cached = self.network.hosts[vip].is_some_and(|host| host.is_cached);
        let confirming = if is_cached { CONFIRMING } else { Duration::ZERO };
        self.patience(vip)
            + RANK * ranks * 2
            + PROBING * 2
            + confirming
            + self.request_timeout()
            + RETRY
            + LATENCIES
    }

    /// Checks that a Local VIP is answered where a proxy delivers, if one could take it that does.
    pub(super) fn check_delivered(&mut self, vip: usize) {
        let segment = self.segment_of(vip);
        let is_right = self.nodes.iter().any(|it| {
            it.answer(vip, segment, self.now).is_some() && self.proxied_since(it.index, vip).is_some()
        });
        // What keeps a VIP dark keeps it where it is.
        if is_right || !self.is_wanted(vip) || self.record.dark[vip].is_some() || self.is_stuck(vip) {
            self.record.undelivered[vip] = None;
            return;
        }
        let since = *self.record.undelivered[vip].get_or_insert(self.now);
        // A node that comes last since it was unheard is no better place.
        let Some(takable) = self.takable_since(vip, |node| !self.rests(node, vip)) else { return };
        let since = since.max(takable).max(self.record.trouble.disturbed);
        if self.under_way.open == 0 && self.now.since(since) > self.longest_dark(vip) + ASKED_AT_REST {
            let what = format!("{} is where no proxy delivers since {since}, and one does", names::vip(vip));
            self.violate("delivery", what);
        }
    }

    /// Checks that a node begins to answer for a VIP only where its proxy delivers, as far as its agent can
    /// know.
    pub(super) fn check_begun(&mut self, vip: usize) {
        for node in 0..self.nodes.len() {
            let it = &self.nodes[node];
            if it.held_since[vip] != Some(self.now) {
                continue;
            }
            let claim = self.api.claims.get(&names::vip(vip));
            if claim.is_some_and(|claim| claim.note.cause.ends_with("did not take it")) {
                continue;
            }
            // One that was cut off may take its own VIP back by what it knew.
            let calm = it.times.fit.map(|fit| fit.max(self.record.trouble.disturbed));
            let has_seen = calm.is_some_and(|calm| self.now.since(calm) > ASKED_AT_REST);
            let is_local = !self.plan.has_controller() && !self.desired.vips[vip].local.is_empty();
            let from = self.now - ASKED_AT_REST;
            let port = names::health_port(vip);
            let is_up = it.proxy.up_since(self.now).is_some();
            if !is_up || has_seen && is_local && !it.proxy.delivered_after(port, from, self.now) {
                let what = format!("{} takes {} before its proxy", names::node(node), names::vip(vip));
                self.violate("delivery", what);
            }
        }
    }

    /// Checks L1: a VIP that some node can take is not dark for too long.
    pub(super) fn check_dark(&mut self, vip: usize) {
        let now = self.now;
        if !self.is_wanted(vip) || self.is_bright(vip) {
            if let Some((since, _)) = self.record.dark[vip].take()
                && now.since(since.max(self.record.trouble.disturbed)) > RANK
            {
                self.record.facts.brightened += 1;
            }
            return;
        }
        // The claim may name another node meanwhile; the first one had to be waited for.
        let (since, longest) = self.record.dark[vip].unwrap_or((now, Duration::ZERO));
        let longest = longest.max(self.longest_dark(vip));
        self.record.dark[vip] = Some((since, longest));
        // The node that a false claim names waits for its real holder, as for an edit by hand.
        if self.is_stuck(vip) || self.record.people.lied[vip].is_some() {
            self.record.dark[vip] = Some((now, longest));
        }
        let Some(takable) = self.takable_since(vip, |_| true) else { return };
        // With wire failover, a node takes nothing on a segment where no node answers it.
        let wire = &self.network.segments[self.segment_of(vip)];
        if self.has_wire() && !wire.is_clean() {
            return;
        }
        let since = since.max(takable).max(self.record.trouble.disturbed);
        if now.since(since) > longest {
            let what = format!(
                "no node answers for {}; one could since {since}, the bound is {longest:?}",
                names::vip(vip)
            );
            self.violate("L1", what);
        }
    }

    /// Checks L2: a guarded VIP is answered at every instant, with a MAC that forwards.
    pub(super) fn check_planned(&mut self, vip: usize) {
        if !self.record.guarded[vip] {
            return;
        }
        let segment = self.segment_of(vip);
        if !self.is_wanted(vip) || !self.has_reason_to_be_bright(vip) {
            self.record.guarded[vip] = false;
            return;
        }
        if !self.is_bright(vip) {
            self.violate("L2", format!("no node answers for {}", names::vip(vip)));
            return;
        }
        for node in 0..self.nodes.len() {
            let Some(mac) = self.nodes[node].answer(vip, segment, self.now) else { continue };
            let owner = &self.nodes[names::mac_node(mac)];
            if !owner.kernel_runs() || owner.links[segment].mac != mac {
                let what = format!(
                    "{} answers for {} with {mac}, which is no running node's",
                    names::node(node),
                    names::vip(vip)
                );
                self.violate("L2", what);
            }
        }
    }

    /// Returns whether the holder may keep the VIP, or another node can take it.
    fn has_reason_to_be_bright(&self, vip: usize) -> bool {
        let segment = self.segment_of(vip);
        let known = self.patience(vip) + Duration::from_secs(2);
        self.nodes.iter().filter(|node| self.may_hold(node.index, vip)).any(|node| {
            let keeps = !node.leaves && node.answer(vip, segment, self.now) == Some(node.links[segment].mac);
            let takes = node
                .times
                .fit
                .is_some_and(|since| self.now.since(since.max(node.links[segment].since)) > known);
            keeps || takes
        })
    }

    /// Returns how long nothing unplanned must have happened before VIPs are guarded. Until then a
    /// node may be dead without any other node being able to know.
    fn calm(&self) -> Duration {
        let timing = self.plan.timing;
        let longest = self.api.renewed_for.values().copied().max().unwrap_or_default();
        let longest = longest.max(Duration::from_millis(timing.lease_ms.into()));
        (longest + Duration::from_millis(timing.margin_ms.into())) * 102 / 100 + LATENCIES
    }

    /// Guards a VIP from when it is settled and nothing unplanned is in force.
    pub(super) fn guard(&mut self, vip: usize) {
        if self.record.guarded[vip]
            || self.now.since(self.record.trouble.faults_until.max(self.record.trouble.booted)) <= self.calm()
        {
            return;
        }
        let has_holder = self.is_wanted(vip) && self.unsettled(vip).is_none();
        if has_holder && self.is_bright(vip) && self.has_reason_to_be_bright(vip) {
            self.record.guarded[vip] = true;
            self.record.facts.guarded += 1;
        }
    }
}
