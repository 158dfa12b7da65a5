//! A run as it goes: its state, its queue, and what agents, requests and frames do.

mod agent;
mod desk;
mod effects;
mod egress;
mod electing;
mod hosts;
mod leader;
mod lease_deadline;
mod maps;
mod monitor;
mod noise;
mod omitting;
mod parties;
mod proxies;
mod queue;
mod requests;
mod transit;
mod under_way;
mod watches;
mod wire;

use std::time::Duration;

use fastrand::Rng;
use vipward_common::Policy;

pub(crate) use self::{electing::RENEWALS, queue::Happening};
use self::{queue::Queue, transit::Transit, under_way::UnderWay};
use crate::{
    api::{Api, DesiredState},
    machine::{At, Clock, Contender, Network, Node, Program},
    record::{Record, Violation},
    schedule::{Options, Sabotage, Schedule, When, names},
};

/// The interval of the checks of what time alone changes.
const SWEEP: Duration = Duration::from_millis(200);

/// The state of one run.
pub(crate) struct World {
    pub(crate) plan: Schedule,
    pub(crate) sabotage: Option<Sabotage>,
    pub(crate) now: At,
    queue: Queue,
    transit: Transit,
    pub(crate) api: Api,
    pub(crate) nodes: Vec<Node>,
    /// The controllers, if the schedule has some.
    pub(crate) controllers: Vec<Contender>,
    pub(crate) network: Network,
    pub(crate) desired: DesiredState,
    pub(crate) under_way: UnderWay,
    /// True if an answer may have changed.
    pub(crate) stirred: bool,
    pub(crate) record: Record,
    /// The noise that belongs to no node.
    pub(crate) noise: Rng,
}

impl World {
    pub(crate) fn new(plan: &Schedule, options: Options) -> Self {
        let mut seeds = Rng::with_seed(plan.seed);
        let program = || Program::new(options.sabotage);
        let nodes = plan.nodes.iter().enumerate().map(|(index, node)| {
            Node::new(index, node, (plan.segments.into(), plan.vips.len()), program(), seeds.u64(..))
        });
        let mut world = Self {
            nodes: nodes.collect(),
            sabotage: options.sabotage,
            now: At::default(),
            queue: Queue::default(),
            transit: Transit::default(),
            api: Api::new(options.sabotage, plan.has_controller()),
            network: Network::new(plan.segments.into(), plan.vips.len()),
            desired: DesiredState::new(plan),
            under_way: UnderWay::new(plan),
            stirred: false,
            record: Record::new(plan, options.trace),
            noise: seeds.fork(),
            controllers: Vec::new(),
            plan: plan.clone(),
        };
        let clocks = plan.tenants.iter().flat_map(|plan| plan.clocks_ppm);
        world.controllers = clocks.map(|ppm| Contender::new(Clock::new(SWEEP, ppm), &mut seeds)).collect();
        world.record.facts.wire = world.has_wire();
        world.record.facts.controller = plan.has_controller();
        if let Some(scale) = world.scale() {
            world.record.trace.line(world.now, "", || format!("wire failover, at scale {}", scale.factor()));
        }
        world.queue_the_plan();
        world
    }

    fn queue_the_plan(&mut self) {
        let plan = self.plan.clone();
        for (index, node) in plan.nodes.iter().enumerate() {
            self.at(At::from_millis(node.joins_ms.into()), Happening::Join(index));
        }
        let services = plan.tenants.iter().flat_map(|plan| &plan.services).map(|service| service.wanted_ms);
        let vips = plan.vips.iter().map(|vip| vip.wanted_ms).filter(|_| plan.tenants.is_none());
        for (index, wanted_ms) in vips.chain(services).enumerate() {
            self.at(At::from_millis(wanted_ms.into()), Happening::Wanted(index));
        }
        if plan.has_controller() {
            self.begin_tenants();
            (names::CONTROLLER..).take(self.controllers.len()).for_each(|who| self.boot(who));
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
        let (at, happening) = self.queue.pop()?;
        self.now = self.now.max(at);
        self.happen(&happening);
        Some(happening)
    }

    pub(crate) fn at(&mut self, at: At, happening: Happening) {
        self.queue.push(at, happening);
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
            Happening::Wanted(index) => self.want(index),
            Happening::Boot { node } => self.boot(node),
            Happening::List { node, life, kind, watch } => self.list(node, life, kind, watch),
            Happening::Listed { node, life, kind, watch, list } => {
                self.listed(node, life, kind, watch, list);
            }
            Happening::Deliver { node, life, kind, watch, upto } => {
                self.deliver(node, life, kind, watch, upto);
            }
            Happening::Deadline { node, life } => self.deadline(node, life),
            Happening::Round { node, life } => self.round_is_due(node, life),
            Happening::Desk { node, life } => self.desk_turn(node, life),
            Happening::GoOn { node, life } => self.go_on(node, life),
            Happening::ProxyAnswer { node, life, target, answer } => {
                self.proxy_answers(node, life, target, answer);
            }
            Happening::HalfListened { node, life, segment, round } => {
                self.half_listened(node, life, segment, round);
            }
            Happening::Listened { node, life, segment, round } => self.listened(node, life, segment, round),
            Happening::Heard { node, life, segment, round } => self.heard(node, life, segment, round),
            Happening::HostAnswer { segment, vip, frame } => self.host_answers(segment, vip, frame),
            Happening::Arrive(flight) => self.arrive(flight),
            Happening::Answer(flight) => self.answered(flight),
            Happening::Timeout(flight) => self.timed_out(flight),
            Happening::Turn { node, life } => self.turn(node, life),
            Happening::Packet { segment, packet } => self.packet(segment, packet),
            Happening::Replay { segment, packet } => self.replay(segment, packet),
            Happening::Found { node, life, finding } => self.found(node, life, finding),
            Happening::Neighbour { node, life, session } => self.neighbour(node, life, session),
            Happening::Keys { node, life } => self.keys(node, life),
            Happening::Heeds { node, session } => self.check_heed(node, session),
            Happening::Settled { node, session } => self.check_settled(node, session),
            Happening::Judge(crash) => self.judge(crash),
            Happening::Frame { segment, to, ref frame } => self.frame(segment, to, frame),
            Happening::Ring { node } => self.read_ring(node),
            Happening::Links { node, life } => self.notice_links(node, life),
            Happening::Grace { node, life } => {
                if self.nodes[node].life == life && self.nodes[node].process.is_some() {
                    self.exit(node);
                }
            }
            Happening::Lapse { node } => self.lapse(node),
            Happening::Sweep => self.after(SWEEP, Happening::Sweep),
        }
    }

    pub(crate) fn segment_of(&self, vip: usize) -> usize {
        vip % self.network.segments.len()
    }

    pub(crate) fn policy(&self) -> Policy {
        if self.plan.hold { Policy::Hold } else { Policy::Stop }
    }

    pub(crate) fn violate(&mut self, rule: &'static str, what: String) {
        if self.record.violation.is_none() {
            self.record.trace.line(self.now, "", || format!("VIOLATION of {rule}: {what}"));
            self.record.violation = Some(Violation { rule, what });
        }
    }

    pub(crate) fn say(&mut self, node: usize, what: impl FnOnce() -> String) {
        self.record.trace.line(self.now, names::node(node), what);
    }
}
