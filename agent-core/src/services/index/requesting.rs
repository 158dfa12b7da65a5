//! The Services' requests to the pools, what they are given, and what the pools must know of
//! addresses.

use std::{collections::BTreeSet, net::IpAddr};

use super::{
    super::{
        Annotations, ServiceRecord,
        addresses::{Verdict, judge},
        reading::named_pool,
        statuses::Standing,
    },
    Index, ServiceEntry,
};
use crate::{
    pools::{Family, Given, Limits, Request, ShareKey, Surroundings},
    records::{Reach, ServiceName},
};

impl Surroundings for Index {
    fn refuses(&self, vip: IpAddr) -> bool {
        let was_held = self.vips.get(&vip).is_some_and(|known| known.was_held)
            || self.claims.get(&vip).is_some_and(|summary| summary.was_held);
        self.is_needed(vip) || self.reserved.is_elsewhere(vip, &self.settings, was_held)
    }

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
        let standing = self.standing(entry);
        let status = match standing {
            Standing::Own | Standing::Left(_) => record.ingress.iter().filter_map(|it| it.ip).collect(),
            Standing::Bound => Vec::new(),
        };
        let (addresses, refused): (Vec<_>, Vec<_>) =
            entry.reading.asked().iter().partition(|vip| record.has_family(**vip));
        Some(Box::new(Request {
            labels: record.labels.clone(),
            created: record.created,
            families: record.families.clone(),
            needs_all: record.family_policy.needs_all,
            pool: named_pool(record, self.settings.metallb),
            keys: share_keys(&record.annotations, self.settings.metallb),
            ports: record.ports.as_slice().into(),
            is_local: record.local,
            awaits_endpoints: record.local
                && record.families.iter().any(|family| self.reach_of(record, *family) == Reach::Unknown),
            limits: self.limits_of(entry),
            // One Service must not take whole pools.
            addresses: addresses.into_iter().take(self.settings.most_addresses).collect(),
            names_refused: !refused.is_empty(),
            status,
            is_left: matches!(standing, Standing::Left(_)),
            is_elsewhere: standing == Standing::Bound,
        }))
    }

    fn reach_of(&self, record: &ServiceRecord, family: Family) -> Reach {
        self.endpoints.reach(record, family.first(), false)
    }

    /// Returns the nodes and interfaces that a Service's VIPs may be on, unless these are all.
    fn limits_of(&self, entry: &ServiceEntry) -> Option<Box<Limits>> {
        let record = &entry.record;
        let endpoints = record.families.iter().filter(|_| record.local).filter_map(|family| {
            match self.reach_of(record, *family) {
                // The Pods may come later than their Service.
                Reach::On(local) if !local.nodes().is_empty() => Some((*family, local.nodes().clone())),
                Reach::On(_) | Reach::Anywhere | Reach::Unknown => None,
            }
        });
        let own = entry.reading.limits();
        let limits = Limits {
            nodes: own.nodes.clone(),
            interfaces: own.interfaces.clone().unwrap_or_default(),
            endpoints: endpoints.collect(),
        };
        (limits != Limits::default()).then(|| Box::new(limits))
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

/// Returns a Service's keys for sharing.
pub(crate) fn share_keys(annotations: &Annotations, metallb: bool) -> Vec<ShareKey> {
    let text = |key: &Option<Box<str>>| {
        let key = key.as_deref().map(str::trim).filter(|key| !key.is_empty());
        key.map(Box::from)
    };
    let own = text(&annotations.share).map(ShareKey::Own);
    own.into_iter()
        .chain(text(&annotations.metallb_share).filter(|_| metallb).map(ShareKey::Metallb))
        .collect()
}
