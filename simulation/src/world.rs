//! One run: its state, and the queue of what happens when.

mod agent;
mod disturb;
mod hosts;
mod marks;
mod notes;
mod requests;
mod services;
mod steps;
mod watches;
mod wire;
mod witness;
mod yields;

use std::{cmp::Reverse, collections::BinaryHeap, time::Duration};

use fastrand::Rng;
use vipward_common::{MacAddr, Policy};
use vipward_core::{
    liveness::Finding,
    ownership::Wire,
    records::{NodeName, Session},
};

pub(crate) use self::{
    agent::PROBING,
    hosts::Host,
    requests::Flight,
    services::Stranger,
    wire::{REFRESH, ROUND_INTERVAL, Segment},
    witness::{Pinger, REPEATS, Truth},
};
use crate::{
    Options,
    api::{Api, Key, Saved},
    facts::Facts,
    names,
    node::{Incoming, Node, Times},
    program::Program,
    record::{Record, Violation},
    sabotage::Sabotage,
    schedule::{Kind, Schedule, What, When},
    time::At,
    trace::Trace,
    wired::Packet,
};

/// The interval of the checks of what time alone changes.
const SWEEP: Duration = Duration::from_millis(200);

/// Something that is due.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Happening {
    /// A disturbance begins.
    Begin(usize),
    /// A disturbance ends.
    End(usize),
    /// A disturbance has waited in vain for its step.
    Disarm(usize),
    /// The API server stops, for a restore of its store.
    StoreAway,
    /// A node joins.
    Join(usize),
    /// Services begin to want a VIP.
    Wanted(usize),
    /// An agent starts, unless one runs.
    Boot {
        node: usize,
    },
    /// An agent's list reaches the API server.
    List {
        node: usize,
        life: u32,
        kind: Kind,
        watch: u32,
    },
    /// The list's response reaches the agent.
    Listed {
        node: usize,
        life: u32,
        kind: Kind,
        watch: u32,
        list: usize,
    },
    /// An agent's watch delivers changes.
    Deliver {
        node: usize,
        life: u32,
        kind: Kind,
        watch: u32,
        upto: usize,
    },
    /// An engine's deadline has come.
    Tick {
        node: usize,
        life: u32,
    },
    /// A request reaches the API server.
    Arrive(usize),
    /// The response reaches the agent.
    Answer(usize),
    /// The agent gives up waiting for the response.
    Timeout(usize),
    /// A witness may have something to do.
    Turn {
        node: usize,
        life: u32,
    },
    /// A frame of wire failover reaches a node.
    Packet {
        segment: usize,
        packet: Packet,
    },
    /// An old frame of wire failover comes again.
    Replay {
        segment: usize,
        packet: Packet,
    },
    /// A witness's finding reaches the engine.
    Found {
        node: usize,
        life: u32,
        finding: usize,
    },
    /// A third station answers a witness that doubts a session.
    Neighbour {
        node: usize,
        life: u32,
        session: u64,
    },
    /// An agent reads the keys of wire failover.
    Keys {
        node: usize,
        life: u32,
    },
    /// An announcement is due for a former holder alone.
    Repeat {
        node: usize,
        vip: usize,
        life: u32,
        to: MacAddr,
    },
    /// An agent whose program was told the end of this session has had time to act.
    Heeds {
        node: usize,
        session: Session,
    },
    Settled {
        node: usize,
        session: Session,
    },
    /// A crash is judged.
    Judge(usize),
    /// A frame reaches a node.
    Frame {
        segment: usize,
        to: usize,
        vip: usize,
        sha: MacAddr,
    },
    /// An agent may take yielded VIPs back.
    TakeBack {
        node: usize,
        life: u32,
    },
    /// An announcement is due.
    Announce {
        node: usize,
        vip: usize,
        life: u32,
        round: u8,
    },
    /// The program's event reaches the agent.
    Heard {
        node: usize,
        life: u32,
        vip: usize,
        wire: HeardWire,
    },
    /// Probing a VIP's address on the segment has ended.
    Probed {
        node: usize,
        vip: usize,
        life: u32,
        asked: u32,
    },
    /// The agent notices a change of its interfaces.
    Links {
        node: usize,
        life: u32,
    },
    /// The grace period of an agent that ends is over.
    Grace {
        node: usize,
        life: u32,
    },
    /// Stale entries are tried again.
    WriteAgain {
        node: usize,
        life: u32,
    },
    /// A fence or an entry may have lapsed.
    Lapse {
        node: usize,
    },
    /// Everything is checked.
    Sweep,
}

/// [`Wire`], with an order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum HeardWire {
    Contested(MacAddr),
    Moved(MacAddr),
    Yielded(MacAddr),
}

impl From<Wire> for HeardWire {
    fn from(wire: Wire) -> Self {
        match wire {
            Wire::Contested { mac } => Self::Contested(mac),
            Wire::Moved { mac } => Self::Moved(mac),
            Wire::Yielded { mac } => Self::Yielded(mac),
        }
    }
}

impl From<HeardWire> for Wire {
    fn from(heard: HeardWire) -> Self {
        match heard {
            HeardWire::Contested(mac) => Self::Contested { mac },
            HeardWire::Moved(mac) => Self::Moved { mac },
            HeardWire::Yielded(mac) => Self::Yielded { mac },
        }
    }
}

/// The wishes of Services for a VIP.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wish {
    pub(crate) begun: bool,
    pub(crate) unwanted: Times,
    /// The limits to nodes with endpoints; the latest counts.
    pub(crate) local: Vec<(usize, u8)>,
}

/// The state of one run.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) plan: Schedule,
    pub(crate) sabotage: Option<Sabotage>,
    pub(crate) now: At,
    queue: BinaryHeap<Reverse<(At, u64, Happening)>>,
    queued: u64,
    pub(crate) api: Api,
    pub(crate) saved: Vec<(usize, Saved)>,
    pub(crate) api_down: Times,
    pub(crate) api_refuses: Times,
    pub(crate) slow: Vec<(usize, u32)>,
    /// The number of changes of each kind that the watches have been offered.
    told: [usize; 4],
    flights: Vec<Flight>,
    lists: Vec<Vec<(Key, Incoming)>>,
    findings: Vec<Option<Finding>>,
    pub(crate) nodes: Vec<Node>,
    pub(crate) segments: Vec<Segment>,
    pub(crate) wishes: Vec<Wish>,
    strangers: Vec<Stranger>,
    /// Per VIP: the host that has its address.
    pub(crate) hosts: Vec<Option<Host>>,
    /// Per disturbance: what it has become, once it has begun.
    pub(crate) begun: Vec<Option<What>>,
    /// The disturbances that wait for a step.
    pub(crate) armed: Vec<usize>,
    /// The number of disturbances that have not ended. A stranger's Services are none.
    pub(crate) open: usize,
    /// Per VIP: the giver and taker of its handover.
    pub(crate) handing: Vec<Option<(usize, usize)>>,
    /// True if an answer may have changed.
    pub(crate) stirred: bool,
    pub(crate) record: Record,
    pub(crate) facts: Facts,
    pub(crate) trace: Trace,
    pub(crate) violation: Option<Violation>,
    /// The noise that belongs to no node.
    noise: Rng,
}

impl World {
    pub(crate) fn new(plan: &Schedule, options: Options) -> Self {
        let mut seeds = Rng::with_seed(plan.seed);
        let program = || Program::new(plan.vips.len(), plan.hold, options.sabotage);
        let nodes = plan.nodes.iter().enumerate().map(|(index, node)| {
            Node::new(index, node, (plan.segments.into(), plan.vips.len()), program(), seeds.u64(..))
        });
        let mut world = Self {
            nodes: nodes.collect(),
            sabotage: options.sabotage,
            now: At::default(),
            queue: BinaryHeap::new(),
            queued: 0,
            api: Api::new(options.sabotage),
            saved: Vec::new(),
            api_down: Times::default(),
            api_refuses: Times::default(),
            slow: Vec::new(),
            told: [0; 4],
            flights: Vec::new(),
            lists: Vec::new(),
            findings: Vec::new(),
            segments: vec![Segment::default(); plan.segments.into()],
            wishes: vec![Wish::default(); plan.vips.len()],
            strangers: Vec::new(),
            hosts: vec![None; plan.vips.len()],
            begun: vec![None; plan.disturbances.len()],
            armed: Vec::new(),
            open: plan.disturbances.iter().filter(|of| !of.what.is_strangers()).count(),
            handing: vec![None; plan.vips.len()],
            stirred: false,
            record: Record::new(plan),
            facts: Facts::default(),
            trace: Trace::new(options.trace),
            violation: None,
            noise: seeds.fork(),
            plan: plan.clone(),
        };
        world.facts.wire = world.has_wire();
        if let Some(scale) = world.scale() {
            world.trace.line(world.now, "", || format!("wire failover, at scale {}", scale.factor()));
        }
        world.queue_the_plan();
        world
    }

    fn queue_the_plan(&mut self) {
        let plan = self.plan.clone();
        for (index, node) in plan.nodes.iter().enumerate() {
            self.at(At::from_millis(node.joins_ms.into()), Happening::Join(index));
        }
        for (index, vip) in plan.vips.iter().enumerate() {
            self.at(At::from_millis(vip.wanted_ms.into()), Happening::Wanted(index));
        }
        for (index, disturbance) in plan.disturbances.iter().enumerate() {
            let ms = match disturbance.when {
                When::Ms(ms) => ms,
                When::Step { from_ms, .. } => from_ms,
            };
            self.at(At::from_millis(ms.into()), Happening::Begin(index));
        }
        self.after(SWEEP, Happening::Sweep);
    }

    /// Lets the next thing happen that is due, and returns it.
    pub(crate) fn advance(&mut self) -> Option<Happening> {
        let Reverse((at, _, happening)) = self.queue.pop()?;
        self.now = self.now.max(at);
        self.happen(&happening);
        Some(happening)
    }

    pub(crate) fn at(&mut self, at: At, happening: Happening) {
        self.queued += 1;
        self.queue.push(Reverse((at, self.queued, happening)));
    }

    pub(crate) fn after(&mut self, delay: Duration, happening: Happening) {
        self.at(self.now + delay, happening);
    }

    fn happen(&mut self, happening: &Happening) {
        match *happening {
            Happening::Begin(index) => self.begin_or_arm(index),
            Happening::End(index) => self.end(index),
            Happening::Disarm(index) => self.disarm(index),
            Happening::StoreAway => self.store_away(),
            Happening::Join(node) => self.join(node),
            Happening::Wanted(vip) => {
                self.wishes[vip].begun = true;
                self.record.disturbed(self.now);
                self.tell_wish(vip);
            }
            Happening::Boot { node } => self.boot(node),
            Happening::List { node, life, kind, watch } => self.list(node, life, kind, watch),
            Happening::Listed { node, life, kind, watch, list } => {
                self.listed(node, life, kind, watch, list);
            }
            Happening::Deliver { node, life, kind, watch, upto } => {
                self.deliver(node, life, kind, watch, upto);
            }
            Happening::Tick { node, life } => self.tick(node, life),
            Happening::Arrive(flight) => self.arrive(flight),
            Happening::Answer(flight) => self.answered(flight),
            Happening::Timeout(flight) => self.timed_out(flight),
            Happening::Turn { node, life } => self.turn(node, life),
            Happening::Packet { segment, packet } => self.packet(segment, packet),
            Happening::Replay { segment, packet } => self.replay(segment, packet),
            Happening::Found { node, life, finding } => self.found(node, life, finding),
            Happening::Neighbour { node, life, session } => self.neighbour(node, life, session),
            Happening::Keys { node, life } => self.keys(node, life),
            Happening::Repeat { node, vip, life, to } => self.repeat(node, vip, life, to),
            Happening::Heeds { node, session } => self.check_heed(node, session),
            Happening::Settled { node, session } => self.check_settled(node, session),
            Happening::Judge(crash) => self.judge(crash),
            Happening::Frame { segment, to, vip, sha } => self.frame(segment, to, vip, sha),
            Happening::TakeBack { node, life } => self.take_back_due(node, life),
            Happening::Announce { node, vip, life, round } => self.announce(node, vip, life, round),
            Happening::Heard { node, life, vip, wire } => self.heard(node, life, vip, wire.into()),
            Happening::Probed { node, vip, life, asked } => self.probed(node, vip, life, asked),
            Happening::Links { node, life } => self.notice_links(node, life),
            Happening::Grace { node, life } => {
                if self.nodes[node].life == life && self.nodes[node].process.is_some() {
                    self.exit(node);
                }
            }
            Happening::WriteAgain { node, life } => self.write_again(node, life),
            Happening::Lapse { node } => self.lapse(node),
            Happening::Sweep => self.after(SWEEP, Happening::Sweep),
        }
    }

    pub(crate) fn segment_of(&self, vip: usize) -> usize {
        vip % self.segments.len()
    }

    pub(crate) fn policy(&self) -> Policy {
        if self.plan.hold { Policy::Hold } else { Policy::Stop }
    }

    pub(crate) fn violate(&mut self, rule: &'static str, what: String) {
        if self.violation.is_none() {
            self.trace.line(self.now, "", || format!("VIOLATION of {rule}: {what}"));
            self.violation = Some(Violation { rule, what });
        }
    }

    pub(crate) fn say(&mut self, node: usize, what: impl FnOnce() -> String) {
        self.trace.line(self.now, node_name(node), what);
    }
}

fn node_name(node: usize) -> NodeName {
    names::node(node)
}
