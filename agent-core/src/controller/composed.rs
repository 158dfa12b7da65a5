//! Composes the Services with the pools, the statuses, and the requests that failed.

use std::{collections::BTreeMap, net::IpAddr, sync::Arc, time::Duration};

use super::{
    effect::{Effect, Line},
    failures::{Failures, Reported},
    input::{Input, Now, Reply, Reserved},
};
use crate::{
    agent::cluster::Seen,
    base::{retrying::Writes, time::Monotonic},
    ownership::Outcome,
    pools::{self, Allocator, Expected, ReservationWrite, election::Election},
    records::{Reservation, ServiceName},
    reports::refusals::RefusedStatuses,
    services::{self, ControllerCommand, Event, Index, Problem, Settings},
};

/// The longest time between two reads of the clock.
const PACE: Duration = Duration::from_secs(1);

/// The controller that leads, as a state machine.
#[derive(Debug)]
pub struct Controller {
    services: services::Controller,
    statuses: Writes<ServiceName, Option<Vec<IpAddr>>>,
    failures: Failures,
    refused: RefusedStatuses,
    /// True if every type has been listed once.
    is_synced: bool,
    /// True if the `EndpointSlice`s are read and have not been listed yet.
    awaits_slices: bool,
    /// The time of the last read of the clocks, once a second.
    looked: Now,
    /// The time at which an address was chosen for a Service whose status does not name it yet.
    chosen: BTreeMap<ServiceName, Monotonic>,
    /// The effects of the present input.
    effects: Vec<Effect>,
}

impl Controller {
    /// Starts without a Service or a pool.
    pub fn start(settings: Settings, now: Now) -> Self {
        Self {
            services: services::Controller::start(settings),
            statuses: Writes::default(),
            failures: Failures::default(),
            refused: RefusedStatuses::default(),
            is_synced: false,
            awaits_slices: false,
            looked: Now { unix_seconds: 0, ..now },
            chosen: BTreeMap::new(),
            effects: Vec::new(),
        }
    }

    pub fn index(&self) -> &Index {
        self.services.index()
    }

    pub fn allocator(&self) -> &Allocator {
        self.services.allocator()
    }

    /// Returns true if every type has been listed once.
    pub fn is_synced(&self) -> bool {
        self.is_synced
    }

    /// Takes an input, and lets time pass. Returns the effects, in the order in which they are carried out.
    ///
    /// Returns none once the term of this process is over: it may have been stopped since the caller
    /// last looked. It must end.
    pub fn on(&mut self, election: &Election, input: Input, now: Now) -> Option<Vec<Effect>> {
        if !election.leads(now.at) {
            return None;
        }
        match input {
            Input::Seen(all) => {
                for seen in all {
                    match seen {
                        Seen::Object(_, Some(event)) => self.decide(event, now.at),
                        Seen::Object(_, None) => {}
                        Seen::Listed { slices, all } => self.on_listed(slices, all, now),
                    }
                }
            }
            Input::Replies(replies) => {
                for reply in replies {
                    self.on_reply(reply, now.at);
                }
            }
            Input::Deadline => {}
        }
        self.on_time(now);
        Some(std::mem::take(&mut self.effects))
    }

    /// Returns the time of the next [`Input::Deadline`].
    pub fn next_deadline(&self) -> Monotonic {
        let deadlines =
            [self.index().next_deadline(), self.statuses.next_deadline(), self.failures.next_deadline()];
        deadlines.into_iter().flatten().fold(self.looked.at + PACE, Monotonic::min)
    }

    /// Handles that a type was listed. The pools begin when all have been listed once.
    fn on_listed(&mut self, slices: bool, all: bool, now: Now) {
        if slices {
            self.awaits_slices = false;
            self.decide(Event::SlicesListed, now.at);
        }
        // The caller may not have begun to read the slices yet.
        self.is_synced |= all && !self.awaits_slices;
        if self.is_synced {
            // What is kept for a time is kept from now on.
            self.decide_pools(pools::Event::Time(now.unix_seconds), now.at);
            self.decide(Event::Synced, now.at);
        }
    }

    fn on_reply(&mut self, reply: Reply, now: Monotonic) {
        match reply {
            Reply::Reserved(write, reserved) => self.on_reserved(*write, reserved, now),
            Reply::Status { service, outcome, jitter } => {
                let done = outcome == Outcome::Done(());
                self.statuses.on_result(&service, done, jitter, now);
                // A status that was left or changed meanwhile is no problem.
                if done || self.statuses.failures(&service) > 0 {
                    let (over, begins) = self.refused.on_answer(&service, &outcome);
                    self.end(over.map(|problem| (service.clone(), problem)));
                    self.effects.extend(begins.map(|problem| Effect::Problem(service.clone(), problem)));
                }
                if done && let Some(since) = self.chosen.remove(&service) {
                    self.effects.push(Effect::Assigned(now.saturating_since(since)));
                }
            }
        }
    }

    fn on_reserved(&mut self, write: ReservationWrite, reserved: Reserved, now: Monotonic) {
        let vip = write.vip;
        let known = match reserved {
            Reserved::Object(Some(record)) => Seen::claim(*record).into_served(),
            Reserved::Object(None) => Some(Event::ClaimGone(vip)),
            Reserved::ReadSince => None,
            Reserved::Refused(why) => return self.on_failed(write, Some(why), now),
            Reserved::Unknown => return self.on_failed(write, None, now),
        };
        if let Some(failed) = self.failures.end(vip) {
            self.effects.push(Effect::Log(Line::Reserved(vip)));
            self.end(failed.reported);
        }
        if let Some(event) = known {
            self.decide(event, now);
        }
        self.decide_pools(pools::Event::Answered(vip), now);
    }

    /// Has a reservation tried again that was refused, or got no answer.
    fn on_failed(&mut self, write: ReservationWrite, why: Option<Arc<str>>, now: Monotonic) {
        let vip = write.vip;
        let problem = why.clone().zip(write.reservation.as_ref());
        let problem = problem.map(|(why, it)| (it.service.clone(), Problem::NotReserved { vip, why }));
        let noted = self.failures.record(write, problem, now);
        if noted.is_first {
            self.effects.push(Effect::Log(why.map_or(Line::Unknown(vip), |why| Line::Refused(vip, why))));
        }
        self.end(noted.over);
        if let Some((service, problem)) = noted.begins {
            self.effects.push(Effect::Problem(service, problem));
        }
        self.decide_pools(pools::Event::Failed(vip), now);
    }

    fn end(&mut self, reported: Option<Reported>) {
        self.effects.extend(reported.map(|(service, problem)| Effect::ProblemOver(service, problem)));
    }

    fn decide(&mut self, event: Event, now: Monotonic) {
        if let Event::ServiceGone(service) = &event {
            self.chosen.remove(service);
        }
        let commands = self.services.on_event(event);
        self.carry_out(commands, now);
    }

    fn decide_pools(&mut self, event: pools::Event, now: Monotonic) {
        let commands = self.services.on_pools(event);
        self.carry_out(commands, now);
    }

    fn carry_out(&mut self, commands: Vec<ControllerCommand>, now: Monotonic) {
        for command in commands {
            match command {
                ControllerCommand::Reserve(write) => self.reserve(write, now),
                ControllerCommand::GiveUp(vip) => {
                    let over = self.failures.end(vip).and_then(|failed| failed.reported);
                    self.end(over);
                }
                ControllerCommand::Serve(command) => self.serve(command, now),
            }
        }
    }

    fn reserve(&mut self, write: ReservationWrite, now: Monotonic) {
        match (&write.reservation, &write.expected) {
            // A status that has the address already is not written.
            (Some(Reservation { service, kept: None, .. }), _)
                if !self.index().has_in_status(service, write.vip) =>
            {
                self.chosen.entry(service.clone()).or_insert(now);
            }
            (_, Expected::Present(Some(Reservation { service, .. }))) => {
                self.chosen.remove(service);
            }
            (_, Expected::Present(None) | Expected::Absent) => {}
        }
        let over = self.failures.replace(&write);
        self.end(over);
        self.effects.push(Effect::Reserve(write));
    }

    fn serve(&mut self, command: services::Command, now: Monotonic) {
        match command {
            services::Command::ListSlices { service } => {
                self.awaits_slices = true;
                self.effects.push(Effect::ListSlices(service));
            }
            // The agents decide who holds a VIP.
            services::Command::Demand(..) => {}
            services::Command::WriteIngress { service, addresses } => {
                self.statuses.begin(service, Some(addresses), now);
            }
            services::Command::ClearIngress { service } => self.statuses.begin(service, None, now),
            services::Command::LeaveIngress { service } => {
                self.statuses.leave(&service);
                let over = self.refused.end(&service);
                self.end(over.map(|problem| (service.clone(), problem)));
                self.effects.push(Effect::LeaveStatus(service));
            }
            services::Command::Report { service, problem } => {
                self.effects.push(Effect::Problem(service, problem));
            }
            services::Command::ProblemOver { service, problem } => {
                self.effects.push(Effect::ProblemOver(service, problem));
            }
        }
    }

    /// Does what is due by the clock.
    fn on_time(&mut self, now: Now) {
        for write in self.failures.due(now.at) {
            let vip = write.vip;
            self.effects.push(Effect::Reserve(write));
            self.decide_pools(pools::Event::TriedAgain(vip), now.at);
        }
        let is_another_second = self.looked.unix_seconds != now.unix_seconds;
        if is_another_second || self.looked.at + PACE <= now.at {
            self.looked = now;
        }
        if is_another_second {
            self.decide_pools(pools::Event::Time(now.unix_seconds), now.at);
        }
        if self.index().next_deadline().is_some_and(|deadline| deadline <= now.at) {
            let commands = self.services.on_time(now.at);
            self.carry_out(commands, now.at);
        }
        for (service, addresses) in self.statuses.due(now.at) {
            let over = self.index().overwrites(&service);
            self.effects.push(Effect::WriteStatus { service, addresses, over });
        }
        if is_another_second && self.is_synced {
            self.effects.push(Effect::ShowPools);
        }
    }
}

#[cfg(test)]
mod tests;
