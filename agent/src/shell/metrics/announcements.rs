//! Announcements that left, and those that did not.

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
            "Rounds of announcements: sent, failed, or stopped since the VIP was not ours or the fence not valid",
            self.rounds.clone(),
        );
    }

    /// Both forms have left.
    pub fn sent(&self) {
        self.rounds.get_or_create(&SENT).inc();
    }

    /// The kernel did not take it.
    pub fn failed(&self) {
        self.rounds.get_or_create(&FAILED).inc();
    }

    /// It was found not to be ours to announce any more.
    pub fn stopped(&self) {
        self.rounds.get_or_create(&STOPPED).inc();
    }
}
