//! The Services that share addresses, by the keys that they have.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use super::{super::Family, Allocator, Lack, Request, known_pools::Pools};
use crate::records::{PoolKind, ServiceName};

/// Largest number of Services of a key whose addresses are inspected.
const MOST_TRIED: usize = 256;

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
    by_key: BTreeMap<ShareKey, BTreeSet<ServiceName>>,
    sharers: BTreeSet<(IpAddr, ServiceName)>,
    shared: BTreeMap<ServiceName, BTreeSet<IpAddr>>,
}

/// An address that a Service of the same key has.
pub(super) enum Joined {
    /// The Service shares it.
    Now(IpAddr),
    /// It is being reserved, and can be shared then.
    Soon(IpAddr),
}

impl Groups {
    pub(super) fn put(&mut self, service: &ServiceName, keys: &[ShareKey]) {
        for key in keys {
            self.by_key.entry(key.clone()).or_default().insert(service.clone());
        }
    }

    pub(super) fn remove(&mut self, service: &ServiceName, keys: &[ShareKey]) {
        for key in keys {
            let Some(services) = self.by_key.get_mut(key) else { continue };
            services.remove(service);
            if services.is_empty() {
                self.by_key.remove(key);
            }
        }
    }

    /// Records the addresses that a Service shares. Others may have them.
    pub(super) fn share(&mut self, service: &ServiceName, vips: BTreeSet<IpAddr>) {
        let before = self.shared.remove(service).unwrap_or_default();
        for vip in before.difference(&vips) {
            self.sharers.remove(&(*vip, service.clone()));
        }
        self.sharers.extend(vips.difference(&before).map(|vip| (*vip, service.clone())));
        if !vips.is_empty() {
            self.shared.insert(service.clone(), vips);
        }
    }

    pub(super) fn shares(&self, service: &ServiceName, vip: IpAddr) -> bool {
        self.sharers.contains(&(vip, service.clone()))
    }

    /// Returns the Services that share an address.
    pub(super) fn sharers(&self, vip: IpAddr) -> impl Iterator<Item = &ServiceName> {
        let first = ServiceName { namespace: "".into(), name: "".into() };
        let from = self.sharers.range((vip, first)..);
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
}

impl Allocator {
    /// Returns the address of a family that a Service shares with another one by the key of both. Fails if
    /// it could share one but for a port.
    pub(super) fn join(
        &self,
        service: &ServiceName,
        request: &Request,
        family: Family,
    ) -> Result<Option<Joined>, Lack> {
        let others = self.groups.with(&request.keys).filter(|other| *other != service).take(MOST_TRIED);
        let addresses = others.flat_map(|other| {
            let all = self.allocations.all_of(other);
            all.into_iter().filter(move |vip| Family::of(*vip) == family).map(move |vip| (vip, other))
        });
        let mut open: Vec<_> =
            addresses.filter(|(vip, owner)| self.is_open(*vip, owner, service, request)).collect();
        open.sort_by_key(|(vip, _)| (!self.groups.shares(service, *vip), *vip));
        let mut clash = None;
        for (vip, owner) in open {
            let mut having =
                std::iter::once(owner).chain(self.groups.sharers(vip)).filter(|other| *other != service);
            match having.find_map(|other| self.clash(vip, request, other)) {
                Some(lack) => _ = clash.get_or_insert(lack),
                None if self.allocations.reservation(vip).is_some_and(|it| it.service == *owner) => {
                    return Ok(Some(Joined::Now(vip)));
                }
                None => return Ok(Some(Joined::Soon(vip))),
            }
        }
        clash.map_or(Ok(None), Err)
    }

    /// Returns true if a Service may share an address of a pool with its owner, ports permitting.
    fn is_open(&self, vip: IpAddr, owner: &ServiceName, service: &ServiceName, request: &Request) -> bool {
        let Some(pool) = self.pools.of(vip) else { return false };
        let name = &pool.record.name;
        let is_meant = match &request.pool {
            Some(named) => named == name,
            None => pool.record.auto_assign,
        };
        let segments = || self.announcers.segments(name, Family::of(vip), Some(request.whereabouts()));
        is_meant
            && self.allocations.owner(vip) == Some(owner)
            && !self.allocations.is_to_be_released(vip)
            && self.serves(pool, service, request)
            && Pools::may_share(Some(pool), owner, service)
            && self.share_a_key(vip, owner, service, request)
            && segments().is_none_or(|segments| segments.iter().any(|net| net.contains(&vip)))
    }

    /// Returns true if two Services may share an address by a key. Across namespaces, the owner's lists the
    /// other one; by `MetalLB`'s rules its key is enough, if the traffic for both goes to any node.
    pub(super) fn share_a_key(
        &self,
        vip: IpAddr,
        owner: &ServiceName,
        service: &ServiceName,
        request: &Request,
    ) -> bool {
        let Some(theirs) = self.requests.get(owner) else { return false };
        let is_at_home = owner.namespace == service.namespace;
        let is_listed = || {
            let home = self.namespaces.get(&owner.namespace);
            home.is_some_and(|home| home.share_with.contains(&service.namespace))
        };
        let is_metallbs = || {
            let pool = self.pools.any_of(vip).map(|pool| PoolKind::of(&pool.record.name).0);
            pool == Some(PoolKind::IpAddressPool) && !theirs.is_local && !request.is_local
        };
        request.keys.iter().filter(|key| theirs.keys.contains(key)).any(|key| {
            is_at_home
                || match key {
                    ShareKey::Own(_) => is_listed(),
                    ShareKey::Metallb(_) => is_metallbs(),
                }
        })
    }

    fn clash(&self, vip: IpAddr, request: &Request, with: &ServiceName) -> Option<Lack> {
        let theirs = self.requests.get(with)?;
        let port = request.ports.iter().find(|port| theirs.ports.contains(port))?;
        Some(Lack::Unjoined { vip, port: *port, with: with.clone() })
    }
}
