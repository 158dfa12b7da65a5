//! The log lines and Events about Services, of an agent and of the controller.

use std::collections::BTreeSet;

use tracing::{info, warn};
use vipward_core::{
    base::time::Monotonic,
    records::ServiceName,
    reports::{
        events::Events,
        outbox::{ApiObject, Command, Message, ObjectFault, Outcome},
    },
    services::{Index, Problem},
};

use crate::shell::{
    kube::{ConnectError, IngressError, Kube, Recorder},
    logging::{
        errors::chain,
        lines::{Lines, Trouble},
    },
};

pub(crate) const PROBLEM: &str = "a problem has begun";
pub(crate) const PROBLEM_OVER: &str = "the problem is over";
const UNWRITTEN: &str = "the Service's status is not written";
const WRITTEN: &str = "the Service's status is written again";

/// A writer of log lines about Services, and of all Events of this process.
pub(crate) struct Reporter {
    events: Events,
    recorder: Recorder,
    /// Services whose status could not be written.
    unwritten: BTreeSet<ServiceName>,
    /// Lines about VIPs, Services and other objects in trouble.
    trouble: Lines<Trouble>,
}

impl Reporter {
    pub(crate) fn start(kube: &Kube, now: Monotonic) -> Result<Self, ConnectError> {
        Ok(Self {
            events: Events::start(now),
            recorder: Recorder::start(kube)?,
            unwritten: BTreeSet::new(),
            trouble: Trouble::lines(now),
        })
    }

    /// Returns true if a line about trouble is to be logged. Otherwise a number includes it later.
    pub(crate) fn admits(&mut self, line: Trouble, now: Monotonic) -> bool {
        self.trouble.admits(line, now)
    }

    /// Logs a new problem of a Service. The process that is responsible for it writes an Event later.
    pub(crate) fn begin(&mut self, service: ServiceName, problem: Problem, now: Monotonic) {
        if self.admits(Trouble::Is(PROBLEM), now) {
            warn!(%service, %problem, "{PROBLEM}");
        }
        self.events.begin(service, problem, now);
    }

    pub(crate) fn end(&mut self, service: &ServiceName, problem: &Problem, now: Monotonic) {
        if self.admits(Trouble::Over(PROBLEM_OVER), now) {
            info!(%service, %problem, "{PROBLEM_OVER}");
        }
        self.events.end(service, problem);
    }

    /// Logs when the status of a Service cannot be written, and when it can be again.
    pub(crate) fn ingress(
        &mut self,
        service: &ServiceName,
        result: &Result<(), IngressError>,
        now: Monotonic,
    ) {
        match result {
            Ok(()) => {
                if self.unwritten.remove(service) && self.admits(Trouble::Over(WRITTEN), now) {
                    info!(%service, "{WRITTEN}");
                }
            }
            Err(error) => {
                let is_new = self.unwritten.insert(service.clone());
                if is_new && self.admits(Trouble::Is(UNWRITTEN), now) {
                    warn!(%service, error = chain(error), "{UNWRITTEN}");
                }
            }
        }
    }

    /// Forgets a Service whose status this process no longer writes.
    pub(crate) fn ingress_left(&mut self, service: &ServiceName) {
        self.unwritten.remove(service);
    }

    /// Records the fault of an object, as [`Events::put_fault`] does.
    pub(crate) fn put_fault(
        &mut self,
        object: &ApiObject,
        fault: Option<&ObjectFault>,
        now: Monotonic,
    ) -> bool {
        self.events.put_fault(object, fault, now)
    }

    pub(crate) fn forget_faults(&mut self, gone: &ApiObject) {
        self.events.forget_faults(gone);
    }

    /// Posts a message that becomes an Event.
    pub(crate) fn post(&mut self, message: Message, now: Monotonic) {
        self.events.post(message, now);
        self.write_events(now);
    }

    /// Returns the outcome of the request that writes an Event. Safe to cancel.
    pub(crate) async fn event_written(&mut self) -> Option<Outcome> {
        self.recorder.outcome().await
    }

    /// Handles that outcome, and writes the next Event.
    pub(crate) fn on_event_written(&mut self, outcome: Outcome, now: Monotonic) {
        self.events.on_outcome(outcome, fastrand::f64(), now);
        self.write_events(now);
    }

    /// Writes the Events and logs the numbers that are due. `is_responsible` is as for [`Events::report`].
    pub(crate) fn on_time(
        &mut self,
        services: &Index,
        is_responsible: impl Fn(&ServiceName, &Problem) -> Option<bool>,
        now: Monotonic,
    ) {
        self.trouble.on_time(now);
        self.events.report(services, is_responsible, now);
        self.write_events(now);
    }

    fn write_events(&mut self, now: Monotonic) {
        for command in self.events.due(now) {
            match command {
                Command::Write(write) => self.recorder.write(write),
                Command::Report { left_out, unwritten } => {
                    if left_out > 0 {
                        info!(events = left_out, "Events are left out: too many at once, or too old");
                    }
                    if unwritten > 0 {
                        warn!(
                            events = unwritten,
                            last_error = self.recorder.last_error.take(),
                            "Events were not written: too many warnings, or the API server did not accept them"
                        );
                    }
                }
            }
        }
    }

    /// Returns the time of the next [`Reporter::on_time`].
    pub(crate) fn next_deadline(&self) -> Option<Monotonic> {
        self.events.next_deadline().into_iter().chain(self.trouble.next_deadline()).min()
    }
}
