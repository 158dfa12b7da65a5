//! Starts agents, lets them take steps, and ends them.

use std::{collections::BTreeMap, time::Duration};

use vipward_common::EventKind;
use vipward_core::{
    agent::{
        Agent, Input, Source, Start,
        cluster::{self, Cluster, Seen},
    },
    ownership::{Event, Settings, StopReason},
    records::ClaimState,
    reports::events::Events,
    segment::{announce, probing},
    services,
};

use super::{Happening, World};
use crate::{
    machine::{Desk, Process, Program},
    schedule::{Ending, REFRESH, Sabotage, Step, Times, names},
};

/// The time between an input or deadline and the agent's step, in microseconds.
pub(super) const STEP_US: std::ops::Range<u64> = 5..400;
/// More inputs than any agent needs in [`STEPS_IN`].
const MANY_STEPS: u32 = 5_000;
const STEPS_IN: Duration = Duration::from_secs(1);
/// The time that an agent has to end after it was requested to.
const GRACE: Duration = Duration::from_secs(30);
/// The greatest lag of the program's clock.
pub(super) const CLOCK_LATE: Duration = Duration::from_millis(8);
/// The number of claims that an agent creates at a time. There are few VIPs, but they must wait for
/// each other, too.
pub(super) const NEW_CLAIMS: usize = 2;

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
            most_new: NEW_CLAIMS,
            probing: probing::Settings::DEFAULT.longest(),
            seed: self.nodes[node].rng.steps.u64(..),
            wire: self.scale(),
        }
    }

    /// Returns the settings of all processes about Services. The VIPs' addresses are permitted, whatever
    /// subnets the Leases list.
    pub(super) fn services_settings(&self) -> services::Settings {
        let segments = self.network.segments.len();
        let allow = (0..segments).flat_map(|segment| names::subnets(segment, segments)).collect();
        let most_vips = self.plan.tenants.as_ref().and_then(|plan| plan.most).map(usize::from);
        services::Settings { allow, most_vips, ..services::Settings::default() }
    }

    /// Returns the index of Services of a new agent.
    fn start_services(&self) -> services::Agent {
        if self.plan.has_controller() {
            return services::Agent::announcer(self.services_settings());
        }
        let mut services = services::Agent::alone(self.services_settings());
        services.on_event(services::Event::SlicesListed);
        if self.sabotage == Some(Sabotage::NoConsent) {
            let (name, share_with) = (names::namespace(), [names::strangers_namespace()].into());
            services.on_event(services::Event::Namespace { name, labels: BTreeMap::new(), share_with });
        }
        services
    }

    /// Returns the number of entries for which the maps have room. In every fourth schedule there is one
    /// more than are needed, so that slots are used again.
    fn max_vips(&self) -> u32 {
        let needed = self.plan.vips.len() * self.network.segments.len();
        let room = if self.plan.seed.is_multiple_of(4) { 1 } else { 60 };
        u32::try_from(needed + room).expect("invariant: runs are small")
    }

    /// Starts an agent, unless one runs.
    pub(crate) fn boot(&mut self, node: usize) {
        if names::is_controller(node) {
            return self.start_controller(node);
        }
        if !self.nodes[node].powered || self.nodes[node].process.is_some() {
            return;
        }
        let settings = self.settings(node);
        let services = self.start_services();
        let (network, max_vips) = (self.network_of(node), self.max_vips());
        let now = self.now;
        let it = &mut self.nodes[node];
        it.life += 1;
        it.faults.paused = Times::default();
        it.leaves = false;
        it.wire.heeds = true;
        let local = it.clock.read(now);
        if self.sabotage == Some(Sabotage::ForgetPeers) {
            it.program.peers.clear();
        }
        let found = it.program.found();
        self.record.trace.line(now, names::node(node), || format!("starts, and finds {:?}", found.entries));
        let start = Start {
            config: cluster::config(&settings, announce::Settings { refresh: REFRESH, rate: 5_000 }),
            network,
            max_vips,
            yields_settled: it.program.lease_deadline().yields_settled,
            proofs: BTreeMap::new(),
            seed: settings.seed,
            source: Source::Cluster(
                Cluster::start(settings, found, services, Some(super::proxies::PROXY_TIMEOUT), false, local)
                    .into(),
            ),
        };
        it.process = Some(Process::new(Agent::start(start, local), Desk::new(Events::start(local)), now));
        it.times.runs = now;
        let is_ghost = |it: &crate::machine::Node| {
            !it.kernel_runs()
                && self.api.leases.get(&names::node(it.index)).is_some_and(|lease| lease.session.is_some())
        };
        if self.nodes.iter().any(is_ghost) {
            self.record.booted_among_ghosts(now);
        }
        self.start_monitor(node);
        let life = self.nodes[node].life;
        self.incoming(node, life, Input::Begin);
        self.list_anew(node);
        self.read_ring(node);
        self.update_fitness();
    }

    /// Ends the agent at once, whatever it is doing.
    pub(crate) fn kill(&mut self, node: usize) {
        if names::is_controller(node) {
            return self.kill_controller(node);
        }
        let it = &mut self.nodes[node];
        it.process = None;
        it.faults.paused = Times::default();
        self.update_fitness();
    }

    /// Ends an agent that was requested to end.
    pub(super) fn exit(&mut self, node: usize) {
        let ending = self.nodes[node].process.as_ref().and_then(|process| process.ending);
        self.say(node, || "its agent ends".to_owned());
        self.kill(node);
        if let Some((how, back)) = ending {
            if how == Ending::Uninstall {
                self.nodes[node].lose_pins(Program::new(self.sabotage));
                self.stirred = true;
            }
            if let Some(back) = back {
                self.after(back, Happening::Boot { node });
            }
        }
    }

    pub(crate) fn notify_to_end(&mut self, node: usize, how: Ending, back: Option<Duration>) {
        if names::is_controller(node) {
            return self.notify_controller_to_end(node, back.unwrap_or_default());
        }
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
        self.owned(node, life, Event::Stop(reason));
    }

    /// Gives the engine of an agent an event.
    pub(super) fn owned(&mut self, node: usize, life: u32, event: Event) {
        self.incoming(node, life, Input::Cluster(cluster::Input::Owned(vec![event])));
    }

    /// Gives the agent an input, or keeps it until the agent runs.
    pub(super) fn incoming(&mut self, node: usize, life: u32, input: Input) {
        if let Some(process) = self.nodes[node].process_of(life) {
            process.inbox.push_back(input);
            self.drain(node);
        }
    }

    /// Continues an agent that did not run.
    pub(crate) fn resume(&mut self, node: usize) {
        if names::is_controller(node) {
            return self.drain_controller(node);
        }
        if !self.nodes[node].agent_runs() {
            return;
        }
        self.nodes[node].times.runs = self.now;
        self.read_ring(node);
        self.drain(node);
        self.schedule_turn(node);
    }

    /// Lets an agent go on after a pause between two effects.
    pub(super) fn go_on(&mut self, node: usize, life: u32) {
        if let Some(process) = self.nodes[node].process_of(life) {
            process.is_busy = false;
            self.drain(node);
        }
    }

    /// Lets an agent carry out its effects and take its inputs, as long as it runs.
    fn drain(&mut self, node: usize) {
        let life = self.nodes[node].life;
        if self.nodes[node].process.as_ref().is_none_or(|process| process.is_busy) {
            return;
        }
        while self.nodes[node].life == life && self.nodes[node].agent_runs() {
            if self.takes_time(node) {
                return;
            }
            let Some(process) = &mut self.nodes[node].process else { return };
            process.is_busy = true;
            if process.writing.is_some() {
                self.write_next(node);
            } else if let Some(effect) = process.effects.pop_front() {
                self.carry_out(node, effect);
            } else if let Some(input) = process.results.pop_front().or_else(|| process.inbox.pop_front()) {
                self.feed(node, input);
            } else {
                process.is_busy = false;
                return self.rest(node);
            }
            if let Some(process) = self.nodes[node].process_of(life) {
                process.is_busy = false;
            }
        }
    }

    /// Stops an agent between two effects, by chance. Others come first then.
    fn takes_time(&mut self, node: usize) -> bool {
        let it = &mut self.nodes[node];
        let Some(process) = &mut it.process else { return false };
        if process.has_gone_on || process.writing.is_none() && process.effects.is_empty() {
            process.has_gone_on = false;
            return false;
        }
        if it.rng.steps.u8(..) >= 32 {
            return false;
        }
        let micros = if it.rng.steps.u8(0..64) == 0 {
            it.rng.steps.u64(STEP_US) * 10
        } else {
            it.rng.steps.u64(STEP_US)
        };
        (process.is_busy, process.has_gone_on) = (true, true);
        let life = it.life;
        self.after(Duration::from_micros(micros), Happening::GoOn { node, life });
        true
    }

    /// Takes one step of the agent.
    fn feed(&mut self, node: usize, mut input: Input) {
        let life = self.nodes[node].life;
        self.steps_of_input(node, &input);
        if self.nodes[node].life != life || !self.nodes[node].agent_runs() {
            // A disturbance has come first.
            if let Some(process) = self.nodes[node].process_of(life) {
                process.inbox.push_front(input);
            }
            return;
        }
        if self.sabotage == Some(Sabotage::NoRecord) {
            forget_records(&mut input);
        }
        let Some(input) = self.without_omitted(node, input) else { return };
        let now = self.now;
        self.record.trace.input(now, node, &input);
        let it = &mut self.nodes[node];
        let local = it.clock.read(now);
        let Some(process) = &mut it.process else { return };
        let before = (process.is_synced(), process.has_written_all());
        let effects = process.agent.on(input, local);
        process.effects.extend(effects);
        let after = (process.is_synced(), process.has_written_all());
        if now.since(process.steps_since) > STEPS_IN {
            (process.steps, process.steps_since) = (0, now);
        }
        process.steps += 1;
        if process.steps > MANY_STEPS {
            self.violate("quiet", format!("the agent of {} never rests", names::node(node)));
        }
        if before != after {
            self.update_fitness();
        }
    }

    /// Records the steps of handovers that an input stands for.
    fn steps_of_input(&mut self, node: usize, input: &Input) {
        match input {
            Input::Cluster(cluster::Input::Seen(all)) => {
                for seen in all {
                    if let Seen::Object(Some(Event::Claim(record)), _) = seen
                        && let ClaimState::Offered { to, from } = &record.state
                        && to.node == names::node(node)
                        && let Some(giver) = names::node_index(&from.0)
                    {
                        self.step(Step::Seen, giver, node);
                    }
                }
            }
            Input::Program(events) => {
                for event in events.iter().filter(|event| event.kind == EventKind::Moved) {
                    let vip = names::vip_index(event.key().addr);
                    if let Some((giver, taker)) =
                        self.under_way.handing[vip].filter(|(giver, _)| *giver == node)
                    {
                        self.step(Step::Received, giver, taker);
                    }
                }
            }
            _ => {}
        }
    }

    /// Schedules the agent's next deadline, after all that it had to do.
    fn rest(&mut self, node: usize) {
        let now = self.now;
        let it = &mut self.nodes[node];
        let Some(process) = &mut it.process else { return };
        if process.is_synced() {
            it.peers_due = process.agent.config().peers.iter().copied().collect();
        }
        let Some(due) = it.clock.when(process.agent.next_deadline()) else { return };
        let due = due.max(now);
        if process.deadline.is_some_and(|deadline| deadline <= due) {
            return;
        }
        process.deadline = Some(due);
        let at = due + Duration::from_micros(it.rng.steps.u64(STEP_US));
        let life = it.life;
        self.at(at, Happening::Deadline { node, life });
    }

    /// Handles that an agent's deadline has come. What its program has reported before comes first.
    pub(super) fn deadline(&mut self, node: usize, life: u32) {
        if names::is_controller(node) {
            return self.leader_is_due(node, life);
        }
        let now = self.now;
        let it = &mut self.nodes[node];
        let (runs, local) = (it.agent_runs(), it.clock.read(now));
        let Some(process) = it.process_of(life) else { return };
        process.deadline = None;
        if !runs || process.is_busy {
            return;
        }
        if process.agent.next_deadline() <= local {
            self.read_ring(node);
            self.incoming(node, life, Input::Deadline);
        } else {
            self.rest(node);
        }
    }

    /// Lets an agent that runs read the events of its program.
    pub(super) fn read_ring(&mut self, node: usize) {
        let it = &mut self.nodes[node];
        if it.agent_runs() && !it.ring.is_empty() {
            let (life, events) = (it.life, std::mem::take(&mut it.ring).into());
            self.incoming(node, life, Input::Program(events));
        }
    }
}

/// Takes from claims whose the VIPs are.
fn forget_records(input: &mut Input) {
    if let Input::Cluster(cluster::Input::Seen(all)) = input {
        for seen in all {
            if let Seen::Object(_, Some(services::Event::Claim { services, .. })) = seen {
                services.clear();
            }
        }
    }
}
