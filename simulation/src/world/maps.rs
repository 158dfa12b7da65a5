//! The maps of the programs: written, refused, and what follows from an entry that changes.

use vipward_common::{MacAddr, Role, VipEntry, VipKey};
use vipward_core::{
    agent::{Input, Outcome, Unwritten},
    base::time::Monotonic,
    host::{plan::Action, stale::Left},
};

use super::{Happening, World, agent::CLOCK_LATE};
use crate::{
    machine::Refuses,
    schedule::{Sabotage, Step, names},
};

impl World {
    /// Carries out the next action of a write, or ends the write.
    pub(super) fn write_next(&mut self, node: usize) {
        let Some(process) = &mut self.nodes[node].process else { return };
        let Some(writing) = &mut process.writing else { return };
        if let Some(action) = writing.left.pop_front() {
            let life = self.nodes[node].life;
            let result = if self.omits_action(node, &action) { Ok(()) } else { self.write(node, &action) };
            let process = self.nodes[node].process_of(life);
            if let Some(writing) = process.and_then(|process| process.writing.as_mut()) {
                writing.results.push(result);
            }
        } else if let Some(writing) = process.writing.take() {
            process.results.push_back(Input::Result(Outcome::Written(writing.results)));
        }
    }

    fn write(&mut self, node: usize, action: &Action) -> Result<(), Unwritten> {
        let it = &mut self.nodes[node];
        let entry =
            |program: &crate::machine::Program| action.key().and_then(|key| program.entry(key).copied());
        let before = entry(&it.program);
        let refuses = Refuses { changes: it.faults.no_changes.any(), room: it.faults.no_room.any() };
        let yielded_before = before.is_some_and(|entry| it.program.recorded(&entry).is_some());
        if let Err(error) = it.program.apply(action, refuses) {
            self.record.facts.refused = true;
            self.say(node, || error.to_string());
            if self.sabotage == Some(Sabotage::NoStaleEntries) {
                return Ok(());
            }
            let left = Left::of(Some(before.as_ref()));
            return Err(Unwritten { left, error: error.to_string() });
        }
        if let Action::RemovePeer { mac, .. } = action {
            it.peers_due.remove(mac);
        }
        let after = entry(&it.program);
        self.stirred = true;
        if let Some(key) = action.key() {
            self.record.trace.entry(self.now, node, key, after.as_ref());
            self.on_entry(node, key, (before, yielded_before), after);
        }
        Ok(())
    }

    fn on_entry(
        &mut self,
        node: usize,
        key: VipKey,
        (before, yielded_before): (Option<VipEntry>, bool),
        after: Option<VipEntry>,
    ) {
        let vip = names::vip_index(key.addr);
        let is_home = key == names::key(vip, self.segment_of(vip));
        match after {
            Some(entry) if entry.role == Role::Held => {
                if !is_home {
                    let what = format!("{} is to hold {} on another segment", names::node(node), key.addr);
                    self.violate("sense", what);
                }
                let goes_on = before
                    .is_some_and(|before| before.role == Role::Held && before.generation == entry.generation)
                    && !yielded_before;
                let it = &mut self.nodes[node];
                if !goes_on {
                    it.held_since[vip] = Some(self.now);
                    it.yielded.remove(&vip);
                    self.record_taken_back(node, vip);
                }
                self.step_of_holding(node, vip);
            }
            Some(entry) if entry.role == Role::Handover => {
                self.nodes[node].held_since[vip] = None;
                let (taker, until) =
                    (names::mac_node(MacAddr(entry.mac)), Monotonic::from_nanos(entry.until_ns));
                let began = self.under_way.handing[vip] != Some((node, taker));
                self.under_way.handing[vip] = Some((node, taker));
                if let Some(at) = self.nodes[node].clock.when(until + CLOCK_LATE) {
                    self.at(at, Happening::Lapse { node });
                }
                if began {
                    self.step(Step::Switched, node, taker);
                }
            }
            Some(_) | None if is_home => {
                self.nodes[node].held_since[vip] = None;
                if let Some((giver, taker)) = self.under_way.handing[vip].filter(|(giver, _)| *giver == node)
                {
                    self.step(Step::LetGo, giver, taker);
                    self.under_way.handing[vip] = None;
                }
            }
            Some(_) | None => {}
        }
    }

    /// Records that a node has taken a yielded VIP back. Its announcements count anew if no other answer
    /// could reach it.
    fn record_taken_back(&mut self, node: usize, vip: usize) {
        let process = self.nodes[node].process.as_ref();
        if process.is_some_and(|process| process.agent.segment().is_taken_back(names::vip(vip))) {
            self.record.facts.taken_back = true;
            self.say(node, || format!("takes {} back", names::vip(vip)));
            if self.answer_of_another(node, vip).is_none() {
                self.record.taken_back(vip, node);
            }
        }
    }
}
