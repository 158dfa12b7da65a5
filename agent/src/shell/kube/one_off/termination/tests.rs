use serde_json::{Value, json};

use super::*;
use crate::shell::kube::testing;

#[expect(clippy::unnecessary_wraps, reason = "what an answer is read from")]
fn found(object: &Value) -> Result<String, RequestError> {
    Ok(object.to_string())
}

fn refused(code: u16) -> Result<String, RequestError> {
    Err(testing::refused(code, "x", "x"))
}

fn no_answer() -> Result<String, RequestError> {
    Err(RequestError::Deadline { server: String::new(), limit: LIMIT })
}

#[test]
fn the_pod_says_whether_it_stays_and_to_what_it_belongs() {
    let owner = json!([{"kind": "DaemonSet", "name": "vipward", "apiVersion": "apps/v1", "uid": "u"}]);
    let disrupted = |reason: &str| -> Value {
        json!({"conditions": [{"type": "DisruptionTarget", "status": "True", "reason": reason}]})
    };
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
        (found(&json!({"metadata": {"deletionTimestamp": "t"}})), PodState::Deleted, None, "of no node"),
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
        (refused(401), PodState::Refused, None, "its service account is gone"),
        (refused(403), PodState::Refused, None, "its role is gone"),
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
        (refused(401), DaemonSetState::Refused),
        (refused(403), DaemonSetState::Refused),
        (no_answer(), DaemonSetState::Unknown),
    ];
    for (answer, state) in rows {
        assert_eq!(daemon_set_state(&answer), state, "{answer:?}");
    }
}

#[test]
fn a_node_says_whether_it_goes_away() {
    let not_ready = |message: &str| {
        let reason = "KubeletNotReady";
        json!({"conditions": [{"type": "Ready", "status": "False", "reason": reason, "message": message}]})
    };
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
