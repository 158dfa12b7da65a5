//! The processes that use the API server: the agents, each by the number of its node, and the controller.

use super::World;
use crate::{
    machine::{Faults, Leader, Noise, Watch},
    schedule::{KINDS, Kind, names},
};

impl World {
    /// Returns the numbers of all processes.
    pub(crate) fn parties(&self) -> impl Iterator<Item = usize> + use<> {
        (0..self.nodes.len()).chain(self.leader.as_ref().map(|_| names::CONTROLLER))
    }

    /// Returns the kinds of objects that some process reads.
    pub(crate) fn all_kinds(&self) -> &'static [Kind] {
        if self.leader.is_some() { &Kind::ALL } else { &KINDS }
    }

    /// Returns the kinds of objects that every process reads.
    pub(crate) fn kinds(&self) -> &'static [Kind] {
        if self.leader.is_some() { &Kind::WITH_CONTROLLER } else { &KINDS }
    }

    pub(super) fn leader(&self) -> &Leader {
        self.leader.as_ref().expect("invariant: only a schedule with a controller names it")
    }

    pub(super) fn leader_mut(&mut self) -> &mut Leader {
        self.leader.as_mut().expect("invariant: only a schedule with a controller names it")
    }

    pub(crate) fn has_process(&self, who: usize) -> bool {
        if who == names::CONTROLLER {
            self.leader().process.is_some()
        } else {
            self.nodes[who].process.is_some()
        }
    }

    pub(super) fn life(&self, who: usize) -> u32 {
        if who == names::CONTROLLER { self.leader().life } else { self.nodes[who].life }
    }

    pub(crate) fn faults(&self, who: usize) -> &Faults {
        if who == names::CONTROLLER { &self.leader().faults } else { &self.nodes[who].faults }
    }

    pub(crate) fn faults_mut(&mut self, who: usize) -> &mut Faults {
        if who == names::CONTROLLER { &mut self.leader_mut().faults } else { &mut self.nodes[who].faults }
    }

    pub(super) fn noise_of(&mut self, who: usize) -> &mut Noise {
        if who == names::CONTROLLER { &mut self.leader_mut().rng } else { &mut self.nodes[who].rng }
    }

    /// Returns all watches of a process, if it runs.
    pub(super) fn watches(&mut self, who: usize) -> Option<&mut [Watch]> {
        if who == names::CONTROLLER {
            return self.leader_mut().process.as_mut().map(|process| &mut process.watches[..]);
        }
        self.nodes[who].process.as_mut().map(|process| &mut process.watches[..])
    }

    pub(super) fn watch(&mut self, who: usize, kind: Kind) -> Option<&mut Watch> {
        self.watches(who).map(|watches| &mut watches[kind as usize])
    }
}
