//! The Lease by which the controllers elect their leader.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::Instant;
use vipward_core::{
    base::time::Monotonic,
    pools::election::{Ballot, Election, Step},
};

use crate::shell::kube::{
    kinds::{leases::LEADER, meta::Meta, text},
    link::{
        call::{Call, Collection},
        connect::ConnectError,
        error::RequestError,
        http::Connections,
    },
    reading::shared::Kube,
};

#[derive(Deserialize)]
struct Object {
    #[serde(default)]
    metadata: Meta,
    #[serde(default)]
    spec: Spec,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    holder_identity: Option<String>,
    lease_duration_seconds: Option<u64>,
}

pub struct Candidate {
    pub election: Election,
    name: String,
    lease: Duration,
    leases: Collection,
    connections: Connections,
    limit: Duration,
}

impl Candidate {
    /// Starts as a candidate with a name that no other process has.
    pub fn start(kube: &Kube, name: String, lease: Duration) -> Result<Self, ConnectError> {
        Ok(Self {
            election: Election::start(name.clone(), lease),
            name,
            lease,
            leases: Collection::of::<Lease>(Some(&kube.namespace)),
            connections: Connections::open(&kube.server)?,
            limit: kube.server.limits().renewal(),
        })
    }

    /// Reads the Lease, and writes it if it is free or this process's. `now` is the time at which
    /// this begins.
    pub async fn run_for_it(&mut self, now: Monotonic) -> Result<(), RequestError> {
        let begun = Instant::now();
        let ballot = match self.send(self.leases.get(LEADER)).await {
            Ok(object) => Some(ballot(&object)?),
            Err(error) if error.is_status(404) && !error.is_unknown_type() => None,
            Err(error) => return Err(error),
        };
        let call = match self.election.on_read(ballot.as_ref(), now + begun.elapsed()) {
            Step::Wait => return Ok(()),
            Step::Create => self.leases.create(&self.object(&json!({"name": LEADER}), &self.name)),
            Step::Write(version) => {
                let metadata = json!({"resourceVersion": version.as_str()});
                self.leases.merge(LEADER, &self.object(&metadata, &self.name))
            }
        };
        match self.send(call).await {
            Ok(_) => self.election.on_written(now),
            // Another one was faster.
            Err(error) if error.is_status(409) => self.election.on_lost(),
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Releases the Lease, so that another process need not wait.
    pub async fn step_down(&mut self, now: Monotonic) {
        if !self.election.leads(now) {
            return;
        }
        let Ok(object) = self.send(self.leases.get(LEADER)).await else { return };
        let Ok(Ballot { version, holder, .. }) = ballot(&object) else { return };
        if holder == self.name {
            let metadata = json!({"resourceVersion": version.as_str()});
            // A Lease that is not given back ends by itself.
            let _ = self.send(self.leases.merge(LEADER, &self.object(&metadata, ""))).await;
        }
        self.election.on_lost();
    }

    fn object(&self, metadata: &Value, holder: &str) -> Value {
        let now = text::micro_time(text::wall_clock());
        json!({
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": metadata,
            "spec": {
                "holderIdentity": holder,
                "leaseDurationSeconds": self.lease.as_secs(),
                "renewTime": now,
            },
        })
    }

    async fn send(&self, call: Call) -> Result<String, RequestError> {
        let begun = Instant::now();
        self.connections.send(call, self.limit.saturating_sub(begun.elapsed())).await
    }
}

/// Returns the name of the controller that has the lead, or had it when it crashed; none if no
/// controller has run, or the last one has given the lead back.
pub async fn leader(kube: &Kube) -> Result<Option<String>, RequestError> {
    let connections = Connections::open(&kube.server)?;
    let call = Collection::of::<Lease>(Some(&kube.namespace)).get(LEADER);
    match connections.send(call, kube.server.limits().request()).await {
        Ok(object) => Ok(Some(ballot(&object)?.holder).filter(|holder| !holder.is_empty())),
        Err(error) if error.is_status(404) && !error.is_unknown_type() => Ok(None),
        Err(error) => Err(error),
    }
}

fn ballot(object: &str) -> Result<Ballot, RequestError> {
    let Object { metadata, spec } = serde_json::from_str(object).map_err(RequestError::Unreadable)?;
    Ok(Ballot {
        version: metadata.resource_version.as_str().into(),
        holder: spec.holder_identity.unwrap_or_default(),
        duration: Duration::from_secs(spec.lease_duration_seconds.unwrap_or_default()),
    })
}
