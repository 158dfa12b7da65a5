//! What time changes: the fences of the programs, and since when agents can act.

use super::{Happening, World};
use crate::machine::{FenceState, Role};

impl World {
    /// Updates since when each agent could do everything, or everything but see changes.
    pub(crate) fn update_fitness(&mut self) {
        let api_works = !self.api.down.any() && self.api.slow.is_empty();
        for node in &mut self.nodes {
            node.fit_since = node.is_fit(api_works).then(|| node.fit_since.unwrap_or(self.now));
            node.acts_since = node.acts(api_works).then(|| node.acts_since.unwrap_or(self.now));
        }
    }

    /// Schedules a check of the program for when its fence lapses.
    pub(crate) fn watch_fence(&mut self, node: usize) {
        let now = self.now;
        let it = &mut self.nodes[node];
        let next = match it.program.fence(it.program_now(now)) {
            FenceState::Valid => it.program.deadline,
            FenceState::HeldOver => it.program.hold_until,
            FenceState::Over => return,
        };
        let Some(at) = it.clock.when(next + it.late) else { return };
        if at <= now || it.look.is_some_and(|look| look <= at) {
            return;
        }
        it.look = Some(at);
        self.at(at, Happening::Lapse { node });
    }

    pub(crate) fn lapse(&mut self, node: usize) {
        let now = self.now;
        let it = &mut self.nodes[node];
        if it.look.is_some_and(|look| look <= now) {
            it.look = None;
        }
        let answers = |role: Role| matches!(role, Role::Held | Role::Handover { .. });
        let any =
            (0..self.plan.vips.len()).any(|vip| it.program.slot(vip).is_some_and(|slot| answers(slot.role)));
        if it.kernel_runs() && any && it.program.fence(it.program_now(now)) != FenceState::Valid {
            self.record.facts.lapsed = true;
        }
        self.stirred = true;
        self.watch_fence(node);
    }
}
