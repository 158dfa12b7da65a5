//! A running agent: the machines of the core, and what waits for them.

use std::{
    collections::{BTreeSet, VecDeque},
    time::Duration,
};

use vipward_core::{
    host::stale::Stale,
    ownership::{Engine, Entry, Interlock},
    segment::yields::Yields,
    services,
};

use super::{time::At, witness::Pinger};
use crate::{
    api::{Incoming, Key},
    schedule::{Ending, Kind},
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

/// A running agent.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) engine: Engine,
    /// The index of Services, which makes the engine's demands.
    pub(crate) services: services::Agent,
    /// True if the entries that were found and are not wanted have been removed.
    pub(crate) begun: bool,
    pub(crate) watches: [Watch; 4],
    pub(crate) synced: bool,
    pub(crate) inbox: VecDeque<Incoming>,
    pub(crate) interlock: Interlock,
    pub(crate) yields: Yields,
    /// The witness. None if no node takes part in wire failover.
    pub(crate) pinger: Option<Pinger>,
    /// The entries that failed to be written.
    pub(crate) stale: Stale,
    /// Each VIP's entry as last commanded, and whether the VIP has an interface.
    pub(crate) wishes: Vec<Option<(Option<Entry>, bool)>>,
    /// The VIPs whose entries are being written.
    pub(crate) writing: BTreeSet<usize>,
    /// True if a retry of stale entries is due.
    pub(crate) retries: bool,
    /// The time of the engine's next tick.
    pub(crate) tick: Option<At>,
    pub(crate) ending: Option<(Ending, Option<Duration>)>,
    /// The steps since `steps_since`, to notice an engine that never rests.
    pub(crate) steps: u32,
    pub(crate) steps_since: At,
    /// The time of its start.
    pub(crate) began: At,
}

impl Process {
    pub(crate) fn new(
        engine: Engine,
        services: services::Agent,
        interlock: Interlock,
        vips: usize,
        now: At,
    ) -> Self {
        Self {
            engine,
            services,
            begun: false,
            interlock,
            yields: Yields::default(),
            pinger: None,
            stale: Stale::default(),
            wishes: vec![None; vips],
            writing: BTreeSet::new(),
            retries: false,
            watches: <[Watch; 4]>::default(),
            synced: false,
            inbox: VecDeque::new(),
            tick: None,
            ending: None,
            steps: 0,
            steps_since: now,
            began: now,
        }
    }

    /// Returns whether everything that the engine commanded is carried out.
    pub(crate) fn is_idle(&self) -> bool {
        self.writing.is_empty() && self.interlock.is_idle()
    }

    pub(crate) fn watch(&mut self, kind: Kind) -> &mut Watch {
        &mut self.watches[kind as usize]
    }
}
