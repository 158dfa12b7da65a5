//! The Events of agents and of the controller, written as the shell does.

use std::time::Duration;

use vipward_core::{
    base::time::Monotonic,
    reports::outbox::{Command, Outcome},
};

use super::{Happening, World, transit::Request};
use crate::{machine::Desk, schedule::names};

/// The time until a stopped process is checked again.
const AGAIN: Duration = Duration::from_millis(500);

impl World {
    /// Returns what writes the Events of a process, and its clock.
    fn desk(&mut self, who: usize, life: u32) -> Option<(&mut Desk, Monotonic)> {
        if who >= names::CONTROLLER {
            let now = self.controller(who).clock.read(self.now);
            let leading = self.candidate(who, life)?.leading.as_mut()?;
            return Some((&mut leading.desk, now));
        }
        let now = self.nodes[who].clock.read(self.now);
        self.nodes[who].process_of(life).map(|process| (&mut process.desk, now))
    }

    /// Changes what is to be written, and schedules the next turn.
    pub(super) fn with_desk(&mut self, who: usize, life: u32, change: impl FnOnce(&mut Desk, Monotonic)) {
        let clock = if who >= names::CONTROLLER { self.controller(who).clock } else { self.nodes[who].clock };
        let now = self.now;
        let Some((desk, local)) = self.desk(who, life) else { return };
        change(desk, local);
        let next = if desk.written.is_some() {
            Some(now)
        } else {
            desk.events.next_deadline().and_then(|next| clock.when(next))
        };
        let Some(next) =
            next.map(|next| next.max(now)).filter(|next| desk.turn.is_none_or(|turn| *next < turn))
        else {
            return;
        };
        desk.turn = Some(next);
        self.at(next, Happening::Desk { node: who, life });
    }

    /// Lets a process write the Events that are due.
    pub(super) fn desk_turn(&mut self, who: usize, life: u32) {
        let now = self.now;
        let is_its = |desk: &Desk| desk.turn.is_some_and(|turn| turn <= now);
        if !self.desk(who, life).is_some_and(|(desk, _)| is_its(desk)) {
            return;
        }
        let runs =
            if who >= names::CONTROLLER { self.controller(who).runs() } else { self.nodes[who].agent_runs() };
        if !runs {
            self.after(AGAIN, Happening::Desk { node: who, life });
            return;
        }
        let jitter = self.noise_of(who).events.f64();
        if let Some((desk, now)) = self.desk(who, life) {
            desk.turn = None;
            if let Some(outcome) = desk.written.take() {
                desk.events.on_outcome(outcome, jitter, now);
            }
        }
        self.post_problems(who);
        let mut due = Vec::new();
        self.with_desk(who, life, |desk, now| due = desk.events.due(now));
        for command in due {
            match command {
                Command::Write(write) if self.omits_event(who) => {
                    self.say(who, || format!("omits Event {}", write.name));
                    self.event_written(who, life, Outcome::Done);
                }
                Command::Write(write) => self.send(who, Request::Event(write.into())),
                Command::Report { .. } => {}
            }
        }
    }

    /// Posts the problems that are due.
    fn post_problems(&mut self, who: usize) {
        let now = self.now;
        if who >= names::CONTROLLER {
            let local = self.controller(who).clock.read(now);
            let Some(leading) = self.leading_mut(who) else { return };
            return leading.desk.events.report(leading.controller.index(), |_, _| Some(true), local);
        }
        let it = &mut self.nodes[who];
        let (Some(process), local) = (&mut it.process, it.clock.read(now)) else { return };
        let cluster = process.agent.cluster().expect("invariant: every agent has a cluster");
        let is_responsible = |service: &_, problem: &_| cluster.is_responsible(service, problem, local);
        process.desk.events.report(cluster.index(), is_responsible, local);
    }

    /// Handles the outcome of a request that writes an Event.
    pub(super) fn event_written(&mut self, who: usize, life: u32, outcome: Outcome) {
        if outcome == Outcome::Unknown {
            self.record.events_unknown = Some(self.now);
        }
        self.with_desk(who, life, |desk, _| desk.written = Some(outcome));
    }
}
