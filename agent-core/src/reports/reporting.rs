//! Choice of the node that reports a Service's problem: one Event is written, not one per node. It is
//! reported again for as long as the problem lasts, since the API server forgets Events.
//!
//! All nodes see a problem at about the same time. The holder of one of the Service's VIPs reports
//! it. Without a holder, the first living node by name does. All nodes reach the same result
//! without a message. A problem that only a node's own network shows is the exception. Every node
//! that sees it reports it, with the same text and so in the same Event.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use crate::{
    base::time::Monotonic,
    records::{NodeName, ServiceName},
    services::{Problem, SeenBy},
};

#[cfg(test)]
mod tests;

/// Age at which a problem is reported. By then a new Service has a
/// holder, and a passing problem is over.
pub(super) const SETTLED: Duration = Duration::from_secs(1);
/// Age at which a problem counts as reported by the responsible node. Before that, a node that
/// takes over the responsibility reports the problem again at once: the other node may have died first.
const FRESH: Duration = Duration::from_mins(1);
/// The time between two evaluations of which node is responsible.
const LOOK: Duration = Duration::from_secs(1);
/// The time after which a problem that lasts is reported again. The API server forgets an Event an hour
/// after its last write, and another node may be responsible by then, with its own times.
pub const RENEW: Duration = Duration::from_mins(10);

#[derive(Debug)]
struct Standing {
    problem: Problem,
    /// Time of the next report or look.
    next: Monotonic,
    /// End of the time in which another node may not have reported the problem.
    fresh_until: Monotonic,
}

/// Problems that last.
#[derive(Debug, Default)]
pub struct Reporting {
    standing: BTreeMap<ServiceName, Vec<Standing>>,
    next: Option<Monotonic>,
}

impl Reporting {
    pub fn begin(&mut self, service: ServiceName, problem: Problem, now: Monotonic) {
        let next = now + SETTLED;
        let standing = Standing { problem, next, fresh_until: now + FRESH };
        self.standing.entry(service).or_default().push(standing);
        self.next = Some(self.next.map_or(next, |first| first.min(next)));
    }

    pub fn end(&mut self, service: &ServiceName, problem: &Problem) {
        let Some(standing) = self.standing.get_mut(service) else { return };
        standing.retain(|standing| standing.problem != *problem);
        if standing.is_empty() {
            self.standing.remove(service);
        }
        if self.standing.is_empty() {
            self.next = None;
        }
    }

    /// Returns the problems that this node is to report now. `is_responsible` returns true if this
    /// node reports a problem, and none while that is unknown.
    pub fn due(
        &mut self,
        is_responsible: impl Fn(&ServiceName, &Problem) -> Option<bool>,
        now: Monotonic,
    ) -> Vec<(ServiceName, Problem)> {
        let mut due = Vec::new();
        if self.next.is_none_or(|next| now < next) {
            return due;
        }
        for (service, standing) in &mut self.standing {
            for Standing { problem, next, fresh_until } in standing.iter_mut().filter(|of| of.next <= now) {
                let is_responsible = is_responsible(service, problem);
                if is_responsible == Some(true) {
                    due.push((service.clone(), problem.clone()));
                } else if is_responsible.is_none() {
                    *fresh_until = now + FRESH;
                }
                let is_open = is_responsible != Some(true) && now < *fresh_until;
                *next = now + if is_open { LOOK } else { RENEW };
            }
        }
        self.next = self.standing.values().flatten().map(|standing| standing.next).min();
        due
    }

    /// Returns the time of the next [`Reporting::due`].
    pub fn next_deadline(&self) -> Option<Monotonic> {
        self.next
    }
}

/// Returns true if the node `own` is to report a problem. Returns none while the `alive` nodes are
/// unknown. `claimed_by` are the nodes that the claims on the Service's VIPs name.
pub fn is_responsible<'a>(
    has_controller: bool,
    own: &NodeName,
    problem: &'a Problem,
    claimed_by: impl IntoIterator<Item = &'a NodeName>,
    alive: &'a BTreeSet<NodeName>,
) -> Option<bool> {
    // The controller sees what all nodes see.
    if has_controller && problem.seen_by() != SeenBy::This {
        return Some(false);
    }
    let first = alive.first()?;
    let best = match problem.seen_by() {
        SeenBy::This => return Some(true),
        SeenBy::AllBest(node) => Some(node),
        SeenBy::All => None,
    };
    let reporter = best.into_iter().chain(claimed_by).find(|node| alive.contains(*node)).unwrap_or(first);
    Some(reporter == own)
}
