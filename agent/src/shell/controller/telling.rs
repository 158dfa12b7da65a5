//! The log and the Events about Services.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::Arc,
};

use tracing::{info, warn};
use vipward_core::{
    cluster::ServiceName,
    outbox::{Command, ForeignObject, Message, Outbox, Outcome},
    ownership,
    pools::{Allocator, L2Advertisement, L2AdvertisementRecord, PoolKind},
    reporting::Reporting,
    services::{Problem, Services},
    time::Monotonic,
};

use crate::shell::kube::{ConnectError, IngressError, Kube, MetalLb, Recorder};

/// A writer of log lines and Events.
pub(super) struct Telling {
    outbox: Outbox,
    recorder: Recorder,
    reporting: Reporting,
    /// Services whose status could not be written.
    unwritten: BTreeSet<ServiceName>,
    /// The namespace of `MetalLB`'s objects.
    metallb: Arc<str>,
    /// The problem of each of these objects that has one.
    foreign: BTreeMap<ForeignObject, String>,
}

impl Telling {
    pub(super) fn start(kube: &Kube, now: Monotonic) -> Result<Self, ConnectError> {
        Ok(Self {
            outbox: Outbox::start(now),
            recorder: Recorder::start(kube)?,
            reporting: Reporting::default(),
            unwritten: BTreeSet::new(),
            metallb: kube.metallb_namespace(),
            foreign: BTreeMap::new(),
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

    /// Reports an object that Vipward does not serve.
    pub(super) fn unserved(&mut self, object: &ForeignObject, now: Monotonic) {
        let words = format!("Vipward announces at Layer 2; {} is not served", object.kind);
        self.foreign(object.clone(), Some(words), now);
    }

    /// Reports what of an `L2Advertisement` cannot be used.
    pub(super) fn advertisement(
        &mut self,
        record: &L2AdvertisementRecord,
        object: &ForeignObject,
        now: Monotonic,
    ) {
        let faults = L2Advertisement::read(record.clone()).1;
        let words = faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
        self.foreign(object.clone(), Some(words).filter(|words| !words.is_empty()), now);
    }

    /// Reports what of `MetalLB`'s pools cannot be used. They have no condition that could say so.
    pub(super) fn pools(&mut self, allocator: &Allocator, now: Monotonic) {
        for (pool, state) in allocator.pools() {
            let (PoolKind::IpAddressPool, name) = PoolKind::of(&pool.record.name) else { continue };
            let object = MetalLb::IpAddressPools.object(&self.metallb, name, &pool.record.uid);
            self.foreign(object, state.problem(allocator.faults(&pool.record.name)), now);
        }
    }

    fn foreign(&mut self, object: ForeignObject, problem: Option<String>, now: Monotonic) {
        if self.foreign.get(&object) == problem.as_ref() {
            return;
        }
        if let Some(problem) = problem {
            warn!(%object, problem, "problem");
            self.outbox.post(Message::of_foreign(object.clone(), &problem), now);
            self.foreign.insert(object, problem);
        } else {
            info!(%object, "problem is over");
            self.foreign.remove(&object);
        }
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
