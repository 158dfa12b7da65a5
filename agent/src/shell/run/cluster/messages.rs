//! What people are told about a cluster's VIPs: in the log, and as Events on Services and VIPs.

use std::{collections::BTreeSet, net::Ipv4Addr};

use tracing::{error, info, warn};

use super::{
    refusals::{News, Refusals},
    untold::Untold,
};
use crate::{
    core::{
        cluster::{NodeName, ServiceName},
        ownership::{Event, Notice, StopReason},
        services::{Problem, Services},
        time::Monotonic,
    },
    shell::kube::{ConnectError, IngressError, Kind, Kube, Message, Recorder, Regarding},
};

/// Tells people.
pub(super) struct Messages {
    node: NodeName,
    recorder: Recorder,
    /// Services whose status could not be written.
    unwritten: BTreeSet<ServiceName>,
    refusals: Refusals,
    /// About conflicts.
    untold: Untold,
}

impl Messages {
    pub(super) fn start(kube: &Kube, node: NodeName) -> Result<Self, ConnectError> {
        let recorder = Recorder::start(kube)?;
        let (refusals, untold) = (Refusals::default(), Untold::default());
        Ok(Self { node, recorder, unwritten: BTreeSet::new(), refusals, untold })
    }

    fn tell(&self, regarding: Regarding, kind: Kind, reason: &'static str, note: &str) {
        self.recorder.tell(Message { regarding, kind, reason, note: note.to_owned() });
    }

    fn tell_services(
        &self,
        services: &Services,
        names: &[ServiceName],
        kind: Kind,
        reason: &'static str,
        note: &str,
    ) {
        for name in names {
            self.tell(about(services, name), kind, reason, note);
        }
    }

    /// Of the engine.
    pub(super) fn notice(&mut self, services: &Services, notice: &Notice) {
        match notice {
            Notice::Holds { vip, services: names, from, cause } => {
                self.holds(services, *vip, names, from.as_ref().map(ToString::to_string), cause);
            }
            Notice::Nobody { vip, services: names, why } => {
                warn!(%vip, why, "nobody can hold the VIP");
                let note = format!("nobody can hold {vip}: {why}");
                self.tell(Regarding::VirtualIp(*vip), Kind::Warning, "Nobody", &note);
                self.tell_services(services, names, Kind::Warning, "Nobody", &note);
            }
            Notice::CannotMove { vip, services: names, to, why } => {
                warn!(%vip, %to, why, "the VIP cannot be moved");
                let note = format!("{vip} cannot be moved to {to}: {why}");
                self.tell(Regarding::VirtualIp(*vip), Kind::Warning, "CannotMove", &note);
                self.tell_services(services, names, Kind::Warning, "CannotMove", &note);
            }
            Notice::Repaired { what } => warn!(what, "edited by hand, and put right"),
            Notice::SessionEnded { session } => {
                warn!(%session, "other nodes have ended this node's session, since it was silent for too long");
            }
            Notice::NotAlone { session } => {
                error!(%session, "another agent runs under this node's name");
            }
        }
    }

    /// Something about a conflict, also on the Services that want the VIP: at once, or as soon as there is room.
    pub(super) fn conflict(
        &mut self,
        services: &Services,
        (vip, names): (Ipv4Addr, &[ServiceName]),
        (kind, reason, note): (Kind, &'static str, &str),
        now: Monotonic,
    ) {
        let services = names.iter().map(|name| about(services, name));
        for regarding in [Regarding::VirtualIp(vip)].into_iter().chain(services) {
            let message = Message { regarding, kind, reason, note: note.to_owned() };
            self.untold.tell(message, |message| self.recorder.offer(message), now);
        }
    }

    /// Tells what there was no room for.
    pub(super) fn tell_untold(&mut self, now: Monotonic) {
        self.untold.offer_again(|message| self.recorder.offer(message), now);
    }

    /// When [`Messages::tell_untold`] is wanted.
    pub(super) fn next_deadline(&self) -> Option<Monotonic> {
        self.untold.next_deadline()
    }

    fn holds(
        &self,
        services: &Services,
        vip: Ipv4Addr,
        names: &[ServiceName],
        from: Option<String>,
        cause: &str,
    ) {
        info!(%vip, from = from.as_deref(), cause, "this node holds the VIP");
        let node = &self.node;
        let (reason, note) = match from {
            Some(from) => ("Moved", format!("{vip} moved from {from} to {node}, because {cause}")),
            None => ("Announced", format!("{vip} is announced from {node}: {cause}")),
        };
        self.tell(Regarding::VirtualIp(vip), Kind::Normal, reason, &note);
        self.tell_services(services, names, Kind::Normal, reason, &note);
    }

    /// What became of a request of the engine.
    pub(super) fn answered(&mut self, event: &Event, now: Monotonic) {
        match self.refusals.on_answer(event, now) {
            Some(News::Refused(what, message)) => {
                error!(%what, %message, "refused by the API server; trying again");
            }
            Some(News::Over(what)) => info!(%what, "not refused by the API server any more"),
            Some(News::More) => error!("the API server refuses more than is told one by one; trying again"),
            None => {}
        }
    }

    /// A Service has a problem, which every node logs.
    #[expect(clippy::unused_self, reason = "one of the methods that tell people, whatever they need for it")]
    pub(super) fn problem(&self, service: &ServiceName, problem: &Problem) {
        warn!(%service, problem = %problem, "problem");
    }

    /// It has stood for a while, and is on this node to tell. Says whether there was room for it.
    pub(super) fn problem_settled(
        &self,
        services: &Services,
        service: &ServiceName,
        problem: &Problem,
    ) -> bool {
        let (regarding, note) = (about(services, service), problem.to_string());
        self.recorder.offer(Message { regarding, kind: Kind::Warning, reason: "Problem", note })
    }

    /// It has it no longer.
    #[expect(clippy::unused_self, reason = "one of the methods that tell people, whatever they need for it")]
    pub(super) fn problem_over(&self, service: &ServiceName, problem: &Problem) {
        info!(%service, problem = %problem, "problem is over");
    }

    /// The status of a Service was written, or not.
    pub(super) fn ingress(&mut self, service: &ServiceName, result: &Result<(), IngressError>) {
        match result {
            Ok(()) => {
                if self.unwritten.remove(service) {
                    info!(%service, "the Service's status is written again");
                }
            }
            Err(error) => {
                if self.unwritten.insert(service.clone()) {
                    warn!(%service, error = %error, "the Service's status is not written");
                }
            }
        }
    }

    /// The status of a Service is nothing to this node any more.
    pub(super) fn ingress_left(&mut self, service: &ServiceName) {
        self.unwritten.remove(service);
    }
}

fn about(services: &Services, name: &ServiceName) -> Regarding {
    Regarding::Service { name: name.clone(), uid: services.uid(name).cloned() }
}

pub(super) fn reason_name(reason: StopReason) -> &'static str {
    match reason {
        StopReason::Restart => "restart",
        StopReason::Leave => "the node goes away",
        StopReason::Uninstall => "Vipward is being removed",
    }
}
