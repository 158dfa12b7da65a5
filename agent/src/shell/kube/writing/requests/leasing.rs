//! Requests about Leases: renewing this node's, and writing and reading those of other nodes.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::time::Instant;
use vipward_core::{
    ownership::{Event, Expected, LeaseWrite, Outcome},
    records::{LeaseRecord, NodeName},
};

use super::worker::{Worker, outcome};
use crate::shell::{
    endpoints::metrics::Lane,
    kube::{
        kinds::{leases, meta::Bare, resource::Resource, text},
        link::call::Call,
    },
};

pub(super) enum LeaseJob {
    Write(Box<LeaseWrite>),
    Read(NodeName),
}

/// A worker that renews this node's Lease.
///
/// Its requests take turns on the connections for Leases and on those for claims. So those that a failover
/// needs stay open, although the API server closes a connection after 90 s without a request, and each is
/// known to work.
pub(super) struct Renewer {
    of_leases: Worker,
    of_claims: Worker,
    /// True if it is the turn of the connections for claims.
    turn: AtomicBool,
    /// True if the last request had an answer.
    answered: AtomicBool,
}

impl Renewer {
    pub(super) fn new(of_leases: Worker, of_claims: Worker) -> Self {
        Self { of_leases, of_claims, turn: AtomicBool::new(false), answered: AtomicBool::new(true) }
    }

    /// Returns the worker whose turn it is. No renewal waits for claims.
    fn worker(&self) -> &Worker {
        let is_busy = self.of_claims.kube.server.requests().waiting(Lane::Claims) > 0;
        if self.turn.fetch_not(Ordering::Relaxed) && !is_busy { &self.of_claims } else { &self.of_leases }
    }

    /// Does a job about this node's Lease. Raises the alarm if the way
    /// to the API server fails or works again.
    pub(super) async fn lease(&self, job: LeaseJob) -> Event {
        let worker = self.worker();
        let kube = &worker.kube;
        let (sent_at, is_write) = (Instant::now(), matches!(job, LeaseJob::Write(_)));
        let event = worker.lease(job).await;
        if is_write {
            let renewed = matches!(event, Event::LeaseWritten { outcome: Outcome::Done(_), .. });
            kube.server.renewals().renewed(renewed, sent_at.elapsed());
            if renewed {
                kube.alarm.renewed();
            }
        }
        let answered = !matches!(
            event,
            Event::LeaseWritten { outcome: Outcome::Unknown, .. }
                | Event::LeaseRead { outcome: Outcome::Unknown, .. }
        );
        if self.answered.swap(answered, Ordering::Relaxed) != answered {
            kube.alarm.raise();
        }
        event
    }
}

impl Worker {
    pub(super) async fn lease(&self, job: LeaseJob) -> Event {
        match job {
            LeaseJob::Write(write) => {
                let outcome = self.write_lease(&write).await;
                Event::LeaseWritten { node: write.node, outcome }
            }
            LeaseJob::Read(node) => {
                let call = self.kube.collection(Resource::Leases).get(node.as_str());
                let outcome = self.lease_record(call, self.deadline(), false).await;
                Event::LeaseRead { node, outcome }
            }
        }
    }

    async fn write_lease(&self, write: &LeaseWrite) -> Outcome<LeaseRecord> {
        let deadline = self.deadline();
        let leases = self.kube.collection(Resource::Leases);
        let is_own = write.node == self.kube.node;
        let (call, creating) = match &write.expected {
            Expected::Absent if is_own => {
                let uid = self.node_uid(&write.node, deadline).await;
                (leases.create(&leases::creation(write, uid.as_deref(), text::wall_clock())), true)
            }
            Expected::Absent => (leases.create(&leases::creation_ended(write)), true),
            Expected::At(version) => {
                let known = self.kube.leases.latest(&write.node);
                let patch = if is_own {
                    leases::patch(write, version, known.as_ref(), text::wall_clock())
                } else {
                    leases::patch_ended(write, version)
                };
                (leases.merge(write.node.as_str(), &patch), false)
            }
        };
        self.lease_record(call, deadline, creating).await
    }

    /// Returns the uid of a Node, if the reading takes less than half of the time.
    async fn node_uid(&self, node: &NodeName, deadline: Instant) -> Option<Box<str>> {
        let half = deadline - deadline.saturating_duration_since(Instant::now()) / 2;
        let call = self.kube.collection(Resource::Nodes).get(node.as_str());
        let object = self.send_once(call, half).await.ok()?;
        serde_json::from_str::<Bare>(&object).ok()?.metadata.uid
    }

    /// Sends a request whose answer is a Lease.
    async fn lease_record(&self, call: Call, deadline: Instant, creating: bool) -> Outcome<LeaseRecord> {
        let object = match self.send(call, deadline).await {
            Ok(object) => object,
            Err(error) => return outcome(&error, Resource::Leases, creating),
        };
        match leases::read(&object) {
            Ok(leases::Read { record, known, .. }) => {
                self.kube.leases.learn(&record.node, known);
                Outcome::Done(record)
            }
            Err(_) => Outcome::Unknown,
        }
    }
}
