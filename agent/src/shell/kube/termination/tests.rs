use serde_json::{Value, json};

use super::*;

#[expect(clippy::unnecessary_wraps, reason = "what an answer is read from")]
fn found(object: &Value) -> Result<String, RequestError> {
    Ok(object.to_string())
}

fn refused(code: u16) -> Result<String, RequestError> {
    Err(RequestError::Status {
        code,
        reason: "x".to_owned(),
        message: "x".to_owned(),
        causes: Vec::new(),
        retry_after: None,
    })
}

fn no_answer() -> Result<String, RequestError> {
    Err(RequestError::Deadline { limit: LIMIT })
}

#[test]
fn the_pod_says_whether_it_stays_and_to_what_it_belongs() {
    let owner = json!([{"kind": "DaemonSet", "name": "vipward", "apiVersion": "apps/v1", "uid": "u"}]);
    let disrupted = |reason: &str| json!({"conditions": [{"type": "DisruptionTarget", "status": "True", "reason": reason}]});
    let rows = [
        (
            found(&json!({"metadata": {"ownerReferences": owner}})),
            PodState::Stays,
            Some("vipward"),
            "restarted",
        ),
        (
            found(&json!({"metadata": {"ownerReferences": owner, "deletionTimestamp": "t"}})),
            PodState::Deleted,
            Some("vipward"),
            "rolled out",
        ),
        (found(&json!({"metadata": {"deletionTimestamp": "t"}})), PodState::Deleted, None, "of nobody"),
        (
            found(&json!({"metadata": {}, "status": disrupted("TerminationByKubelet")})),
            PodState::NodeShutsDown,
            None,
            "shutdown",
        ),
        (
            found(&json!({"metadata": {}, "status": disrupted("EvictionByEvictionAPI")})),
            PodState::Stays,
            None,
            "evicted, not yet deleted",
        ),
        (refused(404), PodState::Unknown, None, "gone"),
        (no_answer(), PodState::Unknown, None, "no answer"),
        (Ok("{".to_owned()), PodState::Unknown, None, "half an answer"),
    ];
    for (answer, state, owner, description) in rows {
        let (found, name) = pod_state(&answer);
        assert_eq!((found, name.as_deref()), (state, owner), "{description}");
    }
}

#[test]
fn a_daemon_set_that_is_gone_or_going_is_deleted() {
    let rows = [
        (found(&json!({"metadata": {}})), DaemonSetState::Stays),
        (found(&json!({"metadata": {"deletionTimestamp": "t"}})), DaemonSetState::Deleted),
        (refused(404), DaemonSetState::Deleted),
        (refused(403), DaemonSetState::Unknown),
        (no_answer(), DaemonSetState::Unknown),
    ];
    for (answer, state) in rows {
        assert_eq!(daemon_set_state(&answer), state, "{answer:?}");
    }
}

#[test]
fn a_node_says_whether_it_goes_away() {
    let not_ready = |message: &str| json!({"conditions": [{"type": "Ready", "status": "False", "reason": "KubeletNotReady", "message": message}]});
    let rows = [
        (found(&json!({})), NodeState::Stays),
        (found(&json!({"spec": {"unschedulable": true}})), NodeState::Cordoned),
        (found(&json!({"status": not_ready("node is shutting down")})), NodeState::ShutsDown),
        (found(&json!({"status": not_ready("container runtime is down")})), NodeState::Stays),
        (
            found(&json!({"metadata": {"deletionTimestamp": "t"}, "spec": {"unschedulable": true}})),
            NodeState::Deleted,
        ),
        (refused(404), NodeState::Deleted),
        (refused(403), NodeState::Unknown),
        (no_answer(), NodeState::Unknown),
    ];
    for (answer, state) in rows {
        assert_eq!(node_state(&answer), state, "{answer:?}");
    }
}

#[test]
fn the_reason_is_a_restart_unless_something_says_otherwise() {
    use DaemonSetState as D;
    use NodeState as N;
    use PodState as P;
    let rows = [
        (P::Stays, D::Stays, N::Stays, StopReason::Restart, "the container is restarted"),
        (P::Deleted, D::Stays, N::Stays, StopReason::Restart, "a new version is rolled out"),
        (P::Unknown, D::Unknown, N::Unknown, StopReason::Restart, "the API server is away"),
        (P::Deleted, D::Deleted, N::Stays, StopReason::Uninstall, "removed"),
        (P::Deleted, D::Deleted, N::Cordoned, StopReason::Uninstall, "removed from a cordoned node"),
        (P::NodeShutsDown, D::Stays, N::Unknown, StopReason::Leave, "the kubelet ends its Pods"),
        (P::Deleted, D::Stays, N::Cordoned, StopReason::Leave, "drained"),
        (P::Stays, D::Stays, N::ShutsDown, StopReason::Leave, "the node shuts down"),
        (P::Unknown, D::Unknown, N::Deleted, StopReason::Leave, "the node is gone"),
    ];
    for (pod, daemon_set, node, reason, description) in rows {
        assert_eq!(Termination { pod, daemon_set, node }.reason(), reason, "{description}");
    }
}
