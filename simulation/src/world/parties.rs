//! The processes that use the API server: the agents, each by the number of its node, and the
//! controllers.

use super::World;
use crate::{
    machine::{Contender, Faults, Noise, Watch},
    schedule::{KINDS, Kind, names},
};

impl World {
    /// Returns the numbers of all processes.
    pub(crate) fn parties(&self) -> impl Iterator<Item = usize> + use<> {
        (0..self.nodes.len()).chain((names::CONTROLLER..).take(self.controllers.len()))
    }

    /// Returns the kinds of objects that some process reads.
    pub(crate) fn all_kinds(&self) -> &'static [Kind] {
        if self.plan.has_controller() { &Kind::ALL } else { &KINDS }
    }

    /// Returns the kinds of objects that every process reads.
    pub(crate) fn kinds(&self) -> &'static [Kind] {
        if self.plan.has_controller() { &Kind::WITH_CONTROLLER } else { &KINDS }
    }

    pub(crate) fn controller(&self, who: usize) -> &Contender {
        &self.controllers[who - names::CONTROLLER]
    }

    pub(super) fn controller_mut(&mut self, who: usize) -> &mut Contender {
        &mut self.controllers[who - names::CONTROLLER]
    }

    pub(crate) fn has_process(&self, who: usize) -> bool {
        if names::is_controller(who) {
            self.controller(who).process.is_some()
        } else {
            self.nodes[who].process.is_some()
        }
    }

    pub(super) fn life(&self, who: usize) -> u32 {
        if names::is_controller(who) { self.controller(who).life } else { self.nodes[who].life }
    }

    pub(crate) fn faults(&self, who: usize) -> &Faults {
        if names::is_controller(who) { &self.controller(who).faults } else { &self.nodes[who].faults }
    }

    pub(crate) fn faults_mut(&mut self, who: usize) -> &mut Faults {
        if names::is_controller(who) {
            &mut self.controller_mut(who).faults
        } else {
            &mut self.nodes[who].faults
        }
    }

    pub(super) fn noise_of(&mut self, who: usize) -> &mut Noise {
        if names::is_controller(who) { &mut self.controller_mut(who).rng } else { &mut self.nodes[who].rng }
    }

    /// Returns all watches of a process, if it runs.
    pub(super) fn watches(&mut self, who: usize) -> Option<&mut [Watch]> {
        if names::is_controller(who) {
            return self.leading_mut(who).map(|leading| &mut leading.watches[..]);
        }
        self.nodes[who].process.as_mut().map(|process| &mut process.watches[..])
    }

    pub(super) fn watch(&mut self, who: usize, kind: Kind) -> Option<&mut Watch> {
        self.watches(who).map(|watches| &mut watches[kind as usize])
    }
}
