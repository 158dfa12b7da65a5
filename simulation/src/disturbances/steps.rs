//! The steps of handovers, and the disturbances that wait for one.

use std::time::Duration;

use vipward_core::{
    ownership::ClaimWrite,
    records::{ClaimRecord, ClaimState},
};

use crate::{
    schedule::{Step, When, Who, names},
    world::{Happening, World},
};

impl World {
    /// Records a step of a handover, and begins the disturbances that wait for it.
    pub(crate) fn step(&mut self, step: Step, giver: usize, taker: usize) {
        let plan = &self.plan.disturbances;
        let waits =
            |index: &usize| matches!(plan[*index].when, When::Step { step: wanted, .. } if wanted == step);
        let due: Vec<usize> = self.under_way.armed.iter().copied().filter(waits).collect();
        self.under_way.armed.retain(|index| !due.contains(index));
        for index in due {
            let When::Step { after_us, .. } = self.plan.disturbances[index].when else { continue };
            let what = self.plan.disturbances[index].what.with(|who| match who {
                Who::Node(_) | Who::Holder(_) | Who::Monitor(..) | Who::Controller(_) | Who::Leader => {
                    self.resolve(who)
                }
                Who::Giver => Who::Node(u8::try_from(giver).unwrap_or(0)),
                Who::Taker => Who::Node(u8::try_from(taker).unwrap_or(0)),
            });
            self.under_way.begun[index] = Some(what);
            if after_us == 0 {
                self.begin(index);
            } else {
                self.after(Duration::from_micros(after_us.into()), Happening::Begin(index));
            }
        }
    }

    /// Returns the step of a handover that a write of a claim is.
    pub(crate) fn steps_of_write(&self, node: usize, write: &ClaimWrite) -> Option<(Step, usize, usize)> {
        match &write.state {
            ClaimState::Offered { to, .. } => {
                names::node_index(&to.node).map(|taker| (Step::Offering, node, taker))
            }
            ClaimState::Held(_) => match self.api.claims.get(&write.vip).map(|claim| &claim.state) {
                Some(ClaimState::Offered { to, from }) if to.node == names::node(node) => {
                    names::node_index(&from.0).map(|giver| (Step::Accepting, giver, node))
                }
                Some(_) | None => None,
            },
            ClaimState::Released | ClaimState::Blank => None,
        }
    }

    /// Records that the API server has stored a claim.
    pub(crate) fn on_claim_stored(&mut self, before: Option<&ClaimState>, after: &ClaimRecord) {
        let vip = names::vip_index(after.vip);
        for service in &after.note.services {
            self.note_strangers(vip, service, "the claim names");
        }
        match &after.state {
            ClaimState::Offered { to, from } => {
                if let (Some(giver), Some(taker)) = (names::node_index(&from.0), names::node_index(&to.node))
                {
                    self.step(Step::Offered, giver, taker);
                }
            }
            ClaimState::Held(holder) => {
                let Some(taker) = names::node_index(&holder.node) else { return };
                self.record.taken(vip, taker, self.now);
                match before {
                    Some(ClaimState::Offered { to, from }) if to.node == holder.node => {
                        if let Some(giver) = names::node_index(&from.0) {
                            self.step(Step::Accepted, giver, taker);
                        }
                    }
                    Some(ClaimState::Held(other) | ClaimState::Offered { to: other, .. })
                        if other.node != holder.node =>
                    {
                        self.record.facts.taken_over = true;
                    }
                    Some(
                        ClaimState::Held(_)
                        | ClaimState::Offered { .. }
                        | ClaimState::Released
                        | ClaimState::Blank,
                    )
                    | None => {}
                }
            }
            ClaimState::Released | ClaimState::Blank => {}
        }
    }

    /// Records that an entry answers with its own node's MAC.
    pub(crate) fn step_of_holding(&mut self, node: usize, vip: usize) {
        let Some((giver, taker)) = self.under_way.handing[vip] else { return };
        if node == taker {
            self.step(Step::Taken, giver, taker);
        } else if node == giver {
            self.under_way.handing[vip] = None;
        }
    }
}
