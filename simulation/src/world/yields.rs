//! Yields: the agent asks the segment about a yielded VIP, and takes it back if no peer answers.

use vipward_common::{MacAddr, VipKey};
use vipward_core::{
    ownership::Entry,
    segment::{
        probing::Probed,
        yields::{Command, Event, NoPeer},
    },
};

use super::{Happening, World};
use crate::schedule::{Sabotage, names};

/// Returns the key of a VIP. A VIP is on one segment of the simulation.
fn key(vip: usize) -> VipKey {
    VipKey::new(1, names::vip(vip))
}

impl World {
    /// Tells the agent that its program has yielded a VIP.
    pub(super) fn ask_about_yield(&mut self, node: usize, vip: usize, to: MacAddr) {
        if self.sabotage == Some(Sabotage::NoQuestion) {
            return self.take_back(node, vip);
        }
        let process = self.nodes[node].process.as_ref();
        if process.is_some_and(|process| process.engine.may_take_back(names::vip(vip))) {
            self.tell_yields(node, Event::Yielded { key: key(vip), to });
        }
    }

    /// Returns true if the agent asks about this VIP.
    pub(super) fn asks_about_yield(&self, node: usize, vip: usize) -> bool {
        self.nodes[node].process.as_ref().is_some_and(|process| process.yields.asks_about(&key(vip)))
    }

    pub(super) fn on_yield_probed(&mut self, node: usize, vip: usize, probed: Probed) {
        self.tell_yields(node, Event::Probed { key: key(vip), probed });
    }

    /// Tells the agent that it has decided about a VIP's entry.
    pub(super) fn decided(&mut self, node: usize, vip: usize) {
        self.tell_yields(node, Event::Decided(names::vip(vip)));
    }

    /// Takes back what is due.
    pub(super) fn take_back_due(&mut self, node: usize, life: u32) {
        let now = self.now;
        let it = &mut self.nodes[node];
        if it.life != life {
            return;
        }
        if !it.agent_runs() {
            return self.after(super::wire::AGAIN, Happening::TakeBack { node, life });
        }
        let local = it.clock.read(now);
        let Some(process) = &mut it.process else { return };
        let engine = &process.engine;
        for NoPeer { key, from: _, take_back } in
            process.yields.on_tick(|vip| engine.may_take_back(vip), local)
        {
            let vip = names::vip_index(key.addr);
            self.nodes[node].asked[vip] += 1;
            if take_back {
                self.take_back(node, vip);
            }
        }
    }

    fn tell_yields(&mut self, node: usize, event: Event) {
        let now = self.now;
        let it = &mut self.nodes[node];
        let (local, life) = (it.clock.read(now), it.life);
        let Some(process) = &mut it.process else { return };
        let commands = process.yields.on_event(event, local);
        let due = process.yields.next_deadline().and_then(|due| it.clock.when(due));
        for command in commands {
            match command {
                Command::Ask(key) => self.probe(node, names::vip_index(key.addr)),
                Command::StopAsking(key) => {
                    self.nodes[node].asked[names::vip_index(key.addr)] += 1;
                }
            }
        }
        if let Some(due) = due {
            self.at(due.max(now), Happening::TakeBack { node, life });
        }
    }

    fn take_back(&mut self, node: usize, vip: usize) {
        if self.nodes[node].refuses_entries() {
            return;
        }
        self.say(node, || format!("takes {} back", names::vip(vip)));
        let it = &mut self.nodes[node];
        it.program.set(vip, Some(Entry::Held), true);
        if let Some(process) = &mut it.process {
            process.engine.on_taken_back(names::vip(vip));
        }
        self.stirred = true;
        self.record.facts.taken_back = true;
        if self.answer_of_another(node, vip).is_none() {
            self.record.taken_back(vip, node);
        }
        self.begin_rounds(node, vip);
    }
}
