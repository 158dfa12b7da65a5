//! The state of the agent's Pod, `DaemonSet` and Node, read after a signal to end.

use std::time::Duration;

use k8s_openapi::api::{
    apps::v1::DaemonSet,
    core::v1::{Pod, PodCondition},
};
use serde::Deserialize;
use tokio::time::{Instant, sleep, timeout_at};
use tracing::info;
use vipward_core::{
    base::time::Monotonic,
    ownership::{
        StopReason,
        termination::{DaemonSetState, Ending, Next, NodeState, PodState, Termination, WAIT_FOR_ANOTHER},
    },
};

use crate::shell::kube::{
    kinds::{
        meta::{Bare, Meta},
        resource::Resource,
    },
    link::{
        call::{Call, Collection},
        connect::ConnectError,
        error::RequestError,
        http::Connections,
    },
    reading::shared::Kube,
};

#[cfg(test)]
mod tests;

/// The deadline of all requests of one reading: the time between SIGTERM and SIGKILL is short.
const LIMIT: Duration = Duration::from_secs(2);
/// Type and reason of the condition of a Pod that the kubelet ends because the node shuts down.
const DISRUPTED: (&str, &str) = ("DisruptionTarget", "TerminationByKubelet");

/// Finds out why the agent is to end; needs a tokio runtime. `pod` is the name of the agent's Pod
/// in the agents' namespace; without it, only the Node is read. This takes 2 seconds at most. If
/// the `DaemonSet` is gone, it takes 2 seconds more than the agent waits for another one.
/// `has_claims` is true if the claims have been listed.
pub async fn find_reason(
    kube: &Kube,
    pod: Option<&str>,
    has_claims: bool,
) -> Result<StopReason, ConnectError> {
    let began = Instant::now();
    let now = || Monotonic::default() + began.elapsed();
    let mut ending = Ending::begin(now());
    let mut surroundings = Surroundings::open(kube, pod)?;
    let mut is_waiting = false;
    loop {
        let mut found = surroundings.look().await;
        found.claims_are_gone = has_claims && kube.claims.is_empty();
        match ending.look(found, now()) {
            Next::End(reason) => {
                info!(%found, "the reason for the end is known");
                return Ok(reason);
            }
            Next::LookAgain(at) => {
                if !std::mem::replace(&mut is_waiting, true) {
                    let wait = humantime::format_duration(WAIT_FOR_ANOTHER);
                    info!(%found, %wait, "Vipward may be removed; the agent goes on, because it may come back");
                }
                sleep(at.saturating_since(now())).await;
            }
        }
    }
}

/// A Pod or a Node. Their conditions have the same fields, as far as these are used.
#[derive(Deserialize)]
struct Object {
    #[serde(default)]
    metadata: Meta,
    #[serde(default)]
    spec: Spec,
    #[serde(default)]
    status: Status,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Spec {
    unschedulable: Option<bool>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Status {
    conditions: Option<Vec<PodCondition>>,
}

pub struct Surroundings {
    kube: Kube,
    connections: Connections,
    pod: Option<String>,
    /// The states at the first reading, and the name of the `DaemonSet`.
    first: Option<(Termination, Option<String>)>,
}

impl Surroundings {
    /// Opens connections to read them. `pod` is as for [`find_reason`].
    pub fn open(kube: &Kube, pod: Option<&str>) -> Result<Self, ConnectError> {
        let pod = pod.filter(|pod| !pod.is_empty()).map(str::to_owned);
        Ok(Self { kube: kube.clone(), connections: Connections::open(&kube.server)?, pod, first: None })
    }

    /// Reads the states within 2 seconds. From the second reading on, only the `DaemonSet` is read, unless the
    /// Pod could not be: its permissions may be back.
    pub async fn look(&mut self) -> Termination {
        let deadline = Instant::now() + LIMIT;
        let known = self.first.clone().filter(|(found, _)| found.pod != PodState::Refused);
        if let Some((mut found, daemon_set)) = known {
            if let Some(name) = daemon_set {
                found.daemon_set = self.daemon_set(&name, deadline).await;
            }
            return found;
        }
        let ((pod, daemon_set, name), node) =
            tokio::join!(self.pod_and_daemon_set(deadline), self.node(deadline));
        let found = Termination { pod, daemon_set, node, claims_are_gone: false };
        self.first = Some((found, name));
        found
    }

    async fn get(&self, call: Call, deadline: Instant) -> Result<String, RequestError> {
        let limit = self.kube.server.limits().request().min(LIMIT);
        timeout_at(deadline, self.connections.send(call, limit))
            .await
            .unwrap_or_else(|_| Err(RequestError::Deadline { server: self.kube.server.url(), limit: LIMIT }))
    }

    async fn pod_and_daemon_set(&self, deadline: Instant) -> (PodState, DaemonSetState, Option<String>) {
        let unknown = |pod| (pod, DaemonSetState::Unknown, None);
        let Some(pod) = &self.pod else { return unknown(PodState::Unknown) };
        let pod = Collection::of::<Pod>(Some(&*self.kube.namespace)).get(pod);
        let (pod, owner) = pod_state(&self.get(pod, deadline).await);
        let Some(owner) = owner else { return unknown(pod) };
        (pod, self.daemon_set(&owner, deadline).await, Some(owner))
    }

    async fn daemon_set(&self, name: &str, deadline: Instant) -> DaemonSetState {
        let call = Collection::of::<DaemonSet>(Some(&*self.kube.namespace)).get(name);
        daemon_set_state(&self.get(call, deadline).await)
    }

    async fn node(&self, deadline: Instant) -> NodeState {
        let call = self.kube.collection(Resource::Nodes).get(self.kube.node.as_str());
        node_state(&self.get(call, deadline).await)
    }
}

fn pod_state(answer: &Result<String, RequestError>) -> (PodState, Option<String>) {
    if matches!(answer, Err(error) if error.is_status(401) || error.is_status(403)) {
        return (PodState::Refused, None);
    }
    let Ok(Object { metadata, status, .. }) = read(answer) else { return (PodState::Unknown, None) };
    let (kind, reason) = DISRUPTED;
    let shuts_down = status.conditions.iter().flatten().any(|condition| {
        condition.type_ == kind && condition.status == "True" && condition.reason.as_deref() == Some(reason)
    });
    let state = match (shuts_down, metadata.is_deleting()) {
        (true, _) => PodState::NodeShutsDown,
        (false, true) => PodState::Deleted,
        (false, false) => PodState::Stays,
    };
    let owners = metadata.owner_references.unwrap_or_default();
    let owner = owners.into_iter().find(|owner| owner.kind == "DaemonSet");
    (state, owner.map(|owner| owner.name))
}

/// Returns the state of the `DaemonSet` of that name. Another one may have the name by now.
fn daemon_set_state(answer: &Result<String, RequestError>) -> DaemonSetState {
    match answer {
        Err(error) if error.is_status(404) => DaemonSetState::Deleted,
        Err(error) if error.is_status(401) || error.is_status(403) => DaemonSetState::Refused,
        Err(_) => DaemonSetState::Unknown,
        Ok(object) => match serde_json::from_str::<Bare>(object) {
            Ok(Bare { metadata }) if metadata.is_deleting() => DaemonSetState::Deleted,
            Ok(_) => DaemonSetState::Stays,
            Err(_) => DaemonSetState::Unknown,
        },
    }
}

fn node_state(answer: &Result<String, RequestError>) -> NodeState {
    if matches!(answer, Err(error) if error.is_status(404)) {
        return NodeState::Deleted;
    }
    let Ok(Object { metadata, spec, status }) = read(answer) else { return NodeState::Unknown };
    // The kubelet's graceful shutdown has no field of its own.
    let shuts_down = status.conditions.iter().flatten().any(|condition| {
        condition.type_ == "Ready"
            && condition.status != "True"
            && condition.message.as_deref().is_some_and(|message| message.contains("node is shutting down"))
    });
    match (metadata.is_deleting(), shuts_down, spec.unschedulable.unwrap_or(false)) {
        (true, _, _) => NodeState::Deleted,
        (false, true, _) => NodeState::ShutsDown,
        (false, false, true) => NodeState::Cordoned,
        (false, false, false) => NodeState::Stays,
    }
}

fn read(answer: &Result<String, RequestError>) -> Result<Object, Option<serde_json::Error>> {
    answer.as_ref().map_err(|_| None).and_then(|object| serde_json::from_str(object).map_err(Some))
}
