//! Lease deadlines as they pass, and the time since which each agent can act.

use vipward_common::{DeadlineState, Role};

use super::{Happening, World};

impl World {
    /// Updates since when each agent could do everything, or everything but see changes.
    pub(crate) fn update_fitness(&mut self) {
        let api_works = !self.api.down.any() && self.api.slow.is_empty();
        for node in &mut self.nodes {
            node.times.fit = node.is_fit(api_works).then(|| node.times.fit.unwrap_or(self.now));
            node.times.acts = node.acts(api_works).then(|| node.times.acts.unwrap_or(self.now));
        }
        for it in &mut self.controllers {
            it.able = it.is_able(api_works).then(|| it.able.unwrap_or(self.now));
            it.fit = it.is_fit(api_works).then(|| it.fit.unwrap_or(self.now));
        }
    }

    /// Schedules a check of the program for when its lease deadline passes.
    pub(crate) fn watch_deadline(&mut self, node: usize) {
        let now = self.now;
        let it = &mut self.nodes[node];
        let next = match it.program.lease_deadline_state(it.program_now(now)) {
            DeadlineState::Valid => it.program.deadline(),
            DeadlineState::Grace => it.program.grace_until(),
            DeadlineState::Over => return,
        };
        let Some(at) = it.clock.when(next + it.late) else { return };
        if at <= now || it.times.next_check.is_some_and(|check| check <= at) {
            return;
        }
        it.times.next_check = Some(at);
        self.at(at, Happening::Lapse { node });
    }

    pub(crate) fn lapse(&mut self, node: usize) {
        let now = self.now;
        let it = &mut self.nodes[node];
        if it.times.next_check.is_some_and(|check| check <= now) {
            it.times.next_check = None;
        }
        let any = it.program.entries().values().any(|entry| entry.role != Role::Foreign);
        if it.kernel_runs()
            && any
            && it.program.lease_deadline_state(it.program_now(now)) != DeadlineState::Valid
        {
            self.record.facts.lapsed = true;
        }
        self.stirred = true;
        self.watch_deadline(node);
    }
}
