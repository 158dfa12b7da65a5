//! Renewals of this node's Lease.

use std::time::Duration;

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, histogram::Histogram},
    registry::{Registry, Unit},
};

/// Limits of the buckets, in seconds. A renewal below one heartbeat is in time. The last buckets
/// end at the deadline of a request.
const BUCKETS: [f64; 11] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0];

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct Labels {
    result: &'static str,
}

const OK: Labels = Labels { result: "ok" };
const FAILED: Labels = Labels { result: "failed" };

#[derive(Clone, Debug)]
pub struct LeaseMetrics {
    renewals: Family<Labels, Counter>,
    duration: Histogram,
}

impl Default for LeaseMetrics {
    fn default() -> Self {
        let renewals = Family::<Labels, Counter>::default();
        for labels in [OK, FAILED] {
            drop(renewals.get_or_create(&labels));
        }
        Self { renewals, duration: Histogram::new(BUCKETS) }
    }
}

impl LeaseMetrics {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register("lease_renewals", "Writes of this node's own Lease", self.renewals.clone());
        registry.register_with_unit(
            "lease_renewal_duration",
            "How long a write of this node's own Lease took, with any outcome",
            Unit::Seconds,
            self.duration.clone(),
        );
    }

    /// Counts a finished write of this node's own Lease.
    pub fn renewed(&self, ok: bool, took: Duration) {
        self.renewals.get_or_create(if ok { &OK } else { &FAILED }).inc();
        self.duration.observe(took.as_secs_f64());
    }
}
