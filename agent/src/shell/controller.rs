//! `vipward controller`: gives out the addresses of the pools, writes the statuses of Services, and
//! reports their problems.
//!
//! One task decides. A candidate that does not lead reads and writes nothing but the Lease. A leader
//! that has lost the Lease ends, and its Pod begins anew as a candidate.

mod failures;
mod pages;
mod telling;

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    net::IpAddr,
    sync::Arc,
    time::Duration,
};

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
    base::{retrying::Writes, time::Monotonic},
    ownership::Outcome,
    pools::{self, Expected, Pool},
    records::{ClaimRecord, NodeName, PoolKind, Reservation, ServiceName},
    services::{self, Controller, ControllerCommand, Event, Problem},
};

use self::{failures::Failures, pages::Board, telling::Telling};
use super::{
    kernel::clock,
    kube::{
        Access, Candidate, ConnectError, Found, Kube, Limits, MetalLb, PoolStatuses, Reader, Reading, Reply,
        Requests, Resource, SECRET, Seen, Server, Statuses, WireSecret,
    },
    logging::causes::chain,
    pages::{
        PagesError,
        metrics::{LeaseMetrics, Reserved},
    },
};
use crate::cli::ControllerArgs;

/// Number of readings that are taken in before anything is written.
const BATCH: usize = 256;
/// The time between two writes of a pool's status, and the longest time without a look at the clock.
const PACE: Duration = Duration::from_secs(1);
/// The time between two attempts to create the Secret with the key of wire failover.
const SECRET_PACE: Duration = Duration::from_mins(1);
/// How often the time until the next attempt of a reservation is doubled: up to a minute.
const MOST_DOUBLED: u32 = 6;
/// The part of the lease after which the leader renews it.
const RENEWALS: u32 = 5;

/// Reason why the controller could not start, or ended by itself.
#[derive(Debug, thiserror::Error)]
pub enum ControllerError {
    /// An API server that cannot be found or used.
    #[error("no way to the API server")]
    Connect(#[from] ConnectError),
    #[error("failed to serve the HTTP endpoints")]
    Pages(#[from] PagesError),
    #[error("another controller leads now, or the API server did not answer in time: beginning anew")]
    Deposed,
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

/// Runs until SIGTERM or SIGINT, or until another controller leads.
pub async fn run(args: ControllerArgs) -> Result<(), ControllerError> {
    let host = gethostname().map_err(io::Error::from).map_err(system("read the host name"))?;
    // Two processes of one Pod have names of their own too.
    let name = format!("{}_{:08x}", host.to_string_lossy(), fastrand::u32(..));
    let access = Access { kubeconfig: args.api.kubeconfig.clone(), context: None };
    let lease = args.leader_lease;
    let board = Board::start(&name, lease);
    let _pages = board.serve(&args.pages()).await?;
    let server = Server::find(&access, Limits { lease, margin: Duration::ZERO }).await?;
    // The Lease here is no node's.
    let server = server.metered(&board.metrics.api, &LeaseMetrics::default());
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
        board.round();
        let ran = candidate.run_for_it(begun).await;
        board.lease(ran.as_ref().err().map(|error| chain(error)));
        match ran {
            Ok(()) => troubled = false,
            Err(error) if !std::mem::replace(&mut troubled, true) => {
                warn!(problem = chain(&error), "the leader's Lease cannot be read or written; trying again");
            }
            Err(_) => {}
        }
        if candidate.leads(now()?) {
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
    let mut leader = Leader::start(&args, &kube, board)?;
    let led = tokio::select! {
        led = leader.lead(&mut candidate, lease) => led,
        () = &mut stopped => Ok(()),
    };
    candidate.step_down(now()?).await;
    led
}

/// Creates the Secret with the key of wire failover whenever it is missing. Never returns.
async fn keep_wire_secret(kube: Kube) {
    let mut troubled = false;
    loop {
        let created = async { WireSecret::of(&kube)?.create().await };
        match created.await {
            Ok(is_new) => {
                troubled = false;
                if is_new {
                    info!(secret = SECRET, "the key of wire failover is created");
                }
            }
            Err(error) if !std::mem::replace(&mut troubled, true) => {
                warn!(problem = chain(&error), "the key of wire failover is not created; trying again");
            }
            Err(_) => {}
        }
        sleep(SECRET_PACE).await;
    }
}

/// What the leader knows, and what it has under way.
struct Leader {
    kube: Kube,
    services: Controller,
    seen: mpsc::Receiver<Seen>,
    reader: Reader,
    requests: Requests,
    replies: mpsc::Receiver<Reply>,
    statuses: Writes<ServiceName, Option<Vec<IpAddr>>>,
    pools: PoolStatuses,
    telling: Telling,
    listed: BTreeSet<Resource>,
    /// True if every type that was read at the start has been listed.
    synced: bool,
    resources: Vec<Resource>,
    /// The second that the pools were told last.
    told: i64,
    /// Reservations that the API server did not answer for, with the time of the next attempt.
    again: BTreeMap<Monotonic, Vec<pools::ReservationWrite>>,
    failures: Failures,
    /// The time at which an address was chosen for a Service whose status does not name it yet.
    asked: BTreeMap<ServiceName, Monotonic>,
    board: Arc<Board>,
}

/// Returns which of the resources are not listed yet, if some are not.
fn unlisted(resources: &[Resource], listed: &BTreeSet<Resource>) -> Option<String> {
    let missing = resources.iter().filter(|resource| !listed.contains(resource));
    let missing: Vec<_> = missing.map(Resource::to_string).collect();
    (!missing.is_empty()).then(|| format!("not listed yet: {}", missing.join(", ")))
}

impl Leader {
    fn start(args: &ControllerArgs, kube: &Kube, board: Arc<Board>) -> Result<Self, ControllerError> {
        let metallb = args.services.metallb;
        let mut resources = Resource::OF_CONTROLLER.to_vec();
        if metallb {
            resources.extend([Resource::OF_METALLB, Resource::UNSERVED].concat());
        }
        board.leads(unlisted(&resources, &BTreeSet::new()));
        let reading = Reading { service_labels: true, needs_pools: true, metallb };
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
            services: Controller::start(settings),
            seen,
            reader,
            requests,
            replies,
            statuses: Writes::default(),
            pools: PoolStatuses::start(kube)?,
            telling: Telling::start(kube, now()?)?,
            listed: BTreeSet::new(),
            synced: false,
            resources,
            told: 0,
            again: BTreeMap::new(),
            failures: Failures::default(),
            asked: BTreeMap::new(),
            board,
            kube: kube.clone(),
        })
    }

    /// Decides until the lead is lost.
    async fn lead(&mut self, candidate: &mut Candidate, lease: Duration) -> Result<(), ControllerError> {
        let mut renew = Instant::now() + lease / RENEWALS;
        loop {
            self.board.round();
            if !candidate.leads(now()?) {
                return Err(ControllerError::Deposed);
            }
            let at = now()?;
            let deadlines = [self.services.index().next_deadline(), self.statuses.next_deadline()];
            let due = deadlines.into_iter().flatten().fold(at + PACE, Monotonic::min);
            let wake = renew.min(Instant::now() + due.saturating_since(at));
            tokio::select! {
                () = sleep_until(wake) => {}
                Some(seen) = self.seen.recv() => self.on_seen(seen)?,
                Some(reply) = self.replies.recv() => self.on_replies(reply)?,
                outcome = self.telling.event_written() => self.telling.bulletin.on_event_written(outcome, now()?),
            }
            if renew <= Instant::now() {
                // A renewal that fails is tried again while the lease lasts.
                let ran = candidate.run_for_it(now()?).await;
                self.board.lease(ran.as_ref().err().map(|error| chain(error)));
                if let Err(error) = ran {
                    warn!(problem = chain(&error), "the leader's Lease is not renewed; trying again");
                }
                renew = Instant::now() + lease / RENEWALS;
            }
            self.on_time()?;
        }
    }

    /// Takes in the waiting readings.
    fn on_seen(&mut self, first: Seen) -> Result<(), ControllerError> {
        let mut next = Some(first);
        for _ in 0..BATCH {
            let Some(seen) = next else { break };
            match &seen {
                Seen::Synced(resource) => self.on_listed(*resource)?,
                Seen::Unreadable { resource, error } => {
                    warn!(%resource, problem = chain(&**error), "not read from the API server; trying again");
                }
                Seen::Readable { resource } => info!(%resource, "read from the API server again"),
                Seen::L2Advertisement(record, object) => self.telling.advertisement(record, object, now()?),
                Seen::Unserved(object) => self.telling.unserved(object, now()?),
                Seen::UnservedGone { of, name } => self.telling.gone(*of, name),
                Seen::L2AdvertisementGone(name) => self.telling.gone(MetalLb::L2Advertisements, name),
                Seen::PoolGone(pool) => {
                    if let (PoolKind::IpAddressPool, name) = PoolKind::of(pool) {
                        self.telling.gone(MetalLb::IpAddressPools, name);
                    }
                }
                _ => {}
            }
            if let Some(event) = seen.into_read().and_then(Read::into_served) {
                self.decide(event)?;
            }
            next = self.seen.try_recv().ok();
        }
        Ok(())
    }

    fn on_listed(&mut self, resource: Resource) -> Result<(), ControllerError> {
        self.listed.insert(resource);
        if resource == Resource::EndpointSlices {
            self.decide(Event::SlicesListed)?;
        }
        if !self.synced {
            self.board.leads(unlisted(&self.resources, &self.listed));
            self.synced = self.listed.len() == self.resources.len();
        }
        if !self.synced {
            return Ok(());
        }
        self.decide_pools(pools::Event::Time(clock::unix_seconds()))?;
        self.decide(Event::Synced)
    }

    fn on_replies(&mut self, first: Reply) -> Result<(), ControllerError> {
        let mut next = Some(first);
        for _ in 0..BATCH {
            let Some(reply) = next else { break };
            match reply {
                Reply::Ingress { service, result } => {
                    self.statuses.on_result(&service, result.is_ok(), fastrand::f64(), now()?);
                    self.telling.bulletin.ingress(&service, &result, now()?);
                    if result.is_ok()
                        && let Some(since) = self.asked.remove(&service)
                    {
                        self.board.metrics.assigned(now()?.saturating_since(since));
                    }
                }
                Reply::Reserved { write, outcome, found } => self.on_reserved(*write, outcome, found)?,
                // The controller holds no VIP.
                Reply::Ownership(_) | Reply::Shown { .. } => {}
            }
            next = self.replies.try_recv().ok();
        }
        Ok(())
    }

    fn on_reserved(
        &mut self,
        write: pools::ReservationWrite,
        outcome: Outcome<Option<Box<ClaimRecord>>>,
        found: Option<Found>,
    ) -> Result<(), ControllerError> {
        let vip = write.vip;
        // The watch may have told newer news already.
        let latest = self.kube.claim_version(vip);
        let learn = |record: Option<Box<ClaimRecord>>| match record {
            Some(record) if latest.as_ref() == Some(&record.version) => Read::claim(*record).into_served(),
            None if latest.is_none() => Some(Event::ClaimGone(vip)),
            Some(_) | None => None,
        };
        self.board.metrics.reserved(match &outcome {
            Outcome::Done(_) if write.reservation.is_some() => Reserved::Ok,
            Outcome::Done(_) => Reserved::Freed,
            Outcome::Conflict | Outcome::Missing => Reserved::Conflict,
            Outcome::Refused(_) => Reserved::Refused,
            Outcome::Unknown => Reserved::Unknown,
        });
        let known = match (outcome, found) {
            (Outcome::Done(record), _) | (_, Some(Found(record))) => learn(record),
            (outcome, None) => {
                let problem = match (&outcome, &write.reservation) {
                    (Outcome::Refused(why), Some(reservation)) => {
                        let problem = Problem::NotReserved { vip, why: Arc::clone(why) };
                        Some((reservation.service.clone(), problem))
                    }
                    _ => None,
                };
                let noted = self.failures.note(vip, problem);
                if noted.times == 0 {
                    self.telling.unreserved(vip, &outcome, now()?);
                }
                if let Some((service, problem)) = noted.over {
                    self.telling.bulletin.end(&service, &problem, now()?);
                }
                if let Some((service, problem)) = noted.begins {
                    self.telling.bulletin.begin(service, problem, now()?);
                }
                let pause = PACE * 2_u32.pow(noted.times.min(MOST_DOUBLED));
                self.again.entry(now()? + pause).or_default().push(write);
                return self.decide_pools(pools::Event::Failed(vip));
            }
        };
        if let Some(failed) = self.failures.end(vip) {
            self.telling.reserved(vip, now()?);
            if let Some((service, problem)) = failed.told {
                self.telling.bulletin.end(&service, &problem, now()?);
            }
        }
        if let Some(event) = known {
            self.decide(event)?;
        }
        self.decide_pools(pools::Event::Answered(vip))
    }

    fn decide(&mut self, event: Event) -> Result<(), ControllerError> {
        let commands = self.services.on_event(event);
        self.carry_out(commands)
    }

    fn decide_pools(&mut self, event: pools::Event) -> Result<(), ControllerError> {
        let commands = self.services.on_pools(event);
        self.carry_out(commands)
    }

    fn carry_out(&mut self, commands: Vec<ControllerCommand>) -> Result<(), ControllerError> {
        let now = now()?;
        for command in commands {
            match command {
                ControllerCommand::Reserve(write) => self.reserve(write, now),
                ControllerCommand::Serve(command) => self.serve(command, now),
            }
        }
        self.write_statuses_due(now);
        Ok(())
    }

    /// Has the reservation of an address written.
    fn reserve(&mut self, write: pools::ReservationWrite, now: Monotonic) {
        match (&write.reservation, &write.expected) {
            // A status that has the address already is not written.
            (Some(Reservation { service, kept: None, .. }), _)
                if !self.services.index().has_in_status(service, write.vip) =>
            {
                self.asked.entry(service.clone()).or_insert(now);
            }
            (_, Expected::Present(Some(Reservation { service, .. }))) => {
                self.asked.remove(service);
            }
            (_, Expected::Present(None) | Expected::Absent) => {}
        }
        self.requests.reserve(write);
    }

    fn serve(&mut self, command: services::Command, now: Monotonic) {
        match command {
            services::Command::ListSlices { service } => {
                info!(%service, "a Service needs the EndpointSlices; they are read from now on");
                self.resources.push(Resource::EndpointSlices);
                self.reader.read(Resource::EndpointSlices);
            }
            // The agents decide who holds a VIP.
            services::Command::Demand(..) => {}
            services::Command::WriteIngress { service, addresses } => {
                self.statuses.begin(service, Some(addresses), now);
            }
            services::Command::ClearIngress { service } => self.statuses.begin(service, None, now),
            services::Command::LeaveIngress { service } => {
                self.statuses.leave(&service);
                self.telling.bulletin.ingress_left(&service);
            }
            services::Command::Report { service, problem } => {
                self.telling.bulletin.begin(service, problem, now);
            }
            services::Command::ProblemOver { service, problem } => {
                self.telling.bulletin.end(&service, &problem, now);
            }
        }
    }

    fn write_statuses_due(&mut self, now: Monotonic) {
        for (service, addresses) in self.statuses.due(now) {
            let from_metallb = self.services.index().is_from_metallb(&service);
            match addresses {
                Some(addresses) => self.requests.write_ingress(service, addresses, from_metallb),
                None => self.requests.clear_ingress(service, from_metallb),
            }
        }
    }

    /// Does what is due by the clock.
    fn on_time(&mut self) -> Result<(), ControllerError> {
        let (at, seconds) = (now()?, clock::unix_seconds());
        let later = self.again.split_off(&(at + Duration::from_nanos(1)));
        for write in std::mem::replace(&mut self.again, later).into_values().flatten() {
            self.requests.reserve(write);
        }
        // What is kept for a time is kept from now on.
        let is_another_second = std::mem::replace(&mut self.told, seconds) != seconds;
        if is_another_second {
            self.decide_pools(pools::Event::Time(seconds))?;
        }
        if self.services.index().next_deadline().is_some_and(|deadline| deadline <= at) {
            let commands = self.services.on_time(at);
            self.carry_out(commands)?;
        }
        self.write_statuses_due(at);
        self.telling.on_time(self.services.index(), at);
        if is_another_second && self.synced {
            let metallb = !self.kube.metallb_namespace().is_empty();
            let allocator = self.services.allocator();
            self.pools.show(allocator);
            self.telling.pools(allocator, at);
            let name = |pool: &Pool| Arc::clone(&pool.record.name);
            self.board.show(|snapshot| {
                snapshot.pools = allocator.pools().map(|(pool, state)| (name(pool), state.counts)).collect();
                if metallb {
                    snapshot.metallb = pools::metallb_metrics(allocator);
                }
                snapshot.lacking = Some(self.services.index().lacking());
            });
        }
        Ok(())
    }
}
