//! Lets a controller that leads take steps, and carries its effects out.

use std::{net::IpAddr, time::Duration};

use vipward_core::{
    agent::cluster::Seen,
    controller::{Controller, Effect, Input, Now, Reply, Reserved},
    ownership::{self, Outcome},
    pools::{ReservationWrite, election::Election},
    records::{ClaimRecord, ServiceName, Version},
    reports::events::Events,
    services,
};

use super::{Happening, World, agent::STEP_US, transit::Request};
use crate::{
    api,
    machine::{At, Desk, Leading},
    schedule::{Kind, Sabotage, names},
};

/// The time of day at the beginning, in seconds since 1970.
pub(crate) const UNIX_SECONDS: i64 = 1_800_000_000;

/// A term that no run outlasts.
const TERM: Duration = Duration::from_hours(1);

impl World {
    fn leader_now(&self, who: usize) -> Now {
        Now { at: self.controller(who).clock.read(self.now), unix_seconds: self.unix_seconds() }
    }

    /// Returns the time of day, in seconds since 1970.
    pub(crate) fn unix_seconds(&self) -> i64 {
        let seconds = self.now.since(At::default()).as_secs();
        UNIX_SECONDS + i64::try_from(seconds).expect("invariant: runs are short")
    }

    pub(super) fn begin_to_lead(&mut self, who: usize) {
        let now = self.leader_now(who);
        let controller = Controller::start(self.services_settings(), now);
        let it = self.controller_mut(who);
        let Some(process) = &mut it.process else { return };
        process.leading = Some(Leading::new(controller, Desk::new(Events::start(now.at))));
        it.failed = None;
        self.say(who, || "leads".to_owned());
        self.list_anew(who);
    }

    fn leading(&mut self, who: usize, life: u32) -> Option<&mut Leading> {
        self.candidate(who, life)?.leading.as_mut()
    }

    pub(super) fn leading_mut(&mut self, who: usize) -> Option<&mut Leading> {
        self.leading(who, self.life(who))
    }

    fn notify_leader(&mut self, who: usize, life: u32, input: Input) {
        if let Some(process) = self.leading(who, life) {
            process.inbox.push_back(input);
            self.drain_controller(who);
        }
    }

    /// Gives the controller what it has read.
    pub(super) fn leader_sees(&mut self, who: usize, life: u32, seen: Vec<Seen>) {
        let Some(process) = self.leading(who, life) else { return };
        for object in &seen {
            match object {
                Seen::Object(Some(ownership::Event::Claim(record)), _) => {
                    process.known.insert(record.vip, record.clone());
                }
                Seen::Object(_, Some(services::Event::ClaimGone(vip))) => _ = process.known.remove(vip),
                Seen::Object(..) | Seen::Listed { .. } => {}
            }
        }
        self.notify_leader(who, life, Input::Seen(seen));
    }

    /// Gives the controller the outcome of a reservation.
    pub(super) fn leader_has_reserved(
        &mut self,
        (who, life): (usize, u32),
        write: ReservationWrite,
        before: Option<&ClaimRecord>,
        (outcome, found): api::Reserved,
    ) {
        let Some(process) = self.leading(who, life) else { return };
        // What the watch has shown since the request was sent is newer.
        let is_news = process.known.get(&write.vip).map(|record| &record.version)
            == before.map(|record| &record.version);
        if let (Outcome::Done(object), _) | (_, Some(object)) = (&outcome, &found)
            && is_news
        {
            match object {
                Some(record) => _ = process.known.insert(write.vip, (**record).clone()),
                None => _ = process.known.remove(&write.vip),
            }
        }
        let latest: Option<Version> = process.known.get(&write.vip).map(|record| record.version.clone());
        let reserved = Reserved::of(outcome, found, latest.as_ref());
        if let Reserved::Refused(_) | Reserved::Unknown = reserved {
            self.controller_mut(who).failed = Some(self.now);
        }
        self.notify_leader(who, life, Input::Replies(vec![Reply::Reserved(Box::new(write), reserved)]));
    }

    /// Gives the controller the outcome of writing a status.
    pub(super) fn leader_has_written(
        &mut self,
        (who, life): (usize, u32),
        service: ServiceName,
        outcome: Outcome<()>,
    ) {
        if outcome != Outcome::Done(()) {
            self.controller_mut(who).failed = Some(self.now);
        }
        let jitter = self.noise_of(who).steps.f64();
        self.notify_leader(who, life, Input::Replies(vec![Reply::Status { service, outcome, jitter }]));
    }

    pub(super) fn step_leader(&mut self, who: usize, life: u32, input: Input) {
        let Some(input) = self.without_omitted_of_leader(who, input) else { return };
        let now = self.leader_now(who);
        self.record.trace.leader_input(self.now, who, &input);
        let mut endless = Election::start(String::new(), TERM);
        endless.on_written(now.at);
        let is_endless = self.sabotage == Some(Sabotage::NoTerm);
        let Some(process) = self.candidate(who, life) else { return };
        let Some(leading) = &mut process.leading else { return };
        let was_synced = leading.controller.is_synced();
        let election = if is_endless { &endless } else { &process.election };
        let Some(effects) = leading.controller.on(election, input, now) else { return self.expire(who) };
        let is_synced = leading.controller.is_synced();
        for effect in effects {
            self.carry_out_of_leader(who, effect);
        }
        if is_synced != was_synced {
            self.update_fitness();
        }
    }

    fn carry_out_of_leader(&mut self, who: usize, effect: Effect) {
        self.note_noise_of_leader(&effect);
        self.record.trace.leader_effect(self.now, who, &effect);
        let (is_omitted, life) = (self.omits_effect_of_leader(who, &effect), self.life(who));
        if matches!(effect, Effect::Reserve(_) | Effect::WriteStatus { .. }) {
            self.check_term(who);
        }
        let it = self.controllers[who - names::CONTROLLER].process.as_mut().filter(|_| !is_omitted);
        let Some(process) = it.and_then(|it| it.leading.as_mut()) else { return };
        match effect {
            Effect::Reserve(write) => {
                let known = process.known.get(&write.vip).cloned().map(Box::new);
                self.send(who, Request::Reserve(write, known));
            }
            Effect::WriteStatus { service, addresses, over: _ } => {
                let known = |vip: &IpAddr| process.known.get(vip).map(|record| &record.version);
                let stored = |vip: &IpAddr| self.api.claims.get(vip).map(|record| &record.version);
                let waits = |vip: &&IpAddr| process.inbox.iter().any(|input| is_about(input, **vip));
                let all = addresses.iter().flatten();
                let unseen = all.filter(|vip| known(vip) != stored(vip) || waits(vip)).copied().collect();
                self.send(who, Request::Status(service, addresses, unseen));
            }
            Effect::ListSlices(_) => self.begin_list(who, Kind::Slice),
            Effect::Problem(service, problem) => {
                process.problems.entry(service.clone()).or_default().push(problem.clone());
                self.with_desk(who, life, |desk, now| desk.events.begin(service, problem, now));
            }
            Effect::ProblemOver(service, problem) => {
                if let Some(problems) = process.problems.get_mut(&service) {
                    problems.retain(|known| *known != problem);
                }
                self.with_desk(who, life, |desk, _| desk.events.end(&service, &problem));
            }
            Effect::LeaveStatus(_) | Effect::Assigned(_) | Effect::ShowPools | Effect::Log(_) => {}
        }
    }

    /// Schedules the controller's next deadline.
    pub(super) fn schedule_leader(&mut self, who: usize) {
        let (now, it) = (self.now, self.controller_mut(who));
        let (clock, life) = (it.clock, it.life);
        let Some(process) = it.process.as_mut().and_then(|it| it.leading.as_mut()) else { return };
        let Some(due) = clock.when(process.controller.next_deadline()) else { return };
        let due = due.max(now);
        if process.deadline.is_some_and(|deadline| deadline <= due) {
            return;
        }
        process.deadline = Some(due);
        let at = due + Duration::from_micros(it.rng.steps.u64(STEP_US));
        self.at(at, Happening::Deadline { node: who, life });
    }

    /// Handles that the controller's deadline has come.
    pub(super) fn leader_is_due(&mut self, who: usize, life: u32) {
        let local = self.leader_now(who).at;
        let runs = self.controller(who).runs();
        let Some(process) = self.leading(who, life) else { return };
        process.deadline = None;
        if runs && process.controller.next_deadline() <= local {
            self.notify_leader(who, life, Input::Deadline);
        } else if runs {
            self.schedule_leader(who);
        }
    }
}

/// Returns whether an input shows the object of an address.
fn is_about(input: &Input, vip: IpAddr) -> bool {
    let shows = |object: &Seen| match object {
        Seen::Object(_, Some(services::Event::Claim { vip: of, .. } | services::Event::ClaimGone(of))) => {
            *of == vip
        }
        Seen::Object(..) | Seen::Listed { .. } => false,
    };
    matches!(input, Input::Seen(seen) if seen.iter().any(shows))
}
