//! The controller that leads: its process, and what disturbs it. It is on no node.

use std::{
    collections::{BTreeMap, VecDeque},
    net::IpAddr,
};

use fastrand::Rng;
use vipward_core::{
    controller::{Controller, Input},
    records::{ClaimRecord, ServiceName},
    services::Problem,
};

use super::{
    node::{Faults, Noise},
    process::Watch,
    time::{At, Clock},
};
use crate::schedule::{Kind, MOST_KINDS};

/// A running controller, and what waits for it.
pub(crate) struct Leading {
    pub(crate) controller: Controller,
    pub(crate) watches: [Watch; MOST_KINDS],
    /// All inputs that wait, in the order of arrival.
    pub(crate) inbox: VecDeque<Input>,
    /// The objects of addresses as they were last read, for the next write.
    pub(crate) known: BTreeMap<IpAddr, ClaimRecord>,
    /// The problems that were reported and are not over.
    pub(crate) problems: BTreeMap<ServiceName, Vec<Problem>>,
    /// The time of its next deadline.
    pub(crate) deadline: Option<At>,
}

impl Leading {
    pub(crate) fn new(controller: Controller) -> Self {
        Self {
            controller,
            watches: <[Watch; MOST_KINDS]>::default(),
            inbox: VecDeque::new(),
            known: BTreeMap::new(),
            problems: BTreeMap::new(),
            deadline: None,
        }
    }
}

/// The controller.
pub(crate) struct Leader {
    pub(crate) clock: Clock,
    pub(crate) process: Option<Leading>,
    /// Counts the processes.
    pub(crate) life: u32,
    pub(crate) faults: Faults,
    pub(crate) rng: Noise,
    /// True if a sabotage has left out something once.
    pub(crate) has_omitted: bool,
    /// The time since which it could do everything.
    pub(crate) fit: Option<At>,
    /// The last time when a request of it failed.
    pub(crate) failed: Option<At>,
}

impl Leader {
    pub(crate) fn new(clock: Clock, seeds: &mut Rng) -> Self {
        Self {
            clock,
            process: None,
            life: 0,
            faults: Faults::default(),
            rng: Noise { steps: seeds.fork(), watches: seeds.fork(), frames: seeds.fork() },
            has_omitted: false,
            fit: None,
            failed: None,
        }
    }

    /// Returns whether it makes progress.
    pub(crate) fn runs(&self) -> bool {
        self.process.is_some() && !self.faults.paused.any()
    }

    /// Returns whether it can do everything.
    pub(crate) fn is_fit(&self, api_works: bool) -> bool {
        api_works
            && self.runs()
            && !self.faults.cut_off.any()
            && !self.faults.no_answers.any()
            && !Kind::ALL.iter().any(|kind| self.faults.stalled[*kind as usize].any())
            && self.process.as_ref().is_some_and(|process| {
                process.controller.is_synced() && process.watches.iter().all(Watch::is_read)
            })
    }
}
