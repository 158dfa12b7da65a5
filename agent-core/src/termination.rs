//! The reason why the agent ends, from what its Pod, its `DaemonSet` and its Node say.

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
    /// It stays: only its container is restarted.
    Stays,
    /// It is deleted: rolled out anew, evicted, or removed.
    Deleted,
    /// The kubelet ends it because the node shuts down.
    NodeShutsDown,
    /// It could not be read, or the agent is in none.
    Unknown,
}

/// The state of the `DaemonSet` that the Pod belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DaemonSetState {
    /// It stays, and will make another Pod.
    Stays,
    /// It is being deleted, or gone.
    Deleted,
    /// It could not be read, or the Pod belongs to none.
    Unknown,
}

/// The state of the agent's Node.
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
    /// It could not be read.
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
