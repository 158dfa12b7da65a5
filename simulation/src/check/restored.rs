//! Checks R1 and R2: the effects of a restored backup on VIPs.

use std::{collections::BTreeSet, time::Duration};

use vipward_core::records::ClaimRecord;

use crate::{
    api::Saved,
    machine::{At, Node},
    schedule::names,
    world::World,
};

/// The time after which each VIP must have one answer again.
const SETTLES: Duration = Duration::from_secs(10);

impl World {
    /// Returns whether the store went back so recently that agreements may be lost.
    pub(super) fn is_restoring(&self) -> bool {
        self.record.backup.restored.is_some_and(|restored| self.now.since(restored) <= SETTLES)
    }

    /// Returns whether a node cannot know that the store went back, because it has had no agent
    /// since.
    pub(super) fn cannot_know(&self, node: usize) -> bool {
        let it = &self.nodes[node];
        it.process.is_none()
            && self.record.backup.last_restored.is_some_and(|restored| it.times.alive <= restored)
    }

    /// Returns whether nothing else has happened since the restore.
    fn is_only_restored(&self, restored: At) -> bool {
        self.record.trouble.disturbed <= restored && self.under_way.open == 0
    }

    /// Checks R2: a VIP that one node alone answered, and could continue to, is answered by one
    /// node.
    pub(super) fn check_goes_on(&mut self, vip: usize) {
        let Some(restored) = self.record.backup.restored else { return };
        let Some(node) = self.record.backup.answered[vip] else { return };
        if !self.is_only_restored(restored) || !self.is_restoring() || !self.is_wanted(vip) {
            return;
        }
        let segment = self.segment_of(vip);
        let answers = self.nodes.iter().filter_map(|node| node.answer(vip, segment, self.now));
        let nodes: BTreeSet<usize> = answers.map(names::mac_node).collect();
        if nodes.len() != 1 {
            let what = format!(
                "{} is answered with the MACs of nodes {nodes:?}, and was with the MAC of {} when the store went back",
                names::vip(vip),
                names::node(node)
            );
            self.violate("R2", what);
        }
    }

    /// Checks R1: ten seconds later, each wanted VIP that a node can have has one answer.
    pub(super) fn check_restored(&mut self) {
        let Some(restored) = self.record.backup.restored.filter(|_| !self.is_restoring()) else { return };
        self.record.backup.restored = None;
        if !self.is_only_restored(restored) {
            return;
        }
        for vip in 0..self.plan.vips.len() {
            let segment = self.segment_of(vip);
            let is_fit = |node: usize| self.nodes[node].times.fit.is_some_and(|since| since <= restored);
            let is_takable = (0..self.nodes.len()).any(|node| is_fit(node) && self.may_hold(node, vip));
            if !is_takable || !self.is_wanted(vip) {
                continue;
            }
            let mut macs: Vec<_> =
                self.nodes.iter().filter_map(|node| node.answer(vip, segment, self.now)).collect();
            macs.sort_unstable();
            macs.dedup();
            if macs.len() != 1 {
                let what = format!("{} is answered with {macs:?} after the store went back", names::vip(vip));
                self.violate("R1", what);
                return;
            }
        }
    }

    /// Returns whether a node may answer until it has renewed: requests succeed again, but not at
    /// once.
    fn can_wait(&self, node: &Node) -> bool {
        let until = if self.plan.hold { node.program.grace_until() } else { node.program.deadline() };
        let patience = self.request_timeout() + Duration::from_secs(1);
        node.program_now(self.now) + patience < until
    }

    /// Records which node answers for each VIP when the store goes back to `saved`, if nothing else
    /// happens. If an epoch was edited since, no node can know which claim is the later one.
    pub(crate) fn record_answering_nodes(&mut self, saved: &Saved) {
        // Only the restore itself has happened since.
        if self.record.backup.settled.is_none_or(|before| before + 1 != self.record.trouble.disturbances) {
            return;
        }
        for vip in 0..self.plan.vips.len() {
            let segment = self.segment_of(vip);
            let mut answering =
                self.nodes.iter().filter(|node| node.answer(vip, segment, self.now).is_some());
            let alone = answering.next().filter(|_| answering.next().is_none());
            let goes_on = alone.filter(|node| {
                let own = node.links[segment].mac;
                node.answer(vip, segment, self.now) == Some(own)
                    && node.is_fit(true)
                    && self.can_wait(node)
                    && self.may_hold(node.index, vip)
            });
            let claim = self.api.claims.get(&names::vip(vip));
            let is_later =
                |claim: &&ClaimRecord| saved.epoch(claim.vip).is_none_or(|epoch| epoch <= claim.epoch);
            let claim = claim.filter(is_later);
            let holder = claim.and_then(|claim| claim.state.holder()).map(|holder| &holder.node);
            self.record.backup.answered[vip] =
                goes_on.filter(|node| holder == Some(&names::node(node.index))).map(|node| node.index);
        }
    }
}
