//! The Services' requests to the pools, what they are given, and what the pools must know of
//! addresses.

use std::{collections::BTreeSet, net::IpAddr, sync::Arc};

use super::{
    super::{
        Annotations, StatusOwner,
        addresses::{Verdict, judge},
    },
    Index, ServiceEntry,
};
use crate::{
    pools::{Given, Request, Surroundings},
    records::{PoolKind, ServiceName},
};

impl Surroundings for Index {
    fn refuses(&self, vip: IpAddr) -> bool {
        let was_held = self.vips.get(&vip).is_some_and(|known| known.was_held)
            || self.claims.get(&vip).is_some_and(|summary| summary.was_held);
        self.is_needed(vip) || self.reserved.is_elsewhere(vip, &self.settings, was_held)
    }

    // An address of a pool outside of every segment is given all the same: that is the pool's fault.
    fn is_free(&self, vip: IpAddr) -> bool {
        !self.vips.contains_key(&vip) && !self.is_needed(vip)
    }
}

impl Index {
    fn is_needed(&self, vip: IpAddr) -> bool {
        let verdict = judge(vip, &self.settings, self.reserved.others(vip), |_| false);
        matches!(verdict, Verdict::Refused(_))
    }

    pub fn has_in_status(&self, service: &ServiceName, vip: IpAddr) -> bool {
        self.record(service).is_some_and(|record| record.has_in_status(vip))
    }

    /// Returns the addresses that Services name, in their statuses too.
    pub(crate) fn named(&self) -> BTreeSet<IpAddr> {
        let named = |entry: &ServiceEntry| {
            let status = entry.record.ingress.iter().filter_map(|ingress| ingress.ip);
            let others = entry.reading.asked().iter().chain(&entry.record.external_ips).copied();
            status.chain(others).collect::<Vec<_>>()
        };
        self.entries.values().flat_map(|entry| named(entry)).collect()
    }

    /// Parses a Service, and returns its request to the pools. None if it is not served, or gone.
    pub(crate) fn request(&mut self, name: &ServiceName) -> Option<Box<Request>> {
        self.read(name)?;
        let entry = self.entries.get(name).filter(|entry| entry.selection.is_ok())?;
        let record = &entry.record;
        let (status, is_elsewhere) = match record.status_owner() {
            StatusOwner::Nobody => (Vec::new(), false),
            StatusOwner::Vipward => (record.ingress.iter().filter_map(|ingress| ingress.ip).collect(), false),
            StatusOwner::Other(_) => (Vec::new(), true),
        };
        Some(Box::new(Request {
            labels: record.labels.clone(),
            families: record.families.clone(),
            needs_all: record.needs_all_families,
            pool: named_pool(&record.annotations, self.settings.metallb),
            share: record.annotations.metallb_share.clone().filter(|_| self.settings.metallb),
            // One Service must not take whole pools.
            addresses: entry.reading.asked().iter().copied().take(self.settings.most_addresses).collect(),
            status,
            is_elsewhere,
        }))
    }

    /// Records the addresses that a Service is given. Touches the Service if they are others.
    pub(crate) fn give(&mut self, service: &ServiceName, given: Given) {
        if let Some(entry) = self.entries.get_mut(service)
            && entry.given != given
        {
            entry.given = given;
            self.touched.services.insert(service.clone());
        }
    }

    pub(crate) fn touch(&mut self, services: impl IntoIterator<Item = ServiceName>, vip: IpAddr) {
        let wanting = self.vips.get(&vip).into_iter().flat_map(|known| &known.services);
        self.touched.services.extend(services.into_iter().chain(wanting.map(|(service, _)| service.clone())));
    }
}

/// Returns the name, among all pools, of the pool that a Service names. Instead of `MetalLB`, its
/// annotation names an `IPAddressPool`, and else a `VIPPool`.
pub(super) fn named_pool(annotations: &Annotations, metallb: bool) -> Option<Arc<str>> {
    let theirs = if metallb { PoolKind::IpAddressPool } else { PoolKind::VipPool };
    let named = [(PoolKind::VipPool, &annotations.pool), (theirs, &annotations.metallb_pool)];
    named.into_iter().find_map(|(kind, pool)| {
        let name = pool.as_deref().map(str::trim).filter(|pool| !pool.is_empty())?;
        Some(kind.key(name))
    })
}
