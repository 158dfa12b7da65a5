//! The election of one controller by a Lease, as the shell takes part in it. Checks E1 and E2.

use std::{ops::Range, time::Duration};

use vipward_core::{
    base::time::Monotonic,
    controller::Input,
    ownership::Outcome,
    pools::election::{Ballot, Election, Step},
    services,
};

use super::{Happening, World, transit::Request};
use crate::{
    machine::{Candidate, Contender, Elected},
    schedule::{Sabotage, Times, names},
};

/// The part of the lease between two rounds.
pub(crate) const RENEWALS: u32 = 5;
/// The time until a controller that no longer leads is started again, in milliseconds.
const BACK: Range<u64> = 100..2_000;

impl World {
    /// Returns how long a controller leads after a write of the Lease.
    pub(crate) fn term(&self) -> Duration {
        Duration::from_millis(self.plan.timing.lease_ms.into())
    }

    /// Returns the number of the controller that the Lease names; the first if it names none.
    pub(crate) fn elected(&self) -> u8 {
        let holder = self.api.election.as_ref().map(|ballot| ballot.holder.as_str()).unwrap_or_default();
        let is_second = holder.starts_with(names::node(names::CONTROLLER + 1).as_str());
        u8::from(is_second)
    }

    /// Starts a controller as a candidate, unless it runs.
    pub(super) fn start_controller(&mut self, who: usize) {
        let term = self.term();
        let it = self.controller_mut(who);
        if it.process.is_some() {
            return;
        }
        it.life += 1;
        it.faults.paused = Times::default();
        it.until = Monotonic::default();
        it.dazed = it.faults.frozen.any();
        it.process = Some(Candidate::new(Election::start(name(who, it.life), term)));
        self.say(who, || "starts".to_owned());
        self.update_fitness();
        self.drain_controller(who);
    }

    /// Stops a controller and its clock, or lets them go on: its term lasts as much longer.
    pub(crate) fn freeze_controller(&mut self, who: usize, begins: bool) {
        let now = self.now;
        let it = self.controller_mut(who);
        it.faults.frozen.change(begins);
        it.dazed = true;
        if begins {
            it.clock.stop(now);
        } else if !it.faults.frozen.any() {
            it.clock.go_on(now);
            self.drain_controller(who);
        }
    }

    /// Ends a controller at once, whatever it is doing.
    pub(super) fn kill_controller(&mut self, who: usize) {
        let it = self.controller_mut(who);
        it.process = None;
        it.faults.paused = Times::default();
        self.update_fitness();
    }

    /// Requests a controller to end. A leader gives the Lease back first.
    pub(super) fn notify_controller_to_end(&mut self, who: usize, back: Duration) {
        let life = self.life(who);
        let Some(process) = self.candidate(who, life).filter(|process| process.ends.is_none()) else {
            return;
        };
        process.ends = Some(back);
        process.is_due = true;
        self.drain_controller(who);
    }

    /// Ends a controller that was requested to end, or that no longer leads. It starts again later.
    fn leave(&mut self, who: usize, back: Duration) {
        self.say(who, || "ends".to_owned());
        self.kill_controller(who);
        self.after(back, Happening::Boot { node: who });
    }

    pub(super) fn expire(&mut self, who: usize) {
        let back = Duration::from_millis(self.noise_of(who).steps.u64(BACK));
        self.leave(who, back);
    }

    pub(super) fn candidate(&mut self, who: usize, life: u32) -> Option<&mut Candidate> {
        let it = self.controller_mut(who);
        it.process.as_mut().filter(|_| it.life == life)
    }

    pub(super) fn round_is_due(&mut self, who: usize, life: u32) {
        let Some(process) = self.candidate(who, life) else { return };
        process.is_due = true;
        self.drain_controller(who);
    }

    pub(super) fn controller_is_answered(&mut self, who: usize, life: u32, elected: Elected) {
        let Some(process) = self.candidate(who, life) else { return };
        process.elected = Some(elected);
        self.drain_controller(who);
    }

    /// Lets a controller act, as long as it runs: one that leads takes its inputs, and decides once more before
    /// each round of the election.
    pub(super) fn drain_controller(&mut self, who: usize) {
        let life = self.life(who);
        while self.controller(who).runs()
            && let Some(process) = self.candidate(who, life)
        {
            if let Some(elected) = process.elected.take() {
                self.go_on_with_round(who, elected);
                continue;
            }
            let (is_due, decides) = (process.is_due, process.ends.is_none());
            if process.asked.is_some() {
                break;
            }
            let leading = process.leading.as_mut().filter(|_| decides);
            let round = is_due.then_some(Input::Deadline);
            match leading.and_then(|leading| leading.inbox.pop_front().or(round)) {
                Some(input) => self.step_leader(who, life, input),
                None if !is_due => break,
                None => {}
            }
            if is_due {
                self.begin_round(who, life);
            }
        }
        self.schedule_leader(who);
    }

    /// Reads the Lease, unless the process ends and has nothing to give back.
    fn begin_round(&mut self, who: usize, life: u32) {
        let now = self.controller(who).clock.read(self.now);
        let Some(process) = self.candidate(who, life) else { return };
        if let Some(back) = process.ends.filter(|_| !process.election.leads(now)) {
            return self.leave(who, back);
        }
        process.is_due = false;
        process.asked = Some(now);
        self.send(who, Request::Ballot);
    }

    fn go_on_with_round(&mut self, who: usize, elected: Elected) {
        let (sabotage, life) = (self.sabotage, self.life(who));
        let now = self.controller(who).clock.read(self.now);
        let Some(process) = self.candidate(who, life) else { return };
        let Some(asked) = process.asked else { return };
        let own = name(who, life);
        match (elected, process.ends) {
            (Elected::Read(Outcome::Done(Some(ballot))), Some(_)) if ballot.holder == own => {
                process.is_due = false;
                return self.send(who, Request::Vote(Step::Write(ballot.version), String::new(), asked));
            }
            (_, Some(back)) if !process.is_due => return self.leave(who, back),
            (Elected::Read(Outcome::Done(ballot)), None) => {
                let step = read(&mut process.election, ballot, (&own, now), sabotage);
                if step != Step::Wait {
                    return self.send(who, Request::Vote(step, own, asked));
                }
            }
            (Elected::Written(Outcome::Done(())), _) => process.election.on_written(asked),
            (Elected::Written(Outcome::Conflict), _) => process.election.on_lost(),
            (Elected::Read(_) | Elected::Written(_), _) => {}
        }
        process.asked = None;
        let begins = process.leading.is_none() && process.election.leads(now);
        self.after(self.term() / RENEWALS, Happening::Round { node: who, life });
        if begins {
            self.begin_to_lead(who);
        }
        self.update_fitness();
    }

    /// Carries out a write of the Lease. Checks E2: the terms of two controllers overlap by no more than their
    /// clocks differ. Excepted are a Lease that was deleted, and a term in which the clock has stood still.
    pub(super) fn vote(
        &mut self,
        flight: usize,
        step: &Step,
        holder: String,
        asked: Monotonic,
    ) -> Outcome<()> {
        let (term, now) = (self.term(), self.now);
        let (who, life) = (self.transit.flights[flight].node, self.transit.flights[flight].life);
        let takes = !holder.is_empty() && *step != Step::Create && self.record.tenants.leader != Some(who);
        let until = if holder.is_empty() { Monotonic::default() } else { asked + term };
        let outcome = self.api.vote(step, holder, term);
        if outcome != Outcome::Done(()) {
            return outcome;
        }
        let it = self.controller_mut(who);
        if it.life == life {
            it.until = until;
        }
        let others = (names::CONTROLLER..).take(self.controllers.len()).filter(|other| *other != who);
        let leads_on = |other: &usize| {
            let other = self.controller(*other);
            let until = other.clock.when(other.until).unwrap_or_default();
            other.leading().is_some() && !other.dazed && until > now + term * 21 / 1_000
        };
        if let Some(other) = others.into_iter().find(leads_on).filter(|_| takes) {
            let what = format!("{} takes the Lease in the term of {}", names::node(who), names::node(other));
            self.violate("E2", what);
        }
        self.record.facts.replaced |= self.record.tenants.leader.replace(who).is_some_and(|last| last != who);
        self.show_leader();
        outcome
    }

    /// Shows the Lease to the agents that are not cut off.
    fn show_leader(&mut self) {
        let leads = self.api.election.as_ref().filter(|ballot| !ballot.holder.is_empty());
        let leader = services::Event::Leader(leads.map(|ballot| ballot.version.clone()));
        for node in (0..self.nodes.len()).filter(|node| self.reaches_api(*node)).collect::<Vec<_>>() {
            let life = self.life(node);
            self.seen(node, life, vec![leader.clone().into()]);
        }
    }

    /// Checks E1: a controller sends nothing after its term.
    pub(super) fn check_term(&mut self, who: usize) {
        let it = self.controller(who);
        if it.until <= it.clock.read(self.now) {
            self.violate("E1", format!("{} decides after its term", names::node(who)));
        }
    }

    /// Returns the controller that leads and can do everything; of two the later one.
    pub(crate) fn fit_leader(&self) -> Option<&Contender> {
        self.controllers.iter().filter(|it| it.fit.is_some()).max_by_key(|it| it.fit)
    }
}

/// Returns the name of a process of a controller.
fn name(who: usize, life: u32) -> String {
    format!("{}_{life}", names::node(who))
}

/// Gives a candidate what it has read.
fn read(
    election: &mut Election,
    ballot: Option<Ballot>,
    (own, now): (&str, Monotonic),
    sabotage: Option<Sabotage>,
) -> Step {
    let Some(Ballot { version, holder, duration }) = ballot else { return election.on_read(None, now) };
    let is_hidden = sabotage == Some(Sabotage::NoRenewals) && holder != own;
    let shown = if is_hidden { "0".into() } else { version.clone() };
    match election.on_read(Some(&Ballot { version: shown, holder, duration }), now) {
        Step::Write(_) => Step::Write(version),
        step => step,
    }
}
