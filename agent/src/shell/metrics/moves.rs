//! VIPs that moved to this node: the causes, the durations, and the gaps in answering.

use std::time::Duration;

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, histogram::Histogram},
    registry::{Registry, Unit},
};

/// Limits of the buckets, in seconds: from a write to an idle API
/// server to one that waits behind thousands.
const TAKING: [f64; 12] = [0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];
/// Limits of the buckets, in seconds: around the failover time, which
/// is a little more than the lease duration.
const GAPS: [f64; 12] = [0.25, 0.5, 1.0, 2.0, 3.0, 4.0, 5.0, 7.5, 10.0, 15.0, 30.0, 60.0];

/// The cause of a move to this node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MoveCause {
    /// No node held it before.
    New,
    /// Another node held it, and that node's session was ended.
    Failover,
    /// Another node held it and handed it over.
    Handover,
    /// No node held it, or this node did in an earlier session.
    Unheld,
    /// This node held it already: an offer was not taken, or a claim was edited.
    TakenBack,
}

impl MoveCause {
    const ALL: [Self; 5] = [Self::New, Self::Failover, Self::Handover, Self::Unheld, Self::TakenBack];

    fn labels(self) -> Labels {
        let cause = match self {
            Self::New => "new",
            Self::Failover => "failover",
            Self::Handover => "handover",
            Self::Unheld => "unheld",
            Self::TakenBack => "taken_back",
        };
        Labels { cause }
    }
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct Labels {
    cause: &'static str,
}

/// Moves to this node.
#[derive(Clone, Debug)]
pub struct MoveMetrics {
    moves: Family<Labels, Counter>,
    taking: Histogram,
    gaps: Histogram,
}

impl Default for MoveMetrics {
    fn default() -> Self {
        let moves = Family::<Labels, Counter>::default();
        for cause in MoveCause::ALL {
            drop(moves.get_or_create(&cause.labels()));
        }
        Self { moves, taking: Histogram::new(TAKING), gaps: Histogram::new(GAPS) }
    }
}

impl MoveMetrics {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register(
            "moves",
            "VIPs that this node has become the holder of, by cause",
            self.moves.clone(),
        );
        registry.register_with_unit(
            "takeover_duration",
            "Time from asking the API server for a VIP to its first announcement",
            Unit::Seconds,
            self.taking.clone(),
        );
        registry.register_with_unit(
            "takeover_gap",
            "Time from the last renewal that was seen of a dead holder to the first announcement here",
            Unit::Seconds,
            self.gaps.clone(),
        );
    }

    /// Counts a VIP that this node has begun to hold.
    pub fn moved(&self, cause: MoveCause) {
        self.moves.get_or_create(&cause.labels()).inc();
    }

    /// Records the durations of a move, at the first announcement after it.
    pub fn announced(&self, took: Duration, gap: Option<Duration>) {
        self.taking.observe(took.as_secs_f64());
        if let Some(gap) = gap {
            self.gaps.observe(gap.as_secs_f64());
        }
    }

    /// Returns the number of moves with a cause.
    #[cfg(test)]
    pub(crate) fn count(&self, cause: MoveCause) -> u64 {
        self.moves.get_or_create(&cause.labels()).get()
    }
}
