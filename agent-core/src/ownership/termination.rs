//! Reason why the agent ends, from the states of its Pod, its `DaemonSet` and its Node.
//!
//! A `DaemonSet` may be deleted and created again at once, as by `kubectl replace --force`. So the
//! agent goes on for a while before it takes the deletion for an uninstall.

use std::{fmt, time::Duration};

use crate::{base::time::Monotonic, ownership::event::StopReason};

#[cfg(test)]
mod tests;

/// Time for which an agent without a `DaemonSet` waits for another one. The rest of its Pod's
/// termination, of 30 s, is for the uninstall.
pub const WAIT_FOR_ANOTHER: Duration = Duration::from_secs(15);
/// Time between two looks meanwhile.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The state of the agent's surroundings when it gets the signal to end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Termination {
    pub pod: PodState,
    pub daemon_set: DaemonSetState,
    pub node: NodeState,
    /// True if the agent has read the claims, and none is left.
    pub claims_are_gone: bool,
}

impl fmt::Display for Termination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pod = match self.pod {
            PodState::Stays => "stays",
            PodState::Deleted => "is deleted",
            PodState::NodeShutsDown => "ends, since the node shuts down",
            PodState::Refused => "may not be read",
            PodState::Unknown => "is unknown",
        };
        let daemon_set = match self.daemon_set {
            DaemonSetState::Stays => "stays",
            DaemonSetState::Deleted => "is deleted",
            DaemonSetState::Refused => "may not be read",
            DaemonSetState::Unknown => "is unknown",
        };
        let node = match self.node {
            NodeState::Stays => "stays",
            NodeState::Cordoned => "is cordoned",
            NodeState::ShutsDown => "shuts down",
            NodeState::Deleted => "is deleted",
            NodeState::Unknown => "is unknown",
        };
        let claims = if self.claims_are_gone { ", no claim is left" } else { "" };
        write!(f, "the Pod {pod}, the DaemonSet {daemon_set}, the node {node}{claims}")
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PodState {
    /// The Pod stays: only its container is restarted.
    Stays,
    /// The Pod is deleted: by a rollout, an eviction, or a removal.
    Deleted,
    /// The kubelet ends it because the node shuts down.
    NodeShutsDown,
    /// The API server refuses to let the agent read it.
    Refused,
    /// The Pod could not be read, or the agent is in none.
    Unknown,
}

/// The state of the `DaemonSet` that the Pod belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DaemonSetState {
    /// The `DaemonSet` stays, or another one has its name. It will make another Pod.
    Stays,
    /// The `DaemonSet` is being deleted, or gone.
    Deleted,
    /// The agent may not read it.
    Refused,
    /// The `DaemonSet` could not be read, or the Pod belongs to none.
    Unknown,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NodeState {
    Stays,
    /// The Node is cordoned, as it is before a drain.
    Cordoned,
    ShutsDown,
    /// The Node is being deleted, or gone.
    Deleted,
    Unknown,
}

/// Next step of an agent that has got the signal to end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Next {
    End(StopReason),
    /// The agent goes on. The `DaemonSet` is read again at this time.
    LookAgain(Monotonic),
}

/// The search for the reason, from the signal on.
///
/// # Examples
///
/// ```
/// use vipward_core::ownership::StopReason;
/// use vipward_core::ownership::termination::{
///     DaemonSetState, Ending, Next, NodeState, PodState, Termination, WAIT_FOR_ANOTHER,
/// };
/// use vipward_core::base::time::Monotonic;
///
/// let now = Monotonic::from_nanos(0);
/// let mut ending = Ending::begin(now);
/// let gone = Termination {
///     pod: PodState::Deleted,
///     daemon_set: DaemonSetState::Deleted,
///     node: NodeState::Stays,
///     claims_are_gone: false,
/// };
/// assert!(matches!(ending.look(gone, now), Next::LookAgain(_)));
/// assert_eq!(ending.look(gone, now + WAIT_FOR_ANOTHER), Next::End(StopReason::Uninstall));
/// ```
#[derive(Clone, Debug)]
pub struct Ending {
    until: Monotonic,
    /// True if the `DaemonSet` was seen to be deleted.
    was_deleted: bool,
}

impl Ending {
    /// Begins at the signal.
    pub fn begin(now: Monotonic) -> Self {
        Self { until: now + WAIT_FOR_ANOTHER, was_deleted: false }
    }

    /// Returns the next step, from what was just found. In doubt the agent ends as for a restart:
    /// if no other process goes on with the VIPs, other nodes take them when the Lease expires.
    ///
    /// An agent whose `DaemonSet` was deleted may have lost its permissions since, because
    /// everything is removed. That is no doubt. Neither is it if all claims are gone with the
    /// permissions: their definition was deleted too.
    pub fn look(&mut self, found: Termination, now: Monotonic) -> Next {
        let is_refused = found.pod == PodState::Refused;
        let is_removed = is_refused && found.claims_are_gone;
        self.was_deleted |= found.daemon_set == DaemonSetState::Deleted;
        let without_removal = found.without_removal();
        // A node that is drained has no time to lose.
        let waits = is_refused && without_removal == StopReason::Restart;
        if !self.was_deleted && !is_removed && !waits {
            return Next::End(without_removal);
        }
        let reason = match found.daemon_set {
            // The deletion has ended the Pod, even if the node is cordoned.
            DaemonSetState::Stays => return Next::End(StopReason::Restart),
            DaemonSetState::Deleted | DaemonSetState::Refused => StopReason::Uninstall,
            DaemonSetState::Unknown if is_removed || is_refused && self.was_deleted => StopReason::Uninstall,
            // The claims may go a moment later.
            DaemonSetState::Unknown => StopReason::Restart,
        };
        if now < self.until && !found.node_is_ending() {
            return Next::LookAgain((now + LOOK_EVERY).min(self.until));
        }
        Next::End(reason)
    }
}

impl Termination {
    /// Returns true if no other Pod comes to this node.
    fn node_is_ending(self) -> bool {
        let node_is_ending = match self.node {
            NodeState::ShutsDown | NodeState::Deleted => true,
            NodeState::Stays | NodeState::Cordoned | NodeState::Unknown => false,
        };
        node_is_ending || self.pod == PodState::NodeShutsDown
    }

    /// Returns the reason if the `DaemonSet` is not the reason.
    fn without_removal(self) -> StopReason {
        match (self.pod, self.node) {
            (PodState::NodeShutsDown, _)
            | (
                PodState::Stays | PodState::Deleted | PodState::Refused | PodState::Unknown,
                NodeState::Cordoned | NodeState::ShutsDown | NodeState::Deleted,
            ) => StopReason::Leave,
            (
                PodState::Stays | PodState::Deleted | PodState::Refused | PodState::Unknown,
                NodeState::Stays | NodeState::Unknown,
            ) => StopReason::Restart,
        }
    }
}
