//! Monitors: the agents' pingers, their frames on the segments, and what the programs make of them.

use std::{sync::Arc, time::Duration};

use vipward_common::{DeadlineState, MacAddr};
use vipward_core::{
    base::time::Boottime,
    liveness::{Act, Answers, Finding, Frame, Kind, Monitor, Plan, Received, Scale, Seen as _},
    ownership::Event,
    records::{KeyId, Session, Wid},
};

use super::{Happening, World};
use crate::{
    machine::{
        Pinger, SOCKET,
        wired::{self, Packet, Verdict},
    },
    schedule::{Sabotage, names},
};

/// The only key.
const KEY: KeyId = KeyId(1);
/// The time between a deadline and the pinger's turn, in microseconds.
const TURN_US: std::ops::Range<u64> = 5..150;
/// The time until the engine gets a finding, in microseconds.
const FOUND_US: std::ops::Range<u64> = 10..400;
/// The time in which a neighbour answers, in microseconds.
const NEIGHBOUR_US: std::ops::Range<u64> = 200..3_000;
/// The longest time without a turn, as far as it matters.
const LONGEST: Duration = Duration::from_millis(100);
/// The number of a host that is no node, among the stations of a segment.
const STATION: usize = 7;

impl World {
    /// Returns whether nodes take part in wire failover.
    pub(crate) fn has_wire(&self) -> bool {
        self.plan.has_wire()
    }

    /// Returns the scale of wire failover, or none if no node takes part.
    pub(crate) fn scale(&self) -> Option<Scale> {
        self.plan.scale()
    }

    fn boot_now(&self, node: usize) -> Boottime {
        Boottime::from_nanos(self.nodes[node].boot_clock.read(self.now).as_nanos())
    }

    /// Starts the monitor of a new agent.
    pub(super) fn start_monitor(&mut self, node: usize) {
        let Some(scale) = self.scale() else { return };
        let it = &mut self.nodes[node];
        let number = it.rng.frames.u64(1..);
        let wid = it.program.wired.wid.or_else(|| Wid::from_number(number));
        it.program.wired.wid = wid;
        let (Some(wid), Some(process)) = (wid, &mut it.process) else { return };
        process.pinger = Some(Pinger {
            monitor: Monitor::new(scale, wid),
            plan: Plan::default(),
            turn: None,
            socket: Vec::new(),
        });
        let life = it.life;
        self.owned(node, life, Event::WireSelf(Some(wid)));
        self.notify_keys(node);
    }

    /// Lets an agent read the keys.
    pub(crate) fn notify_keys(&mut self, node: usize) {
        let (delay, life) = (self.latency(node) + self.latency(node), self.nodes[node].life);
        if self.has_wire() && self.nodes[node].process.is_some() {
            self.after(delay, Happening::Keys { node, life });
        }
    }

    pub(super) fn keys(&mut self, node: usize, life: u32) {
        if self.nodes[node].life != life {
            return;
        }
        if !self.reaches_api(node) {
            return self.after(Duration::from_millis(250), Happening::Keys { node, life });
        }
        let is_keyless = self.plan.wire.is_some_and(|plan| plan.keyless >> node & 1 == 1);
        let it = &mut self.nodes[node];
        let keys = if is_keyless || it.faults.key_gone.any() { Vec::new() } else { vec![KEY] };
        it.wire.keys.clone_from(&keys);
        it.program.wired.set_keys(if it.wire.heeds { &keys } else { &[] });
        self.owned(node, life, Event::WireKeys(keys));
    }

    /// Sets or removes a program's keys, and notifies the engine of the program's last expiry notice.
    pub(super) fn set_heeding(&mut self, node: usize, heeds: bool) {
        let it = &mut self.nodes[node];
        it.wire.heeds = heeds;
        it.program.wired.set_keys(if heeds { &it.wire.keys } else { &[] });
        if let Some(word) = it.program.wired.notified() {
            let life = it.life;
            self.owned(node, life, Event::Detected(Finding::Ended(word)));
        }
    }

    /// Sends a node a false expiry notice from an unknown host that has the key.
    pub(crate) fn send_false_expiry(&mut self, node: usize, segment: usize) {
        let it = &self.nodes[node];
        let Some(session) = it.program.session().filter(|_| self.has_wire()) else { return };
        let packet = Packet {
            from: names::STRANGER,
            to: it.links[segment].mac,
            kind: wired::Kind::Ended,
            key: KEY.0,
            holder: session.number(),
            wid: 0,
            sent_ns: 0,
            answered_ns: 0,
        };
        if self.carries(segment, STATION, node) {
            self.after(Duration::from_micros(100), Happening::Packet { segment, packet });
        }
    }

    /// Makes a node whose session was ended forget that it needs a peer's answer before it takes a VIP again.
    pub(super) fn forget_contact(&mut self, node: usize) {
        if self.sabotage == Some(Sabotage::TakesUnheard) {
            let life = self.nodes[node].life;
            self.owned(node, life, Event::WireKeys(Vec::new()));
        }
    }

    /// Gives an agent's monitor another plan.
    pub(super) fn set_wire(&mut self, node: usize, plan: Plan) {
        let now = self.boot_now(node);
        let it = &mut self.nodes[node];
        let Some(pinger) = it.process.as_mut().and_then(|process| process.pinger.as_mut()) else { return };
        let ids = plan.ids();
        it.program
            .wired
            .set_index(ids.into_iter().map(|(id, interface)| (id, names::segment(&interface))).collect());
        pinger.plan = plan.clone();
        pinger.monitor.set_plan(plan, now);
        self.schedule_turn(node);
    }

    /// Lets a monitor do what is due, now or at its next deadline.
    pub(super) fn schedule_turn(&mut self, node: usize) {
        let now = self.now;
        let it = &mut self.nodes[node];
        let (runs, life) = (it.agent_runs(), it.life);
        let Some(pinger) = it.process.as_mut().and_then(|process| process.pinger.as_mut()) else { return };
        let due = if pinger.socket.is_empty() {
            let deadline = pinger.monitor.next_deadline();
            let due = deadline.and_then(|due| {
                it.boot_clock.when(vipward_core::base::time::Monotonic::from_nanos(due.as_nanos()))
            });
            // No frame wakes it.
            let look = it.program.has_ended().then_some(now + LONGEST);
            due.into_iter().chain(look).min()
        } else {
            Some(now)
        };
        let Some(due) = due.filter(|_| runs) else { return };
        let busy = it.faults.busy.iter().map(|(_, by)| *by).max().map_or(0, |by| it.rng.frames.u32(0..=by));
        let late = Duration::from_micros(it.rng.frames.u64(TURN_US)) + Duration::from_millis(busy.into());
        let at = due.max(now) + late;
        if pinger.turn.is_none_or(|turn| turn < now || at < turn) {
            pinger.turn = Some(at);
            self.at(at, Happening::Turn { node, life });
        }
    }

    pub(super) fn turn(&mut self, node: usize, life: u32) {
        let now = self.now;
        let it = &mut self.nodes[node];
        let Some(pinger) = it.process.as_mut().and_then(|process| process.pinger.as_mut()) else { return };
        if it.life != life || pinger.turn != Some(now) {
            return;
        }
        pinger.turn = None;
        if it.agent_runs() {
            self.take_turn(node);
        }
    }

    fn take_turn(&mut self, node: usize) {
        let now = self.boot_now(node);
        let it = &mut self.nodes[node];
        let seen = &it.program.wired;
        let Some(pinger) = it.process.as_mut().and_then(|process| process.pinger.as_mut()) else { return };
        for received in std::mem::take(&mut pinger.socket) {
            pinger.monitor.on_frame(received, now);
        }
        for act in pinger.monitor.on_time(seen, now) {
            self.act(node, act);
        }
        self.schedule_turn(node);
    }

    fn act(&mut self, node: usize, act: Act) {
        match act {
            Act::Send { interface, to, key, frame } => {
                self.send_wire(node, names::segment(&interface), to, key, frame);
            }
            Act::AskNeighbours { session, interface, holder: _ } => {
                self.probe_neighbours(node, session, &interface);
            }
            Act::Report(finding) => self.report(node, finding),
        }
    }

    fn report(&mut self, node: usize, mut finding: Finding) {
        self.say(node, || format!("its monitor finds {finding:?}"));
        match &mut finding {
            Finding::Unresponsive { session, .. } => {
                self.record.facts.suspected = true;
                self.nodes[node].wire.truth.entry(session.number()).or_default().found = Some(self.now);
            }
            Finding::Pinged { lately, .. } => {
                *lately |= self.sabotage == Some(Sabotage::NoLeaving);
            }
            Finding::Contact { received, answers, .. } if self.sabotage == Some(Sabotage::HoldsUnheard) => {
                *received = true;
                if *answers == Answers::NoLonger {
                    *answers = Answers::None;
                }
            }
            Finding::Ended(_) if self.sabotage == Some(Sabotage::NoHeeding) => return,
            Finding::Answers { .. }
            | Finding::Contact { .. }
            | Finding::Ended(_)
            | Finding::Expired { .. } => {}
        }
        let it = &mut self.nodes[node];
        let delay = Duration::from_micros(it.rng.frames.u64(FOUND_US));
        // None overtakes another.
        it.wire.found_at = (self.now + delay).max(it.wire.found_at + Duration::from_nanos(1));
        let (life, number, at) = (it.life, self.transit.findings.len(), it.wire.found_at);
        self.transit.findings.push(Some(finding));
        self.at(at, Happening::Found { node, life, finding: number });
    }

    pub(super) fn found(&mut self, node: usize, life: u32, finding: usize) {
        if let Some(finding) = self.transit.findings[finding].take() {
            self.owned(node, life, Event::Detected(finding));
        }
    }

    /// Probes a host of the segment that is no node.
    fn probe_neighbours(&mut self, node: usize, session: Session, interface: &Arc<str>) {
        let segment = names::segment(interface);
        let life = self.nodes[node].life;
        let session = session.number();
        let happening = Happening::Neighbour { node, life, session };
        if self.sabotage == Some(Sabotage::NoThirdStation) {
            return self.after(Duration::from_micros(100), happening);
        }
        let is_there = self.plan.wire.is_some_and(|plan| plan.third_station);
        let asks = self.carries(segment, node, STATION) && self.carries(segment, STATION, node);
        if is_there && asks {
            let delay = Duration::from_micros(self.nodes[node].rng.frames.u64(NEIGHBOUR_US));
            self.nodes[node].wire.truth.entry(session).or_default().third_station = Some(self.now);
            self.after(delay, happening);
        }
    }

    pub(super) fn neighbour(&mut self, node: usize, life: u32, session: u64) {
        let now = self.boot_now(node);
        let it = &mut self.nodes[node];
        let runs = it.agent_runs();
        let Some(pinger) = it.process.as_mut().and_then(|process| process.pinger.as_mut()) else { return };
        let Some(session) = Session::from_number(session).filter(|_| it.life == life && runs) else { return };
        pinger.monitor.on_third_station(session, now);
        self.take_turn(node);
    }

    /// Returns whether a frame between two stations of a segment arrives, by chance if frames are
    /// lost.
    fn carries(&mut self, segment: usize, from: usize, to: usize) -> bool {
        let has_carrier =
            |station: usize| self.nodes.get(station).is_none_or(|node| !node.links[segment].no_carrier.any());
        let passes = self.network.segments[segment].passes(from, to) && has_carrier(from) && has_carrier(to);
        passes && self.survives(segment, if from == STATION { to } else { from })
    }

    /// Returns whether a segment that loses frames spares this one.
    fn survives(&mut self, segment: usize, node: usize) -> bool {
        let lossy = self.network.segments[segment].lossy.iter().map(|(_, percent)| *percent).max();
        lossy.is_none_or(|percent| self.nodes[node].rng.frames.u8(0..100) >= percent)
    }

    /// Sends an agent's frame.
    pub(super) fn send_wire(&mut self, node: usize, segment: usize, to: MacAddr, key: KeyId, frame: Frame) {
        let Some(scale) = self.scale() else { return };
        let now = self.now;
        let kind = match frame.kind {
            Kind::Ping => wired::Kind::Ping,
            Kind::VoteRequest => wired::Kind::VoteRequest,
            Kind::Vote => wired::Kind::Vote,
            Kind::Ended => wired::Kind::Ended,
        };
        let holder = frame.holder.number();
        let truth = self.nodes[node].wire.truth.entry(holder).or_default();
        if frame.kind == Kind::Ping {
            truth.sent(frame.stamp, now);
        }
        truth.check(scale, now);
        if frame.kind == Kind::Ended && self.sabotage == Some(Sabotage::NoNotifying) {
            return;
        }
        let packet = Packet {
            from: self.nodes[node].links[segment].known_mac,
            to,
            kind,
            key: key.0,
            holder,
            wid: frame.wid.map_or(0, Wid::number),
            sent_ns: frame.stamp,
            answered_ns: 0,
        };
        if frame.kind != Kind::Ping {
            self.say(node, || format!("sends {:?} to {to} on {}", packet.kind, names::interface(segment)));
        }
        self.send_packet(segment, node, packet);
    }

    fn send_packet(&mut self, segment: usize, from: usize, packet: Packet) {
        let to = names::mac_node(packet.to);
        if !self.carries(segment, from, to) {
            return;
        }
        let wire = &self.network.segments[segment];
        let late = wire.late.iter().map(|(_, by)| *by).max();
        let replayed = self.plan.wire.map(|plan| plan.replayed_ms).filter(|by| *by > 0);
        let noise = &mut self.nodes[from].rng.frames;
        let lateness = late.map_or(0, |by| noise.u32(0..=by));
        let delay = Duration::from_micros(noise.u64(30..600)) + Duration::from_millis(lateness.into());
        let again = replayed.map(|by| Duration::from_millis(noise.u32(0..=by).into()));
        self.after(delay, Happening::Packet { segment, packet });
        if let Some(again) = again {
            self.after(delay + again, Happening::Replay { segment, packet });
        }
    }

    /// Repeats an old frame, which is lost like any other.
    pub(super) fn replay(&mut self, segment: usize, packet: Packet) {
        if self.survives(segment, names::mac_node(packet.to)) {
            self.packet(segment, packet);
        }
    }

    /// Lets a program handle a frame.
    pub(super) fn packet(&mut self, segment: usize, packet: Packet) {
        let node = names::mac_node(packet.to);
        let now = self.boot_now(node);
        let it = &mut self.nodes[node];
        let link = &it.links[segment];
        let is_dead = self.network.segments[segment].dead.iter().any(|(_, way)| way.node == node && way.into);
        if !it.kernel_runs() || link.no_carrier.any() || link.mac != packet.to || is_dead {
            return;
        }
        let session = it.program.session();
        let local = it.clock.read(self.now).saturating_sub(it.late);
        let peer = Session::from_number(packet.holder);
        let answered =
            |wired: &wired::Wired| peer.map(|peer| wired.holder(peer, &names::interface(segment)).answered);
        let before = answered(&it.program.wired);
        let received = |wired: &wired::Wired| match packet.kind {
            wired::Kind::Ping => Wid::from_number(packet.wid)
                .map(|wid| wired.monitor(wid, &names::interface(segment)).received),
            wired::Kind::Echo => peer.map(|peer| wired.holder(peer, &names::interface(segment)).received),
            wired::Kind::VoteRequest | wired::Kind::Vote | wired::Kind::Ended => None,
        };
        let received_before = received(&it.program.wired);
        let was_valid = it.program.lease_deadline_state(local) == DeadlineState::Valid;
        let verdict = it.program.wired.receive(packet, segment, session, now);
        if answered(&it.program.wired) < before {
            return self.violate("I4", format!("an old answer counts on {}", names::node(node)));
        }
        let is_received = received(&it.program.wired) > received_before;
        if is_received
            && !it.wire.received.insert((packet.kind, packet.holder, packet.wid, segment, packet.sent_ns))
        {
            return self.violate("I5", format!("{} receives a frame for the second time", names::node(node)));
        }
        if packet.kind == wired::Kind::Ended && !matches!(verdict, Verdict::Refused | Verdict::Passed) {
            it.wire.notified_at = self.now;
            if packet.from == names::STRANGER {
                it.wire.false_at = Some(self.now);
                self.record.facts.notified_falsely = true;
            }
            self.expect_settling(node);
        }
        let it = &mut self.nodes[node];
        match verdict {
            Verdict::Refused => {}
            Verdict::Consumed => {
                if packet.kind == wired::Kind::Echo {
                    it.wire.truth.entry(packet.holder).or_default().answered(packet.sent_ns);
                }
            }
            Verdict::Answered(echo) => {
                it.wire.pinged.insert(packet.wid, self.now);
                self.send_packet(segment, node, echo);
            }
            Verdict::Passed => self.reach_socket(node, segment, packet),
            Verdict::Ended => {
                it.wire.ended_at = self.now;
                self.record.facts.notified |= was_valid;
                self.stirred = true;
                self.say(node, || "its program receives that its session has ended".to_owned());
                self.schedule_turn(node);
                self.expect_heed(node);
            }
        }
    }

    fn reach_socket(&mut self, node: usize, segment: usize, packet: Packet) {
        let is_request = packet.kind == wired::Kind::VoteRequest;
        let it = &mut self.nodes[node];
        let wid = it.program.wired.wid;
        let Some(pinger) = it.process.as_mut().and_then(|process| process.pinger.as_mut()) else { return };
        let Some(holder) = Session::from_number(packet.holder) else { return };
        if is_request && self.sabotage == Some(Sabotage::AllSecond) {
            let frame = Frame { kind: Kind::Vote, holder, wid, stamp: packet.sent_ns };
            return self.send_wire(node, segment, packet.from, KeyId(packet.key), frame);
        }
        if pinger.socket.len() < SOCKET {
            let kind = match packet.kind {
                wired::Kind::VoteRequest => Kind::VoteRequest,
                wired::Kind::Ended => Kind::Ended,
                wired::Kind::Vote | wired::Kind::Ping | wired::Kind::Echo => Kind::Vote,
            };
            let wid = Wid::from_number(packet.wid);
            let frame = Frame { kind, holder, wid, stamp: packet.sent_ns };
            pinger.socket.push(Received { interface: names::interface(segment), from: packet.from, frame });
            self.schedule_turn(node);
        }
    }
}
