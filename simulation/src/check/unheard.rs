//! Checks that a VIP in whose name no host hears its holder moves to a node that may be heard, and once.

use std::time::Duration;

use vipward_core::records::ClaimState;

use crate::{
    schedule::{Times, names},
    world::World,
};

/// The time for a handover, beyond that for which a claim rests.
const MOVES: Duration = Duration::from_secs(10);
/// The cause of such a move.
const CAUSE: &str = "clients do not reach";

impl World {
    /// Returns whether a node comes last for a VIP that it found unheard.
    pub(super) fn rests(&self, node: usize, vip: usize) -> bool {
        let interfaces = self.api.leases.get(&names::node(node)).map(|lease| &lease.interfaces);
        interfaces.into_iter().flatten().any(|interface| interface.is_last_for(names::vip(vip)))
    }

    /// Returns the node that holds a VIP, and has found that it is unheard.
    fn unheard_holder(&self, vip: usize) -> Option<usize> {
        let claim = self.api.claims.get(&names::vip(vip))?;
        let ClaimState::Held(holder) = &claim.state else { return None };
        let node = names::node_index(&holder.node)?;
        let entry = self.nodes[node].program.entry(names::key(vip, self.segment_of(vip)));
        entry.is_some_and(|entry| entry.fault().is_some()).then_some(node)
    }

    /// Checks that an unheard VIP moves if another node could be heard. Only filters and reflections are in
    /// force.
    pub(super) fn check_unheard(&mut self, vip: usize) {
        let Some(holder) = self.unheard_holder(vip).filter(|_| self.is_wanted(vip)) else {
            self.record.unheard.since[vip] = None;
            return;
        };
        let since = *self.record.unheard.since[vip].get_or_insert(self.now);
        let filters = self.nodes.iter().flat_map(|node| node.faults.filtered);
        let reflecting = self.network.segments.iter().map(|segment| segment.reflecting);
        let harmless = filters.chain(reflecting).map(Times::count).sum();
        if self.record.trouble.in_force > harmless || self.is_stuck(vip) {
            return;
        }
        let Some(takable) = self.takable_since(vip, |node| node != holder && !self.rests(node, vip)) else {
            return;
        };
        let since = since.max(takable).max(self.record.trouble.disturbed);
        if self.now.since(since) > self.longest_dark(vip) + MOVES {
            let what = format!(
                "{} is unheard at {} since {since}, and another node may be heard",
                names::vip(vip),
                names::node(holder)
            );
            self.violate("unheard", what);
        }
    }

    /// Checks that no node lets go of an unheard VIP twice while nothing else happens: no VIP wanders
    /// between nodes of which none is heard.
    pub(super) fn check_wandering(&mut self, vip: usize) {
        let Some(claim) = self.api.claims.get(&names::vip(vip)) else { return };
        let disturbances = self.record.trouble.disturbances;
        let ClaimState::Held(holder) = &claim.state else {
            self.record.unheard.offered[vip].get_or_insert(disturbances);
            return;
        };
        let disturbances = self.record.unheard.offered[vip].take().unwrap_or(disturbances);
        let Some(before) = self.record.unheard.holders[vip].replace(holder.node.clone()) else { return };
        if before == holder.node || !claim.note.cause.contains(CAUSE) {
            return;
        }
        self.record.facts.switches.left = true;
        if !self.record.unheard.left.insert((vip, before.clone(), disturbances)) {
            let what = format!("{before} lets go of {} for the second time", names::vip(vip));
            self.violate("unheard", what);
        }
    }
}
