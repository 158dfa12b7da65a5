//! Whom and what disturbances concern.

use serde::{Deserialize, Serialize};

use crate::schedule::names;

/// A node.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum Who {
    /// The node of this number.
    Node(u8),
    /// The node that hands over, in the awaited step.
    Giver,
    /// The node that takes, in the awaited step.
    Taker,
    /// The node that the claim of this VIP names when the disturbance begins.
    Holder(u8),
    /// A monitor of that node, as its Lease says then: the first, the second, and so on.
    Monitor(u8, u8),
    /// The controller of this number. It is on no node.
    Controller(u8),
    /// The controller that the Lease of the election names when the disturbance begins.
    Leader,
}

impl Who {
    /// Returns the number of a node that has been named, or of a controller.
    pub(crate) fn index(self) -> usize {
        match self {
            Self::Node(node) => node.into(),
            Self::Controller(number) => names::CONTROLLER + usize::from(number),
            Self::Giver | Self::Taker => unreachable!("the step names its giver and taker"),
            Self::Holder(_) | Self::Monitor(..) | Self::Leader => {
                unreachable!("they are named when the disturbance begins")
            }
        }
    }

    pub(super) fn is_controller(self) -> bool {
        matches!(self, Self::Controller(_) | Self::Leader)
    }
}

/// A kind of object that a process watches.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub(crate) enum Kind {
    /// Leases.
    Lease,
    /// Claims.
    Claim,
    /// Nodes.
    Node,
    /// Services; without a controller with their endpoints.
    Demand,
    /// Pools.
    Pool,
    /// Namespaces.
    Namespace,
    /// The endpoints of Services. Read only by a process that needs them.
    Slice,
}

/// The number of kinds.
pub(crate) const MOST_KINDS: usize = 7;

/// All kinds without a controller.
pub(crate) const KINDS: [Kind; 4] = [Kind::Lease, Kind::Claim, Kind::Node, Kind::Demand];

impl Kind {
    /// All kinds.
    pub(crate) const ALL: [Self; MOST_KINDS] =
        [Self::Lease, Self::Claim, Self::Node, Self::Demand, Self::Pool, Self::Namespace, Self::Slice];

    /// The kinds that a process reads from its start where a controller runs.
    pub(crate) const WITH_CONTROLLER: [Self; 6] =
        [Self::Lease, Self::Claim, Self::Node, Self::Demand, Self::Pool, Self::Namespace];
}

/// A kind of write that an admission policy refuses.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum Refused {
    /// Of reservations.
    Reservation,
    /// Of statuses.
    Status,
    /// Of Events, of all processes.
    Event,
}

/// The writes of a node's agent that an admission policy refuses.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum Denied {
    /// Those that create, change or delete claims.
    Claims,
    /// Those of its own Lease.
    Lease,
    /// Findings on claims, and statuses of Services.
    Shown,
}
