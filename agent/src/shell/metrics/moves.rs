//! VIPs that came to this node: why, how long that took, and how long nobody may have answered.

use std::time::Duration;

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, histogram::Histogram},
    registry::{Registry, Unit},
};

/// From a write beside an idle API server to one that waits behind thousands.
const TAKING: [f64; 12] = [0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];
/// Around the failover time, which is the lease duration and a little more.
const GAPS: [f64; 12] = [0.25, 0.5, 1.0, 2.0, 3.0, 4.0, 5.0, 7.5, 10.0, 15.0, 30.0, 60.0];

/// Why a VIP came to this node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MoveCause {
    /// Nobody has had it before.
    New,
    /// Another node had it, and that node's session was ended.
    Failover,
    /// Another node had it, and handed it over.
    Handover,
    /// Nobody had it, or this node in an earlier session.
    Unheld,
    /// It was this node's already: an offer that nobody took, or a claim that was edited.
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

    /// This node has become a VIP's holder.
    pub fn moved(&self, cause: MoveCause) {
        self.moves.get_or_create(&cause.labels()).inc();
    }

    /// It has announced the VIP for the first time since.
    pub fn announced(&self, took: Duration, gap: Option<Duration>) {
        self.taking.observe(took.as_secs_f64());
        if let Some(gap) = gap {
            self.gaps.observe(gap.as_secs_f64());
        }
    }

    /// How many moves there were for a cause.
    #[cfg(test)]
    pub(crate) fn count(&self, cause: MoveCause) -> u64 {
        self.moves.get_or_create(&cause.labels()).get()
    }
}
