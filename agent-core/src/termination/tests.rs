use super::*;

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
