//! The Services that share addresses, by the keys that they have.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::Arc,
};

use super::Lack;
use crate::records::ServiceName;

type ByKey = BTreeMap<ShareKey, BTreeSet<ServiceName>>;

/// A key for sharing. Services with the same one get one address of a pool.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum ShareKey {
    /// `vipward.io/share`.
    Own(Box<str>),
    /// `MetalLB`'s.
    Metallb(Box<str>),
}

/// The Services with each key, and the addresses that Services share with the one that has them.
#[derive(Debug, Default)]
pub(super) struct Groups {
    by_key: ByKey,
    /// Those of them that have an address, or are about to.
    pub(super) owners: ByKey,
    /// The Services that would share an address but for another Service, each behind that one.
    unjoined: BTreeSet<(ServiceName, ServiceName)>,
    /// The same by Service.
    kept_out: BTreeMap<ServiceName, Vec<ServiceName>>,
    sharers: BTreeSet<(IpAddr, ServiceName)>,
    shared: BTreeMap<ServiceName, BTreeSet<IpAddr>>,
}

impl Groups {
    pub(super) fn put(&mut self, service: &ServiceName, keys: &[ShareKey]) {
        put(&mut self.by_key, service, keys);
    }

    pub(super) fn remove(&mut self, service: &ServiceName, keys: &[ShareKey]) {
        remove(&mut self.by_key, service, keys);
        remove(&mut self.owners, service, keys);
    }

    /// Records whether a Service with these keys has an address, or is about to.
    pub(super) fn put_owner(&mut self, service: &ServiceName, keys: &[ShareKey], has_one: bool) {
        if has_one {
            put(&mut self.owners, service, keys);
        } else {
            remove(&mut self.owners, service, keys);
        }
    }

    /// Records the Services that keep a Service from sharing.
    pub(super) fn put_unjoined(&mut self, service: &ServiceName, lacks: &[Lack]) {
        for with in self.kept_out.remove(service).unwrap_or_default() {
            self.unjoined.remove(&(with, service.clone()));
        }
        let kept_by = |lack: &Lack| match lack {
            Lack::Unjoined { with, .. } => Some(with.clone()),
            _ => None,
        };
        let others: Vec<_> = lacks.iter().filter_map(kept_by).collect();
        self.unjoined.extend(others.iter().map(|with| (with.clone(), service.clone())));
        if !others.is_empty() {
            self.kept_out.insert(service.clone(), others);
        }
    }

    /// Returns all Services that another one keeps from sharing.
    pub(super) fn all_unjoined(&self) -> impl Iterator<Item = &ServiceName> {
        self.kept_out.keys()
    }

    /// Returns the Services that a Service keeps from sharing.
    pub(super) fn unjoined(&self, with: &ServiceName) -> impl Iterator<Item = &ServiceName> {
        let from = self.unjoined.range((with.clone(), ServiceName::lowest())..);
        from.take_while(move |(other, _)| other == with).map(|(_, service)| service)
    }

    /// Records the addresses that a Service shares. Others have them. Returns those that it shares no longer,
    /// and those that are new.
    pub(super) fn share(&mut self, service: &ServiceName, vips: BTreeSet<IpAddr>) -> [Vec<IpAddr>; 2] {
        let before = self.shared.remove(service).unwrap_or_default();
        let changes = [&before - &vips, &vips - &before].map(Vec::from_iter);
        for vip in before.difference(&vips) {
            self.sharers.remove(&(*vip, service.clone()));
        }
        self.sharers.extend(vips.difference(&before).map(|vip| (*vip, service.clone())));
        if !vips.is_empty() {
            self.shared.insert(service.clone(), vips);
        }
        changes
    }

    /// Returns the addresses that Services of a namespace share.
    pub(super) fn shared_in(&self, namespace: &Arc<str>) -> impl Iterator<Item = IpAddr> {
        let first = ServiceName::before(namespace);
        let from = self.shared.range(first..).take_while(move |(service, _)| service.namespace == *namespace);
        from.flat_map(|(_, vips)| vips.iter().copied())
    }

    pub(super) fn shares(&self, service: &ServiceName, vip: IpAddr) -> bool {
        self.sharers.contains(&(vip, service.clone()))
    }

    /// Returns the addresses that a Service shares. Others have them.
    pub(super) fn shared_by(&self, service: &ServiceName) -> impl Iterator<Item = IpAddr> {
        self.shared.get(service).into_iter().flatten().copied()
    }

    /// Returns the Services that share an address.
    pub(super) fn sharers(&self, vip: IpAddr) -> impl Iterator<Item = &ServiceName> {
        let from = self.sharers.range((vip, ServiceName::lowest())..);
        from.take_while(move |(shared, _)| *shared == vip).map(|(_, service)| service)
    }

    /// Returns the Services that share any address.
    pub(super) fn all_sharers(&self) -> impl Iterator<Item = &ServiceName> {
        self.shared.keys()
    }

    /// Returns the Services with one of the keys.
    pub(super) fn with(&self, keys: &[ShareKey]) -> impl Iterator<Item = &ServiceName> {
        keys.iter().filter_map(|key| self.by_key.get(key)).flatten()
    }

    /// Returns the Services of a namespace with a key and an address.
    pub(super) fn owners_in(
        &self,
        key: &ShareKey,
        namespace: &Arc<str>,
    ) -> impl Iterator<Item = &ServiceName> {
        let first = ServiceName::before(namespace);
        let from = self.owners.get(key).into_iter().flat_map(move |owners| owners.range(first.clone()..));
        from.take_while(move |owner| owner.namespace == *namespace)
    }
}

fn put(all: &mut ByKey, service: &ServiceName, keys: &[ShareKey]) {
    for key in keys {
        all.entry(key.clone()).or_default().insert(service.clone());
    }
}

fn remove(all: &mut ByKey, service: &ServiceName, keys: &[ShareKey]) {
    for key in keys {
        let Some(services) = all.get_mut(key) else { continue };
        services.remove(service);
        if services.is_empty() {
            all.remove(key);
        }
    }
}
