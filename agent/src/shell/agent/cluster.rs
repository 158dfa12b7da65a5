//! A cluster's agent: reads and writes the API server's objects for the agent, and carries out its effects
//! on the cluster.
//!
//! Other tasks read and write objects. The event loop never waits for a request.

mod events;
mod liveness;
mod proxy;

use std::{collections::BTreeSet, future::pending, time::Duration};

use tokio::{
    sync::mpsc,
    task::{self, JoinHandle},
};
use tracing::{error, info};
use vipward_core::{
    agent::{Agent, ClusterEffect as Effect, Request, cluster::Input},
    base::time::Monotonic,
    liveness::{ExpiryNotice, Finding},
    ownership::{Event, StopReason},
    reports::outbox,
};

pub(super) use self::{events::ClusterEvent, liveness::FailureDetector, proxy::ProxyProber};
use super::error::RunError;
use crate::shell::{
    endpoints::metrics::MoveMetrics,
    kernel::bpf::DataPlane,
    kube::{ConnectError, Kube, L2Statuses, Reader, Reply, Reporter, Requests, Resource, Seen, find_reason},
    logging::errors::chain,
};

/// Longest time for which claims are expected to be late while very many are written.
const LONGEST_OVERLOAD: Duration = Duration::from_mins(5);

pub(super) struct Cluster {
    pub(super) kube: Kube,
    pub(super) requests: Requests,
    pub(super) replies: mpsc::Receiver<Reply>,
    pub(super) seen: mpsc::Receiver<Seen>,
    pub(super) reader: Reader,
    pub(super) resources: Vec<Resource>,
    /// Types that have been listed at least once.
    pub(super) listed: BTreeSet<Resource>,
    /// Types that cannot be read now.
    pub(super) unreadable: BTreeSet<Resource>,
    pub(super) reporter: Reporter,
    /// Instead of `MetalLB`.
    pub(super) l2_statuses: Option<L2Statuses>,
    /// None if it is off, or could not begin.
    pub(super) detector: Option<FailureDetector>,
    pub(super) proxy: ProxyProber,
    pub(super) move_metrics: MoveMetrics,
    pub(super) pod: Option<String>,
    /// Task that finds out why the agent is to end.
    pub(super) why: Option<JoinHandle<Result<StopReason, ConnectError>>>,
    /// True if the reason to end is known.
    pub(super) is_ending: bool,
    /// True if the agent knows that nodes write very many claims.
    pub(super) is_overloaded: bool,
}

impl Cluster {
    /// Carries out an effect on the cluster. Returns its result, if it has one now.
    pub(super) fn carry_out(
        &mut self,
        effect: Effect,
        plane: &mut DataPlane,
    ) -> Result<Option<Input>, RunError> {
        let now = super::timing::now()?;
        match effect {
            Effect::Ask(request) => self.ask(request),
            Effect::ListSlices(service) => {
                info!(%service, "a Service needs the EndpointSlices; they are read from now on");
                self.resources.push(Resource::EndpointSlices);
                self.reader.read(Resource::EndpointSlices);
            }
            Effect::ListAnew => self.kube.list_anew(),
            Effect::AvoidServer(node) => self.kube.avoid_server(&node),
            Effect::Watch(plan) => {
                if let Some(detector) = &mut self.detector {
                    detector.set_plan(plan);
                }
            }
            Effect::SetHeeding(heeds) => return self.set_heeding(heeds, plane),
            Effect::NotifyFormer { ifindex, mac, session } => {
                if let Some(detector) = &self.detector {
                    detector.notify_former(ifindex, mac, session);
                }
            }
            Effect::AskProxy(target) => self.proxy.ask(target),
            Effect::ShowHolder(vip, held) => {
                if let Some(statuses) = &mut self.l2_statuses {
                    statuses.show(vip, held);
                }
            }
            Effect::ForgetHolder(services, node) => {
                if let Some(statuses) = &self.l2_statuses {
                    statuses.forget(&services, &node);
                }
            }
            Effect::Post(message) => self.reporter.post(*message, now),
            Effect::Problem(service, problem) => self.reporter.begin(service, problem, now),
            Effect::ProblemOver(service, problem) => self.reporter.end(&service, &problem, now),
            Effect::LeaveStatus(service) => self.reporter.ingress_left(&service),
            Effect::Moved(cause) => self.move_metrics.moved(cause),
            Effect::Took(took) => self.move_metrics.announced(took),
        }
        Ok(None)
    }

    fn ask(&self, request: Request) {
        let requests = &self.requests;
        match request {
            Request::WriteLease(write) => requests.write_lease(write),
            Request::ReadLease(node) => requests.read_lease(node),
            Request::WriteClaim(write) => requests.write_claim(write),
            Request::DeleteClaim(vip, expected) => requests.delete_claim(vip, expected),
            Request::ReadClaim(vip) => requests.read_claim(vip),
            Request::Show(vip, finding) => requests.show(vip, finding),
            Request::WriteStatus { service, addresses: Some(addresses), over } => {
                requests.write_ingress(service, addresses, over);
            }
            Request::WriteStatus { service, addresses: None, over } => {
                requests.clear_ingress(service, over);
            }
        }
    }

    /// Gives the program the keys, or takes them away. Returns an expiry notice that the program has
    /// received: there may be no thread that reads it.
    fn set_heeding(&mut self, heeds: bool, plane: &mut DataPlane) -> Result<Option<Input>, RunError> {
        if let Some(detector) = &mut self.detector {
            detector.heeds = heeds;
        }
        self.write_keys(plane)?;
        let word = ExpiryNotice::of(plane.maps().wire().expiry_notice()?);
        Ok(word.map(|word| Input::Owned(vec![Event::Detected(Finding::Ended(word))])))
    }

    /// Writes the keys into the program's map, if it is to have them.
    fn write_keys(&self, plane: &mut DataPlane) -> Result<(), RunError> {
        let keys =
            self.detector.as_ref().filter(|detector| detector.heeds).map(|detector| detector.keys.clone());
        let keys = keys.unwrap_or_default();
        let secrets = keys.iter().map(|(id, key)| (id, key.sip()));
        Ok(plane.maps_mut().wire_mut().set_keys(secrets)?)
    }

    /// Writes the Events that are due.
    pub(super) fn on_time(&mut self, agent: &Agent, now: Monotonic) {
        let Some(cluster) = agent.cluster() else { return };
        let is_responsible = |service: &_, problem: &_| cluster.is_responsible(service, problem, now);
        self.reporter.on_time(cluster.index(), is_responsible, now);
    }

    pub(super) fn next_deadline(&self) -> Option<Monotonic> {
        self.reporter.next_deadline()
    }

    /// Returns whether nodes write so many claims that a change of one is read late, if that has
    /// changed.
    pub(super) fn overloaded(&mut self) -> Option<bool> {
        let is_overloaded = self.kube.overloaded_for().is_some_and(|lasts| lasts < LONGEST_OVERLOAD);
        (std::mem::replace(&mut self.is_overloaded, is_overloaded) != is_overloaded).then_some(is_overloaded)
    }

    /// Begins to find out why the agent is to end. That may take seconds, and the agent goes on
    /// meanwhile. Further signals change nothing.
    pub(super) fn on_signal(&mut self, signal: &'static str) {
        if self.is_ending || self.why.is_some() {
            return;
        }
        info!(signal, "the agent received a signal to end; reading why");
        let (kube, pod) = (self.kube.clone(), self.pod.clone());
        let has_claims = self.listed.contains(&Resource::VirtualIps);
        self.why = Some(task::spawn(async move { find_reason(&kube, pod.as_deref(), has_claims).await }));
    }
}

/// Returns the reason why the agent is to end. Never resolves before a signal to end.
async fn found_out(why: &mut Option<JoinHandle<Result<StopReason, ConnectError>>>) -> StopReason {
    let Some(task) = why else { return pending().await };
    match task.await {
        Ok(Ok(reason)) => reason,
        Ok(Err(error)) => unclear(error),
        Err(error) => unclear(error),
    }
}

fn unclear(error: impl std::error::Error + Send + Sync + 'static) -> StopReason {
    error!(error = chain(&error), "failed to find out why the agent is to end; assuming a restart");
    StopReason::Restart
}

const fn reason_name(reason: StopReason) -> &'static str {
    match reason {
        StopReason::Restart => "restart",
        StopReason::Leave => "the node goes away",
        StopReason::Uninstall => "Vipward is being removed",
    }
}

/// The outcome of a request that writes an Event.
type Written = outbox::Outcome;
