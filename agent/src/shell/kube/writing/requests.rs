//! Writes: sends the core's requests to the API server, and reports the outcomes.
//!
//! Each request has one deadline, below the lease duration, and one outcome. Jobs wait in queues of
//! their own, so that no number of claims delays a renewal. Jobs about one VIP (one
//! Lease, one Service) run in order, each after the outcome of the one before. Jobs about different
//! VIPs run side by side. A job that takes a VIP without a holder waits for all other jobs. There may
//! be thousands of them, so their number at a time follows the API server's speed. A handover must be
//! written while the old holder still answers: eight more places are for such jobs.

mod claiming;
mod leasing;
mod reply;
mod worker;

use std::{net::IpAddr, sync::Arc};

use tokio::{sync::mpsc, task::JoinSet};
use vipward_core::{
    ownership::{ClaimWrite, LeaseWrite, Outcome},
    pools::ReservationWrite,
    records::{NodeName, ServiceName, Version},
    reports::claim_findings::Finding,
};

pub use self::reply::{Found, Reply};
use self::{
    claiming::ClaimJob,
    leasing::{LeaseJob, Renewer},
    worker::{Load, Worker, outcome},
};
use super::{
    ingress::{self, IngressError},
    request_queue::{self, Limit},
};
use crate::shell::{
    endpoints::metrics::{ApiMetrics, Lane, Pending},
    kube::{
        kinds::resource::Resource,
        link::{connect::ConnectError, http::Connections},
        reading::shared::Kube,
    },
};

/// Number of places for claims that cannot wait, besides those for the others.
const URGENT_CLAIMS: usize = 8;
/// Number of other nodes' Leases that are written or read at a time.
const LEASES: usize = 16;
/// Number of conditions and reasons that are written on claims at a time. They have their own queue, so
/// that a storm of conflicts delays no handover.
const FINDINGS: usize = 4;
/// Number of Services whose status is written at a time. One status at a time gets its addresses
/// while very many claims are written.
const INGRESSES: usize = 8;
/// Number of replies that may wait for the receiver.
const REPLIES: usize = 256;

/// A claim's VIP, and the finding that the claim is to show.
type ShowJob = (IpAddr, Finding);

/// The addresses for the status of a Service.
struct IngressJob {
    service: ServiceName,
    /// None: Vipward's are taken back.
    addresses: Option<Vec<IpAddr>>,
    /// The version of a Service with another manager's addresses, which are overwritten.
    over: Option<Version>,
}

/// Turn of the statuses of Services while nodes write very many claims.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Statuses {
    /// They wait, since a VIP is answered before its status is written.
    AfterClaims,
    /// They come at once, since no node claims a VIP before it is in a status.
    AtOnce,
}

/// Jobs that wait for their turn. The metrics count each until it is done.
type Queue<K, J> = mpsc::UnboundedSender<(K, (Pending, J))>;

/// A sender of requests that runs until it is dropped. A request without an
/// answer by then may have been carried out or not.
pub struct Requests {
    node: NodeName,
    pending: ApiMetrics,
    own: Queue<(), LeaseJob>,
    leases: Queue<NodeName, LeaseJob>,
    claims: Queue<IpAddr, ClaimJob>,
    reservations: Queue<IpAddr, Box<ReservationWrite>>,
    findings: Queue<IpAddr, ShowJob>,
    ingresses: Queue<ServiceName, IngressJob>,
    /// The API server's load, as the requests about claims show it.
    load: Load,
    _tasks: JoinSet<()>,
}

impl Requests {
    /// Starts the queues; needs a tokio runtime. Connections open when they are needed.
    ///
    /// The receiver gets the outcomes. No method waits: a job that cannot run yet is queued. The core
    /// has at most one open request about each VIP.
    pub fn start(kube: &Kube, statuses: Statuses) -> Result<(Self, mpsc::Receiver<Reply>), ConnectError> {
        let (replies, receiver) = mpsc::channel(REPLIES);
        let mut tasks = JoinSet::new();
        let limits = kube.server.limits();

        let (own, jobs) = mpsc::unbounded_channel();
        let for_leases = Arc::new(Connections::hedged(&kube.server)?);
        let for_claims = Arc::new(Connections::hedged(&kube.server)?);
        let on = |connections: &Arc<_>, limit| Worker::on(kube, Arc::clone(connections), limit);
        let renewer = Renewer::new(on(&for_leases, limits.renewal()), on(&for_claims, limits.renewal()));
        let work = async move |(_pending, job)| Some(Reply::Ownership(renewer.lease(job).await));
        tasks.spawn(request_queue::run(jobs, || Limit::of(1), |_| false, work, replies.clone()));

        let (leases, jobs) = mpsc::unbounded_channel();
        let worker = on(&for_leases, limits.renewal());
        let work = async move |(_pending, job)| Some(Reply::Ownership(worker.lease(job).await));
        tasks.spawn(request_queue::run(jobs, || Limit::of(LEASES), |_| false, work, replies.clone()));

        let (claims, jobs) = mpsc::unbounded_channel();
        let worker = on(&for_claims, limits.request());
        let load = worker.load();
        let of_claims = load.clone();
        let limit = move || Limit { all: of_claims.limit() + URGENT_CLAIMS, patient: of_claims.limit() };
        let can_wait = |(_, job): &(Pending, ClaimJob)| job.can_wait();
        let work = async move |(_pending, job)| Some(Reply::Ownership(worker.claim(job).await));
        tasks.spawn(request_queue::run(jobs, limit, can_wait, work, replies.clone()));

        let (reservations, jobs) = mpsc::unbounded_channel();
        let worker = Worker::open(kube, limits.request())?;
        let of_reservations = worker.load();
        let work = async move |(_pending, write)| Some(worker.reserve(write).await);
        let limit = move || Limit::of(of_reservations.limit());
        tasks.spawn(request_queue::run(jobs, limit, |_| false, work, replies.clone()));

        let (findings, jobs) = mpsc::unbounded_channel();
        let worker = Worker::open(kube, limits.request())?;
        let work = async move |(_pending, job)| Some(worker.show(job).await);
        tasks.spawn(request_queue::run(jobs, || Limit::of(FINDINGS), |_| false, work, replies.clone()));

        let (ingresses, jobs) = mpsc::unbounded_channel();
        let worker = Worker::open(kube, limits.request())?;
        let counted = kube.clone();
        let waits = move || statuses == Statuses::AfterClaims && counted.overloaded_for().is_some();
        let patient = move || if waits() { 1 } else { INGRESSES };
        let limit = move || Limit { all: INGRESSES, patient: patient() };
        let can_wait = |(_, job): &(Pending, IngressJob)| job.addresses.is_some();
        let work = async move |(_pending, job)| Some(write_ingress(&worker, statuses, job).await);
        tasks.spawn(request_queue::run(jobs, limit, can_wait, work, replies));

        let node = kube.node.clone();
        let pending = kube.server.requests().clone();
        let requests = Self {
            node,
            pending,
            own,
            leases,
            claims,
            reservations,
            findings,
            ingresses,
            load,
            _tasks: tasks,
        };
        Ok((requests, receiver))
    }

    /// Writes a Lease; [`LeaseWritten`](vipward_core::ownership::Event::LeaseWritten) follows.
    pub fn write_lease(&self, write: LeaseWrite) {
        self.lease(write.node.clone(), LeaseJob::Write(Box::new(write)));
    }

    /// Reads a Lease from etcd; [`LeaseRead`](vipward_core::ownership::Event::LeaseRead) follows.
    pub fn read_lease(&self, node: NodeName) {
        self.lease(node.clone(), LeaseJob::Read(node));
    }

    fn lease(&self, node: NodeName, job: LeaseJob) {
        // A queue ends only when the receiver of replies is gone.
        if node == self.node {
            let _ = self.own.send(((), (self.pending.wait(Lane::Renewals), job)));
        } else {
            let _ = self.leases.send((node, (self.pending.wait(Lane::Leases), job)));
        }
    }

    /// Writes a claim; [`ClaimWritten`](vipward_core::ownership::Event::ClaimWritten) follows.
    pub fn write_claim(&self, write: ClaimWrite) {
        self.claim(write.vip, ClaimJob::Write(write));
    }

    /// Releases the claim's object at this version if it names other nodes only, and deletes the
    /// object; [`ClaimDeleted`](vipward_core::ownership::Event::ClaimDeleted) follows.
    pub fn delete_claim(&self, vip: IpAddr, expected: Version) {
        self.claim(vip, ClaimJob::Delete { vip, expected });
    }

    /// Returns the number of new claims to request at a time. Some always wait, so that no place is
    /// free while the agent handles an answer.
    pub fn new_claims(&self) -> usize {
        2 * self.load.limit()
    }

    /// Reads a claim from etcd; [`ClaimRead`](vipward_core::ownership::Event::ClaimRead) follows.
    pub fn read_claim(&self, vip: IpAddr) {
        self.claim(vip, ClaimJob::Read(vip));
    }

    /// Shows this node's finding on the VIP's claim; [`Reply::Shown`] follows. Nothing else of the
    /// claim changes but its version.
    pub fn show(&self, vip: IpAddr, finding: Finding) {
        let _ = self.findings.send((vip, (self.pending.wait(Lane::Conditions), (vip, finding))));
    }

    /// Writes the reservation of an address; [`Reply::Reserved`] follows.
    pub fn reserve(&self, write: ReservationWrite) {
        let _ = self.reservations.send((write.vip, (self.pending.wait(Lane::Claims), Box::new(write))));
    }

    fn claim(&self, vip: IpAddr, job: ClaimJob) {
        let _ = self.claims.send((vip, (self.pending.wait(Lane::Claims), job)));
    }

    /// Writes these addresses, as the field manager `vipward`, to the status of a Service;
    /// [`Reply::Ingress`] follows. They replace another manager's if the Service has the version `over`.
    pub fn write_ingress(&self, service: ServiceName, addresses: Vec<IpAddr>, over: Option<Version>) {
        self.ingress(IngressJob { service, addresses: Some(addresses), over });
    }

    /// Takes back the addresses that [`Requests::write_ingress`] wrote to the
    /// status of a Service; [`Reply::Ingress`] follows. Another manager's go too if the Service has the
    /// version `over`.
    pub fn clear_ingress(&self, service: ServiceName, over: Option<Version>) {
        self.ingress(IngressJob { service, addresses: None, over });
    }

    fn ingress(&self, job: IngressJob) {
        let _ = self.ingresses.send((job.service.clone(), (self.pending.wait(Lane::Statuses), job)));
    }
}

/// Writes or takes back the addresses in a Service's status.
async fn write_ingress(
    worker: &Worker,
    statuses: Statuses,
    IngressJob { service, addresses, over }: IngressJob,
) -> Reply {
    if addresses.is_some() {
        if statuses == Statuses::AfterClaims {
            worker.kube.let_claims_pass().await;
        }
    } else if over.is_some() {
        // If Vipward only gave up its own addresses, those that the other manager wrote too would stay.
        if let Err(error) = apply(worker, &service, Some(&[]), over.as_ref()).await {
            return ingress_written(service, Err(error));
        }
    }
    let over = over.filter(|_| addresses.is_some());
    let result = apply(worker, &service, addresses.as_deref(), over.as_ref()).await;
    ingress_written(service, result)
}

fn ingress_written(service: ServiceName, result: Result<(), IngressError>) -> Reply {
    let outcome = match &result {
        Ok(()) => Outcome::Done(()),
        Err(IngressError::Conflict { .. }) => Outcome::Conflict,
        Err(IngressError::Failed { source, .. }) => outcome(source, Resource::Services, false),
    };
    Reply::Ingress { service, outcome, result }
}

async fn apply(
    worker: &Worker,
    service: &ServiceName,
    addresses: Option<&[IpAddr]>,
    over: Option<&Version>,
) -> Result<(), IngressError> {
    match worker.send(ingress::call(service, addresses, over), worker.deadline()).await {
        Ok(_) => Ok(()),
        // The status was deleted with the Service.
        Err(error) if error.is_status(404) && addresses.is_none_or(<[_]>::is_empty) => Ok(()),
        Err(error) => Err(IngressError::of(error, service)),
    }
}
