//! Starts the controller, lets it take steps, carries its effects out, and ends it.

use std::{net::IpAddr, time::Duration};

use vipward_core::{
    agent::cluster::Seen,
    controller::{Controller, Effect, Input, Now, Reply, Reserved},
    ownership::{self, Outcome},
    pools::ReservationWrite,
    records::{ClaimRecord, ServiceName, Version},
    services,
};

use super::{Happening, World, agent::STEP_US, transit::Request};
use crate::{
    api,
    machine::{At, Leading},
    schedule::{Kind, Times, names},
};

/// The time of day at the beginning, in seconds since 1970.
pub(crate) const UNIX_SECONDS: i64 = 1_800_000_000;

impl World {
    fn leader_now(&self) -> Now {
        Now { at: self.leader().clock.read(self.now), unix_seconds: self.unix_seconds() }
    }

    /// Returns the time of day, in seconds since 1970.
    pub(crate) fn unix_seconds(&self) -> i64 {
        let seconds = self.now.since(At::default()).as_secs();
        UNIX_SECONDS + i64::try_from(seconds).expect("invariant: runs are short")
    }

    /// Starts a controller, unless one runs.
    pub(super) fn start_leader(&mut self) {
        if self.leader().process.is_some() {
            return;
        }
        let controller = Controller::start(self.services_settings(), self.leader_now());
        let it = self.leader_mut();
        it.life += 1;
        it.faults.paused = Times::default();
        it.process = Some(Leading::new(controller));
        it.failed = None;
        self.say(names::CONTROLLER, || "starts".to_owned());
        self.list_anew(names::CONTROLLER);
        self.schedule_leader();
    }

    /// Ends the controller at once, whatever it is doing.
    pub(super) fn kill_leader(&mut self) {
        let it = self.leader_mut();
        it.process = None;
        it.faults.paused = Times::default();
        self.update_fitness();
    }

    fn leading(&mut self, life: u32) -> Option<&mut Leading> {
        let it = self.leader_mut();
        it.process.as_mut().filter(|_| it.life == life)
    }

    fn tell_leader(&mut self, life: u32, input: Input) {
        if let Some(process) = self.leading(life) {
            process.inbox.push_back(input);
            self.drain_leader();
        }
    }

    /// Gives the controller what it has read.
    pub(super) fn leader_sees(&mut self, life: u32, seen: Vec<Seen>) {
        let Some(process) = self.leading(life) else { return };
        for object in &seen {
            match object {
                Seen::Object(Some(ownership::Event::Claim(record)), _) => {
                    process.known.insert(record.vip, record.clone());
                }
                Seen::Object(_, Some(services::Event::ClaimGone(vip))) => _ = process.known.remove(vip),
                Seen::Object(..) | Seen::Listed { .. } => {}
            }
        }
        self.tell_leader(life, Input::Seen(seen));
    }

    /// Gives the controller the outcome of a reservation.
    pub(super) fn leader_has_reserved(
        &mut self,
        life: u32,
        write: ReservationWrite,
        before: Option<&ClaimRecord>,
        (outcome, found): api::Reserved,
    ) {
        let Some(process) = self.leading(life) else { return };
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
            self.leader_mut().failed = Some(self.now);
        }
        self.tell_leader(life, Input::Replies(vec![Reply::Reserved(Box::new(write), reserved)]));
    }

    /// Gives the controller the outcome of writing a status.
    pub(super) fn leader_has_written(&mut self, life: u32, service: ServiceName, done: bool) {
        if !done {
            self.leader_mut().failed = Some(self.now);
        }
        let jitter = self.noise_of(names::CONTROLLER).steps.f64();
        self.tell_leader(life, Input::Replies(vec![Reply::Status { service, done, jitter }]));
    }

    /// Lets the controller take its inputs, as long as it runs.
    pub(super) fn drain_leader(&mut self) {
        let life = self.leader().life;
        while self.leader().runs()
            && let Some(input) = self.leading(life).and_then(|process| process.inbox.pop_front())
        {
            self.step_leader(life, input);
        }
        self.schedule_leader();
    }

    fn step_leader(&mut self, life: u32, input: Input) {
        let Some(input) = self.without_omitted_of_leader(input) else { return };
        let now = self.leader_now();
        self.record.trace.leader_input(self.now, &input);
        let Some(process) = self.leading(life) else { return };
        let was_synced = process.controller.is_synced();
        let effects = process.controller.on(input, now);
        let is_synced = process.controller.is_synced();
        for effect in effects {
            self.carry_out_of_leader(life, effect);
        }
        if is_synced != was_synced {
            self.update_fitness();
        }
    }

    fn carry_out_of_leader(&mut self, life: u32, effect: Effect) {
        self.note_noise_of_leader(&effect);
        self.record.trace.leader_effect(self.now, &effect);
        let is_omitted = self.omits_effect_of_leader(&effect);
        let Some(it) = self.leader.as_mut().filter(|it| it.life == life && !is_omitted) else { return };
        let Some(process) = &mut it.process else { return };
        match effect {
            Effect::Reserve(write) => {
                let known = process.known.get(&write.vip).cloned().map(Box::new);
                self.send(names::CONTROLLER, Request::Reserve(write, known));
            }
            Effect::WriteStatus { service, addresses, from_metallb: _ } => {
                let known = |vip: &IpAddr| process.known.get(vip).map(|record| &record.version);
                let stored = |vip: &IpAddr| self.api.claims.get(vip).map(|record| &record.version);
                let all = addresses.iter().flatten();
                let unseen = all.filter(|vip| known(vip) != stored(vip)).copied().collect();
                self.send(names::CONTROLLER, Request::Status(service, addresses, unseen));
            }
            Effect::ListSlices(_) => self.begin_list(names::CONTROLLER, Kind::Slice),
            Effect::Problem(service, problem) => {
                process.problems.entry(service).or_default().push(problem);
            }
            Effect::ProblemOver(service, problem) => {
                if let Some(problems) = process.problems.get_mut(&service) {
                    problems.retain(|known| *known != problem);
                }
            }
            Effect::LeaveStatus(_) | Effect::Assigned(_) | Effect::ShowPools | Effect::Log(_) => {}
        }
    }

    /// Schedules the controller's next deadline.
    fn schedule_leader(&mut self) {
        let (now, it) = (self.now, self.leader_mut());
        let (clock, life) = (it.clock, it.life);
        let Some(process) = &mut it.process else { return };
        let Some(due) = clock.when(process.controller.next_deadline()) else { return };
        let due = due.max(now);
        if process.deadline.is_some_and(|deadline| deadline <= due) {
            return;
        }
        process.deadline = Some(due);
        let at = due + Duration::from_micros(it.rng.steps.u64(STEP_US));
        self.at(at, Happening::Deadline { node: names::CONTROLLER, life });
    }

    /// Handles that the controller's deadline has come.
    pub(super) fn leader_is_due(&mut self, life: u32) {
        let local = self.leader_now().at;
        let runs = self.leader().runs();
        let Some(process) = self.leading(life) else { return };
        process.deadline = None;
        if runs && process.controller.next_deadline() <= local {
            self.tell_leader(life, Input::Deadline);
        } else if runs {
            self.schedule_leader();
        }
    }
}
