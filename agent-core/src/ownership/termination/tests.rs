use super::*;

fn at(seconds: u64) -> Monotonic {
    Monotonic::from_nanos(0) + Duration::from_secs(seconds)
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
        (P::Deleted, D::Refused, N::Stays, StopReason::Restart, "it never could read its DaemonSet"),
        (P::Deleted, D::Deleted, N::ShutsDown, StopReason::Uninstall, "removed, and the node shuts down"),
        (P::NodeShutsDown, D::Deleted, N::Unknown, StopReason::Uninstall, "the same, as the Pod says"),
        (P::Deleted, D::Deleted, N::Deleted, StopReason::Uninstall, "removed with the node"),
        (P::NodeShutsDown, D::Stays, N::Unknown, StopReason::Leave, "the kubelet ends its Pods"),
        (P::Deleted, D::Stays, N::Cordoned, StopReason::Leave, "drained"),
        (P::Stays, D::Stays, N::ShutsDown, StopReason::Leave, "the node shuts down"),
        (P::Unknown, D::Unknown, N::Deleted, StopReason::Leave, "the node is gone"),
    ];
    for (pod, daemon_set, node, reason, description) in rows {
        let mut ending = Ending::begin(at(0));
        let next = ending.look(Termination { pod, daemon_set, node, claims_are_gone: true }, at(0));
        assert_eq!(next, Next::End(reason), "{description}");
    }
}

#[test]
fn a_deleted_daemon_set_has_15_seconds_to_come_back() {
    use DaemonSetState::{Deleted, Refused, Stays, Unknown};
    use StopReason::{Restart, Uninstall};
    type Row<'a> = (&'a [(u64, DaemonSetState)], u64, StopReason, &'a str);
    let rows: [Row<'_>; 10] = [
        (&[(0, Deleted)], 15, Uninstall, "removed"),
        (&[(0, Deleted), (1, Stays)], 1, Restart, "replaced at once"),
        (&[(0, Deleted), (14, Stays)], 14, Restart, "replaced late"),
        (&[(0, Deleted), (15, Stays)], 15, Restart, "replaced at the last look"),
        (&[(0, Deleted), (3, Unknown), (6, Stays)], 6, Restart, "and the API server was away for a moment"),
        (&[(0, Deleted), (3, Unknown), (6, Deleted)], 15, Uninstall, "it was away, and nothing has come"),
        (&[(0, Deleted), (3, Unknown)], 15, Restart, "it is away, and may have another one"),
        (&[(0, Deleted), (3, Refused)], 15, Uninstall, "the permissions are removed too"),
        (&[(0, Deleted), (3, Refused), (5, Stays)], 5, Restart, "the permissions were replaced too"),
        (&[(0, Unknown)], 0, Restart, "it is away at the signal"),
    ];
    for (changes, end, reason, description) in rows {
        let is_seen = changes[0].1 == Deleted;
        for node in [NodeState::Stays, NodeState::Cordoned].into_iter().take(1 + usize::from(is_seen)) {
            let mut ending = Ending::begin(at(0));
            for second in 0..=end {
                let daemon_set = changes.iter().rfind(|(from, _)| *from <= second).expect("a first state").1;
                let found = Termination { pod: PodState::Deleted, daemon_set, node, claims_are_gone: false };
                let expected =
                    if second == end { Next::End(reason) } else { Next::LookAgain(at(second + 1)) };
                assert_eq!(ending.look(found, at(second)), expected, "{description}, after {second} s");
            }
        }
    }
}

#[test]
fn the_last_look_is_when_the_time_is_over() {
    let mut ending = Ending::begin(at(0));
    let gone = Termination {
        pod: PodState::Deleted,
        daemon_set: DaemonSetState::Deleted,
        node: NodeState::Stays,
        claims_are_gone: false,
    };
    let late = at(14) + Duration::from_millis(500);
    assert_eq!(ending.look(gone, late), Next::LookAgain(at(15)));
}

/// Everything is deleted in no order, as by a prune: the agent may read nothing when it gets the signal.
#[test]
fn without_permissions_the_agent_is_removed_if_its_claims_are_gone_with_them() {
    use DaemonSetState::{Stays, Unknown};
    use StopReason::{Leave, Restart, Uninstall};
    /// From this second on: the `DaemonSet`, and whether the claims are gone.
    type Row<'a> = (&'a [(u64, DaemonSetState, bool)], NodeState, u64, StopReason, &'a str);
    let rows: [Row<'_>; 9] = [
        (&[(0, Unknown, true)], NodeState::Unknown, 15, Uninstall, "definitions and rights are gone"),
        (&[(0, Unknown, false), (3, Unknown, true)], NodeState::Unknown, 15, Uninstall, "rights go first"),
        (&[(0, Unknown, false)], NodeState::Unknown, 15, Restart, "rights alone are gone: claims stay"),
        (&[(0, Unknown, true), (4, Stays, true)], NodeState::Unknown, 4, Restart, "all was replaced"),
        (&[(0, Unknown, false), (4, Stays, false)], NodeState::Unknown, 4, Restart, "rights are back"),
        (&[(0, Unknown, true)], NodeState::Deleted, 0, Uninstall, "removed with the node"),
        (&[(0, Unknown, false)], NodeState::Deleted, 0, Leave, "the node is gone"),
        (&[(0, Unknown, false)], NodeState::Cordoned, 0, Leave, "a drain does not wait"),
        (&[(0, Unknown, true), (4, Unknown, false)], NodeState::Unknown, 15, Restart, "the claims are back"),
    ];
    for (changes, node, end, reason, description) in rows {
        let mut ending = Ending::begin(at(0));
        for second in 0..=end {
            let (_, daemon_set, claims_are_gone) =
                *changes.iter().rfind(|(from, _, _)| *from <= second).expect("a first state");
            let found = Termination { pod: PodState::Refused, daemon_set, node, claims_are_gone };
            let expected = if second == end { Next::End(reason) } else { Next::LookAgain(at(second + 1)) };
            assert_eq!(ending.look(found, at(second)), expected, "{description}, after {second} s");
        }
    }
}
