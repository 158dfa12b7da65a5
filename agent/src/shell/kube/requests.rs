//! Writing: carries out what ownership asks of the API server, and says what became of it.
//!
//! Each request has one deadline, below the lease duration, and one result. This node's own Lease has a lane and
//! connections of its own, so that no number of claims can delay a renewal. Requests about one VIP (one Lease, one
//! Service) are sent in the order in which they were asked for, each after the result of the one before; for
//! different VIPs up to 32 at a time. VIPs that nobody has are taken with 24 of these and wait for everything else: there
//! may be thousands, and what a handover needs must be written while the old holder still answers.
//!
//! | answer | outcome |
//! |---|---|
//! | 2xx | done |
//! | 409 | conflict |
//! | 404 | missing; refused where the type itself is unknown, or where a namespace is missing at a creation |
//! | 429 | certainly not done: asked again when the API server says so, if that is before the deadline; else unknown, which costs ownership at most a read |
//! | 5xx, 408, no answer in time, a connection that fails, an answer that cannot be read | unknown |
//! | any other | refused, with the API server's words |

use std::{
    net::Ipv4Addr,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use serde_json::json;
use tokio::{
    sync::mpsc,
    task::JoinSet,
    time::{Instant, sleep},
};

use super::{
    Kube, Resource, claims,
    connect::ConnectError,
    http::{Call, Connections, MERGE, RequestError},
    ingress::{self, IngressError},
    lane::{self, Limit},
    leases,
    meta::Bare,
    text,
};
use crate::{
    core::{
        cluster::{ClaimRecord, LeaseRecord, NodeName, ServiceName, Version},
        ownership::{ClaimWrite, Event, Expected, LeaseWrite, Outcome},
    },
    shell::metrics::{ApiMetrics, Lane, Pending},
};

#[cfg(test)]
mod tests;

/// Claims that are written at a time.
const CLAIMS: Limit = Limit { all: 32, patient: 24 };
/// Leases of others that are written or read at a time.
const LEASES: usize = 16;
/// Conflicts that are shown at a time. They have a lane of their own: a storm of them must not make a handover wait.
const CONFLICTS: usize = 4;
/// Services whose status is written at a time.
const INGRESSES: usize = 8;
/// Replies that may wait to be taken.
const REPLIES: usize = 256;
/// When a request that was turned away with 429 is sent again, unless the API server says.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// How often telling of a conflict is tried when the claim changes under it.
const CONFLICT_ATTEMPTS: usize = 3;

/// What became of a request.
#[derive(Debug)]
pub enum Reply {
    /// For the ownership engine.
    Ownership(Event),
    /// Of showing on a claim who else claims its VIP.
    Conflict {
        /// Which.
        vip: Ipv4Addr,
        /// Its result.
        outcome: Outcome<ClaimRecord>,
    },
    /// Of writing or clearing the status of a Service.
    Ingress {
        /// Which.
        service: ServiceName,
        /// Its result.
        result: Result<(), IngressError>,
    },
}

enum LeaseJob {
    Write(LeaseWrite),
    Read(NodeName),
}

enum ClaimJob {
    Write(ClaimWrite),
    Delete { vip: Ipv4Addr, expected: Version },
    Read(Ipv4Addr),
}

impl ClaimJob {
    /// Whether nobody is answered worse for its waiting.
    fn can_wait(&self) -> bool {
        match self {
            Self::Write(write) => write.can_wait,
            Self::Delete { .. } => true,
            Self::Read(_) => false,
        }
    }
}

/// Who else claims it; none: nobody.
type ConflictJob = (Ipv4Addr, Option<String>);

/// The addresses to write; none: clear.
type IngressJob = (ServiceName, Option<Vec<Ipv4Addr>>);

/// Jobs that wait for their turn, each counted until it is done.
type Queue<K, J> = mpsc::UnboundedSender<(K, (Pending, J))>;

/// Sends requests until it is dropped; what was not sent or answered by then is not.
pub struct Requests {
    node: NodeName,
    pending: ApiMetrics,
    own: Queue<(), LeaseJob>,
    leases: Queue<NodeName, LeaseJob>,
    claims: Queue<Ipv4Addr, ClaimJob>,
    conflicts: Queue<Ipv4Addr, ConflictJob>,
    ingresses: Queue<ServiceName, IngressJob>,
    _tasks: JoinSet<()>,
}

impl Requests {
    /// Opens connections as they are needed; needs a tokio runtime.
    ///
    /// What became of the requests comes out of the receiver. None of the methods waits: what cannot be sent yet is
    /// queued, and ownership asks for no more than one thing of each VIP at a time.
    pub fn start(kube: &Kube) -> Result<(Self, mpsc::Receiver<Reply>), ConnectError> {
        let (replies, receiver) = mpsc::channel(REPLIES);
        let mut tasks = JoinSet::new();
        let limits = kube.server.limits();

        let worker = |limit| -> Result<Worker, ConnectError> {
            let connections = Connections::open(&kube.server)?;
            Ok(Worker { kube: kube.clone(), connections, limit, answered: AtomicBool::new(true) })
        };
        let (own, jobs) = mpsc::unbounded_channel();
        let at = worker(limits.renewal())?;
        tasks.spawn(lane::run(
            jobs,
            Limit::of(1),
            |_| false,
            async move |(_pending, job)| at.renewal(job).await,
            replies.clone(),
        ));
        let (leases, jobs) = mpsc::unbounded_channel();
        let at = worker(limits.renewal())?;
        tasks.spawn(lane::run(
            jobs,
            Limit::of(LEASES),
            |_| false,
            async move |(_pending, job)| Some(at.lease(job).await),
            replies.clone(),
        ));
        let (claims, jobs) = mpsc::unbounded_channel();
        let at = worker(limits.request())?;
        tasks.spawn(lane::run(
            jobs,
            CLAIMS,
            |(_, job): &(Pending, ClaimJob)| job.can_wait(),
            async move |(_pending, job)| Some(at.claim(job).await),
            replies.clone(),
        ));
        let (conflicts, jobs) = mpsc::unbounded_channel();
        let at = worker(limits.request())?;
        tasks.spawn(lane::run(
            jobs,
            Limit::of(CONFLICTS),
            |_| false,
            async move |(_pending, job)| Some(at.conflict(job).await),
            replies.clone(),
        ));
        let (ingresses, jobs) = mpsc::unbounded_channel();
        let at = worker(limits.request())?;
        tasks.spawn(lane::run(
            jobs,
            Limit::of(INGRESSES),
            |_| false,
            async move |(_pending, job)| Some(at.ingress(job).await),
            replies,
        ));

        let node = kube.node.clone();
        let pending = kube.server.requests().clone();
        Ok((Self { node, pending, own, leases, claims, conflicts, ingresses, _tasks: tasks }, receiver))
    }

    /// Writes a Lease; [`Event::LeaseWritten`] follows.
    pub fn write_lease(&self, write: LeaseWrite) {
        self.lease(write.node.clone(), LeaseJob::Write(write));
    }

    /// Reads a Lease from etcd; [`Event::LeaseRead`] follows.
    pub fn read_lease(&self, node: NodeName) {
        self.lease(node.clone(), LeaseJob::Read(node));
    }

    fn lease(&self, node: NodeName, job: LeaseJob) {
        // A lane ends only when the replies have no taker any more.
        if node == self.node {
            let _ = self.own.send(((), (self.pending.wait(Lane::Renewals), job)));
        } else {
            let _ = self.leases.send((node, (self.pending.wait(Lane::Leases), job)));
        }
    }

    /// Writes a claim; [`Event::ClaimWritten`] follows.
    pub fn write_claim(&self, write: ClaimWrite) {
        self.claim(write.vip, ClaimJob::Write(write));
    }

    /// Takes our finalizer from the claim's object at this version, and deletes it; [`Event::ClaimDeleted`] follows.
    pub fn delete_claim(&self, vip: Ipv4Addr, expected: Version) {
        self.claim(vip, ClaimJob::Delete { vip, expected });
    }

    /// Reads a claim from etcd; [`Event::ClaimRead`] follows.
    pub fn read_claim(&self, vip: Ipv4Addr) {
        self.claim(vip, ClaimJob::Read(vip));
    }

    /// Shows on the VIP's claim who else claims it on the segment, or that nobody does any more; [`Reply::Conflict`]
    /// follows. Nothing else of the claim changes but its version.
    pub fn report_conflict(&self, vip: Ipv4Addr, conflict: Option<String>) {
        let _ = self.conflicts.send((vip, (self.pending.wait(Lane::Conflicts), (vip, conflict))));
    }

    fn claim(&self, vip: Ipv4Addr, job: ClaimJob) {
        let _ = self.claims.send((vip, (self.pending.wait(Lane::Claims), job)));
    }

    /// Writes these addresses, as the field manager `vipward`, to the status of a Service; [`Reply::Ingress`] follows.
    pub fn write_ingress(&self, service: ServiceName, addresses: Vec<Ipv4Addr>) {
        self.ingress(service, Some(addresses));
    }

    /// Takes back from the status of a Service what [`Requests::write_ingress`] wrote there; [`Reply::Ingress`]
    /// follows.
    pub fn clear_ingress(&self, service: ServiceName) {
        self.ingress(service, None);
    }

    fn ingress(&self, service: ServiceName, addresses: Option<Vec<Ipv4Addr>>) {
        let job = (service.clone(), addresses);
        let _ = self.ingresses.send((service, (self.pending.wait(Lane::Statuses), job)));
    }
}

/// Sends the requests of one lane.
struct Worker {
    kube: Kube,
    connections: Connections,
    /// The deadline of one job.
    limit: Duration,
    /// Whether the last renewal had an answer.
    answered: AtomicBool,
}

impl Worker {
    /// Asks, and asks again after a 429 if there is time.
    async fn ask(&self, call: Call, deadline: Instant) -> Result<String, RequestError> {
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let answer = self.connections.ask(call.clone(), left).await;
            let Err(RequestError::Status { code: 429, retry_after, .. }) = &answer else { return answer };
            let pause = retry_after.unwrap_or(RETRY_AFTER).mul_f64(1.0 + fastrand::f64() / 4.0);
            if Instant::now() + pause >= deadline {
                return answer;
            }
            sleep(pause).await;
        }
    }

    fn deadline(&self) -> Instant {
        Instant::now() + self.limit
    }

    /// As [`Worker::lease`], for this node's own.
    async fn renewal(&self, job: LeaseJob) -> Option<Reply> {
        let (asked, is_write) = (Instant::now(), matches!(job, LeaseJob::Write(_)));
        let reply = self.lease(job).await;
        if is_write {
            let ok = matches!(reply, Reply::Ownership(Event::LeaseWritten { outcome: Outcome::Done(_), .. }));
            self.kube.server.renewals().renewed(ok, asked.elapsed());
        }
        let answered = match &reply {
            Reply::Ownership(Event::LeaseWritten { outcome, .. } | Event::LeaseRead { outcome, .. }) => {
                *outcome != Outcome::Unknown
            }
            Reply::Ownership(_) | Reply::Conflict { .. } | Reply::Ingress { .. } => true,
        };
        // The way to the API server is broken, or works again.
        if self.answered.swap(answered, Ordering::Relaxed) != answered {
            self.kube.alarm.raise();
        }
        Some(reply)
    }

    async fn lease(&self, job: LeaseJob) -> Reply {
        Reply::Ownership(match job {
            LeaseJob::Write(write) => {
                let outcome = self.write_lease(&write).await;
                Event::LeaseWritten { node: write.node, outcome }
            }
            LeaseJob::Read(node) => {
                let outcome = match self.ask(Call::get(self.lease_path(&node)), self.deadline()).await {
                    Ok(object) => self.lease_record(&object),
                    Err(error) => outcome(&error, Resource::Leases, false),
                };
                Event::LeaseRead { node, outcome }
            }
        })
    }

    async fn write_lease(&self, write: &LeaseWrite) -> Outcome<LeaseRecord> {
        let deadline = self.deadline();
        let creating = write.expected == Expected::Absent;
        let call = match &write.expected {
            Expected::Absent => {
                let uid = self.node_uid(&write.node, deadline).await;
                let object = leases::creation(write, uid.as_deref(), text::wall_clock());
                Call::post(managed(&self.kube.path(Resource::Leases)), &object)
            }
            Expected::At(version) => {
                let known = self.kube.leases.latest(&write.node);
                let patch = leases::patch(write, version, known.as_ref(), text::wall_clock());
                Call::patch(managed(&self.lease_path(&write.node)), MERGE, &patch)
            }
        };
        match self.ask(call, deadline).await {
            Ok(object) => self.lease_record(&object),
            Err(error) => outcome(&error, Resource::Leases, creating),
        }
    }

    /// The uid of a Node, if it can be had in a part of the time.
    async fn node_uid(&self, node: &NodeName, deadline: Instant) -> Option<Box<str>> {
        let path = format!("{}/{}", self.kube.path(Resource::Nodes), super::escaped(node.as_str()));
        let half = deadline.saturating_duration_since(Instant::now()) / 2;
        let object = self.connections.ask(Call::get(path), half).await.ok()?;
        serde_json::from_str::<Bare>(&object).ok()?.metadata.uid
    }

    fn lease_record(&self, object: &str) -> Outcome<LeaseRecord> {
        match leases::read(object) {
            Ok(leases::Read { record, known, .. }) => {
                self.kube.leases.learn(&record.node, known);
                Outcome::Done(record)
            }
            Err(_) => Outcome::Unknown,
        }
    }

    fn lease_path(&self, node: &NodeName) -> String {
        format!("{}/{}", self.kube.path(Resource::Leases), super::escaped(node.as_str()))
    }

    async fn claim(&self, job: ClaimJob) -> Reply {
        let deadline = self.deadline();
        let event = match job {
            ClaimJob::Write(write) => {
                let outcome = self.write_claim(&write, deadline).await.unwrap_or_else(Into::into);
                Event::ClaimWritten { vip: write.vip, outcome }
            }
            ClaimJob::Delete { vip, expected } => {
                let outcome = match self.delete_claim(vip, &expected, deadline).await {
                    Ok(()) => Outcome::Done(()),
                    Err(failure) => failure.into(),
                };
                Event::ClaimDeleted { vip, outcome }
            }
            ClaimJob::Read(vip) => {
                let outcome = match self.read_claim(vip, deadline).await {
                    Ok((record, _, _)) => Outcome::Done(record),
                    Err(failure) => failure.into(),
                };
                Event::ClaimRead { vip, outcome }
            }
        };
        Reply::Ownership(event)
    }

    async fn write_claim(
        &self,
        write: &ClaimWrite,
        deadline: Instant,
    ) -> Result<Outcome<ClaimRecord>, Failure> {
        let (call, creating) = match &write.expected {
            // It has waited for its turn, and somebody was faster: asking would only cost the API server its answer.
            Expected::Absent if self.kube.claims.latest(write.vip).is_some() => {
                return Err(Failure::Conflict);
            }
            Expected::Absent => {
                let object = claims::creation(write, text::wall_clock());
                (Call::post(managed(&self.kube.path(Resource::VirtualIps)), &object), true)
            }
            Expected::At(version) => {
                let known = self.known_at(write.vip, version, deadline).await?;
                let patch = claims::patch(write, &known, text::wall_clock());
                (Call::patch(managed(&self.claim_path(write.vip)), MERGE, &patch), false)
            }
        };
        let object = self.ask(call, deadline).await.map_err(|error| Failure::Request { error, creating })?;
        Ok(Outcome::Done(self.learn(&object)?.0))
    }

    async fn delete_claim(
        &self,
        vip: Ipv4Addr,
        expected: &Version,
        deadline: Instant,
    ) -> Result<(), Failure> {
        let known = self.known_at(vip, expected, deadline).await?;
        let patch = Call::patch(managed(&self.claim_path(vip)), MERGE, &claims::letting_go(&known));
        let object = self.ask(patch, deadline).await.map_err(Failure::of)?;
        let (_, known) = self.learn(&object)?;
        let options = json!({
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": known.uid, "resourceVersion": known.version.as_str()},
        });
        match self.ask(Call::delete(self.claim_path(vip), &options), deadline).await {
            Ok(_) => {}
            // Somebody had asked for it already, and only our finalizer was in the way.
            Err(error) if error.is_status(404) => {}
            Err(error) => return Err(Failure::of(error)),
        }
        if !claims::is_kept_by_others(&known) {
            self.kube.claims.forget(vip);
        }
        Ok(())
    }

    /// What a write at that version needs to know of the object.
    async fn known_at(
        &self,
        vip: Ipv4Addr,
        version: &Version,
        deadline: Instant,
    ) -> Result<claims::Known, Failure> {
        match self.kube.claims.latest(vip) {
            Some(known) if known.version == *version => return Ok(known),
            // Somebody has been faster: the API server would say no more than that.
            Some(known) if version.is_older_than(&known.version) => return Err(Failure::Conflict),
            Some(_) | None => {}
        }
        let (_, known, _) = self.read_claim(vip, deadline).await?;
        if known.version == *version { Ok(known) } else { Err(Failure::Conflict) }
    }

    async fn read_claim(
        &self,
        vip: Ipv4Addr,
        deadline: Instant,
    ) -> Result<(ClaimRecord, claims::Known, String), Failure> {
        let object = match self.ask(Call::get(self.claim_path(vip)), deadline).await {
            Ok(object) => object,
            Err(error) => {
                if error.is_status(404) {
                    self.kube.claims.forget(vip);
                }
                return Err(Failure::of(error));
            }
        };
        let (record, known) = self.learn(&object)?;
        Ok((record, known, object))
    }

    fn learn(&self, object: &str) -> Result<(ClaimRecord, claims::Known), Failure> {
        let (record, known) = claims::read(object).map_err(|_| Failure::Unreadable)?;
        self.kube.claims.learn(record.vip, known.clone());
        Ok((record, known))
    }

    fn claim_path(&self, vip: Ipv4Addr) -> String {
        format!("{}/{vip}", self.kube.path(Resource::VirtualIps))
    }

    async fn conflict(&self, (vip, conflict): ConflictJob) -> Reply {
        let deadline = self.deadline();
        let mut failed = Failure::Conflict;
        for _ in 0..CONFLICT_ATTEMPTS {
            match self.show_conflict(vip, conflict.as_deref(), deadline).await {
                Ok(record) => return Reply::Conflict { vip, outcome: Outcome::Done(record) },
                Err(failure) => failed = failure,
            }
            if !failed.is_conflict() {
                break;
            }
        }
        Reply::Conflict { vip, outcome: failed.into() }
    }

    async fn show_conflict(
        &self,
        vip: Ipv4Addr,
        conflict: Option<&str>,
        deadline: Instant,
    ) -> Result<ClaimRecord, Failure> {
        let (_, known, object) = self.read_claim(vip, deadline).await?;
        let patch = claims::conflict(&known, &object, conflict, text::wall_clock())
            .map_err(|_| Failure::Unreadable)?;
        let call = Call::patch(managed(&self.claim_path(vip)), MERGE, &patch);
        let object = self.ask(call, deadline).await.map_err(Failure::of)?;
        Ok(self.learn(&object)?.0)
    }

    async fn ingress(&self, (service, addresses): IngressJob) -> Reply {
        let call = ingress::call(&service, addresses.as_deref());
        let result = match self.ask(call, self.deadline()).await {
            Ok(_) => Ok(()),
            // Its status went with it.
            Err(error) if error.is_status(404) && addresses.is_none() => Ok(()),
            Err(error) => Err(IngressError::of(error, &service)),
        };
        Reply::Ingress { service, result }
    }
}

/// Why there is nothing to show for a request about a claim.
enum Failure {
    Conflict,
    /// The answer says that it was done, but not what.
    Unreadable,
    Request {
        error: RequestError,
        creating: bool,
    },
}

impl Failure {
    fn of(error: RequestError) -> Self {
        Self::Request { error, creating: false }
    }

    fn is_conflict(&self) -> bool {
        match self {
            Self::Conflict => true,
            Self::Unreadable => false,
            Self::Request { error, .. } => error.is_status(409),
        }
    }
}

impl<T> From<Failure> for Outcome<T> {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Conflict => Self::Conflict,
            Failure::Unreadable => Self::Unknown,
            Failure::Request { error, creating } => outcome(&error, Resource::VirtualIps, creating),
        }
    }
}

/// The table at the top.
fn outcome<T>(error: &RequestError, resource: Resource, creating: bool) -> Outcome<T> {
    let unknown_type = error.is_unknown_type();
    match error {
        RequestError::Status { code: 409, .. } => Outcome::Conflict,
        RequestError::Status { code: 404, .. } if unknown_type && resource == Resource::VirtualIps => {
            let text =
                format!("the API server does not know {resource}: kubectl apply -f {}", super::CRD_MANIFEST);
            Outcome::Refused(text.into())
        }
        RequestError::Status { code: 404, .. } if !creating && !unknown_type => Outcome::Missing,
        RequestError::Status { code: 408 | 429, .. } => Outcome::Unknown,
        RequestError::Status { code: 400..500, message, .. } => Outcome::Refused(message.as_str().into()),
        RequestError::Status { .. }
        | RequestError::Deadline { .. }
        | RequestError::Connection(_)
        | RequestError::Unreadable(_)
        | RequestError::NotText(_)
        | RequestError::TooLong { .. }
        | RequestError::Connect(_) => Outcome::Unknown,
    }
}

fn managed(path: &str) -> String {
    format!("{path}?fieldManager={}", super::MANAGER)
}
