//! The Events of a process: a problem of a Service is one for as long as it lasts, and any other message once.

use super::{
    outbox::{Command, Message, Outbox, Outcome},
    reporting::Reporting,
};
use crate::{
    base::time::Monotonic,
    records::ServiceName,
    services::{Index, Problem},
};

#[cfg(test)]
mod tests;

#[derive(Debug)]
pub struct Events {
    outbox: Outbox,
    reporting: Reporting,
}

impl Events {
    pub fn start(now: Monotonic) -> Self {
        Self { outbox: Outbox::start(now), reporting: Reporting::default() }
    }

    /// Records a new problem of a Service. The process that is responsible for it posts a message
    /// later.
    pub fn begin(&mut self, service: ServiceName, problem: Problem, now: Monotonic) {
        self.reporting.begin(service, problem, now);
    }

    pub fn end(&mut self, service: &ServiceName, problem: &Problem) {
        self.reporting.end(service, problem);
        self.outbox.withdraw(service, problem);
    }

    pub fn post(&mut self, message: Message, now: Monotonic) {
        self.outbox.post(message, now);
    }

    /// Records the outcome of the request that is under way. `jitter` is from 0 to 1.
    pub fn on_outcome(&mut self, outcome: Outcome, jitter: f64, now: Monotonic) {
        self.outbox.on_outcome(outcome, jitter, now);
    }

    /// Posts the messages about problems that this process is to report now. `is_responsible` is as
    /// for [`Reporting::due`].
    pub fn report(
        &mut self,
        services: &Index,
        is_responsible: impl Fn(&ServiceName, &Problem) -> Option<bool>,
        now: Monotonic,
    ) {
        for (service, problem) in self.reporting.due(is_responsible, now) {
            let uid = services.uid(&service).cloned();
            self.outbox.post(Message::of_problem(service, uid, &problem), now);
        }
    }

    /// Returns what is to be done now: at most one request, and a report.
    pub fn due(&mut self, now: Monotonic) -> Vec<Command> {
        self.outbox.due(now)
    }

    /// Returns the next deadline of [`Events::report`] and [`Events::due`].
    pub fn next_deadline(&self) -> Option<Monotonic> {
        self.outbox.next_deadline().into_iter().chain(self.reporting.next_deadline()).min()
    }
}
