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
    foreign: Foreign,
}

/// The problem of each of `MetalLB`'s objects that has one.
#[derive(Default)]
struct Foreign(BTreeMap<ForeignObject, String>);

impl Foreign {
    /// Takes in the problem of an object, or that it has none. Returns true if that is news.
    fn put(&mut self, object: &ForeignObject, problem: Option<&str>) -> bool {
        let known = self.0.get(object).map(String::as_str);
        if known == problem {
            return false;
        }
        match problem {
            Some(problem) => _ = self.0.insert(object.clone(), problem.to_owned()),
            None => _ = self.0.remove(object),
        }
        true
    }

    /// Forgets an object that is gone, whatever its uid was.
    fn remove(&mut self, gone: &ForeignObject) {
        self.0.retain(|object, _| (object.kind, &object.name) != (gone.kind, &gone.name));
    }
}

impl Telling {
    pub(super) fn start(kube: &Kube, now: Monotonic) -> Result<Self, ConnectError> {
        Ok(Self {
            outbox: Outbox::start(now),
            recorder: Recorder::start(kube)?,
            reporting: Reporting::default(),
            unwritten: BTreeSet::new(),
            metallb: kube.metallb_namespace(),
            foreign: Foreign::default(),
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
        if !self.foreign.put(&object, problem.as_deref()) {
            return;
        }
        if let Some(problem) = problem {
            warn!(%object, problem, "problem");
            self.outbox.post(Message::of_foreign(object, &problem), now);
        } else {
            info!(%object, "problem is over");
        }
    }

    /// Forgets an object of `MetalLB`'s that is gone.
    pub(super) fn gone(&mut self, of: MetalLb, name: &str) {
        self.foreign.remove(&of.object(&self.metallb, name, ""));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_that_is_gone_is_forgotten_and_one_of_its_name_is_told_anew() {
        let object = |of: MetalLb, uid| of.object("metallb-system", "lan", uid);
        let (pool, peer) = (object(MetalLb::IpAddressPools, "1"), object(MetalLb::BgpPeers, "2"));
        let mut foreign = Foreign::default();
        assert!(!foreign.put(&pool, None), "no problem");
        assert!(foreign.put(&pool, Some("bad")) && !foreign.put(&pool, Some("bad")));
        assert!(foreign.put(&pool, Some("worse")) && foreign.put(&peer, Some("not served")));
        foreign.remove(&object(MetalLb::IpAddressPools, ""));
        assert_eq!(foreign.0.keys().collect::<Vec<_>>(), [&peer], "another kind stays");
        assert!(foreign.put(&pool, Some("worse")));
        assert!(foreign.put(&pool, None), "it is over");
    }
}
