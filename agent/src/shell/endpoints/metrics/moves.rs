//! VIPs that moved to this node: the causes, the durations, and the gaps in answering.

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, histogram::Histogram},
    registry::{Registry, Unit},
};
use vipward_core::reports::moves::{Cause, Took};

/// Limits of the buckets, in seconds: from a write to an idle API
/// server to one that waits behind thousands.
const TAKING: [f64; 12] = [0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];
/// Limits of the buckets, in seconds: around the failover time, which
/// is a little more than the lease duration.
const GAPS: [f64; 12] = [0.25, 0.5, 1.0, 2.0, 3.0, 4.0, 5.0, 7.5, 10.0, 15.0, 30.0, 60.0];

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct Labels {
    cause: &'static str,
}

impl From<Cause> for Labels {
    fn from(cause: Cause) -> Self {
        Self { cause: cause.name() }
    }
}

#[derive(Clone, Debug)]
pub struct MoveMetrics {
    moves: Family<Labels, Counter>,
    taking: Histogram,
    gaps: Histogram,
}

impl Default for MoveMetrics {
    fn default() -> Self {
        let moves = Family::<Labels, Counter>::default();
        for cause in Cause::ALL {
            drop(moves.get_or_create(&cause.into()));
        }
        Self { moves, taking: Histogram::new(TAKING), gaps: Histogram::new(GAPS) }
    }
}

impl MoveMetrics {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register("moves", "VIPs that came to this node, by cause", self.moves.clone());
        registry.register_with_unit(
            "takeover_duration",
            "Time from the request for a VIP at the API server to its first announcement",
            Unit::Seconds,
            self.taking.clone(),
        );
        registry.register_with_unit(
            "takeover_gap",
            "After a failover: from the dead holder's last renewal, as seen here, to the first announcement; an \
             upper bound",
            Unit::Seconds,
            self.gaps.clone(),
        );
    }

    /// Counts a VIP that this node has begun to hold.
    pub fn moved(&self, cause: Cause) {
        self.moves.get_or_create(&cause.into()).inc();
    }

    /// Records the durations of a move, at the first announcement after it.
    pub fn announced(&self, took: Took) {
        self.taking.observe(took.since_write.as_secs_f64());
        if let Some(gap) = took.gap {
            self.gaps.observe(gap.as_secs_f64());
        }
    }
}
