//! Which address a Service shares with others of its key.

use std::{net::IpAddr, sync::Arc};

use super::{super::Family, Allocator, Apart, Lack, Namespace, Request, ShareKey, known_pools::Pools};
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
    /// Returns the address of a family that a Service shares with another one by the key of both. Fails with
    /// the reason why it shares none, though its key is not its own.
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
        let is_open = |(vip, owner): &(_, &_)| self.apart(*vip, owner, service, request).is_none();
        let mut open: Vec<_> = addresses.filter(is_open).collect();
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
        clash.or_else(|| self.why_alone(service, request, family)).map_or(Ok(None), Err)
    }

    /// Returns the reason why a Service that shares an address of a family with nobody does not share one with
    /// another Service of its key.
    fn why_alone(&self, service: &ServiceName, request: &Request, family: Family) -> Option<Lack> {
        let addresses = |of: &ServiceName| {
            let all = self.allocations.all_of(of);
            all.into_iter().filter(move |vip| Family::of(*vip) == family)
        };
        if addresses(service).any(|vip| self.groups.sharers(vip).next().is_some()) {
            return None;
        }
        let home = &service.namespace;
        let near = request.keys.iter().flat_map(|key| self.groups.owners_in(key, home));
        let all = request.keys.iter().filter_map(|key| self.groups.owners.get(key)).flatten();
        let far = all.filter(|other| other.namespace != *home);
        let mut others = near.take(MOST_TRIED).chain(far.take(MOST_TRIED)).filter(|other| *other != service);
        others.find_map(|with| {
            addresses(with).find_map(|vip| {
                let why = self.apart(vip, with, service, request).filter(|why| *why != Apart::Passing)?;
                Some(Lack::Unjoined { vip, with: with.clone(), why })
            })
        })
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

    /// Returns the reason why a Service may not share an address of a pool with its owner, whatever their ports.
    fn apart(
        &self,
        vip: IpAddr,
        owner: &ServiceName,
        service: &ServiceName,
        request: &Request,
    ) -> Option<Apart> {
        let Some(pool) = self.pools.of(vip) else { return Some(Apart::Passing) };
        let name = &pool.record.name;
        let is_meant = request.pool.as_ref().map_or(pool.record.auto_assign, |named| named == name);
        let segments = || self.announcers.segments(name, Family::of(vip), Some(request.whereabouts()));
        let is_at_home = owner.namespace == service.namespace;
        if self.allocations.owner(vip) != Some(owner)
            || self.allocations.is_to_be_released(vip)
            || self.allocations.fails_for(vip).is_some()
            || !self.has_room(service, vip)
        {
            Some(Apart::Passing)
        } else if !is_meant {
            Some(Apart::OtherPool { pool: Arc::clone(name), named: request.pool.clone() })
        } else if !self.serves(pool, service, request) {
            Some(Apart::NotServed { pool: Arc::clone(name) })
        } else if !Pools::may_share(Some(pool), owner, service) {
            Some(Apart::Unshared { pool: Arc::clone(name) })
        } else if !is_at_home && !self.share_a_key(vip, owner, service, request) {
            Some(Apart::NoConsent)
        } else if segments().is_some_and(|segments| !segments.iter().any(|net| net.contains(&vip))) {
            Some(Apart::NotAnnounced)
        } else {
            None
        }
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
        Some(Lack::Unjoined { vip, with: with.clone(), why: Apart::Port(*port) })
    }
}
