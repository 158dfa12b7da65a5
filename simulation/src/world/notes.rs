//! Notes for the record that need the state of the nodes.

use std::time::Duration;

use vipward_core::records::ClaimRecord;

use super::World;
use crate::{api::Saved, names, node::Node};

impl World {
    /// Returns whether a node may answer until it has renewed: requests succeed again, but not at
    /// once.
    fn can_wait(&self, node: &Node) -> bool {
        let until = if self.plan.hold { node.program.hold_until } else { node.program.deadline };
        let patience = self.request_timeout() + Duration::from_secs(1);
        node.program_now(self.now) + patience < until
    }

    /// Notes which node answers for each VIP when the store goes back to `saved`, if nothing else
    /// happens. If an epoch was edited since, no node can know which claim is the later one.
    pub(super) fn note_who_answers(&mut self, saved: &Saved) {
        // Only the restore itself has happened since.
        if self.record.settled.is_none_or(|before| before + 1 != self.record.disturbances) {
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
            self.record.answered[vip] =
                goes_on.filter(|node| holder == Some(&names::node(node.index))).map(|node| node.index);
        }
    }

    /// Notes that an announcement has reached a node with a lapsed fence that knows the sender as a
    /// peer.
    pub(super) fn announcement_reached(&mut self, vip: usize, to: usize, from: usize) {
        let it = &self.nodes[from];
        if it.program.may_announce(vip, false, it.program_now(self.now)) {
            self.record.reached[vip][to][from] = true;
            self.stirred = true;
        }
    }
}
