//! Carries out the effects of agents.

use std::{collections::BTreeSet, time::Duration};

use vipward_common::{DeadlineState, LeaseDeadline, MacAddr, Twin, VipKey};
use vipward_core::{
    agent::{
        ClusterEffect, Effect, Entries, Input, Listened, Macs, Maps, Outcome, Prepared, Reading, Readout,
        Request,
    },
    host::attaching::Mode,
    liveness,
    ownership::Expected,
    records::Epoch,
    segment::{announce::Command, confirming::Answerer, egress},
};

use super::{Happening, World, transit};
use crate::{
    machine::{Frame, Node, Oper, PROGRAM, Writing},
    schedule::{Kind, Sabotage, Step, names},
};

/// The time until an agent that ended with an error is started again, in milliseconds.
const BACK_OFF: std::ops::Range<u64> = 1_000..10_000;

impl World {
    /// Carries out an effect of an agent.
    pub(super) fn carry_out(&mut self, node: usize, effect: Effect) {
        let now = self.now;
        self.note_noise(node, &effect);
        self.record.trace.effect(now, node, &effect, self.nodes[node].clock.read(now));
        let outcome = if self.omits_effect(node, &effect) {
            if let Effect::Announce { command: Command::Send { key, round, .. }, .. } = effect {
                Some(Outcome::Announced { key, round })
            } else {
                None
            }
        } else {
            self.result_of(node, effect)
        };
        if let Some(outcome) = outcome
            && let Some(process) = &mut self.nodes[node].process
        {
            process.results.push_back(Input::Result(outcome));
        }
    }

    /// Carries out an effect. Returns its result, if it has one now.
    fn result_of(&mut self, node: usize, effect: Effect) -> Option<Outcome> {
        Some(match effect {
            Effect::Read(reading) => Outcome::Read(Ok(self.read(node, reading))),
            Effect::Prepare { attach, slots, binds: _ } => {
                Outcome::Prepared(self.prepare(node, attach, &slots)?.into())
            }
            Effect::ChangeGroup(command) => Outcome::Group(command, Ok(())),
            Effect::AttachAgain(_) => Outcome::AttachedAgain(None),
            Effect::Count => Outcome::Counted(self.nodes[node].program.offenders().clone()),
            Effect::Announce { command, is_taken_back } => {
                return self.announce(node, command, is_taken_back);
            }
            Effect::Probe(key) | Effect::ShowPort(key) => {
                return (!self.probe(node, key)).then_some(Outcome::NotSent(key));
            }
            Effect::AskHost { key, mac } => {
                return (!self.ask_host(node, key, mac)).then_some(Outcome::NotSent(key));
            }
            // The segments have no routers.
            Effect::TellApart { key, mac } => {
                let told = Input::Told { key, mac, answerer: Answerer::Host };
                self.nodes[node].process.as_mut()?.results.push_back(told);
                return None;
            }
            Effect::ProbeHeld { key, is_taken_back } => {
                let mac = self.seen_mac(node, key.ifindex)?;
                if self.may_announce(node, key, mac, is_taken_back) {
                    self.probe(node, key);
                }
                return None;
            }
            Effect::Write(mut actions) => {
                if self.sabotage == Some(Sabotage::WritesReversed) {
                    actions.reverse();
                }
                let process = self.nodes[node].process.as_mut()?;
                process.writing = Some(Writing { left: actions.into(), results: Vec::new() });
                return None;
            }
            Effect::Listen { segment, round, peers: _, questions } => {
                self.listen(node, segment, round, questions);
                return None;
            }
            Effect::SetDeadline(lease_deadline) => {
                self.set_deadline(node, lease_deadline);
                return None;
            }
            Effect::Withdraw => {
                let lease_deadline = *self.nodes[node].program.lease_deadline();
                self.set_deadline(
                    node,
                    LeaseDeadline { deadline_ns: 0, grace_until_ns: 0, ..lease_deadline },
                );
                return None;
            }
            Effect::Cluster(effect) => {
                self.carry_out_in_cluster(node, effect);
                return None;
            }
            Effect::Stopped(_) => {
                self.exit(node);
                return None;
            }
            // The agent ends with an error, and is started again like any other.
            Effect::NotAlone(_) => {
                let delay = Duration::from_millis(self.nodes[node].rng.steps.u64(BACK_OFF));
                self.kill(node);
                self.after(delay, Happening::Boot { node });
                return None;
            }
            Effect::PutFault(key, fault) => {
                self.put_fault(node, key, fault);
                return None;
            }
            Effect::AskAs { segment, round, host, vips, .. } => {
                let sent = self.ask_as(node, segment, host, vips);
                Outcome::Asked { segment, round, host, sent }
            }
            Effect::PutProof(..)
            | Effect::PutTwin(..)
            | Effect::State { .. }
            // Each agent here has a cluster.
            | Effect::ReadFile
            | Effect::Problems(_)
            | Effect::Log(_) => {
                return None;
            }
        })
    }

    fn read(&mut self, node: usize, reading: Reading) -> Readout {
        let (it, now) = (&self.nodes[node], self.now);
        let program = &it.program;
        match reading {
            Reading::Network => Readout::Network(self.observe(node).into()),
            Reading::Yields => Readout::Yields(program.yields_total()),
            Reading::Maps => Readout::Maps(read_maps(it).into()),
            Reading::Entries(keys) => {
                let entries = keys.into_iter().filter_map(|key| Some((key, *program.entry(key)?)));
                Readout::Entries(Entries { yields: program.yields_total(), entries: entries.collect() })
            }
            Reading::Records(slots) => Readout::Records(program.records(&slots)),
            Reading::Macs => Readout::Macs(read_macs(it)),
            Reading::Held => Readout::Held(program.held().collect()),
            Reading::LeaseDeadline => {
                Readout::LeaseDeadline(it.lease_deadline(now), program.yields_total() > 0)
            }
            Reading::Seen(keys) => {
                let local = it.program_now(now).as_nanos();
                let seen = |key: VipKey| {
                    let entry = program.entry(key)?;
                    Some((key, entry.as_seen(program.record(entry.slot), local)))
                };
                Readout::Seen(keys.into_iter().filter_map(seen).collect())
            }
            Reading::Groups => Readout::Groups(BTreeSet::new()),
        }
    }

    fn carry_out_in_cluster(&mut self, node: usize, effect: ClusterEffect) {
        let life = self.nodes[node].life;
        match effect {
            ClusterEffect::Ask(request) => self.ask(node, request),
            ClusterEffect::ListAnew if self.sabotage == Some(Sabotage::NoListing) => {}
            ClusterEffect::ListAnew => self.list_anew(node),
            ClusterEffect::Watch(plan) => self.set_wire(node, plan),
            ClusterEffect::SetHeeding(heeds) => self.set_heeding(node, heeds),
            ClusterEffect::NotifyFormer { ifindex, mac, session } => {
                let process = self.nodes[node].process.as_ref();
                let key = process.and_then(|process| process.pinger.as_ref()?.plan.key);
                if let Some(key) = key {
                    let frame = liveness::Frame::ended(session);
                    self.send_wire(node, names::segment_behind(ifindex), mac, key, frame);
                }
            }
            ClusterEffect::ListSlices(_) => self.begin_list(node, Kind::Slice),
            ClusterEffect::AskProxy(target) => self.ask_proxy(node, target),
            ClusterEffect::Post(message) => {
                self.with_desk(node, life, |desk, now| desk.events.post(*message, now));
            }
            ClusterEffect::Problem(service, problem) => {
                self.with_desk(node, life, |desk, now| desk.events.begin(service, problem, now));
            }
            ClusterEffect::ProblemOver(service, problem) => {
                self.with_desk(node, life, |desk, _| desk.events.end(&service, &problem));
            }
            ClusterEffect::ShowHolder(..)
            | ClusterEffect::ForgetHolder(..)
            | ClusterEffect::AvoidServer(_)
            | ClusterEffect::LeaveStatus(_)
            | ClusterEffect::Moved(_)
            | ClusterEffect::Took(_) => {}
        }
    }

    fn ask(&mut self, node: usize, request: Request) {
        let step = match &request {
            Request::WriteClaim(write) => {
                if write.expected == Expected::Absent && write.epoch > Epoch(1) {
                    let what = format!("{} creates a claim in epoch {}", names::node(node), write.epoch);
                    self.violate("new", what);
                }
                self.steps_of_write(node, write)
            }
            Request::WriteStatus { service, addresses: Some(addresses), .. } => {
                for address in addresses {
                    let what = format!("{} writes the status of", names::node(node));
                    self.note_strangers(names::vip_index(*address), service, &what);
                }
                None
            }
            _ => None,
        };
        self.send(node, transit::Request::Agents(request));
        if let Some((step, giver, taker)) = step {
            self.step(step, giver, taker);
        }
    }

    fn observe(&mut self, node: usize) -> vipward_core::agent::Network {
        if self.omits_observation(node)
            && let Some(process) = &self.nodes[node].process
        {
            return vipward_core::agent::Network {
                view: process.agent.view().clone(),
                ..self.network_of(node)
            };
        }
        for link in &mut self.nodes[node].links {
            link.known_mac = link.mac;
        }
        self.network_of(node)
    }

    fn prepare(&mut self, node: usize, attach: Vec<u32>, slots: &BTreeSet<u32>) -> Option<Prepared> {
        let it = &mut self.nodes[node];
        it.program.attached = attach.into_iter().collect();
        let mut view = it.process.as_ref()?.agent.view().clone();
        for interface in view.interfaces.values_mut() {
            interface.xdp_programs.clear();
            if it.program.attached.contains(&interface.index) {
                Mode::Native.note(interface, PROGRAM);
            }
        }
        Some(Prepared {
            view,
            attachments: it.attachments(),
            records: Ok(it.program.records(slots)),
            groups: Ok(BTreeSet::new()),
            warnings: Vec::new(),
        })
    }

    /// Returns the MAC of an interface, as the agent knows it.
    pub(super) fn seen_mac(&self, node: usize, ifindex: u32) -> Option<MacAddr> {
        let process = self.nodes[node].process.as_ref()?;
        process.agent.view().interfaces.get(&ifindex).map(|interface| interface.mac)
    }

    /// Returns whether the maps say now that a node holds a VIP with this MAC.
    pub(super) fn may_announce(&self, node: usize, key: VipKey, mac: MacAddr, is_taken_back: bool) -> bool {
        let it = &self.nodes[node];
        let is_its = it.program.entry(key).is_some_and(|entry| entry.mac == mac.0);
        is_its && it.program.may_announce(key, is_taken_back, it.program_now(self.now))
    }

    fn announce(&mut self, node: usize, command: Command, is_taken_back: bool) -> Option<Outcome> {
        let (Command::Send { key, mac, .. } | Command::Repeat { key, mac, .. }) = command;
        let (vip, segment) = (names::vip_index(key.addr), names::segment_behind(key.ifindex));
        if !self.may_announce(node, key, mac, is_taken_back) || self.has_no_carrier(node, segment) {
            return None;
        }
        let frame = |oper| Frame::announcement(oper, mac, names::v4(vip));
        match command {
            Command::Repeat { former, .. } => {
                if self.sabotage != Some(Sabotage::NoRepeats) {
                    self.say(node, || format!("announces {} at {mac} to {former} alone", key.addr));
                    self.transmit(segment, node, Frame { to: former, ..frame(Oper::Request) });
                }
                None
            }
            Command::Send { round, .. } => {
                self.say(node, || format!("announces {} at {mac}", key.addr));
                self.transmit(segment, node, frame(Oper::Request));
                self.transmit(segment, node, frame(Oper::Reply));
                self.nodes[node].announced_at[vip] = self.now;
                if let Some((giver, taker)) = self.under_way.handing[vip].filter(|(_, taker)| *taker == node)
                {
                    self.step(Step::Announced, giver, taker);
                }
                Some(Outcome::Announced { key, round })
            }
        }
    }

    /// Probes a VIP's address. Returns false if the probe could not be sent.
    fn probe(&mut self, node: usize, key: VipKey) -> bool {
        let segment = names::segment_behind(key.ifindex);
        let vip = names::vip_index(key.addr);
        let Some(mac) = self.seen_mac(node, key.ifindex).filter(|_| !self.has_no_carrier(node, segment))
        else {
            return false;
        };
        if self.sabotage != Some(Sabotage::NoQuestion) || !self.nodes[node].yielded.contains(&vip) {
            self.transmit(segment, node, Frame::probe(mac, names::v4(vip)));
        }
        true
    }

    /// Asks a host for a VIP's address by unicast. Returns false if the request could not be sent.
    fn ask_host(&mut self, node: usize, key: VipKey, to: MacAddr) -> bool {
        let segment = names::segment_behind(key.ifindex);
        let own = self.seen_mac(node, key.ifindex).filter(|_| !self.has_no_carrier(node, segment));
        let Some(own) = own else { return false };
        let question = Frame::probe(own, names::v4(names::vip_index(key.addr)));
        self.transmit(segment, node, Frame { to, ..question });
        true
    }

    pub(super) fn has_no_carrier(&self, node: usize, segment: usize) -> bool {
        self.nodes[node].links[segment].no_carrier.any()
    }

    fn set_deadline(&mut self, node: usize, mut lease_deadline: LeaseDeadline) {
        if self.sabotage == Some(Sabotage::NoMargin) && lease_deadline.deadline_ns != 0 {
            // The share of the lease that the engine keeps free whatever the settings are.
            lease_deadline.deadline_ns += u64::from(self.plan.timing.lease_ms) * 1_000_000 / 20;
        }
        let it = &mut self.nodes[node];
        if it.lease_deadline(self.now) != DeadlineState::Valid {
            it.times.valid = self.now;
        }
        it.program.set_deadline(lease_deadline);
        it.times.alive = self.now;
        self.stirred = true;
        self.watch_deadline(node);
    }

    /// Ends a round of listening, in which the program has counted what the sockets have received.
    pub(super) fn listened(&mut self, node: usize, life: u32, segment: u32, round: u64) {
        let Some(process) = self.nodes[node].process_of(life) else { return };
        let mut answers = process.egress.remove(&segment).unwrap_or_default();
        let questions = process.questions.remove(&segment).unwrap_or_default();
        let of_others = self.answered_questions(node, segment, questions, &mut answers);
        let egress = egress::Outcome { answers, has_lost: false };
        let answered = BTreeSet::new();
        let frames = u32::from(self.hears(node, segment));
        let listened = Listened {
            segment,
            round,
            frames,
            counted: frames.into(),
            answered,
            egress,
            of_others,
            twin: Twin::None,
        };
        self.incoming(node, life, Input::Listened(listened));
    }
}

fn read_macs(it: &Node) -> Macs {
    Macs { own: it.program.own_macs().clone(), peers: it.program.peers.clone() }
}

fn read_maps(it: &Node) -> Maps {
    Maps {
        yields: it.program.yields_total(),
        entries: it.program.entries().clone(),
        macs: read_macs(it),
        binds: it.program.binds().clone(),
        is_pinned: true,
    }
}
