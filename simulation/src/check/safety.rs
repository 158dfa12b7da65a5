//! S1 and S2: who may answer beside whom.

use std::time::Duration;

use crate::{names, program::FenceState, schedule::Kind, time::At, world::World};

/// What the last sign of life may be off: clocks, and the time between a beat and the next.
const SLACK: Duration = Duration::from_secs(2);
/// How long it takes at most until a watch that is not stalled has shown what was written.
const DELIVERED: Duration = Duration::from_millis(100);

impl World {
    /// No two holders at one instant, as far as the policy promises it.
    pub(super) fn check_safety(&mut self, vip: usize) {
        let segment = self.segment_of(vip);
        let nodes = self.nodes.len();
        for later in 1..nodes {
            let Some(later_mac) = self.nodes[later].answer(vip, segment, self.now) else { continue };
            for earlier in 0..later {
                let Some(earlier_mac) = self.nodes[earlier].answer(vip, segment, self.now) else { continue };
                // Two MACs that a node has had one after the other are one holder's.
                if names::mac_node(earlier_mac) != names::mac_node(later_mac) {
                    self.check_pair(vip, earlier, later);
                }
            }
        }
    }

    fn check_pair(&mut self, vip: usize, one: usize, other: usize) {
        let now = self.now;
        if self.nodes[one].dazed_until > now || self.nodes[other].dazed_until > now {
            return;
        }
        // Who cannot see that its claim was edited cannot put it right in time, and nobody else can know that.
        let timing = self.plan.timing;
        let rest = Duration::from_millis((timing.lease_ms + timing.margin_ms).into());
        let is_blind = |node: usize, edited: At| {
            let it = &self.nodes[node];
            let (from, until) = it.blind;
            let is_stalled = it.stalled[Kind::Claim as usize].any() || until > now;
            is_stalled && from <= edited + DELIVERED && now.since(edited) * 102 / 100 >= rest
        };
        if self.checks.edited[vip].is_some_and(|edited| is_blind(one, edited) || is_blind(other, edited)) {
            return;
        }
        let is_valid = |node: usize| {
            let it = &self.nodes[node];
            it.program.fence(it.program_now(now)) == FenceState::Valid
        };
        let what =
            || format!("{} and {} answer for {}", names::node(one), names::node(other), names::vip(vip));
        if !self.plan.hold || is_valid(one) && is_valid(other) {
            let what = what();
            self.violate("S1", what);
            return;
        }
        for (earlier, later) in [(one, other), (other, one)] {
            if !is_valid(earlier) && self.checks.reached[vip][earlier][later] {
                let what = format!(
                    "{}, although the announcement of the latter has reached {}",
                    what(),
                    names::node(earlier)
                );
                self.violate("S2", what);
                return;
            }
        }
    }

    /// An announcement has reached a node whose fence has lapsed and that knows the sender as a peer.
    pub(crate) fn announcement_reached(&mut self, vip: usize, to: usize, from: usize) {
        let it = &self.nodes[from];
        if it.program.may_announce(vip, it.program_now(self.now)) {
            self.checks.reached[vip][to][from] = true;
            self.stirred = true;
        }
    }

    /// Holding over ends.
    pub(super) fn check_holding_over(&mut self, vip: usize) {
        let segment = self.segment_of(vip);
        let timing = self.plan.timing;
        let longest = timing.restart_lease_ms.max(timing.lease_ms) + timing.hold_for_ms;
        let longest = Duration::from_millis(longest.into()) * 102 / 100 + SLACK;
        for node in 0..self.nodes.len() {
            let it = &self.nodes[node];
            if it.answer(vip, segment, self.now).is_some()
                && it.dazed_until < self.now
                && self.now.since(it.last_alive) > longest
            {
                let what = format!("{} answers for {} for ever", names::node(node), names::vip(vip));
                self.violate("S2", what);
            }
        }
    }
}
