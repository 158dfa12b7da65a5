//! Conflicts, from what is told about them.

use prometheus_client::{
    metrics::{counter::Counter, gauge::Gauge},
    registry::Registry,
};

use crate::core::conflict::{Conflict, Line};

#[cfg(test)]
mod tests;

/// The conflicts that go on, and how many there were.
#[derive(Clone, Debug, Default)]
pub struct ConflictMetrics {
    active: Gauge,
    offenders: Gauge,
    total: Counter,
}

impl ConflictMetrics {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register(
            "conflicts_active",
            "Conflicts that go on: VIPs that a stranger claims, or whose address is in use",
            self.active.clone(),
        );
        registry.register(
            "conflict_offenders",
            "MACs that take part in the conflicts that go on, as many as are told apart",
            self.offenders.clone(),
        );
        registry.register("conflicts", "Conflicts that have begun", self.total.clone());
    }

    /// Takes note of what is told about a conflict, and of those that are open now.
    pub fn on_line<'a>(&self, line: &Line, open: impl ExactSizeIterator<Item = &'a Conflict>) {
        if matches!(line, Line::Began { .. }) {
            self.total.inc();
        }
        self.active.set(gauge(open.len()));
        self.offenders.set(gauge(open.map(|conflict| conflict.offenders.len()).sum()));
    }
}

fn gauge(count: usize) -> i64 {
    count.try_into().unwrap_or(i64::MAX)
}
