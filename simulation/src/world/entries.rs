//! The entries of the programs: written, refused, tried again.

use std::{collections::BTreeMap, time::Duration};

use vipward_core::{
    host::stale::{Failure, Left},
    ownership::Entry,
};

use super::{Happening, World};
use crate::{
    machine::{Role, Slot},
    schedule::{Sabotage, Step, names},
};

/// The shell tries stale entries again after this.
pub(crate) const RETRY: Duration = Duration::from_secs(5);
/// The greatest lag of the program's clock.
pub(super) const CLOCK_LATE: Duration = Duration::from_millis(8);

impl World {
    /// Removes the entries that were found and that the engine does not want, once it has begun.
    pub(super) fn remove_unwanted(&mut self, node: usize) {
        let it = &mut self.nodes[node];
        let Some(process) = it.process.as_mut().filter(|it| !it.begun && it.engine.has_begun()) else {
            return;
        };
        process.begun = true;
        let unknown =
            process.wishes.iter().enumerate().filter(|(_, wish)| wish.is_none()).map(|(vip, _)| vip);
        if !it.no_changes.any() {
            unknown.for_each(|vip| it.program.set(vip, None, false));
        }
        self.stirred = true;
    }

    /// Writes an entry as last commanded, unless the kernel refuses it.
    pub(super) fn write_entry(&mut self, node: usize, vip: usize) {
        self.decided(node, vip);
        let it = &mut self.nodes[node];
        let Some(process) = &mut it.process else { return };
        let Some((entry, has_home)) = process.wishes[vip] else { return };
        // The shell leaves a host audible for its own address while no node holds the VIP.
        let is_own = self.network.hosts[vip].is_some_and(|host| host.node == Some(node));
        let is_silent = matches!(entry, Some(Entry::Foreign { .. }));
        let is_left_out = is_own && is_silent && !process.engine.is_held_by_any(names::vip(vip));
        let entry = entry.filter(|_| !is_left_out);
        let slot = it.program.slot(vip);
        let answers = |slot: Slot| !matches!(slot.role, Role::Foreign { .. }) && slot.yielded.is_none();
        let begins =
            matches!(entry, Some(Entry::Held | Entry::Handover { .. })) && !slot.is_some_and(answers);
        let fails = begins && !process.engine.may_begin_answering(it.clock.read(self.now))
            || !it.program.is_set(vip, entry, has_home)
                && (it.no_changes.any() || slot.is_none() && it.no_room.any());
        if !fails || self.sabotage != Some(Sabotage::NoStaleEntries) {
            let was_stale = !process.stale.is_empty();
            let left = match slot.map(|slot| slot.role) {
                Some(Role::Held | Role::Handover { .. }) => Left::Answering,
                Some(Role::Foreign { .. }) | None => Left::Silent,
            };
            let failure = Failure { left, interface: None, error: "refused".to_owned() };
            let address = names::vip(vip);
            let failed = fails.then_some((address, failure)).into_iter().collect::<BTreeMap<_, _>>();
            process.stale.on_tried(|tried| *tried == address, |_| true, failed);
            if fails && !std::mem::replace(&mut process.retries, true) {
                let life = it.life;
                self.after(RETRY, Happening::WriteAgain { node, life });
            }
            if fails || was_stale {
                self.update_fitness();
            }
        }
        if fails {
            self.record.facts.refused = true;
            self.say(node, || format!("the kernel refuses the entry of {}", names::vip(vip)));
        } else {
            self.set_entry(node, vip, entry, has_home);
        }
        self.tell_index_of_entry(node, vip);
    }

    /// Tries stale entries again.
    pub(super) fn write_again(&mut self, node: usize, life: u32) {
        let it = &mut self.nodes[node];
        if it.life != life {
            return;
        }
        let Some(process) = &mut it.process else { return };
        process.retries = false;
        let stale = process.stale.all().map(|(vip, _)| names::vip_index(vip));
        process.writing.extend(stale);
        self.drain(node);
        self.schedule_tick(node);
    }

    fn set_entry(&mut self, node: usize, vip: usize, entry: Option<Entry>, has_home: bool) {
        let before = self.nodes[node].program.slot(vip);
        self.nodes[node].program.set(vip, entry, has_home);
        self.stirred = true;
        let was_held = before.is_some_and(|slot| slot.role == Role::Held && slot.yielded.is_none());
        match entry {
            Some(Entry::Held) => {
                if !has_home {
                    self.violate(
                        "sense",
                        format!("{} is to hold {} without an interface", names::node(node), names::vip(vip)),
                    );
                }
                if !was_held || !self.nodes[node].rounds[vip].is_running {
                    self.begin_rounds(node, vip);
                }
                self.step_of_holding(node, vip);
            }
            Some(Entry::Handover { mac, until }) => {
                let taker = names::mac_node(mac);
                let began = self.under_way.handing[vip] != Some((node, taker));
                self.under_way.handing[vip] = Some((node, taker));
                if let Some(at) = self.nodes[node].clock.when(until + CLOCK_LATE) {
                    self.at(at, Happening::Lapse { node });
                }
                if began {
                    self.step(Step::Switched, node, taker);
                }
            }
            Some(Entry::Foreign { .. }) | None => {
                if let Some((giver, taker)) = self.under_way.handing[vip].filter(|(giver, _)| *giver == node)
                {
                    self.step(Step::LetGo, giver, taker);
                    self.under_way.handing[vip] = None;
                }
            }
        }
    }
}
