//! The schedule itself: the cluster, and when it is disturbed.

use serde::{Deserialize, Serialize};
use vipward_core::liveness::Scale;

use super::{tenants::TenantsPlan, timing::Timing, what::What};

/// The input of one run. The same schedule gives the same run, byte for byte.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Schedule {
    /// The seed of the noise: latencies, losses, sessions.
    pub(crate) seed: u64,
    /// True if a passed lease deadline is in its grace period.
    pub(crate) hold: bool,
    /// The engines' settings.
    pub(crate) timing: Timing,
    /// The number of segments: one or two.
    pub(crate) segments: u8,
    /// The nodes.
    pub(crate) nodes: Vec<NodePlan>,
    /// The VIPs.
    pub(crate) vips: Vec<VipPlan>,
    /// The disturbances, in no particular order.
    pub(crate) disturbances: Vec<Disturbance>,
    /// Wire failover. None if no node takes part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) wire: Option<WirePlan>,
    /// A controller. None if the agents are alone. Then each VIP has a Service that asks for it by name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) tenants: Option<TenantsPlan>,
}

impl Schedule {
    /// Returns whether nodes take part in wire failover.
    pub fn has_wire(&self) -> bool {
        self.scale().is_some()
    }

    /// Returns the scale of wire failover, or none if no node takes part.
    pub(crate) fn scale(&self) -> Option<Scale> {
        self.wire.filter(|_| self.hold).map(|wire| wire.scale)
    }

    /// Returns whether a controller runs beside the agents.
    pub fn has_controller(&self) -> bool {
        self.tenants.is_some()
    }

    /// Returns the number of disturbances.
    pub fn len(&self) -> usize {
        self.disturbances.len()
    }

    /// Returns whether there are no disturbances.
    pub fn is_empty(&self) -> bool {
        self.disturbances.is_empty()
    }
}

/// Wire failover.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct WirePlan {
    /// The scale of all its times.
    #[serde(with = "WrittenScale")]
    pub(crate) scale: Scale,
    /// The nodes without a key, a bit each.
    pub(crate) keyless: u8,
    /// True if a host that is no node answers on each segment.
    pub(crate) third_station: bool,
    /// Its frames come once more, up to so much later. Zero if they do not.
    pub(crate) replayed_ms: u32,
}

/// [`Scale`], as it is written down.
#[derive(Serialize, Deserialize)]
#[serde(remote = "Scale")]
enum WrittenScale {
    One,
    Two,
    Four,
}

/// One node.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NodePlan {
    /// The clock's rate error in parts per million; positive is fast.
    pub(crate) clock_ppm: i32,
    /// The clock's time at the beginning.
    pub(crate) clock_ms: u32,
    /// The time when it joins.
    pub(crate) joins_ms: u32,
}

/// One VIP.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct VipPlan {
    /// The time when Services begin to want it.
    pub(crate) wanted_ms: u32,
}

/// A disturbance. One that ends by itself carries its end, so that the two stay together.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Disturbance {
    /// The time.
    pub(crate) when: When,
    /// The kind.
    pub(crate) what: What,
}

/// The time of a disturbance.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum When {
    /// Milliseconds from the start of the run.
    Ms(u32),
    /// A delay after the first step of this kind, in any handover, from `from_ms` on.
    Step {
        /// The step.
        step: Step,
        /// The beginning of the wait.
        from_ms: u32,
        /// The delay; zero means before anything else happens.
        after_us: u32,
    },
}

/// A step of a handover.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum Step {
    /// The giver's entry answers with the taker's MAC.
    Switched,
    /// The giver has sent the offer.
    Offering,
    /// The API server has stored the offer.
    Offered,
    /// The taker is about to see the offer.
    Seen,
    /// The taker has sent its acceptance.
    Accepting,
    /// The API server has stored the acceptance.
    Accepted,
    /// The taker answers.
    Taken,
    /// The taker's announcement is on the wire.
    Announced,
    /// The giver is about to receive the announcement.
    Received,
    /// The giver stops answering.
    LetGo,
}

/// All steps, in order.
pub(crate) const STEPS: [Step; 10] = [
    Step::Switched,
    Step::Offering,
    Step::Offered,
    Step::Seen,
    Step::Accepting,
    Step::Accepted,
    Step::Taken,
    Step::Announced,
    Step::Received,
    Step::LetGo,
];
