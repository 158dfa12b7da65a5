//! The statuses of pools.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use serde_json::{Value, json};
use tokio::{sync::mpsc, task::JoinSet};
use tracing::{debug, info, warn};
use vipward_core::{
    base::legible,
    pools::{Allocator, Counts, Family, Pool, PoolFault, PoolState},
    records::PoolKind,
};

use crate::shell::{
    kube::{
        kinds::{
            condition::{Condition, Truth},
            metallb, text,
            vip_pool::{FamilyCounts, VIPPool, VipPoolStatus},
        },
        link::{
            call::{Call, Collection},
            connect::ConnectError,
            http::Connections,
        },
        reading::shared::Kube,
    },
    logging::errors::chain,
};

#[cfg(test)]
mod tests;

/// The status of a pool, as its kind has it.
#[derive(Clone, PartialEq, Debug)]
enum Status {
    Own(VipPoolStatus),
    MetalLb(Value),
}

/// A writer of the pools' statuses that runs until it is dropped.
pub struct PoolStatuses {
    /// What each pool shows, or is about to.
    shown: BTreeMap<Arc<str>, Status>,
    jobs: mpsc::UnboundedSender<(Arc<str>, Status)>,
    failed: mpsc::UnboundedReceiver<Arc<str>>,
    _tasks: JoinSet<()>,
}

impl PoolStatuses {
    /// Starts a task; needs a tokio runtime.
    pub fn start(kube: &Kube) -> Result<Self, ConnectError> {
        let (jobs, mut waiting) = mpsc::unbounded_channel::<(Arc<str>, Status)>();
        let (failures, failed) = mpsc::unbounded_channel();
        let connections = Connections::open(&kube.server)?;
        let limit = kube.server.limits().request();
        let metallb = Arc::clone(&kube.metallb);
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            // The kinds of pools whose statuses may not be written.
            let mut refused = BTreeSet::new();
            while let Some(first) = waiting.recv().await {
                // Of what has waited, each pool's newest status is written.
                let mut newest = BTreeMap::from([first]);
                while let Ok((pool, status)) = waiting.try_recv() {
                    newest.insert(pool, status);
                }
                for (pool, status) in newest {
                    let kind = PoolKind::of(&pool).0.name();
                    let result = connections.send(call(&pool, &status, &metallb), limit).await;
                    let error = match result {
                        Ok(_) => {
                            if refused.remove(kind) {
                                info!(kind, "the pools' statuses are written again");
                            }
                            continue;
                        }
                        // The pool is gone, or its type has no status.
                        Err(error) if error.is_status(404) => continue,
                        Err(error) => error,
                    };
                    let problem = chain(&error);
                    if error.is_status(403) && refused.insert(kind) {
                        warn!(kind, problem, "the pools' statuses are not written; trying again");
                    } else {
                        debug!(%pool, problem, "the pool's status is not written; trying again");
                    }
                    if failures.send(pool).is_err() {
                        return;
                    }
                }
            }
        });
        Ok(Self { shown: BTreeMap::new(), jobs, failed, _tasks: tasks })
    }

    /// Shows what has changed since the last time.
    pub fn show(&mut self, allocator: &Allocator) {
        while let Ok(pool) = self.failed.try_recv() {
            self.shown.remove(&pool);
        }
        let mut left = std::mem::take(&mut self.shown);
        for (pool, state) in allocator.pools() {
            let name = Arc::clone(&pool.record.name);
            let mut status = match PoolKind::of(&name).0 {
                PoolKind::VipPool => Status::Own(status(pool, &state, allocator.faults(&name))),
                PoolKind::IpAddressPool => Status::MetalLb(metallb::status(&state)),
            };
            let shown = match left.remove(&name) {
                Some(shown) if says_the_same(&shown, &status) => shown,
                before => {
                    keep_times(&mut status, before.as_ref());
                    // The task ends only when this value is dropped.
                    let _ = self.jobs.send((Arc::clone(&name), status.clone()));
                    status
                }
            };
            self.shown.insert(name, shown);
        }
    }
}

const READY: &str = "Ready";

/// Returns what is to be shown of a pool.
fn status(pool: &Pool, state: &PoolState, faults: &[PoolFault]) -> VipPoolStatus {
    let counts = |counts: &Counts| FamilyCounts {
        total: counts.total.to_string(),
        allocated: counts.allocated.to_string(),
        kept: counts.kept.to_string(),
        available: counts.available().to_string(),
    };
    let each = |of: &dyn Fn(&Counts) -> String| {
        let is_only_one = state.counts.len() == 1;
        let one = |(family, counts): (&Family, &Counts)| match of(counts) {
            text if is_only_one => text,
            text => format!("{} {text}", family.name()),
        };
        state.counts.iter().map(one).collect::<Vec<_>>().join(", ")
    };
    let (status, reason, message) = condition(state, faults);
    VipPoolStatus {
        addresses: pool.record.addresses.iter().map(|text| text.trim()).collect::<Vec<_>>().join(", "),
        used: each(&|counts| format!("{}/{}", counts.allocated + counts.kept, counts.total)),
        free: each(&|counts| counts.available().to_string()),
        families: state.counts.iter().map(|(family, of)| (family.name().to_owned(), counts(of))).collect(),
        observed_generation: pool.record.generation,
        conditions: vec![Condition {
            kind: READY.to_owned(),
            status,
            reason: reason.to_owned(),
            message: legible::message(&message),
            last_transition_time: text::time(text::wall_clock()),
            observed_generation: pool.record.generation,
        }],
    }
}

fn condition(state: &PoolState, faults: &[PoolFault]) -> (Truth, &'static str, String) {
    match state.problem(faults) {
        None => (Truth::True, "AllUsable", String::new()),
        Some(message) if state.overlap.is_some() => (Truth::False, "Overlaps", message),
        Some(message) if state.unreached.is_some() => (Truth::False, "NoSegment", message),
        Some(message) => (Truth::False, "Malformed", message),
    }
}

/// Keeps the time of a condition that is as it was.
fn keep_times(status: &mut Status, before: Option<&Status>) {
    let (Status::Own(status), Some(Status::Own(before))) = (status, before) else { return };
    for condition in &mut status.conditions {
        let mut before = before.conditions.iter();
        let same = before.find(|it| it.kind == condition.kind && it.status == condition.status);
        if let Some(same) = same {
            condition.last_transition_time.clone_from(&same.last_transition_time);
        }
    }
}

/// Returns true if both are equal except for the times of their changes.
fn says_the_same(one: &Status, other: &Status) -> bool {
    let timeless = |status: &Status| {
        let mut status = status.clone();
        if let Status::Own(status) = &mut status {
            status.conditions.iter_mut().for_each(|condition| condition.last_transition_time.clear());
        }
        status
    };
    timeless(one) == timeless(other)
}

/// Returns the request that shows a status. Absent fields are removed.
fn call(pool: &str, status: &Status, metallb: &str) -> Call {
    let mut status = match status {
        Status::Own(status) => json!(status),
        Status::MetalLb(status) => return metallb::status_call(metallb, PoolKind::of(pool).1, status),
    };
    for family in [Family::V4, Family::V6] {
        if status["families"][family.name()].is_null() {
            status["families"][family.name()] = Value::Null;
        }
    }
    Collection::of::<VIPPool>(None).merge_status(pool, &json!({"status": status}))
}
