//! Checks S1 and S2: no two nodes answer for one VIP.

use std::time::Duration;

use vipward_common::DeadlineState;

use crate::{
    machine::At,
    schedule::{Kind, names},
    world::World,
};

/// The error of the last sign of life: clocks, and the time between two heartbeats.
const SLACK: Duration = Duration::from_secs(2);
/// The longest time until a watch that is not stalled shows a write.
const DELIVERED: Duration = Duration::from_millis(100);

impl World {
    /// Checks that no two nodes answer for a VIP now, as far as the policy promises that.
    pub(super) fn check_safety(&mut self, vip: usize) {
        let segment = self.segment_of(vip);
        let nodes = self.nodes.len();
        for later in 1..nodes {
            let Some(later_mac) = self.nodes[later].answer(vip, segment, self.now) else { continue };
            for earlier in 0..later {
                let Some(earlier_mac) = self.nodes[earlier].answer(vip, segment, self.now) else { continue };
                // Two successive MACs of one node count as one holder's.
                if names::mac_node(earlier_mac) != names::mac_node(later_mac) {
                    self.check_pair(vip, earlier, later);
                }
            }
        }
    }

    fn check_pair(&mut self, vip: usize, one: usize, other: usize) {
        let now = self.now;
        if self.nodes[one].times.dazed_until > now || self.nodes[other].times.dazed_until > now {
            return;
        }
        if self.is_restoring() || self.cannot_know(one) || self.cannot_know(other) {
            return;
        }
        // A node that cannot see that its claim was edited, or cannot change its entry, cannot put
        // that right in time, and no other node can know that.
        let timing = self.plan.timing;
        let rest = Duration::from_millis((timing.lease_ms + timing.margin_ms).into());
        let is_helpless = |node: usize, edited: At| {
            let it = &self.nodes[node];
            let (from, until) = it.times.blind;
            let is_stalled = it.faults.stalled[Kind::Claim as usize].any() || until > now;
            let is_late = is_stalled && from <= edited + DELIVERED && now.since(edited) * 102 / 100 >= rest;
            is_late || it.times.refused_until > edited
        };
        // No object says who held the VIP before the edit. An agent that began after it cannot know
        // a holder whose agent was away then.
        let was_away = |node: usize| self.record.people.helpless[vip][node];
        let is_new = |node: usize, edited: At| {
            self.nodes[node].process.as_ref().is_some_and(|process| process.began >= edited)
        };
        let is_excepted = |edited: At| {
            is_helpless(one, edited)
                || is_helpless(other, edited)
                || was_away(one) && is_new(other, edited)
                || was_away(other) && is_new(one, edited)
        };
        if self.record.people.edited[vip].is_some_and(is_excepted) {
            return;
        }
        if self.is_being_notified(vip, one, other) || self.is_being_notified(vip, other, one) {
            return;
        }
        let is_valid = |node: usize| self.nodes[node].lease_deadline(now) == DeadlineState::Valid;
        let what =
            || format!("{} and {} answer for {}", names::node(one), names::node(other), names::vip(vip));
        if !self.plan.hold || is_valid(one) && is_valid(other) {
            let what = what();
            self.violate("S1", what);
            return;
        }
        for (earlier, later) in [(one, other), (other, one)] {
            if !is_valid(earlier) && self.record.reached[vip][earlier][later] {
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

    /// Checks that the grace period ends.
    pub(super) fn check_grace_period(&mut self, vip: usize) {
        let segment = self.segment_of(vip);
        let timing = self.plan.timing;
        let longest = timing.restart_lease_ms.max(timing.lease_ms) + timing.hold_for_ms;
        let longest = Duration::from_millis(longest.into()) * 102 / 100 + SLACK;
        for node in 0..self.nodes.len() {
            let it = &self.nodes[node];
            if it.answer(vip, segment, self.now).is_some()
                && it.times.dazed_until < self.now
                && self.now.since(it.times.alive) > longest
            {
                let what = format!("{} answers for {} for ever", names::node(node), names::vip(vip));
                self.violate("S2", what);
            }
        }
    }

    /// Notes that an announcement has reached a node with a passed lease deadline that knows the sender as a
    /// peer.
    pub(crate) fn announcement_reached(&mut self, vip: usize, to: usize, from: usize) {
        let it = &self.nodes[from];
        let key = names::key(vip, self.segment_of(vip));
        if it.program.may_announce(key, false, it.program_now(self.now)) {
            self.record.reached[vip][to][from] = true;
            self.stirred = true;
        }
    }
}
