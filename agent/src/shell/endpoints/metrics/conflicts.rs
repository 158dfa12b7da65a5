//! Metrics of conflicts, from the lines about them.

use prometheus_client::{
    metrics::{counter::Counter, gauge::Gauge},
    registry::Registry,
};

use vipward_core::segment::conflict::{Conflict, Line};

#[cfg(test)]
mod tests;

/// The open conflicts, and the number of all.
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
            "Current conflicts: an unknown host claims a VIP, its address is in use, or a peer answers too",
            self.active.clone(),
        );
        registry.register(
            "conflict_offenders",
            "MACs in the current conflicts, at most 16 in each",
            self.offenders.clone(),
        );
        registry.register("conflicts", "Conflicts that have begun", self.total.clone());
    }

    /// Counts a line about a conflict. `open` are the conflicts that are open now.
    pub fn on_line<'a>(&self, line: &Line, open: impl Iterator<Item = &'a Conflict>) {
        if matches!(line, Line::Began { .. } | Line::Doubled { conflict: Conflict { doubled: true, .. } }) {
            self.total.inc();
        }
        let (active, offenders) = open
            .fold((0, 0), |(active, offenders), conflict| (active + 1, offenders + conflict.offenders.len()));
        self.active.set(gauge(active));
        self.offenders.set(gauge(offenders));
    }
}

fn gauge(count: usize) -> i64 {
    count.try_into().unwrap_or(i64::MAX)
}
