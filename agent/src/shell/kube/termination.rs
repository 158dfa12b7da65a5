//! The state of the agent's Pod, `DaemonSet` and Node, read when a signal asks the agent to end.

use std::{sync::Arc, time::Duration};

use k8s_openapi::api::{
    apps::v1::DaemonSet,
    core::v1::{Pod, PodCondition},
};
use serde::Deserialize;
use tokio::time::{Instant, timeout_at};
use vipward_core::termination::{DaemonSetState, NodeState, PodState, Termination};

use super::{
    call::{Call, Collection},
    connect::ConnectError,
    error::RequestError,
    http::Connections,
    meta::{Bare, Meta},
    resource::Resource,
    shared::Kube,
};

#[cfg(test)]
mod tests;

/// The deadline of all requests together: the time between SIGTERM and SIGKILL is short.
const LIMIT: Duration = Duration::from_secs(2);
/// Type and reason of the condition of a Pod that the kubelet ends because the node shuts down.
const DISRUPTED: (&str, &str) = ("DisruptionTarget", "TerminationByKubelet");

/// Reads the states within 2 seconds; needs a tokio runtime. `pod` is the name of the agent's Pod
/// in the agents' namespace; without it, only the Node is read.
pub async fn find_termination(kube: &Kube, pod: Option<&str>) -> Result<Termination, ConnectError> {
    let asker = Asker {
        connections: Connections::open(&kube.server)?,
        kube: kube.clone(),
        deadline: Instant::now() + LIMIT,
    };
    let pod_and_daemon_set = async {
        match pod.filter(|pod| !pod.is_empty()) {
            Some(pod) => asker.pod_and_daemon_set(pod).await,
            None => (PodState::Unknown, DaemonSetState::Unknown),
        }
    };
    let ((pod, daemon_set), node) = tokio::join!(pod_and_daemon_set, asker.node());
    Ok(Termination { pod, daemon_set, node })
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

struct Asker {
    kube: Kube,
    connections: Connections,
    deadline: Instant,
}

impl Asker {
    async fn get(&self, call: Call) -> Result<String, RequestError> {
        let limit = self.kube.server.limits().request().min(LIMIT);
        timeout_at(self.deadline, self.connections.ask(call, limit))
            .await
            .unwrap_or_else(|_| Err(RequestError::Deadline { server: self.kube.server.url(), limit: LIMIT }))
    }

    async fn pod_and_daemon_set(&self, pod: &str) -> (PodState, DaemonSetState) {
        let namespace = Some(&*self.kube.namespace);
        let (pod, owner) = pod_state(&self.get(Collection::of::<Pod>(namespace).get(pod)).await);
        let Some(owner) = owner else { return (pod, DaemonSetState::Unknown) };
        (pod, daemon_set_state(&self.get(Collection::of::<DaemonSet>(namespace).get(&owner)).await))
    }

    async fn node(&self) -> NodeState {
        let call = self.kube.collection(Resource::Nodes).get(self.kube.node.as_str());
        node_state(&self.get(call).await)
    }
}

/// Returns the state of the Pod, and the name of its `DaemonSet`.
fn pod_state(answer: &Result<String, RequestError>) -> (PodState, Option<Arc<str>>) {
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
    (state, owner.map(|owner| owner.name.into()))
}

fn daemon_set_state(answer: &Result<String, RequestError>) -> DaemonSetState {
    match answer {
        Err(error) if error.is_status(404) => DaemonSetState::Deleted,
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
