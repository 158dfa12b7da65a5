//! Whether the statuses of Services bind.

use std::net::IpAddr;

use super::{
    super::{
        Ingress, IpMode, Problem, Refusal, ServiceRecord, Settings,
        addresses::{Verdict, judge},
        statuses::{Standing, Why, standing},
    },
    Index, ServiceEntry,
};
use crate::{
    pools::Lack,
    records::{ServiceName, Version},
};

impl Index {
    pub(super) fn standing(&self, entry: &ServiceEntry) -> Standing {
        self.standing_of(&entry.record, entry)
    }

    /// Returns the standing of a status that an entry is about to get.
    pub(super) fn standing_of(&self, record: &ServiceRecord, entry: &ServiceEntry) -> Standing {
        let is_usable = |ingress: &Ingress| self.is_usable(record, ingress);
        standing(record, entry.reading.asked_at(), is_usable, &self.settings)
    }

    /// Returns what the pools do not give a Service. One that does well with what is left over lacks
    /// nothing, unless it names a pool.
    pub(super) fn lacks<'a>(&self, entry: &'a ServiceEntry) -> &'a [Lack] {
        let is_usable = |ingress| self.is_usable(&entry.record, ingress);
        match self.standing(entry) {
            Standing::Left(Why::Class | Why::Person) if entry.record.ingress.iter().any(is_usable) => &[],
            // Its writer may be the one that serves it, where no pool does.
            Standing::Left(Why::Unusable) if entry.given.lacks.iter().all(Lack::may_be_anothers) => &[],
            Standing::Own | Standing::Bound | Standing::Left(_) => &entry.given.lacks,
        }
    }

    /// Returns true if traffic for an entry of a status may get to a node or to another load balancer.
    ///
    /// Agents and the controller must decide alike. So nothing counts that only some of them know, or
    /// that one node's Lease alone states.
    fn is_usable(&self, record: &ServiceRecord, Ingress { ip, mode }: &Ingress) -> bool {
        let Some(ip) = *ip else { return true };
        let was_held =
            self.claims.get(&ip).is_some_and(|summary| summary.was_held) || self.held.get(&ip) == Some(&true);
        if was_held || !self.reserved.has_segments() {
            return true;
        }
        let needed = self.reserved.others(ip).into_iter().filter(Refusal::is_of_the_cluster).collect();
        if let Verdict::Refused(_) = judge(ip, &Settings::default(), needed, |_| false) {
            return false;
        }
        let may_be_elsewhere = record.annotations.interface.is_some()
            || record.has_cloud_balancer
            || self.policies.of(ip, &[&record.labels]).is_some();
        *mode == IpMode::Proxy
            || may_be_elsewhere
            || !self.reserved.is_elsewhere(ip, &self.settings, was_held)
    }

    /// Returns the problem of a status that Vipward would replace, if its writer has already replaced
    /// Vipward's.
    pub(super) fn insistence(&self, entry: &ServiceEntry, wanted: &[IpAddr]) -> Option<Problem> {
        if !self.is_insisted_on(entry) {
            return None;
        }
        entry.reading.other_manager(&entry.record, wanted, &self.settings)
    }

    /// Returns true if the writer of a status has already replaced Vipward's: then it lives.
    pub(super) fn is_insisted_on(&self, entry: &ServiceEntry) -> bool {
        match self.standing(entry) {
            Standing::Own | Standing::Bound | Standing::Left(Why::Person) => false,
            Standing::Left(Why::Class | Why::Named | Why::Unusable) => {
                entry.rivals.contains(&entry.record.status_manager)
            }
        }
    }

    /// Returns the version of a Service whose status another manager has written, if that status is
    /// to be overwritten.
    pub fn overwrites(&self, service: &ServiceName) -> Option<Version> {
        let entry = self.entries.get(service)?;
        let is_left = matches!(self.standing(entry), Standing::Left(_));
        (is_left || entry.record.status_from_metallb).then(|| entry.record.version.clone())
    }
}
