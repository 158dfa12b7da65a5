//! Conflicts, from what is told about them.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, PoisonError},
};

use prometheus_client::{
    metrics::{counter::Counter, gauge::Gauge},
    registry::Registry,
};
use vipward_common::{MacAddr, VipKey};

use crate::core::conflict::{Conflict, Line};

#[cfg(test)]
mod tests;

type Active = BTreeMap<VipKey, BTreeSet<MacAddr>>;

/// The conflicts that go on, and how many there were.
#[derive(Clone, Debug, Default)]
pub struct ConflictMetrics {
    active: Gauge,
    offenders: Gauge,
    total: Counter,
    cases: Arc<Mutex<Active>>,
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

    /// Takes note of what is told about a conflict.
    pub fn on_line(&self, line: &Line) {
        let mut cases = self.cases.lock().unwrap_or_else(PoisonError::into_inner);
        match line {
            Line::Began { conflict, sight: _ } => {
                self.total.inc();
                cases.insert(conflict.key, macs(conflict));
            }
            Line::NewOffender { conflict, mac: _ } | Line::GoesOn { conflict, times: _ } => {
                cases.insert(conflict.key, macs(conflict));
            }
            Line::Ended { conflict, why: _ } => drop(cases.remove(&conflict.key)),
            Line::TooMany { .. } => {}
        }
        self.active.set(cases.len().try_into().unwrap_or(i64::MAX));
        let offenders: usize = cases.values().map(BTreeSet::len).sum();
        self.offenders.set(offenders.try_into().unwrap_or(i64::MAX));
    }
}

fn macs(conflict: &Conflict) -> BTreeSet<MacAddr> {
    conflict.offenders.iter().map(|offender| offender.mac).collect()
}
