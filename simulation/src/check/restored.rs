//! Checks R1 and R2: the effects of a restored backup on VIPs.

use std::{collections::BTreeSet, time::Duration};

use crate::{names, time::At, world::World};

/// The time after which each VIP must have one answer again.
const SETTLES: Duration = Duration::from_secs(10);

impl World {
    /// Returns whether the store went back so recently that agreements may be lost.
    pub(super) fn is_restoring(&self) -> bool {
        self.record.restored.is_some_and(|restored| self.now.since(restored) <= SETTLES)
    }

    /// Returns whether a node cannot know that the store went back, because it has had no agent
    /// since.
    pub(super) fn cannot_know(&self, node: usize) -> bool {
        let it = &self.nodes[node];
        it.process.is_none() && self.record.last_restored.is_some_and(|restored| it.last_alive <= restored)
    }

    /// Returns whether nothing else has happened since the restore.
    fn is_only_restored(&self, restored: At) -> bool {
        self.record.disturbed <= restored && self.open == 0
    }

    /// Checks R2: a VIP that one node alone answered, and could continue to, is answered by one
    /// node.
    pub(super) fn check_goes_on(&mut self, vip: usize) {
        let Some(restored) = self.record.restored else { return };
        let Some(node) = self.record.answered[vip] else { return };
        if !self.is_only_restored(restored) || !self.is_restoring() || !self.is_wanted(vip) {
            return;
        }
        let segment = self.segment_of(vip);
        let answers = self.nodes.iter().filter_map(|node| node.answer(vip, segment, self.now));
        let nodes: BTreeSet<usize> = answers.map(names::mac_node).collect();
        if nodes.len() != 1 {
            let what = format!(
                "{} is answered with the MACs of nodes {nodes:?}, and was with that of {} when the store went back",
                names::vip(vip),
                names::node(node)
            );
            self.violate("R2", what);
        }
    }

    /// Checks R1: ten seconds later, each wanted VIP that a node can have has one answer.
    pub(super) fn check_restored(&mut self) {
        let Some(restored) = self.record.restored.filter(|_| !self.is_restoring()) else { return };
        self.record.restored = None;
        if !self.is_only_restored(restored) {
            return;
        }
        for vip in 0..self.plan.vips.len() {
            let segment = self.segment_of(vip);
            let is_fit = |node: usize| self.nodes[node].fit_since.is_some_and(|since| since <= restored);
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
}
