//! Why the agent is asked to end: what its Pod, its `DaemonSet` and its Node say about it.

use std::{sync::Arc, time::Duration};

use serde::Deserialize;
use tokio::time::{Instant, timeout_at};

use super::{
    Kube, Resource,
    connect::ConnectError,
    escaped,
    http::{Call, Connections, RequestError},
    meta::{Bare, Meta},
};
use crate::core::ownership::StopReason;

#[cfg(test)]
mod tests;

/// All of it takes no longer: the time between SIGTERM and SIGKILL is for more important things.
const LIMIT: Duration = Duration::from_secs(2);
/// The condition of a Pod that is ended on purpose, and whether the kubelet does it because the node shuts down.
const DISRUPTED: (&str, &str) = ("DisruptionTarget", "TerminationByKubelet");

/// What was found out; `Unknown` is what could not be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Termination {
    /// Of our Pod.
    pub pod: PodState,
    /// Of what makes our Pods.
    pub daemon_set: DaemonSetState,
    /// Of our Node.
    pub node: NodeState,
}

/// What our Pod says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PodState {
    /// It stays: only its container is restarted.
    Stays,
    /// It is deleted: rolled out anew, evicted, or removed.
    Deleted,
    /// The kubelet ends it because the node shuts down.
    NodeShutsDown,
    /// Nothing: it could not be read, or the agent is in none.
    Unknown,
}

/// What the `DaemonSet` says that our Pod belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DaemonSetState {
    /// It stays, and will make another Pod.
    Stays,
    /// It is being deleted, or gone.
    Deleted,
    /// Nothing: it could not be read, or our Pod belongs to none.
    Unknown,
}

/// What our Node says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NodeState {
    /// It stays.
    Stays,
    /// It is cordoned, as it is before a drain.
    Cordoned,
    /// It shuts down.
    ShutsDown,
    /// It is being deleted, or gone.
    Deleted,
    /// Nothing: it could not be read.
    Unknown,
}

impl Termination {
    /// Finds out, within 2 seconds; needs a tokio runtime. Without `pod`, our Pod's name in the agents' namespace, only the
    /// Node is asked about.
    pub async fn find(kube: &Kube, pod: Option<&str>) -> Result<Self, ConnectError> {
        let asker = Asker {
            connections: Connections::open(&kube.server)?,
            kube: kube.clone(),
            deadline: Instant::now() + LIMIT,
        };
        let ours = async {
            match pod {
                Some(pod) => asker.pod_and_daemon_set(pod).await,
                None => (PodState::Unknown, DaemonSetState::Unknown),
            }
        };
        let ((pod, daemon_set), node) = tokio::join!(ours, asker.node());
        Ok(Self { pod, daemon_set, node })
    }

    /// What that comes to. When in doubt, another process goes on: what it does not go on with others take anyway
    /// when the Lease runs out.
    pub fn reason(self) -> StopReason {
        let leaves = match self.node {
            NodeState::Cordoned | NodeState::ShutsDown | NodeState::Deleted => true,
            NodeState::Stays | NodeState::Unknown => false,
        };
        match (self.daemon_set, self.pod) {
            (DaemonSetState::Deleted, _) => StopReason::Uninstall,
            (DaemonSetState::Stays | DaemonSetState::Unknown, PodState::NodeShutsDown) => StopReason::Leave,
            (
                DaemonSetState::Stays | DaemonSetState::Unknown,
                PodState::Stays | PodState::Deleted | PodState::Unknown,
            ) => {
                if leaves {
                    StopReason::Leave
                } else {
                    StopReason::Restart
                }
            }
        }
    }
}

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
    conditions: Option<Vec<Condition>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Condition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
    reason: Option<String>,
    message: Option<String>,
}

struct Asker {
    kube: Kube,
    connections: Connections,
    deadline: Instant,
}

impl Asker {
    async fn get(&self, path: String) -> Result<String, RequestError> {
        let limit = self.kube.server.limits().request().min(LIMIT);
        timeout_at(self.deadline, self.connections.ask(Call::get(path), limit))
            .await
            .unwrap_or(Err(RequestError::Deadline { limit: LIMIT }))
    }

    async fn pod_and_daemon_set(&self, pod: &str) -> (PodState, DaemonSetState) {
        let namespace = escaped(&self.kube.namespace);
        let path = format!("/api/v1/namespaces/{namespace}/pods/{}", escaped(pod));
        let (pod, owner) = pod_state(&self.get(path).await);
        let Some(owner) = owner else { return (pod, DaemonSetState::Unknown) };
        let path = format!("/apis/apps/v1/namespaces/{namespace}/daemonsets/{}", escaped(&owner));
        (pod, daemon_set_state(&self.get(path).await))
    }

    async fn node(&self) -> NodeState {
        let path = format!("{}/{}", self.kube.path(Resource::Nodes), escaped(self.kube.node.as_str()));
        node_state(&self.get(path).await)
    }
}

/// What the answer says of the Pod, and the name of the `DaemonSet` that it belongs to.
fn pod_state(answer: &Result<String, RequestError>) -> (PodState, Option<Arc<str>>) {
    let Ok(Object { metadata, status, .. }) = read(answer) else { return (PodState::Unknown, None) };
    let (kind, reason) = DISRUPTED;
    let shuts_down = status.conditions.iter().flatten().any(|condition| {
        condition.kind == kind && condition.status == "True" && condition.reason.as_deref() == Some(reason)
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
    // So says the kubelet's graceful shutdown; there is no field for it.
    let shuts_down = status.conditions.iter().flatten().any(|condition| {
        condition.kind == "Ready"
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
