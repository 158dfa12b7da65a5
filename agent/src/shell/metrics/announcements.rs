//! Announcements by result.

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family},
    registry::Registry,
};

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct Labels {
    result: &'static str,
}

/// Rounds of announcements: a round is a request and a reply.
#[derive(Clone, Debug)]
pub struct AnnouncementMetrics {
    rounds: Family<Labels, Counter>,
}

const SENT: Labels = Labels { result: "sent" };
const FAILED: Labels = Labels { result: "failed" };
const STOPPED: Labels = Labels { result: "stopped" };

impl Default for AnnouncementMetrics {
    fn default() -> Self {
        let rounds = Family::<Labels, Counter>::default();
        for labels in [SENT, FAILED, STOPPED] {
            drop(rounds.get_or_create(&labels));
        }
        Self { rounds }
    }
}

impl AnnouncementMetrics {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register(
            "announcements",
            "Rounds of announcements: sent, failed, or stopped because the VIP was not held or the fence not valid",
            self.rounds.clone(),
        );
    }

    /// Counts a round that was sent.
    pub fn sent(&self) {
        self.rounds.get_or_create(&SENT).inc();
    }

    /// Counts a round that the kernel refused.
    pub fn failed(&self) {
        self.rounds.get_or_create(&FAILED).inc();
    }

    /// Counts a round that was stopped because this node no longer holds the VIP or the fence has
    /// lapsed.
    pub fn stopped(&self) {
        self.rounds.get_or_create(&STOPPED).inc();
    }
}
