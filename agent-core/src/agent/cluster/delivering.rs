//! Passes what this node's service proxy delivers to the engine, and reports a proxy that is not reached.

use std::{collections::BTreeSet, net::IpAddr};

use super::Cluster;
use crate::{
    agent::effect::{self, Effect, Line},
    base::time::Monotonic,
    delivery::{Command, News},
    ownership,
    records::{HealthPort, LeaseRecord, Proxy},
    reports::outbox::{ApiObject, Message, Object, Reason},
    services::{Problem, ProblemReason},
};

impl Cluster {
    /// Goes on with what this node's Lease states, before the first decision.
    pub(super) fn inherit(&mut self, record: &LeaseRecord, now: Monotonic) {
        if self.is_synced() || record.node != self.settings.node {
            return;
        }
        // An earlier process may have ended its session before its proxy was up.
        if self.engine.continues(record) || record.proxy == Some(Proxy::Starting) {
            self.delivery.inherit(record.proxy.as_ref(), now);
        }
    }

    /// Asks what is due, and has the engine learn of a change.
    pub(super) fn deliver(&mut self, now: Monotonic) {
        for command in self.delivery.on_time(now) {
            match command {
                Command::Ask(target) => self.emit(effect::Cluster::AskProxy(target)),
                Command::Report(news) => self.report_proxy(news),
                Command::Unreachable(port, vips) => self.report_unreached(port, vips),
                Command::Reached(vips) => self.report_reached(&vips),
            }
        }
        let statement = self.delivery.statement();
        // The statement of an earlier process is read first.
        if self.is_synced() && self.stated != statement {
            self.stated.clone_from(&statement);
            self.decide(ownership::Event::Proxy(statement), now);
        }
    }

    fn report_proxy(&mut self, news: News) {
        self.effects.push(Effect::Log(Line::Proxy(news)));
        let note = match news {
            News::Ungated => UNGATED,
            News::TooMany => TOO_MANY,
            News::Waits | News::Fits => return,
        };
        let node = ApiObject {
            version: "v1",
            kind: "Node",
            namespace: "default".into(),
            name: self.settings.node.as_str().into(),
            uid: "".into(),
        };
        let reason = Reason::Problem(ProblemReason::ProxyUnreachable);
        let message = Message::new(Object::Other(node), None, reason, note);
        self.emit(effect::Cluster::Post(Box::new(message)));
    }

    /// Reports that nothing answers at the port of these VIPs. It is that of their owners.
    fn report_unreached(&mut self, port: HealthPort, vips: BTreeSet<IpAddr>) {
        for vip in vips {
            let Some(service) = self.services.index().having(vip).first().cloned() else { continue };
            let node = self.settings.node.clone();
            let problem = Problem::ProxyUnreachable { vip, port: port.number, node };
            self.emit(effect::Cluster::Problem(service.clone(), problem.clone()));
            self.unreached.insert(vip, (service, problem));
        }
    }

    fn report_reached(&mut self, vips: &BTreeSet<IpAddr>) {
        for (service, problem) in vips.iter().filter_map(|vip| self.unreached.remove(vip)).collect::<Vec<_>>()
        {
            self.emit(effect::Cluster::ProblemOver(service, problem));
        }
    }
}

const TOO_MANY: &str = "VIPs of externalTrafficPolicy Local may be here before the service proxy delivers: this \
                        node has ready endpoints of more than 512 Services with a healthCheckNodePort, so \
                        EndpointSlices alone decide. It is over at 400";

const UNGATED: &str = "this node may get VIPs before its service proxy delivers: its health endpoint was not \
                       good in time. See whether kube-proxy, or what replaces it, runs there; name its \
                       endpoint with --proxy-health";
