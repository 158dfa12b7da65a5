//! The log and the Events about Services.

use std::{collections::BTreeSet, net::IpAddr};

use tracing::{info, warn};
use vipward_core::{
    cluster::ServiceName,
    outbox::{Command, Message, Outbox, Outcome},
    ownership,
    reporting::Reporting,
    services::{Problem, Services},
    time::Monotonic,
};

use crate::shell::kube::{ConnectError, IngressError, Kube, Recorder};

/// A writer of log lines and Events.
pub(super) struct Telling {
    outbox: Outbox,
    recorder: Recorder,
    reporting: Reporting,
    /// Services whose status could not be written.
    unwritten: BTreeSet<ServiceName>,
}

impl Telling {
    pub(super) fn start(kube: &Kube, now: Monotonic) -> Result<Self, ConnectError> {
        Ok(Self {
            outbox: Outbox::start(now),
            recorder: Recorder::start(kube)?,
            reporting: Reporting::default(),
            unwritten: BTreeSet::new(),
        })
    }

    pub(super) fn problem(&mut self, service: ServiceName, problem: Problem, now: Monotonic) {
        warn!(%service, %problem, "problem");
        self.reporting.begin(service, problem, now);
    }

    pub(super) fn problem_over(&mut self, service: &ServiceName, problem: &Problem) {
        info!(%service, %problem, "problem is over");
        self.reporting.end(service, problem);
        self.outbox.withdraw(service, problem);
    }

    pub(super) fn ingress(&mut self, service: &ServiceName, result: &Result<(), IngressError>) {
        match result {
            Ok(()) if self.unwritten.remove(service) => {
                info!(%service, "the Service's status is written again");
            }
            Err(error) if self.unwritten.insert(service.clone()) => {
                warn!(%service, %error, "the Service's status is not written");
            }
            Ok(()) | Err(_) => {}
        }
    }

    pub(super) fn ingress_left(&mut self, service: &ServiceName) {
        self.unwritten.remove(service);
    }

    pub(super) fn unreserved<T>(vip: IpAddr, outcome: &ownership::Outcome<T>) {
        if let ownership::Outcome::Refused(why) = outcome {
            warn!(%vip, %why, "the address cannot be reserved; trying again");
        } else {
            info!(%vip, "whether the address is reserved is unknown; trying again");
        }
    }

    /// Returns the outcome of the request that writes an Event. Safe to cancel.
    pub(super) async fn event_written(&mut self) -> Outcome {
        match self.recorder.outcome().await {
            Some(outcome) => outcome,
            None => std::future::pending().await,
        }
    }

    pub(super) fn on_event_written(&mut self, outcome: Outcome, now: Monotonic) {
        self.outbox.on_outcome(outcome, fastrand::f64(), now);
    }

    /// Writes the Events that are due.
    pub(super) fn on_time(&mut self, services: &Services, now: Monotonic) {
        for (service, problem) in self.reporting.due(|_, _| Some(true), now) {
            let uid = services.uid(&service).cloned();
            self.outbox.post(Message::of_problem(service, uid, &problem), now);
        }
        for command in self.outbox.due(now) {
            match command {
                Command::Write(write) => self.recorder.write(write),
                Command::Report { left_out, unwritten } => {
                    info!(left_out, unwritten, "Events left out: too many at once, too old, or not taken");
                }
            }
        }
    }
}
