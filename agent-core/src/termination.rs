//! Reason why the agent ends, from the states of its Pod, its `DaemonSet` and its Node.

use crate::ownership::StopReason;

#[cfg(test)]
mod tests;

/// The state of the agent's surroundings when it is asked to end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Termination {
    /// The agent's Pod.
    pub pod: PodState,
    /// The `DaemonSet` of the Pod.
    pub daemon_set: DaemonSetState,
    /// The agent's Node.
    pub node: NodeState,
}

/// The state of the agent's Pod.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PodState {
    /// The Pod stays: only its container is restarted.
    Stays,
    /// The Pod is deleted: by a rollout, an eviction, or a removal.
    Deleted,
    /// The kubelet ends it because the node shuts down.
    NodeShutsDown,
    /// The Pod could not be read, or the agent is in none.
    Unknown,
}

/// The state of the `DaemonSet` that the Pod belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DaemonSetState {
    /// The `DaemonSet` stays, and will make another Pod.
    Stays,
    /// The `DaemonSet` is being deleted, or gone.
    Deleted,
    /// The `DaemonSet` could not be read, or the Pod belongs to none.
    Unknown,
}

/// The state of the agent's Node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NodeState {
    /// The Node stays.
    Stays,
    /// The Node is cordoned, as it is before a drain.
    Cordoned,
    /// The Node shuts down.
    ShutsDown,
    /// The Node is being deleted, or gone.
    Deleted,
    /// The Node could not be read.
    Unknown,
}

impl Termination {
    /// Returns the reason why the agent ends. In doubt that is a restart: if no other process goes
    /// on with the VIPs, other nodes take them when the Lease expires.
    pub fn reason(self) -> StopReason {
        match (self.daemon_set, self.pod, self.node) {
            (DaemonSetState::Deleted, _, _) => StopReason::Uninstall,
            (DaemonSetState::Stays | DaemonSetState::Unknown, PodState::NodeShutsDown, _)
            | (
                DaemonSetState::Stays | DaemonSetState::Unknown,
                PodState::Stays | PodState::Deleted | PodState::Unknown,
                NodeState::Cordoned | NodeState::ShutsDown | NodeState::Deleted,
            ) => StopReason::Leave,
            (
                DaemonSetState::Stays | DaemonSetState::Unknown,
                PodState::Stays | PodState::Deleted | PodState::Unknown,
                NodeState::Stays | NodeState::Unknown,
            ) => StopReason::Restart,
        }
    }
}
