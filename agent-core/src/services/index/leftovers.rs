//! The Services with statuses of other field managers.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    ops::RangeInclusive,
};

use super::super::{ServiceRecord, StatusOwner};
use crate::records::ServiceName;

/// The Services with another manager's addresses in their statuses, by address.
#[derive(Debug, Default)]
pub(super) struct Leftovers {
    services: BTreeMap<IpAddr, BTreeSet<ServiceName>>,
    /// True if segments were known when the statuses were evaluated last.
    knew_segments: bool,
}

impl Leftovers {
    pub(super) fn put(&mut self, record: &ServiceRecord) {
        if matches!(record.status_owner(), StatusOwner::Other(_)) {
            for ip in record.ingress.iter().filter_map(|ingress| ingress.ip) {
                self.services.entry(ip).or_default().insert(record.name.clone());
            }
        }
    }

    pub(super) fn remove(&mut self, record: &ServiceRecord) {
        for ip in record.ingress.iter().filter_map(|ingress| ingress.ip) {
            if let Some(services) = self.services.get_mut(&ip) {
                services.remove(&record.name);
                if services.is_empty() {
                    self.services.remove(&ip);
                }
            }
        }
    }

    /// Returns the Services with an address of a range.
    pub(super) fn within(&self, range: RangeInclusive<IpAddr>) -> impl Iterator<Item = &ServiceName> {
        self.services.range(range).flat_map(|(_, services)| services)
    }

    /// Returns all of them, if it has become known that there are segments, or that there are none.
    pub(super) fn of_segments(&mut self, knows_segments: bool) -> impl Iterator<Item = &ServiceName> {
        let is_new = std::mem::replace(&mut self.knew_segments, knows_segments) != knows_segments;
        is_new.then(|| self.services.values().flatten()).into_iter().flatten()
    }
}
