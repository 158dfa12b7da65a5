//! The kinds of disturbances, and whom and what they concern.

mod groups;
mod subjects;

use std::time::Duration;

use serde::{Deserialize, Serialize};
use vipward_core::liveness::Scale;

pub(crate) use self::{
    groups::{Edit, OnApi, OnSegment, OnTenants},
    subjects::{Denied, KINDS, Kind, MOST_KINDS, Refused, Who},
};
use super::timing::Timing;

/// The longest time for which a node may stand still without being found silent, at scale 1.
pub(crate) const MILD_FREEZE_MS: u32 = 150;

/// The reason for which an agent is asked to end.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum Ending {
    /// The agent will be started again.
    Restart,
    /// Its node goes away.
    Leave,
    /// The agent is being removed.
    Uninstall,
}

/// The frames that a filter in the network drops.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum Drops {
    /// Its questions to a gateway in the names of VIPs, and its answers to questions of other nodes.
    Answers,
    /// The questions of other nodes to all hosts.
    Requests,
}

/// A mark of Kubernetes against a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum Mark {
    /// Cordoned.
    Cordoned,
    /// The condition Ready is not True.
    NotReady,
    /// Excluded from external load balancers.
    Excluded,
    /// The out-of-service taint.
    OutOfService,
    /// Its network is unavailable.
    NetworkUnavailable,
}

/// A kind of disturbance.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum What {
    /// An agent is killed, and started again after `back_ms`.
    Kill { who: Who, back_ms: Option<u32> },
    /// A node loses its power and its kernel's state.
    PowerOff { who: Who, back_ms: Option<u32> },
    /// A machine is removed: it loses its power, and its Lease and its Node are deleted. The Node comes
    /// back with the power.
    Removed { who: Who, back_ms: Option<u32> },
    /// An agent is stopped by a signal, and continued later.
    Pause { who: Who, for_ms: u32 },
    /// A whole node stands still, with or without its clock.
    Freeze { who: Who, for_ms: u32, clock_too: bool },
    /// A node is suspended: its monotonic clock stands still, its boot clock goes on.
    Suspended { who: Who, for_ms: u32 },
    /// A node's pings are late.
    Busy { who: Who, by_ms: u32, for_ms: u32 },
    /// A node has no key of wire failover.
    KeyGone { who: Who, for_ms: u32 },
    /// An agent is asked to end.
    End { who: Who, how: Ending, back_ms: Option<u32> },
    /// The kernel refuses changes of entries: all of them, or new ones because the map is full.
    EntriesRefused { who: Who, new_only: bool, for_ms: u32 },
    /// The network drops frames of a node's VIPs.
    Filtered { who: Who, drops: Drops, for_ms: u32 },
    /// An interface gets another MAC.
    ChangeMac { who: Who, segment: u8 },
    /// An interface loses its carrier.
    NoCarrier { who: Who, segment: u8, for_ms: u32 },
    /// A stranger announces a VIP in a node's name.
    Forged { vip: u8, name: Who },
    /// A stranger that has the key says that the session of a node has ended. It lives.
    FalseEnd { segment: u8, who: Who },
    /// A mark is set against a node.
    Marked { who: Who, mark: Mark, for_ms: u32 },
    /// A Node object is missing.
    NodeGone { who: Who, for_ms: u32 },
    /// Only the nodes of `on` (a bit each) have endpoints.
    Local { vip: u8, on: u8, for_ms: u32 },
    /// No Service wants the VIP.
    Unwanted { vip: u8, for_ms: u32 },
    /// A stranger's Service of this number asks for VIPs of another namespace (`vips`, a bit each),
    /// with the policy Local and endpoints on `on` (a bit each).
    Stranger { number: u8, vips: u8, on: u8, older: bool, for_ms: u32 },
    /// A host gets the address of a VIP that no node has held for a while: the kernel of the node
    /// `who`, or another host of the segment.
    Host { vip: u8, who: Option<Who>, for_ms: u32 },
    /// The token of a node claims a VIP for that node, without its agent.
    Lie { vip: u8, who: Who },
    /// Frames of a segment are lost or late.
    #[serde(untagged)]
    Segment(OnSegment),
    /// The API server fails, or what a process has of it.
    #[serde(untagged)]
    Api(OnApi),
    /// The tenants' objects change.
    #[serde(untagged)]
    Tenants(OnTenants),
    /// A Lease or a claim is edited by hand.
    #[serde(untagged)]
    Edit(Edit),
}

impl What {
    /// Returns how long it lasts, if it ends by itself.
    pub(crate) fn lasts(&self) -> Option<Duration> {
        let millis = match *self {
            Self::Pause { for_ms, .. }
            | Self::Freeze { for_ms, .. }
            | Self::Suspended { for_ms, .. }
            | Self::Busy { for_ms, .. }
            | Self::KeyGone { for_ms, .. }
            | Self::EntriesRefused { for_ms, .. }
            | Self::Filtered { for_ms, .. }
            | Self::NoCarrier { for_ms, .. }
            | Self::Marked { for_ms, .. }
            | Self::NodeGone { for_ms, .. }
            | Self::Local { for_ms, .. }
            | Self::Unwanted { for_ms, .. }
            | Self::Stranger { for_ms, .. }
            | Self::Host { for_ms, .. } => for_ms,
            Self::Kill { back_ms, .. }
            | Self::PowerOff { back_ms, .. }
            | Self::Removed { back_ms, .. }
            | Self::End { back_ms, .. } => back_ms?,
            Self::ChangeMac { .. }
            | Self::Forged { .. }
            | Self::FalseEnd { .. }
            | Self::Lie { .. }
            | Self::Edit(_) => return None,
            Self::Segment(on) => on.for_ms(),
            Self::Api(on) => on.for_ms()?,
            Self::Tenants(on) => on.for_ms()?,
        };
        Some(Duration::from_millis(millis.into()))
    }

    /// Returns whether Leases or claims are restored, or edited by hand.
    pub(crate) fn rewrites_the_store(&self) -> bool {
        match self {
            Self::Api(on) => matches!(on, OnApi::Restored { .. }),
            Self::Edit(edit) => !matches!(edit, Edit::Move { .. }),
            _ => false,
        }
    }

    /// Returns whether it is one by which wire failover moves nothing, in a cluster of so many nodes.
    pub(crate) fn is_mild(&self, nodes: usize, timing: &Timing, scale: Scale) -> bool {
        match *self {
            Self::Kill { back_ms: Some(ms), .. } | Self::Pause { for_ms: ms, .. } => ms < timing.lease_ms / 2,
            Self::End { how: Ending::Restart, back_ms, .. } => is_back_in_time(back_ms, timing),
            Self::Freeze { for_ms, .. } => for_ms <= MILD_FREEZE_MS * scale.factor(),
            Self::PowerOff { .. } | Self::Removed { .. } => nodes > 2,
            Self::Busy { .. } | Self::KeyGone { .. } | Self::Filtered { .. } => true,
            Self::Segment(on) => on.is_mild(nodes),
            Self::Api(on) => matches!(on, OnApi::ApiDown { .. } | OnApi::ApiRestart),
            Self::Kill { .. }
            | Self::Suspended { .. }
            | Self::End { .. }
            | Self::EntriesRefused { .. }
            | Self::ChangeMac { .. }
            | Self::NoCarrier { .. }
            | Self::Forged { .. }
            | Self::FalseEnd { .. }
            | Self::Marked { .. }
            | Self::NodeGone { .. }
            | Self::Local { .. }
            | Self::Unwanted { .. }
            | Self::Stranger { .. }
            | Self::Host { .. }
            | Self::Lie { .. }
            | Self::Tenants(_)
            | Self::Edit(_) => false,
        }
    }

    /// Returns the node that it takes away for a while.
    pub(crate) fn takes_away(&self) -> Option<usize> {
        match *self {
            Self::PowerOff { who: Who::Node(node), .. } | Self::Removed { who: Who::Node(node), .. } => {
                Some(node.into())
            }
            _ => None,
        }
    }

    /// Returns true if a node answers nothing meanwhile.
    pub(crate) fn silences(&self, of: usize) -> bool {
        match *self {
            Self::Freeze { who: Who::Node(node), .. } => usize::from(node) == of,
            Self::Segment(OnSegment::Lossy { percent: 100.., .. }) => true,
            _ => false,
        }
    }

    /// Returns whether it is a stranger's Service, of which no VIP may take notice.
    pub(crate) fn is_strangers(&self) -> bool {
        matches!(self, Self::Stranger { .. })
    }

    /// Returns whether it is a planned change, during which every VIP must be answered.
    pub(crate) fn is_planned(&self, timing: &Timing) -> bool {
        match *self {
            // No answer depends on a controller.
            Self::Kill { who: Who::Controller(_) | Who::Leader, .. }
            | Self::Pause { who: Who::Controller(_) | Who::Leader, .. }
            | Self::End { who: Who::Controller(_) | Who::Leader, .. }
            | Self::Freeze { who: Who::Controller(_) | Who::Leader, .. }
            | Self::End { how: Ending::Leave, .. }
            | Self::Marked { .. }
            | Self::Local { .. }
            | Self::Unwanted { .. }
            | Self::Stranger { .. }
            | Self::Filtered { .. }
            | Self::Segment(OnSegment::Reflecting { .. })
            | Self::Host { .. } => true,
            Self::End { how: Ending::Restart, back_ms, .. } => is_back_in_time(back_ms, timing),
            Self::End { how: Ending::Uninstall, .. }
            | Self::Kill { .. }
            | Self::PowerOff { .. }
            | Self::Removed { .. }
            | Self::Pause { .. }
            | Self::Freeze { .. }
            | Self::Suspended { .. }
            | Self::Busy { .. }
            | Self::KeyGone { .. }
            | Self::EntriesRefused { .. }
            | Self::ChangeMac { .. }
            | Self::NoCarrier { .. }
            | Self::Forged { .. }
            | Self::FalseEnd { .. }
            | Self::NodeGone { .. }
            | Self::Lie { .. }
            | Self::Segment(_) => false,
            Self::Api(on) => on.is_planned(),
            Self::Tenants(on) => on.is_planned(),
            Self::Edit(edit) => edit.is_planned(),
        }
    }

    /// Returns the same with other nodes.
    #[must_use]
    pub(crate) fn with(mut self, name: impl Fn(Who) -> Who) -> Self {
        match &mut self {
            Self::Segment(on) => on.resolve(name),
            Self::Api(on) => on.resolve(name),
            Self::Edit(edit) => edit.resolve(name),
            Self::Kill { who, .. }
            | Self::PowerOff { who, .. }
            | Self::Removed { who, .. }
            | Self::Pause { who, .. }
            | Self::Freeze { who, .. }
            | Self::Suspended { who, .. }
            | Self::Busy { who, .. }
            | Self::KeyGone { who, .. }
            | Self::FalseEnd { who, .. }
            | Self::EntriesRefused { who, .. }
            | Self::End { who, .. }
            | Self::ChangeMac { who, .. }
            | Self::NoCarrier { who, .. }
            | Self::Filtered { who, .. }
            | Self::Marked { who, .. }
            | Self::NodeGone { who, .. }
            | Self::Forged { name: who, .. }
            | Self::Lie { who, .. }
            | Self::Host { who: Some(who), .. } => *who = name(*who),
            Self::Local { .. }
            | Self::Unwanted { .. }
            | Self::Stranger { .. }
            | Self::Host { who: None, .. }
            | Self::Tenants(_) => {}
        }
        self
    }

    /// Returns whether it concerns one of these nodes, or something that all nodes share.
    pub(crate) fn befalls(self, nodes: [usize; 2]) -> bool {
        let meant = std::cell::Cell::new(None);
        let _ = self.with(|who| {
            if let Who::Node(node) = who {
                meant.set(Some(usize::from(node)));
            }
            who
        });
        meant.get().is_none_or(|node| nodes.contains(&node))
    }
}

/// Returns whether an agent that is restarted is back long before the others give it up.
fn is_back_in_time(back_ms: Option<u32>, timing: &Timing) -> bool {
    back_ms.is_some_and(|back| back < timing.restart_lease_ms / 2)
}
