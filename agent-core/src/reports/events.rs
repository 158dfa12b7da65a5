//! The Events of a process. A problem of a Service or of another object is posted for as long as it lasts,
//! and any other message once.

use std::collections::BTreeMap;

use super::{
    outbox::{ApiObject, Command, Message, ObjectFault, Outbox, Outcome},
    reporting::{RENEW, Reporting, SETTLED},
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
    /// The fault of each object that has one, and the time of its next message.
    faults: BTreeMap<ApiObject, (ObjectFault, Monotonic)>,
}

impl Events {
    pub fn start(now: Monotonic) -> Self {
        Self { outbox: Outbox::start(now), reporting: Reporting::default(), faults: BTreeMap::new() }
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

    /// Records the fault of an object, or that it has none. Returns true if that is a change.
    pub fn put_fault(&mut self, object: &ApiObject, fault: Option<&ObjectFault>, now: Monotonic) -> bool {
        if self.faults.get(object).map(|(known, _)| known) == fault {
            return false;
        }
        if let Some((over, _)) = self.faults.remove(object) {
            self.outbox.withdraw_fault(object, &over);
        }
        if let Some(fault) = fault {
            self.faults.insert(object.clone(), (fault.clone(), now + SETTLED));
        }
        true
    }

    /// Forgets an object that is gone, whatever its uid was.
    pub fn forget_faults(&mut self, gone: &ApiObject) {
        let Self { faults, outbox, .. } = self;
        faults.retain(|object, (fault, _)| {
            let stays = (object.kind, &object.name) != (gone.kind, &gone.name);
            if !stays {
                outbox.withdraw_fault(object, fault);
            }
            stays
        });
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
        for (object, (fault, next)) in self.faults.iter_mut().filter(|(_, (_, next))| *next <= now) {
            *next = now + RENEW;
            self.outbox.post(Message::of_fault(object.clone(), fault), now);
        }
    }

    /// Returns what is to be done now: at most one request, and a report.
    pub fn due(&mut self, now: Monotonic) -> Vec<Command> {
        self.outbox.due(now)
    }

    /// Returns the next deadline of [`Events::report`] and [`Events::due`].
    pub fn next_deadline(&self) -> Option<Monotonic> {
        let faults = self.faults.values().map(|(_, next)| *next);
        let others = self.outbox.next_deadline().into_iter().chain(self.reporting.next_deadline());
        others.chain(faults).min()
    }
}
