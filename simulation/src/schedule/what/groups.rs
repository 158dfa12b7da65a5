//! The kinds of disturbances of a segment, the API server, tenants and stored objects.

use serde::{Deserialize, Serialize};

use super::subjects::{Denied, Kind, Refused, Who};
use crate::schedule::tenants::{Asks, PoolPlan};

/// A disturbance of a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum OnSegment {
    /// The nodes of `side` (a bit each) and the others do not receive each other, without noticing.
    Partition { segment: u8, side: u8, for_ms: u32 },
    /// One node's frames do not reach another.
    OneWay { segment: u8, from: Who, to: Who, for_ms: u32 },
    /// Two nodes do not receive each other.
    Cut { segment: u8, one: Who, other: Who, for_ms: u32 },
    /// An interface that keeps its carrier carries no frame: `out` none that it sends, `into` none
    /// that it is to get.
    Dead { segment: u8, who: Who, out: bool, into: bool, for_ms: u32 },
    /// Frames are lost.
    Lossy { segment: u8, percent: u8, for_ms: u32 },
    /// Frames are late.
    LateFrames { segment: u8, by_ms: u32, for_ms: u32 },
    /// The switch sends each frame back to its sender, too.
    Reflecting { segment: u8, for_ms: u32 },
}

impl OnSegment {
    pub(crate) fn segment(self) -> u8 {
        match self {
            Self::Partition { segment, .. }
            | Self::OneWay { segment, .. }
            | Self::Cut { segment, .. }
            | Self::Dead { segment, .. }
            | Self::Lossy { segment, .. }
            | Self::LateFrames { segment, .. }
            | Self::Reflecting { segment, .. } => segment,
        }
    }

    pub(super) fn for_ms(self) -> u32 {
        match self {
            Self::Partition { for_ms, .. }
            | Self::OneWay { for_ms, .. }
            | Self::Cut { for_ms, .. }
            | Self::Dead { for_ms, .. }
            | Self::Lossy { for_ms, .. }
            | Self::LateFrames { for_ms, .. }
            | Self::Reflecting { for_ms, .. } => for_ms,
        }
    }

    pub(super) fn is_mild(self, nodes: usize) -> bool {
        match self {
            Self::LateFrames { by_ms, .. } => by_ms <= 30,
            Self::Reflecting { .. } => true,
            // A switch that restarts loses all frames of all nodes.
            Self::Lossy { percent, .. } => percent <= 10 && nodes > 2 || percent >= 100,
            Self::Cut { .. } | Self::OneWay { .. } => nodes > 2,
            Self::Partition { .. } | Self::Dead { .. } => false,
        }
    }

    pub(super) fn resolve(&mut self, name: impl Fn(Who) -> Who) {
        match self {
            Self::OneWay { from: one, to: other, .. } | Self::Cut { one, other, .. } => {
                (*one, *other) = (name(*one), name(*other));
            }
            Self::Dead { who, .. } => *who = name(*who),
            Self::Partition { .. }
            | Self::Lossy { .. }
            | Self::LateFrames { .. }
            | Self::Reflecting { .. } => {}
        }
    }
}

/// A disturbance of the API server, or of what a process has of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum OnApi {
    /// A node does not reach the API server.
    CutOff { who: Who, refused: bool, for_ms: u32 },
    /// No node reaches the API server.
    ApiDown { refused: bool, for_ms: u32 },
    /// All watches begin anew.
    ApiRestart,
    /// etcd is restored from a backup: after `for_ms`, Leases and claims are as they were at the
    /// beginning. In the last `down_ms`, no node reaches the API server.
    Restored { for_ms: u32, down_ms: u32 },
    /// Requests are slow, before and after they are carried out.
    SlowApi { by_ms: u32, for_ms: u32 },
    /// A node's requests are carried out, but their responses are lost.
    NoAnswers { who: Who, for_ms: u32 },
    /// A watch is silent, while everything else works.
    Stall { who: Who, kind: Kind, for_ms: u32 },
    /// A watch begins anew.
    Reset { who: Who, kind: Kind },
    /// The API server refuses writes of an agent.
    Denied { who: Who, of: Denied, for_ms: u32 },
    /// All stored Events are deleted.
    EventsGone,
}

impl OnApi {
    pub(super) fn for_ms(self) -> Option<u32> {
        match self {
            Self::CutOff { for_ms, .. }
            | Self::ApiDown { for_ms, .. }
            | Self::Restored { for_ms, .. }
            | Self::SlowApi { for_ms, .. }
            | Self::NoAnswers { for_ms, .. }
            | Self::Stall { for_ms, .. }
            | Self::Denied { for_ms, .. } => Some(for_ms),
            Self::ApiRestart | Self::Reset { .. } | Self::EventsGone => None,
        }
    }

    pub(super) fn is_planned(self) -> bool {
        match self {
            Self::CutOff { who, .. }
            | Self::NoAnswers { who, .. }
            | Self::Stall { who, .. }
            | Self::Reset { who, .. } => who.is_controller(),
            Self::EventsGone => true,
            Self::ApiDown { .. }
            | Self::ApiRestart
            | Self::Restored { .. }
            | Self::SlowApi { .. }
            | Self::Denied { .. } => false,
        }
    }

    pub(super) fn resolve(&mut self, name: impl Fn(Who) -> Who) {
        match self {
            Self::CutOff { who, .. }
            | Self::NoAnswers { who, .. }
            | Self::Stall { who, .. }
            | Self::Reset { who, .. }
            | Self::Denied { who, .. } => *who = name(*who),
            Self::ApiDown { .. }
            | Self::ApiRestart
            | Self::Restored { .. }
            | Self::SlowApi { .. }
            | Self::EventsGone => {}
        }
    }
}

/// A change of the tenants' Services, pools and namespaces.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum OnTenants {
    /// A tenant's Service is deleted, and created again with another uid.
    ServiceGone { service: u8, for_ms: u32 },
    /// A tenant's Service is deleted, and another one of its name created at once.
    ServiceReplaced { service: u8 },
    /// A tenant's Service is of another type.
    ServiceRetyped { service: u8, for_ms: u32 },
    /// A tenant's Service asks for something else.
    ServiceAsks { service: u8, asks: Asks, for_ms: u32 },
    /// A pool has other fields.
    PoolEdited { pool: u8, to: PoolPlan, for_ms: u32 },
    /// A pool is deleted, and created again.
    PoolGone { pool: u8, for_ms: u32 },
    /// A namespace is without its label.
    Unlabelled { namespace: u8, for_ms: u32 },
    /// An admin wishes that the reservation of an address is given up.
    Released { vip: u8 },
    /// The API server refuses a kind of write of the controller.
    Refused { of: Refused, for_ms: u32 },
}

impl OnTenants {
    pub(super) fn for_ms(self) -> Option<u32> {
        match self {
            Self::ServiceGone { for_ms, .. }
            | Self::ServiceRetyped { for_ms, .. }
            | Self::ServiceAsks { for_ms, .. }
            | Self::PoolEdited { for_ms, .. }
            | Self::PoolGone { for_ms, .. }
            | Self::Unlabelled { for_ms, .. }
            | Self::Refused { for_ms, .. } => Some(for_ms),
            Self::ServiceReplaced { .. } | Self::Released { .. } => None,
        }
    }

    pub(super) fn is_planned(self) -> bool {
        match self {
            Self::PoolEdited { .. }
            | Self::PoolGone { .. }
            | Self::Unlabelled { .. }
            | Self::Released { .. }
            | Self::Refused { .. } => true,
            Self::ServiceGone { .. }
            | Self::ServiceReplaced { .. }
            | Self::ServiceRetyped { .. }
            | Self::ServiceAsks { .. } => false,
        }
    }
}

/// An edit of a Lease or a claim by hand.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum Edit {
    /// An operator asks to move a VIP.
    Move { vip: u8, to: Who },
    /// A Lease is deleted by hand.
    LeaseDeleted { who: Who },
    /// The session is removed from a Lease by hand.
    LeaseBlanked { who: Who },
    /// Another session is written into a Lease by hand.
    LeaseEdited { who: Who },
    /// A claim is deleted by hand; with `finalized`, a finalizer keeps it until an agent deletes it too.
    ClaimDeleted { vip: u8, finalized: bool },
    /// The holder is removed from a claim by hand.
    ClaimBlanked { vip: u8 },
    /// Another holder, with its session, is written into a claim by hand.
    ClaimEdited { vip: u8, to: Who },
    /// A claim comes from a backup of another cluster: it names a node that does not exist.
    ClaimRestored { vip: u8 },
}

impl Edit {
    pub(super) fn is_planned(self) -> bool {
        match self {
            Self::LeaseDeleted { who } => who.is_controller(),
            Self::Move { .. } => true,
            Self::LeaseBlanked { .. }
            | Self::LeaseEdited { .. }
            | Self::ClaimDeleted { .. }
            | Self::ClaimBlanked { .. }
            | Self::ClaimRestored { .. }
            | Self::ClaimEdited { .. } => false,
        }
    }

    pub(super) fn resolve(&mut self, name: impl Fn(Who) -> Who) {
        match self {
            Self::LeaseDeleted { who }
            | Self::LeaseBlanked { who }
            | Self::LeaseEdited { who }
            | Self::Move { to: who, .. }
            | Self::ClaimEdited { to: who, .. } => *who = name(*who),
            Self::ClaimDeleted { .. } | Self::ClaimBlanked { .. } | Self::ClaimRestored { .. } => {}
        }
    }
}
