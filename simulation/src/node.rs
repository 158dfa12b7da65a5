//! One node: its power, clock, interfaces, pinned program, and the agent on it.

use std::{
    collections::{BTreeSet, VecDeque},
    time::Duration,
};

use fastrand::Rng;
use vipward::core::{
    cluster::NodeLink,
    ownership::{Command, Engine, Event},
};
use vipward_common::MacAddr;

use crate::{
    api::Key,
    names,
    program::Program,
    schedule::{Ending, KINDS, Kind, NodePlan},
    time::{At, Clock},
};

/// How often something that overlaps with itself is in force.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Times(u8);

impl Times {
    pub(crate) fn change(&mut self, begins: bool) {
        self.0 = if begins { self.0 + 1 } else { self.0.saturating_sub(1) };
    }

    pub(crate) fn any(self) -> bool {
        self.0 > 0
    }
}

/// An interface.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    pub(crate) mac: MacAddr,
    /// What the agent knows it to be, and has written to the maps.
    pub(crate) known_mac: MacAddr,
    pub(crate) no_carrier: Times,
    pub(crate) changes: u8,
    /// Since when it has this MAC.
    pub(crate) since: At,
}

/// What Kubernetes says against a node.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Marks {
    pub(crate) cordoned: Times,
    pub(crate) not_ready: Times,
    pub(crate) excluded: Times,
    pub(crate) out_of_service: Times,
    pub(crate) network_unavailable: Times,
    pub(crate) gone: Times,
}

/// What waits for the agent.
#[derive(Debug)]
pub(crate) enum Incoming {
    Event(Event),
    /// A list: what is in it, and what is not any more.
    Listed(Kind, Vec<(Key, Event)>),
}

/// One kind of object, as an agent watches it.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    /// Changes before this one were told.
    pub(crate) position: usize,
    /// The list has been made: what changes is told.
    pub(crate) is_live: bool,
    /// Nothing overtakes what was told to arrive then.
    pub(crate) last: At,
    /// What was told to exist.
    pub(crate) known: BTreeSet<Key>,
    /// The list has arrived.
    pub(crate) listed: bool,
    /// What was on its way in an earlier watch is void.
    pub(crate) life: u32,
}

/// A running agent.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) engine: Engine,
    pub(crate) watches: [Watch; 4],
    pub(crate) synced: bool,
    pub(crate) inbox: VecDeque<Incoming>,
    /// What the agent was stopped amid.
    pub(crate) unfinished: VecDeque<Command>,
    /// When the engine is to be told that time has passed.
    pub(crate) tick: Option<At>,
    pub(crate) ending: Option<(Ending, Option<Duration>)>,
    /// Steps since `steps_since`, to notice one that never rests.
    pub(crate) steps: u32,
    pub(crate) steps_since: At,
}

impl Process {
    pub(crate) fn new(engine: Engine, now: At) -> Self {
        Self {
            engine,
            watches: <[Watch; 4]>::default(),
            synced: false,
            inbox: VecDeque::new(),
            unfinished: VecDeque::new(),
            tick: None,
            ending: None,
            steps: 0,
            steps_since: now,
        }
    }

    pub(crate) fn watch(&mut self, kind: Kind) -> &mut Watch {
        &mut self.watches[kind as usize]
    }
}

/// How the rounds of one VIP's announcements go.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rounds {
    /// Those of other numbers are void.
    pub(crate) life: u32,
    pub(crate) is_running: bool,
}

/// One node.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) index: usize,
    pub(crate) clock: Clock,
    pub(crate) powered: bool,
    pub(crate) frozen: Times,
    pub(crate) paused: Times,
    pub(crate) links: Vec<Link>,
    pub(crate) marks: Marks,
    pub(crate) program: Program,
    /// What the program reads lags so much behind the node's clock.
    pub(crate) late: Duration,
    pub(crate) process: Option<Process>,
    /// Counts the lives of agents on this node.
    pub(crate) life: u32,
    pub(crate) rounds: Vec<Rounds>,
    /// Counts the times that each VIP's segment began or ceased to be asked about it.
    pub(crate) asked: Vec<u32>,
    pub(crate) cut_off: Times,
    pub(crate) refused: Times,
    pub(crate) no_answers: Times,
    pub(crate) stalled: [Times; 4],
    /// The agent was told to leave, and no other has been started.
    pub(crate) leaves: bool,
    /// Its clock stood still: until then it may think that its fence is valid when it is not.
    pub(crate) dazed_until: At,
    /// From when on a watch of its was stalled, and until when it may not have shown what it missed.
    pub(crate) blind: (At, At),
    /// When the program is looked at because of the fence.
    pub(crate) look: Option<At>,
    /// The last sign of life of an agent.
    pub(crate) last_alive: At,
    /// Since when it could do everything that ownership needs.
    pub(crate) fit_since: Option<At>,
    /// Of latencies of requests and steps.
    pub(crate) noise: Rng,
    /// Of delays of watches.
    pub(crate) watch_noise: Rng,
    /// Of frames.
    pub(crate) wire_noise: Rng,
}

impl Node {
    pub(crate) fn new(
        index: usize,
        plan: &NodePlan,
        (segments, vips): (usize, usize),
        program: Program,
        seed: u64,
    ) -> Self {
        let mut seeds = Rng::with_seed(seed);
        let link = |segment| {
            let mac = names::mac(index, segment, 0);
            Link { mac, known_mac: mac, no_carrier: Times::default(), changes: 0, since: At::default() }
        };
        Self {
            index,
            clock: Clock::new(Duration::from_millis(plan.clock_ms.into()), plan.clock_ppm),
            powered: false,
            frozen: Times::default(),
            paused: Times::default(),
            links: (0..segments).map(link).collect(),
            marks: Marks::default(),
            program,
            late: Duration::from_millis(seeds.u64(0..=8)),
            process: None,
            life: 0,
            rounds: vec![Rounds::default(); vips],
            asked: vec![0; vips],
            cut_off: Times::default(),
            refused: Times::default(),
            no_answers: Times::default(),
            stalled: <[Times; 4]>::default(),
            leaves: false,
            dazed_until: At::default(),
            blind: (At::default(), At::default()),
            look: None,
            last_alive: At::default(),
            fit_since: None,
            noise: seeds.fork(),
            watch_noise: seeds.fork(),
            wire_noise: seeds.fork(),
        }
    }

    /// Whether its kernel handles frames.
    pub(crate) fn kernel_runs(&self) -> bool {
        self.powered && !self.frozen.any()
    }

    /// Whether its agent does anything.
    pub(crate) fn agent_runs(&self) -> bool {
        self.kernel_runs() && !self.paused.any() && self.process.is_some()
    }

    /// Whether its agent, if one runs, can do everything that ownership needs.
    pub(crate) fn is_fit(&self, api_works: bool) -> bool {
        api_works
            && self.agent_runs()
            && !self.cut_off.any()
            && !self.no_answers.any()
            && !KINDS.iter().any(|kind| self.stalled[*kind as usize].any())
            && !self.leaves
            && self.process.as_ref().is_some_and(|process| {
                process.synced && process.ending.is_none() && process.watches.iter().all(|watch| watch.listed)
            })
    }

    /// What its interfaces are.
    pub(crate) fn node_links(&self) -> Vec<NodeLink> {
        let segments = self.links.len();
        let link = |(segment, link): (usize, &Link)| NodeLink {
            name: names::interface(segment),
            mac: link.mac,
            subnets: names::subnets(segment, segments),
            carrier: !link.no_carrier.any(),
        };
        self.links.iter().enumerate().map(link).collect()
    }

    /// With which MAC it would answer a request for a VIP.
    pub(crate) fn answer(&self, vip: usize, segment: usize, now: At) -> Option<MacAddr> {
        if !self.kernel_runs() {
            return None;
        }
        self.program.answer(vip, self.links[segment].known_mac, self.program_now(now))
    }

    /// What the program takes for the time.
    pub(crate) fn program_now(&self, now: At) -> vipward::core::time::Monotonic {
        self.clock.read(now).saturating_sub(self.late)
    }
}
