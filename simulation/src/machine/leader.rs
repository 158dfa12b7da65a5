//! A controller: its process, which is a candidate until it leads, and what disturbs it. It is on no node.

use std::{
    collections::{BTreeMap, VecDeque},
    net::IpAddr,
    time::Duration,
};

use fastrand::Rng;
use vipward_core::{
    base::time::Monotonic,
    controller::{Controller, Input},
    ownership::Outcome,
    pools::election::{Ballot, Election},
    records::{ClaimRecord, ServiceName},
    services::Problem,
};

use super::{
    desk::Desk,
    node::{Faults, Noise},
    process::Watch,
    time::{At, Clock},
};
use crate::schedule::{Kind, MOST_KINDS};

/// A controller that leads, and what waits for it.
pub(crate) struct Leading {
    pub(crate) controller: Controller,
    pub(crate) desk: Desk,
    pub(crate) watches: [Watch; MOST_KINDS],
    /// All inputs that wait, in the order of arrival.
    pub(crate) inbox: VecDeque<Input>,
    /// The objects of addresses as they were last read, for the next write.
    pub(crate) known: BTreeMap<IpAddr, ClaimRecord>,
    /// The problems that were reported and are not over.
    pub(crate) problems: BTreeMap<ServiceName, Vec<Problem>>,
    pub(crate) deadline: Option<At>,
}

impl Leading {
    pub(crate) fn new(controller: Controller, desk: Desk) -> Self {
        Self {
            controller,
            desk,
            watches: <[Watch; MOST_KINDS]>::default(),
            inbox: VecDeque::new(),
            known: BTreeMap::new(),
            problems: BTreeMap::new(),
            deadline: None,
        }
    }
}

/// The response to a request of the election.
#[derive(Clone, Debug)]
pub(crate) enum Elected {
    Read(Outcome<Option<Ballot>>),
    Written(Outcome<()>),
}

/// A running process: a candidate, until it leads.
pub(crate) struct Candidate {
    pub(crate) election: Election,
    /// True if it is to read the Lease.
    pub(crate) is_due: bool,
    /// The time at which it began to, by its clock, until it has the Lease or does not. It does nothing else
    /// meanwhile.
    pub(crate) asked: Option<Monotonic>,
    /// The response that has come while the process was stopped.
    pub(crate) elected: Option<Elected>,
    /// It gives the Lease back and ends, to start again so much later.
    pub(crate) ends: Option<Duration>,
    pub(crate) leading: Option<Leading>,
}

impl Candidate {
    pub(crate) fn new(election: Election) -> Self {
        Self { election, is_due: true, asked: None, elected: None, ends: None, leading: None }
    }
}

pub(crate) struct Contender {
    pub(crate) clock: Clock,
    pub(crate) process: Option<Candidate>,
    /// Counts the processes.
    pub(crate) life: u32,
    pub(crate) faults: Faults,
    pub(crate) rng: Noise,
    /// True if a sabotage has left out something once.
    pub(crate) has_omitted: bool,
    /// True if its clock has stood still in this life of it.
    pub(crate) dazed: bool,
    /// The end of its term, as the API server has stored it last.
    pub(crate) until: Monotonic,
    /// The time since which it could have led.
    pub(crate) able: Option<At>,
    /// The time since which it leads, and could do everything.
    pub(crate) fit: Option<At>,
    /// The last time when a request of it failed.
    pub(crate) failed: Option<At>,
}

impl Contender {
    pub(crate) fn new(clock: Clock, seeds: &mut Rng) -> Self {
        Self {
            clock,
            process: None,
            life: 0,
            faults: Faults::default(),
            rng: Noise {
                steps: seeds.fork(),
                watches: seeds.fork(),
                frames: seeds.fork(),
                events: seeds.fork(),
            },
            has_omitted: false,
            dazed: false,
            until: Monotonic::default(),
            able: None,
            fit: None,
            failed: None,
        }
    }

    pub(crate) fn leading(&self) -> Option<&Leading> {
        self.process.as_ref()?.leading.as_ref()
    }

    /// Returns whether it makes progress.
    pub(crate) fn runs(&self) -> bool {
        self.process.is_some() && !self.faults.paused.any() && !self.faults.frozen.any()
    }

    /// Returns whether it could lead.
    pub(crate) fn is_able(&self, api_works: bool) -> bool {
        api_works
            && self.runs()
            && !self.faults.cut_off.any()
            && !self.faults.no_answers.any()
            && self.process.as_ref().is_some_and(|process| process.ends.is_none())
    }

    /// Returns whether it leads, and can do everything.
    pub(crate) fn is_fit(&self, api_works: bool) -> bool {
        self.is_able(api_works)
            && !Kind::ALL.iter().any(|kind| self.faults.stalled[*kind as usize].any())
            && self.leading().is_some_and(|leading| {
                leading.controller.is_synced() && leading.watches.iter().all(Watch::is_read)
            })
    }
}
