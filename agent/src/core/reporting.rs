//! Which node tells people about a Service's problem, so that one Event is written and not one a node.
//!
//! Pure, with the time passed in. All nodes see a problem at about the same time. The one to tell it is the holder of one
//! of the Service's VIPs, or, where there is none, the first by name of the nodes that are alive: all come to the same,
//! and need not ask each other. What only a node's own network shows, that node tells; others that see the same say it in
//! the same words, and so in the same Event.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use super::{
    cluster::{NodeName, ServiceName},
    services::{Problem, SeenBy},
    time::Monotonic,
};

#[cfg(test)]
mod tests;

/// A problem is told when it has stood for so long: a new Service has a holder by then, and what was only passing is
/// over.
const SETTLED: Duration = Duration::from_secs(1);
/// One that could be told for so long has been told, by whichever node was to. Until then the node that takes that over
/// tells it: the other one may have died before it did.
const FRESH: Duration = Duration::from_mins(1);
/// How often it is looked whether another node is to tell.
const LOOK: Duration = Duration::from_secs(1);

#[derive(Debug)]
struct Untold {
    problem: Problem,
    /// When it has stood for long enough.
    settled: Monotonic,
    /// Until when it is another node's to tell.
    fresh_until: Monotonic,
}

/// The problems that this node may have to tell yet.
#[derive(Debug, Default)]
pub struct Reporting {
    untold: BTreeMap<ServiceName, Vec<Untold>>,
    next: Option<Monotonic>,
}

impl Reporting {
    /// A Service has a problem.
    pub fn begin(&mut self, service: ServiceName, problem: Problem, now: Monotonic) {
        let settled = now + SETTLED;
        self.untold.entry(service).or_default().push(Untold { problem, settled, fresh_until: now + FRESH });
        self.next = Some(self.next.map_or(settled, |next| next.min(settled)));
    }

    /// It has it no longer.
    pub fn end(&mut self, service: &ServiceName, problem: &Problem) {
        let Some(untold) = self.untold.get_mut(service) else { return };
        untold.retain(|untold| untold.problem != *problem);
        if untold.is_empty() {
            self.untold.remove(service);
        }
        if self.untold.is_empty() {
            self.next = None;
        }
    }

    /// Tells what this node is to tell now. `is_ours` says whether it is the one to tell a problem; nothing, while nobody
    /// knows. `tell` says whether there was room for it: if not, it and what comes after it waits for the next time.
    pub fn due(
        &mut self,
        is_ours: impl Fn(&ServiceName, &Problem) -> Option<bool>,
        mut tell: impl FnMut(&ServiceName, &Problem) -> bool,
        now: Monotonic,
    ) {
        if self.next.is_none_or(|next| now < next) {
            return;
        }
        let mut is_full = false;
        self.untold.retain(|service, untold| {
            untold.retain_mut(|Untold { problem, settled, fresh_until }| {
                if now < *settled {
                    return true;
                }
                // Whose they are is not asked of all that wait behind one.
                let ours = if is_full { None } else { is_ours(service, problem) };
                match ours {
                    Some(true) if tell(service, problem) => return false,
                    Some(true) => is_full = true,
                    Some(false) => return now < *fresh_until,
                    None => {}
                }
                *fresh_until = now + FRESH;
                true
            });
            !untold.is_empty()
        });
        self.next = (!self.untold.is_empty()).then_some(now + LOOK);
    }

    /// When [`Reporting::due`] is to be asked.
    pub fn next_deadline(&self) -> Option<Monotonic> {
        self.next
    }
}

/// Whether `us` is to tell a problem; none while it is not known who is `alive`. `claimed_by` are the nodes that the
/// claims on the Service's VIPs name.
pub fn is_teller<'a>(
    us: &NodeName,
    problem: &'a Problem,
    claimed_by: impl IntoIterator<Item = &'a NodeName>,
    alive: &'a BTreeSet<NodeName>,
) -> Option<bool> {
    let first = alive.first()?;
    let best = match problem.seen_by() {
        SeenBy::This => return Some(true),
        SeenBy::AllBest(node) => Some(node),
        SeenBy::All => None,
    };
    let teller = best.into_iter().chain(claimed_by).find(|node| alive.contains(*node)).unwrap_or(first);
    Some(teller == us)
}
