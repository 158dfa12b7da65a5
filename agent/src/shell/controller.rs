//! `vipward controller`: gives out the addresses of the pools, writes the statuses of Services, and
//! reports their problems.
//!
//! One task decides. A candidate that does not lead reads and writes nothing but the Lease. A leader
//! that has lost the Lease ends, and its Pod begins anew as a candidate.

mod endpoints;
mod notifying;

use std::{collections::BTreeSet, io, sync::Arc, time::Duration};

use nix::unistd::gethostname;
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::mpsc,
    task::JoinSet,
    time::{Instant, sleep, sleep_until},
};
use tracing::{info, warn};
use vipward_core::{
    agent::cluster::Seen as Read,
    base::time::Monotonic,
    controller::{Controller, Effect, Input, Line, Now, Reply as Notified, Reserved},
    ownership::Outcome,
    pools::{self, Pool, ReservationWrite},
    records::{NodeName, PoolKind},
};

use self::{endpoints::SharedStatus, notifying::Notifying};
use super::{
    endpoints::{
        EndpointsError,
        metrics::{LeaseMetrics, Reserved as Counted},
    },
    kernel::clock,
    kube::{
        Access, Candidate, ConnectError, Found, Kube, Limits, MetalLb, PoolStatuses, Reader, Reading, Reply,
        Requests, Resource, SECRET, Seen, Server, Statuses, WireSecret,
    },
    logging::errors::chain,
};
use crate::cli::ControllerArgs;

/// Number of readings or replies that are passed on together.
const BATCH: usize = 256;
/// The time between two attempts to create the Secret with the key of the failure detector.
const SECRET_PACE: Duration = Duration::from_mins(1);
/// The part of the lease after which the leader renews it.
const RENEWALS: u32 = 5;

/// Reason why the controller could not start, or ended by itself.
#[derive(Debug, thiserror::Error)]
pub enum ControllerError {
    /// An API server that cannot be found or used.
    #[error("no access to the API server")]
    Connect(#[from] ConnectError),
    #[error("failed to serve the HTTP endpoints")]
    Endpoints(#[from] EndpointsError),
    #[error("another controller leads now, or the API server did not answer in time: beginning anew")]
    Expired,
    #[error("failed to {operation}")]
    System {
        operation: &'static str,
        #[source]
        source: io::Error,
    },
}

fn system(operation: &'static str) -> impl FnOnce(io::Error) -> ControllerError {
    move |source| ControllerError::System { operation, source }
}

fn now() -> Result<Monotonic, ControllerError> {
    let now_ns = clock::monotonic_ns().map_err(io::Error::from).map_err(system("read the clock"))?;
    Ok(Monotonic::from_nanos(now_ns))
}

/// Returns the time of both clocks.
fn times() -> Result<Now, ControllerError> {
    Ok(Now { at: now()?, unix_seconds: clock::unix_seconds() })
}

/// Runs until SIGTERM or SIGINT, or until another controller leads.
pub async fn run(args: ControllerArgs) -> Result<(), ControllerError> {
    let host = gethostname().map_err(io::Error::from).map_err(system("read the host name"))?;
    // Two processes of one Pod have names of their own too.
    let name = format!("{}_{:08x}", host.to_string_lossy(), fastrand::u32(..));
    let access = Access { kubeconfig: args.api.kubeconfig.clone(), ..Access::default() };
    let lease = args.leader_lease;
    let status = SharedStatus::start(&name, lease);
    let _pages = status.serve(&args.pages()).await?;
    let server = Server::find(&access, Limits { lease, margin: Duration::ZERO }).await?;
    // The Lease here is no node's.
    let server = server.metered(&status.metrics.api, &LeaseMetrics::default());
    let api = server.url();
    let kube = Kube::new(server, NodeName::from(name.as_str()), &args.api.lease_namespace);
    let kube = if args.services.metallb { kube.with_metallb(&args.services.metallb_namespace) } else { kube };
    let mut candidate = Candidate::start(&kube, name.clone(), lease)?;
    let mut term = signal(SignalKind::terminate()).map_err(system("wait for signals"))?;
    let mut int = signal(SignalKind::interrupt()).map_err(system("wait for signals"))?;
    info!(name, %api, "controller is running as a candidate");
    let stopped = async {
        tokio::select! {
            _ = term.recv() => {}
            _ = int.recv() => {}
        }
    };
    tokio::pin!(stopped);
    let mut troubled = false;
    loop {
        let begun = now()?;
        status.round();
        let ran = candidate.run_for_it(begun).await;
        status.lease(ran.as_ref().err().map(|error| chain(error)));
        match ran {
            Ok(()) => troubled = false,
            Err(error) if !std::mem::replace(&mut troubled, true) => {
                warn!(problem = chain(&error), "the leader's Lease cannot be read or written; trying again");
            }
            Err(_) => {}
        }
        if candidate.election.leads(now()?) {
            break;
        }
        tokio::select! {
            () = sleep(lease / RENEWALS) => {}
            () = &mut stopped => return Ok(()),
        }
    }
    info!("controller leads");
    let mut keeping = JoinSet::new();
    keeping.spawn(keep_wire_secret(kube.clone()));
    let mut leader = Leader::start(&args, &kube, status)?;
    let led = tokio::select! {
        led = leader.lead(&mut candidate, lease) => led,
        () = &mut stopped => Ok(()),
    };
    candidate.step_down(now()?).await;
    led
}

/// Creates the Secret with the key of the failure detector whenever it is missing. Never returns.
async fn keep_wire_secret(kube: Kube) {
    let mut troubled = false;
    loop {
        let created = async { WireSecret::of(&kube)?.create().await };
        match created.await {
            Ok(is_new) => {
                troubled = false;
                if is_new {
                    info!(secret = SECRET, "the failure detector's key is created");
                }
            }
            Err(error) if !std::mem::replace(&mut troubled, true) => {
                warn!(problem = chain(&error), "the failure detector's key is not created; trying again");
            }
            Err(_) => {}
        }
        sleep(SECRET_PACE).await;
    }
}

/// The controller that leads, with its connections and queues.
struct Leader {
    controller: Controller,
    kube: Kube,
    seen: mpsc::Receiver<Seen>,
    reader: Reader,
    requests: Requests,
    replies: mpsc::Receiver<Reply>,
    pools: PoolStatuses,
    notifying: Notifying,
    resources: Vec<Resource>,
    /// Types that have been listed at least once.
    listed: BTreeSet<Resource>,
    status: Arc<SharedStatus>,
}

/// Returns which of the resources are not listed yet, if some are not.
fn unlisted(resources: &[Resource], listed: &BTreeSet<Resource>) -> Option<String> {
    let missing = resources.iter().filter(|resource| !listed.contains(resource));
    let missing: Vec<_> = missing.map(Resource::to_string).collect();
    (!missing.is_empty()).then(|| format!("not listed yet: {}", missing.join(", ")))
}

impl Leader {
    fn start(args: &ControllerArgs, kube: &Kube, status: Arc<SharedStatus>) -> Result<Self, ControllerError> {
        let metallb = args.services.metallb;
        let mut resources = Resource::OF_CONTROLLER.to_vec();
        if metallb {
            resources.extend([Resource::OF_METALLB, Resource::UNSERVED].concat());
        }
        status.leads(unlisted(&resources, &BTreeSet::new()));
        let reading = Reading { service_labels: true, is_controllers: true, metallb };
        let (reader, seen) = Reader::start(kube, &resources, reading)?;
        let (requests, replies) = Requests::start(kube, Statuses::AtOnce)?;
        let settings = args.services.settings();
        if settings.allow.is_empty() {
            warn!(
                "without --allow-address, Services may have any free address of the nodes' segments by name, also \
                 one of no pool"
            );
        }
        Ok(Self {
            controller: Controller::start(settings, times()?),
            seen,
            reader,
            requests,
            replies,
            pools: PoolStatuses::start(kube)?,
            notifying: Notifying::start(kube, now()?)?,
            resources,
            listed: BTreeSet::new(),
            status,
            kube: kube.clone(),
        })
    }

    /// Decides until the lead is lost.
    async fn lead(&mut self, candidate: &mut Candidate, lease: Duration) -> Result<(), ControllerError> {
        let mut renew = Instant::now() + lease / RENEWALS;
        loop {
            self.status.round();
            let due = self.controller.next_deadline().saturating_since(now()?);
            let input = tokio::select! {
                () = sleep_until(renew.min(Instant::now() + due)) => Input::Deadline,
                Some(seen) = self.seen.recv() => self.on_seen(seen)?,
                Some(reply) = self.replies.recv() => self.on_replies(reply)?,
                outcome = self.notifying.event_written() => {
                    self.notifying.reporter.on_event_written(outcome, now()?);
                    Input::Deadline
                }
            };
            let Now { at, unix_seconds } = times()?;
            let effects = self.controller.on(&candidate.election, input, Now { at, unix_seconds });
            for effect in effects.ok_or(ControllerError::Expired)? {
                self.carry_out(effect, at);
            }
            self.notifying.on_time(self.controller.index(), at);
            // More may have to be listed by then.
            let is_synced = self.controller.is_synced();
            self.status.leads(if is_synced { None } else { unlisted(&self.resources, &self.listed) });
            if renew <= Instant::now() {
                // A renewal that fails is tried again while the lease lasts.
                let ran = candidate.run_for_it(now()?).await;
                self.status.lease(ran.as_ref().err().map(|error| chain(error)));
                if let Err(error) = ran {
                    warn!(problem = chain(&error), "the leader's Lease is not renewed; trying again");
                }
                renew = Instant::now() + lease / RENEWALS;
                if !candidate.election.leads(now()?) {
                    return Err(ControllerError::Expired);
                }
            }
        }
    }

    /// Returns the input that follows from a reading, and from those that wait behind it.
    fn on_seen(&mut self, first: Seen) -> Result<Input, ControllerError> {
        let now = now()?;
        let (mut read, mut taken, mut next) = (Vec::new(), 0, Some(first));
        while let Some(seen) = next {
            self.report(&seen, now);
            read.extend(match seen {
                Seen::Synced(resource) => Some(self.on_listed(resource)),
                seen => seen.into_read(),
            });
            taken += 1;
            next = if taken < BATCH { self.seen.try_recv().ok() } else { None };
        }
        Ok(Input::Seen(read))
    }

    /// Logs the parts of a reading that change no decision, and posts its Events.
    fn report(&mut self, seen: &Seen, now: Monotonic) {
        seen.log();
        match seen {
            Seen::L2Advertisement(record, object) => self.notifying.advertisement(record, object, now),
            Seen::Fault(object, fault) => self.notifying.fault(object, fault.clone(), now),
            Seen::Unserved(object) => self.notifying.unserved(object, now),
            Seen::UnservedGone { of, name } => self.notifying.gone(*of, name),
            Seen::L2AdvertisementGone(name) => self.notifying.gone(MetalLb::L2Advertisements, name),
            Seen::PoolGone(pool) => {
                if let (PoolKind::IpAddressPool, name) = PoolKind::of(pool) {
                    self.notifying.gone(MetalLb::IpAddressPools, name);
                }
            }
            Seen::Synced(_)
            | Seen::Unreadable { .. }
            | Seen::Readable { .. }
            | Seen::Lease(_)
            | Seen::LeaseGone(_)
            | Seen::Leader(_)
            | Seen::Claim(_)
            | Seen::ClaimGone(_)
            | Seen::Node { .. }
            | Seen::NodeGone(_)
            | Seen::Namespace { .. }
            | Seen::NamespaceGone(_)
            | Seen::ServiceCidr { .. }
            | Seen::ApiServers { .. }
            | Seen::Service(_)
            | Seen::ServiceGone(_)
            | Seen::Slice(_)
            | Seen::SliceGone { .. }
            | Seen::Pool(_)
            | Seen::Advertised(_)
            | Seen::WireKeys { .. } => {}
        }
    }

    fn on_listed(&mut self, resource: Resource) -> Read {
        self.listed.insert(resource);
        let all = unlisted(&self.resources, &self.listed).is_none();
        Read::Listed { slices: resource == Resource::EndpointSlices, all }
    }

    /// Returns the input that follows from a reply, and from those that wait behind it.
    fn on_replies(&mut self, first: Reply) -> Result<Input, ControllerError> {
        let now = now()?;
        let (mut replies, mut next) = (Vec::new(), Some(first));
        while let Some(reply) = next {
            replies.extend(self.on_reply(reply, now));
            next = if replies.len() < BATCH { self.replies.try_recv().ok() } else { None };
        }
        Ok(Input::Replies(replies))
    }

    fn on_reply(&mut self, reply: Reply, now: Monotonic) -> Option<Notified> {
        match reply {
            Reply::Ingress { service, outcome, result } => {
                self.notifying.reporter.ingress(&service, &result, now);
                Some(Notified::Status { service, outcome, jitter: fastrand::f64() })
            }
            Reply::Reserved { write, outcome, found } => {
                self.status.metrics.reserved(counted(&write, &outcome));
                let found = found.map(|Found(object)| object);
                let latest = self.kube.claim_version(write.vip);
                Some(Notified::Reserved(write, Reserved::of(outcome, found, latest.as_ref())))
            }
            // The controller holds no VIP.
            Reply::Ownership(_) | Reply::Shown { .. } => None,
        }
    }

    fn carry_out(&mut self, effect: Effect, now: Monotonic) {
        match effect {
            Effect::Reserve(write) => self.requests.reserve(write),
            Effect::WriteStatus { service, addresses: Some(addresses), over } => {
                self.requests.write_ingress(service, addresses, over);
            }
            Effect::WriteStatus { service, addresses: None, over } => {
                self.requests.clear_ingress(service, over);
            }
            Effect::ListSlices(service) => {
                info!(%service, "a Service needs the EndpointSlices; they are read from now on");
                self.resources.push(Resource::EndpointSlices);
                self.reader.read(Resource::EndpointSlices);
            }
            Effect::Problem(service, problem) => self.notifying.reporter.begin(service, problem, now),
            Effect::ProblemOver(service, problem) => self.notifying.reporter.end(&service, &problem, now),
            Effect::LeaveStatus(service) => self.notifying.reporter.ingress_left(&service),
            Effect::Assigned(lasted) => self.status.metrics.assigned(lasted),
            Effect::ShowPools => self.show_pools(now),
            Effect::Log(Line::Refused(vip, why)) => self.notifying.unreserved(vip, Some(&why), now),
            Effect::Log(Line::Unknown(vip)) => self.notifying.unreserved(vip, None, now),
            Effect::Log(Line::Reserved(vip)) => self.notifying.reserved(vip, now),
        }
    }

    /// Shows the pools in their statuses and in `/metrics`.
    fn show_pools(&mut self, now: Monotonic) {
        let metallb = !self.kube.metallb_namespace().is_empty();
        let allocator = self.controller.allocator();
        self.pools.show(allocator);
        self.notifying.pools(allocator, now);
        let name = |pool: &Pool| Arc::clone(&pool.record.name);
        self.status.show(|snapshot| {
            snapshot.pools = allocator.pools().map(|(pool, state)| (name(pool), state.counts)).collect();
            if metallb {
                snapshot.metallb = pools::metallb_metrics(allocator);
            }
            snapshot.lacking = Some(self.controller.index().lacking());
        });
    }
}

fn counted<T>(write: &ReservationWrite, outcome: &Outcome<T>) -> Counted {
    match outcome {
        Outcome::Done(_) if write.reservation.is_some() => Counted::Ok,
        Outcome::Done(_) => Counted::Freed,
        Outcome::Conflict | Outcome::Missing => Counted::Conflict,
        Outcome::Refused(_) => Counted::Refused,
        Outcome::Unknown => Counted::Unknown,
    }
}
