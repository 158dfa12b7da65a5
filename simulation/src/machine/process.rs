//! A running agent, and what waits for it.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    net::IpAddr,
    time::Duration,
};

use vipward_core::{
    agent::{Agent, Effect, Input, Unwritten, cluster::Cluster},
    host::plan::Action,
    segment::{egress, inquiry::Question},
};

use super::{desk::Desk, monitor::Pinger, time::At};
use crate::{
    api::Key,
    schedule::{Ending, MOST_KINDS},
};

/// An agent's watch of one kind of object.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    /// The number of changes that were delivered.
    pub(crate) position: usize,
    /// True if the list has been made, so that changes are delivered.
    pub(crate) is_live: bool,
    /// The latest arrival so far; nothing overtakes it.
    pub(crate) last: At,
    /// The objects that the agent knows.
    pub(crate) known: BTreeSet<Key>,
    /// True if the list has arrived.
    pub(crate) listed: bool,
    /// Counts the watches; deliveries of an earlier one are void.
    pub(crate) life: u32,
}

impl Watch {
    /// Returns whether the list has arrived, or none has been begun.
    pub(crate) fn is_read(&self) -> bool {
        self.listed || self.life == 0
    }
}

/// A write that is half done.
#[derive(Debug)]
pub(crate) struct Writing {
    pub(crate) left: VecDeque<Action>,
    pub(crate) results: Vec<Result<(), Unwritten>>,
}

pub(crate) struct Process {
    pub(crate) agent: Agent,
    pub(crate) desk: Desk,
    /// What the last input wants done, not yet carried out.
    pub(crate) effects: VecDeque<Effect>,
    pub(crate) writing: Option<Writing>,
    /// The results of effects, which come before all other inputs.
    pub(crate) results: VecDeque<Input>,
    /// All other inputs that wait, in the order of arrival.
    pub(crate) inbox: VecDeque<Input>,
    /// True while something takes its time, or is being done.
    pub(crate) is_busy: bool,
    /// True if the next effect has taken its time.
    pub(crate) has_gone_on: bool,
    /// The answers in the present round of listening on each segment.
    pub(crate) egress: BTreeMap<u32, BTreeMap<IpAddr, egress::Answers>>,
    /// The questions about VIPs of others in such a round.
    pub(crate) questions: BTreeMap<u32, Vec<Question>>,
    pub(crate) watches: [Watch; MOST_KINDS],
    /// The monitor. None if no node takes part in wire failover.
    pub(crate) pinger: Option<Pinger>,
    /// The time of the agent's next deadline.
    pub(crate) deadline: Option<At>,
    pub(crate) ending: Option<(Ending, Option<Duration>)>,
    /// The steps since `steps_since`, to notice an agent that never rests.
    pub(crate) steps: u32,
    pub(crate) steps_since: At,
    /// The time of its start.
    pub(crate) began: At,
}

impl Process {
    pub(crate) fn new(agent: Agent, desk: Desk, now: At) -> Self {
        Self {
            agent,
            desk,
            effects: VecDeque::new(),
            writing: None,
            results: VecDeque::new(),
            inbox: VecDeque::new(),
            is_busy: false,
            has_gone_on: false,
            egress: BTreeMap::new(),
            questions: BTreeMap::new(),
            watches: <[Watch; MOST_KINDS]>::default(),
            pinger: None,
            deadline: None,
            ending: None,
            steps: 0,
            steps_since: now,
            began: now,
        }
    }

    /// Returns the cluster as the agent knows it.
    pub(crate) fn cluster(&self) -> &Cluster {
        self.agent.cluster().expect("invariant: every agent has a cluster")
    }

    /// Returns whether the agent has read everything once.
    pub(crate) fn is_synced(&self) -> bool {
        self.cluster().is_synced()
    }

    /// Returns whether all entries are written as they should be.
    pub(crate) fn has_written_all(&self) -> bool {
        let stale = self.agent.stale();
        stale.all().all(|(vip, _)| stale.left(vip).is_none())
    }
}
