//! Starts agents, lets them take steps, and carries out their commands.

use std::time::Duration;

use vipward_core::{
    base::time::Monotonic,
    ownership::{
        Command, Engine, Event, Expected, Interlock, Notice, Settings, Step as Carried, StopReason, Wire,
    },
    records::Epoch,
    services,
};

use super::{Happening, World, entries::CLOCK_LATE};
use crate::{
    api::{Incoming, Request},
    machine::{Node, Process, Program, Role},
    schedule::{Ending, KINDS, Sabotage, Times, names},
};

/// The time between an event or deadline and the agent's step, in microseconds.
const STEP_US: std::ops::Range<u64> = 10..400;
/// More steps than any engine needs in [`STEPS_IN`].
const MANY_STEPS: u32 = 5_000;
const STEPS_IN: Duration = Duration::from_secs(1);
/// The grace period of an agent that is asked to end.
const GRACE: Duration = Duration::from_secs(30);
/// The time until an agent that ended with an error is started again, in milliseconds.
const BACK_OFF: std::ops::Range<u64> = 1_000..10_000;
/// The longest time that it takes to find an address free.
pub(crate) const PROBING: Duration = Duration::from_millis(700);
const fn ms(millis: u32) -> Duration {
    Duration::from_millis(millis as u64)
}

impl World {
    fn settings(&mut self, node: usize) -> Settings {
        let timing = self.plan.timing;
        let no_margin = self.sabotage == Some(Sabotage::NoMargin);
        Settings {
            node: names::node(node),
            lease: ms(timing.lease_ms),
            renewal: ms(timing.renewal_ms),
            margin: if no_margin { Duration::ZERO } else { ms(timing.margin_ms) },
            policy: self.policy(),
            hold_for: ms(timing.hold_for_ms),
            restart_lease: ms(timing.restart_lease_ms),
            stable_for: ms(timing.lease_ms),
            handover_pace: ms(timing.renewal_ms),
            honour_exclude_label: true,
            clock_late: if no_margin { Duration::ZERO } else { CLOCK_LATE },
            // There are few VIPs, but they must wait for each other, too.
            most_new: 2,
            probing: Some(PROBING),
            seed: self.nodes[node].noise.u64(..),
            wire: self.scale(),
        }
    }

    /// Starts an agent, unless one runs.
    pub(crate) fn boot(&mut self, node: usize) {
        if !self.nodes[node].powered || self.nodes[node].process.is_some() {
            return;
        }
        let settings = self.settings(node);
        let services = self.start_services();
        let (now, vips) = (self.now, self.plan.vips.len());
        let it = &mut self.nodes[node];
        it.life += 1;
        it.paused = Times::default();
        it.leaves = false;
        it.heeds = true;
        let local = it.clock.read(now);
        if self.sabotage == Some(Sabotage::ForgetPeers) {
            it.program.peers.clear();
        }
        let found = it.program.found(local);
        let interlock = Interlock::new(settings.node.clone(), found.session);
        let engine = Engine::start(settings, found.clone(), local);
        let mut services = services;
        services.on_event(services::Event::Found(found.vips()));
        it.process = Some(Process::new(engine, services, interlock, vips, now));
        self.say(node, || format!("starts, and finds {:?}", found.entries));
        let is_ghost = |it: &Node| {
            !it.kernel_runs()
                && self.api.leases.get(&names::node(it.index)).is_some_and(|lease| lease.session.is_some())
        };
        if self.nodes.iter().any(is_ghost) {
            self.record.booted_among_ghosts(now);
        }
        for vip in 0..self.plan.vips.len() {
            self.nodes[node].rounds[vip].is_running = false;
            let slot = self.nodes[node].program.slot(vip);
            if slot.is_some_and(|slot| slot.role == Role::Held) {
                self.begin_refreshing(node, vip);
            }
        }
        let yielded: Vec<_> = self.nodes[node].program.yielded().collect();
        for (vip, to) in yielded {
            self.ask_about_yield(node, vip, to);
        }
        self.nodes[node].runs_since = now;
        self.feed_links(node);
        self.start_witness(node);
        for kind in KINDS {
            self.begin_list(node, kind);
        }
        self.update_fitness();
    }

    /// Ends the agent at once, whatever it is doing.
    pub(crate) fn kill(&mut self, node: usize) {
        let it = &mut self.nodes[node];
        it.process = None;
        it.paused = Times::default();
        for rounds in &mut it.rounds {
            rounds.life += 1;
        }
        self.update_fitness();
    }

    /// Ends an agent that was asked to end.
    pub(super) fn exit(&mut self, node: usize) {
        let ending = self.nodes[node].process.as_ref().and_then(|process| process.ending);
        self.say(node, || "its agent ends".to_owned());
        self.kill(node);
        if let Some((how, back)) = ending {
            if how == Ending::Uninstall {
                self.nodes[node].program = Program::new(self.plan.vips.len(), self.plan.hold, self.sabotage);
                self.nodes[node].peers_due.clear();
                self.stirred = true;
            }
            if let Some(back) = back {
                self.after(back, Happening::Boot { node });
            }
        }
    }

    pub(crate) fn tell_to_end(&mut self, node: usize, how: Ending, back: Option<Duration>) {
        let life = self.nodes[node].life;
        let Some(process) = &mut self.nodes[node].process else { return };
        if process.ending.is_some() {
            return;
        }
        process.ending = Some((how, back));
        self.nodes[node].leaves = how != Ending::Restart;
        self.after(GRACE, Happening::Grace { node, life });
        self.update_fitness();
        let reason = match how {
            Ending::Restart => StopReason::Restart,
            Ending::Leave => StopReason::Leave,
            Ending::Uninstall => StopReason::Uninstall,
        };
        self.incoming(node, life, Incoming::Event(Event::Stop(reason).into()));
    }

    /// Gives the agent an input, or keeps it until the agent runs.
    pub(super) fn incoming(&mut self, node: usize, life: u32, incoming: Incoming) {
        let it = &mut self.nodes[node];
        if it.life != life {
            return;
        }
        let runs = it.agent_runs();
        let Some(process) = &mut it.process else { return };
        if !runs || !process.is_idle() {
            process.inbox.push_back(incoming);
            return;
        }
        self.take_in(node, incoming);
    }

    fn take_in(&mut self, node: usize, incoming: Incoming) {
        match incoming {
            Incoming::Event(event) => self.feed(node, *event),
            Incoming::Services(events) => self.take_services(node, events),
            Incoming::Listed(kind, list) => self.take_list(node, kind, list),
        }
    }

    /// Continues an agent that did not run.
    pub(crate) fn resume(&mut self, node: usize) {
        if !self.nodes[node].agent_runs() {
            return;
        }
        self.nodes[node].runs_since = self.now;
        self.feed_links(node);
        self.drain(node);
        self.feed(node, Event::Tick);
        self.schedule_turn(node);
    }

    /// Takes in what waits for the agent, as long as it runs.
    pub(super) fn drain(&mut self, node: usize) {
        let life = self.nodes[node].life;
        loop {
            let it = &mut self.nodes[node];
            if it.life != life || !it.agent_runs() {
                return;
            }
            let Some(process) = &mut it.process else { return };
            if !process.is_idle() {
                self.carry_out(node);
            } else if let Some(incoming) = process.inbox.pop_front() {
                self.take_in(node, incoming);
            } else {
                return;
            }
        }
    }

    /// Takes one step of the engine.
    pub(super) fn feed(&mut self, node: usize, event: Event) {
        let life = self.nodes[node].life;
        self.steps_of_event(node, &event);
        if !self.nodes[node].agent_runs() || self.nodes[node].life != life {
            // A disturbance has come first.
            self.incoming(node, life, Incoming::Event(event.into()));
            return;
        }
        let now = self.now;
        let local = self.nodes[node].clock.read(now);
        self.record.trace.event(now, node, &event);
        let yielded = match event {
            Event::Wire { vip, heard: Wire::Yielded { mac } } => Some((names::vip_index(vip), mac)),
            _ => None,
        };
        self.tell_index_of(node, &event);
        let Some(process) = &mut self.nodes[node].process else { return };
        let commands = process.engine.on_event(event, local);
        if now.since(process.steps_since) > STEPS_IN {
            (process.steps, process.steps_since) = (0, now);
        }
        process.steps += 1;
        if process.steps > MANY_STEPS {
            self.violate("quiet", format!("the engine of {} never rests", names::node(node)));
            return;
        }
        process.interlock.push(commands);
        self.carry_out(node);
        if let Some((vip, to)) = yielded {
            self.ask_about_yield(node, vip, to);
        }
        self.schedule_tick(node);
        // Events may have come meanwhile.
        self.drain(node);
    }

    pub(super) fn schedule_tick(&mut self, node: usize) {
        let now = self.now;
        let it = &mut self.nodes[node];
        let Some(process) = &mut it.process else { return };
        let deadlines = [process.engine.next_deadline(), process.services.index().next_deadline()];
        let due = deadlines.into_iter().flatten().min().and_then(|deadline| it.clock.when(deadline));
        let Some(due) = due else { return };
        let due = due.max(now);
        if process.tick.is_some_and(|tick| tick <= due) {
            return;
        }
        process.tick = Some(due);
        let at = due + Duration::from_micros(it.noise.u64(STEP_US));
        let life = it.life;
        self.at(at, Happening::Tick { node, life });
    }

    pub(super) fn tick(&mut self, node: usize, life: u32) {
        let now = self.now;
        let it = &mut self.nodes[node];
        if it.life != life {
            return;
        }
        let runs = it.agent_runs();
        let local = it.clock.read(now);
        let Some(process) = &mut it.process else { return };
        process.tick = None;
        if !runs || !process.is_idle() {
            return;
        }
        let is_behind = process.engine.is_behind(local);
        let tells_time = process.services.index().next_deadline().is_some_and(|deadline| deadline <= local);
        if process.services.index().is_behind() != is_behind {
            self.tell_index(node, vec![services::Event::Behind(is_behind)]);
        }
        if tells_time {
            self.tell_index_the_time(node, local);
        }
        let Some(process) = &mut self.nodes[node].process else { return };
        if process.engine.next_deadline().is_some_and(|deadline| deadline <= local) {
            self.feed(node, Event::Tick);
        } else {
            self.schedule_tick(node);
        }
    }

    /// Carries out what the engine commanded, in the interlock's order, until something comes
    /// between.
    fn carry_out(&mut self, node: usize) {
        let life = self.nodes[node].life;
        loop {
            let it = &mut self.nodes[node];
            if it.life != life || !it.agent_runs() {
                return;
            }
            let local = it.clock.read(self.now);
            let Some(process) = &mut it.process else { return };
            if let Some(vip) = process.writing.pop_first() {
                self.write_entry(node, vip);
                continue;
            }
            match process.interlock.next(&process.stale) {
                None => return self.remove_unwanted(node),
                Some(Carried::WriteEntries(vips)) => {
                    process.writing = vips.into_iter().map(names::vip_index).collect();
                }
                Some(Carried::NotSent(event)) => {
                    self.record.trace.event(self.now, node, &event);
                    let commands = process.engine.on_event(event, local);
                    process.interlock.push(commands);
                }
                Some(Carried::Do(command)) => {
                    self.record.trace.command(self.now, node, &command, local);
                    match &command {
                        Command::SetFence(_) => {}
                        Command::WriteLease(write) if write.node == names::node(node) => {
                            self.record.renewal(node);
                        }
                        other => self.record.noise(self.now, node, other),
                    }
                    self.carry_out_one(node, command);
                }
            }
        }
    }

    fn carry_out_one(&mut self, node: usize, command: Command) {
        match command {
            Command::SetFence(mut fence) => {
                let now = self.now;
                if self.sabotage == Some(Sabotage::NoMargin) && fence.deadline != Monotonic::default() {
                    // The share of the lease that the engine keeps free whatever the settings are.
                    fence.deadline = fence.deadline + ms(self.plan.timing.lease_ms) / 20;
                }
                let it = &mut self.nodes[node];
                it.program.move_fence(fence);
                it.last_alive = now;
                self.stirred = true;
                self.watch_fence(node);
            }
            Command::SetEntry { vip, entry, home } => {
                if let Some(process) = &mut self.nodes[node].process {
                    process.wishes[names::vip_index(vip)] = Some((entry, home.is_some()));
                }
            }
            Command::SetPeers(peers) => {
                let it = &mut self.nodes[node];
                if it.process.as_ref().is_some_and(|process| process.synced) {
                    it.peers_due.clone_from(&peers);
                }
                it.program.peers = peers;
                self.stirred = true;
            }
            Command::ListAnew if self.sabotage == Some(Sabotage::NoListing) => {}
            Command::ListAnew => KINDS.into_iter().for_each(|kind| self.begin_list(node, kind)),
            Command::SetWire(plan) => self.set_wire(node, plan),
            Command::SetHeeding(heeds) => self.set_heeding(node, heeds),
            Command::TellFormer { vip, session, mac } => {
                self.note_former(node, names::vip_index(vip), (session, mac));
            }
            Command::Announce { vip } => self.send_announcement(node, names::vip_index(vip)),
            Command::Probe { vip, often: _ } => self.probe(node, names::vip_index(vip)),
            Command::StopProbing { vip } => self.nodes[node].asked[names::vip_index(vip)] += 1,
            Command::WriteLease(write) => self.send(node, Request::WriteLease(write)),
            Command::ReadLease(name) => self.send(node, Request::ReadLease(name)),
            Command::WriteClaim(write) => {
                if write.expected == Expected::Absent && write.epoch > Epoch(1) {
                    let what = format!("{} creates a claim in epoch {}", names::node(node), write.epoch);
                    self.violate("new", what);
                }
                let steps = self.steps_of_write(node, &write);
                self.send(node, Request::WriteClaim(write));
                if let Some((step, giver, taker)) = steps {
                    self.step(step, giver, taker);
                }
            }
            Command::DeleteClaim { vip, expected } => self.send(node, Request::DeleteClaim { vip, expected }),
            Command::ReadClaim(vip) => self.send(node, Request::ReadClaim(vip)),
            // The agent ends with an error, and is started again like any other.
            Command::Notify(Notice::NotAlone { .. }) => {
                let delay = Duration::from_millis(self.nodes[node].noise.u64(BACK_OFF));
                self.kill(node);
                self.after(delay, Happening::Boot { node });
            }
            // No switch of a simulated segment drops questions.
            Command::Notify(_) | Command::SetSuccessor { .. } => {}
            Command::Stopped => self.exit(node),
        }
    }
}
