//! Which address a Service shares with others of its key.

use std::{net::IpAddr, sync::Arc};

use super::{super::Family, Allocator, Lack, Namespace, Request, ShareKey, known_pools::Pools};
use crate::records::{PoolKind, ServiceName};

/// Largest number of Services of a key whose addresses are inspected.
const MOST_TRIED: usize = 256;

/// An address that a Service of the same key has.
pub(super) enum Joined {
    /// The Service shares it.
    Now(IpAddr),
    /// It is being reserved, and can be shared then.
    Soon(IpAddr),
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
        let addresses = self.owners_for(service, request).into_iter().flat_map(|other| {
            let all = self.allocations.all_of(other);
            all.into_iter().filter(move |vip| Family::of(*vip) == family).map(move |vip| (vip, other))
        });
        // The address that a Service had before it was deleted and created again may have an heir.
        let claimed = self.allocations.claimed_by(service).filter_map(|vip| {
            let owner = self.allocations.owner(vip).filter(|owner| owner.namespace == service.namespace)?;
            (Family::of(vip) == family && request.status.is_empty()).then_some((vip, owner))
        });
        let addresses = addresses.chain(claimed);
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

    /// Returns the Services with an address that a Service may share by a key: those of its namespace first.
    fn owners_for(&self, service: &ServiceName, request: &Request) -> Vec<&ServiceName> {
        let home = &service.namespace;
        let consents = |(_, namespace): &(&Arc<str>, &Namespace)| namespace.share_with.contains(home);
        let consenting: Vec<_> = if request.keys.is_empty() {
            Vec::new()
        } else {
            self.namespaces.iter().filter(|it| it.0 != home && consents(it)).map(|(name, _)| name).collect()
        };
        let mut owners = Vec::new();
        for key in &request.keys {
            owners.extend(self.groups.owners_in(key, home).take(MOST_TRIED));
            match key {
                ShareKey::Own(_) => {
                    let away = consenting.iter().flat_map(|name| self.groups.owners_in(key, name));
                    owners.extend(away.take(MOST_TRIED));
                }
                ShareKey::Metallb(_) => {
                    let all = self.groups.owners.get(key).into_iter().flatten();
                    owners.extend(all.filter(|other| other.namespace != *home).take(MOST_TRIED));
                }
            }
        }
        owners.retain(|other| *other != service);
        owners
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
            && self.allocations.fails_for(vip).is_none()
            && self.has_room(service, vip)
            && Pools::may_share(Some(pool), owner, service)
            && (owner.namespace == service.namespace || self.share_a_key(vip, owner, service, request))
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
