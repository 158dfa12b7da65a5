//! Announcements by result, and by VIP.

use std::{
    collections::BTreeMap,
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

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
    /// The rounds that were sent, by VIP.
    sent: Arc<Mutex<BTreeMap<IpAddr, u64>>>,
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
        Self { rounds, sent: Arc::default() }
    }
}

impl AnnouncementMetrics {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register(
            "announcements",
            "Rounds of announcements: sent, failed, or stopped because the VIP had left or the lease deadline \
             had passed",
            self.rounds.clone(),
        );
    }

    pub fn sent(&self, vip: IpAddr) {
        self.rounds.get_or_create(&SENT).inc();
        *self.by_vip().entry(vip).or_default() += 1;
    }

    /// Returns the number of rounds that were sent for each of these VIPs. Those of others are
    /// forgotten.
    pub fn of_each<'a>(&self, vips: impl Iterator<Item = &'a IpAddr>) -> BTreeMap<IpAddr, u64> {
        let mut sent = self.by_vip();
        *sent = vips.map(|vip| (*vip, sent.get(vip).copied().unwrap_or_default())).collect();
        sent.clone()
    }

    fn by_vip(&self) -> MutexGuard<'_, BTreeMap<IpAddr, u64>> {
        self.sent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a round that the kernel refused.
    pub fn failed(&self) {
        self.rounds.get_or_create(&FAILED).inc();
    }

    /// Counts a round that was stopped because this node no longer holds the VIP or the lease deadline
    /// has passed.
    pub fn stopped(&self) {
        self.rounds.get_or_create(&STOPPED).inc();
    }
}
