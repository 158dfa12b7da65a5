//! Which address a Service shares with others of its key.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::Arc,
};

use ipnet::IpNet;

use super::{super::Family, Allocator, Apart, Lack, Namespace, Request, ShareKey, known_pools::Pools};
use crate::records::{NodeName, PoolKind, Port, ServiceName};

/// Largest number of Services of a key whose addresses are inspected.
const MOST_TRIED: usize = 256;

/// An address that a Service of the same key has.
pub(super) enum Joined {
    /// The Service shares it.
    Now(IpAddr),
    /// It is being reserved, and can be shared then.
    Soon(IpAddr),
}

/// The reason why a Service may not share an address now.
enum Barrier {
    /// It is over by itself, or is reported where the Service asks for its own.
    Passing,
    Lasting(Apart),
}

/// The subnets on which a pool can be announced for a Service.
type Reach = BTreeMap<Arc<str>, Option<BTreeSet<IpNet>>>;

impl Allocator {
    /// Returns the address of a family that a Service shares with another one by the key of both. Fails with
    /// the reason why it shares none, though its key is not its own.
    pub(super) fn join(
        &self,
        service: &ServiceName,
        request: &Request,
        family: Family,
    ) -> Result<Option<Joined>, Lack> {
        // The address that a Service had before it was deleted and created again may have an heir.
        let claimed = self.allocations.claimed_by(service).filter_map(|vip| {
            let owner = self.allocations.owner(vip).filter(|owner| owner.namespace == service.namespace)?;
            (Family::of(vip) == family && request.status.is_empty()).then_some((vip, owner))
        });
        let owners = self.owners_for(service, request);
        let with_keys =
            owners.iter().flat_map(|owner| self.of_family(owner, family).map(move |vip| (vip, *owner)));
        let mut reach = Reach::new();
        let mut barriers = Vec::new();
        let mut open = Vec::new();
        for (vip, owner) in with_keys.chain(claimed) {
            match self.barrier((vip, owner), service, request, &mut reach) {
                None => open.push((vip, owner)),
                Some(Barrier::Passing) => {}
                Some(Barrier::Lasting(why)) => barriers.push((vip, owner, why)),
            }
        }
        open.sort_by_key(|(vip, _)| (!self.groups.shares(service, *vip), *vip));
        let mut clashes = Vec::new();
        for (vip, owner) in open {
            let mut having = self.having(vip, owner, service);
            match having.find_map(|other| Some((vip, other, Apart::Port(self.clash(request, other)?)))) {
                Some(clash) => clashes.push(clash),
                None if self.allocations.reservation(vip).is_some_and(|it| it.service == *owner) => {
                    return Ok(Some(Joined::Now(vip)));
                }
                None => return Ok(Some(Joined::Soon(vip))),
            }
        }
        let any_clash = clashes.first().cloned();
        let clash = self.nearest_before(service, clashes).or(any_clash);
        let apart = clash.or_else(|| {
            let is_alone = !self.shares_any(service, family);
            is_alone.then(|| self.nearest_before(service, barriers)).flatten()
        });
        match apart {
            Some((vip, with, why)) => Err(Lack::Unjoined { vip, with: with.clone(), why }),
            None => Ok(None),
        }
    }

    /// Returns what a Service that keeps its address of a family lacks: to share one of its key, or the reason why
    /// it cannot.
    pub(super) fn unjoined(&self, service: &ServiceName, request: &Request, own: IpAddr) -> Option<Lack> {
        let family = Family::of(own);
        let vip = match self.join(service, request, family) {
            Ok(Some(Joined::Now(vip))) if !self.shares_any(service, family) => vip,
            Ok(_) => return None,
            Err(lack) => return Some(lack),
        };
        let with = self.allocations.owner(vip)?;
        let has_key = |key: &&ShareKey| {
            let theirs = self.requests.get(with);
            matches!(key, ShareKey::Own(_)) && theirs.is_some_and(|theirs| theirs.keys.contains(key))
        };
        let is_before = self.age(with)? < self.age(service)?;
        let could = is_before && request.keys.iter().any(|key| has_key(&key));
        could.then(|| Lack::Unjoined { vip, with: with.clone(), why: Apart::HasOwn(own) })
    }

    /// Returns the one of other Services that comes last of those before a Service, by age. So few Services are
    /// told of the same one, and a change of it wakes few.
    fn nearest_before<'a>(
        &self,
        service: &ServiceName,
        others: Vec<(IpAddr, &'a ServiceName, Apart)>,
    ) -> Option<(IpAddr, &'a ServiceName, Apart)> {
        let own = self.age(service)?;
        let with_age = others.into_iter().filter_map(|other| Some((self.age(other.1)?, other)));
        let before = with_age.filter(|(age, _)| *age < own);
        before.max_by(|(one, _), (other, _)| one.cmp(other)).map(|(_, other)| other)
    }

    /// Returns a Service's place by age. The oldest one is first.
    fn age<'a>(&self, service: &'a ServiceName) -> Option<(i64, &'a ServiceName)> {
        Some((self.requests.get(service)?.created, service))
    }

    /// Returns true if a Service shares an address of a family, or others share its own.
    fn shares_any(&self, service: &ServiceName, family: Family) -> bool {
        let has_sharer = |vip| self.groups.sharers(vip).next().is_some();
        self.groups.shared_by(service).any(|vip| Family::of(vip) == family)
            || self.of_family(service, family).any(has_sharer)
    }

    fn of_family(&self, service: &ServiceName, family: Family) -> impl Iterator<Item = IpAddr> + use<> {
        let all = self.allocations.all_of(service);
        all.into_iter().filter(move |vip| Family::of(*vip) == family)
    }

    /// Returns the Services with an address that a Service may share by a key, or is meant to: those of its
    /// namespace first, then those of the namespaces that consent, or that its own lists.
    fn owners_for(&self, service: &ServiceName, request: &Request) -> Vec<&ServiceName> {
        let home = &service.namespace;
        let listed = self.namespaces.get(home).map(|home| &home.share_with);
        let is_meant = |(name, namespace): &(&Arc<str>, &Namespace)| {
            *name != home
                && (namespace.share_with.contains(home) || listed.is_some_and(|it| it.contains(*name)))
        };
        let meant: Vec<_> = if request.keys.is_empty() {
            Vec::new()
        } else {
            self.namespaces.iter().filter(is_meant).map(|(name, _)| name).collect()
        };
        let mut owners = Vec::new();
        for key in &request.keys {
            owners.extend(self.groups.owners_in(key, home).take(MOST_TRIED));
            match key {
                ShareKey::Own(_) => {
                    let away = meant.iter().flat_map(|name| self.groups.owners_in(key, name));
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

    /// Returns what keeps a Service from sharing an address of a pool with its owner, whatever their ports.
    fn barrier(
        &self,
        (vip, owner): (IpAddr, &ServiceName),
        service: &ServiceName,
        request: &Request,
        reach: &mut Reach,
    ) -> Option<Barrier> {
        let Some(pool) = self.pools.of(vip) else { return Some(Barrier::Passing) };
        let name = &pool.record.name;
        let is_meant = request.pool.as_ref().map_or(pool.record.auto_assign, |named| named == name);
        let mut is_announced = || {
            let whereabouts = Some(request.whereabouts());
            let segments = || self.announcers.segments(name, Family::of(vip), whereabouts);
            let segments = reach.entry(Arc::clone(name)).or_insert_with(segments);
            segments.as_ref().is_none_or(|segments| segments.iter().any(|net| net.contains(&vip)))
        };
        let is_at_home = owner.namespace == service.namespace;
        if self.allocations.owner(vip) != Some(owner)
            || self.allocations.is_to_be_released(vip)
            || self.allocations.fails_for(vip).is_some()
            || !self.has_room(service, vip)
        {
            return Some(Barrier::Passing);
        }
        let why = if !is_meant {
            Apart::OtherPool { pool: Arc::clone(name), named: request.pool.clone() }
        } else if !self.serves(pool, service, request) {
            Apart::NotServed { pool: Arc::clone(name) }
        } else if !Pools::may_share(Some(pool), owner, service) {
            Apart::Unshared { pool: Arc::clone(name) }
        } else if !is_at_home && !self.share_a_key(vip, owner, service, request) {
            Apart::NoConsent
        } else if !is_announced() {
            Apart::NotAnnounced
        } else if !self.has_node_for_all(vip, owner, service, request) {
            Apart::NoCommonNode
        } else {
            return None;
        };
        Some(Barrier::Lasting(why))
    }

    /// Returns true if a node has endpoints of all Services of an address for which these alone count.
    fn has_node_for_all(
        &self,
        vip: IpAddr,
        owner: &ServiceName,
        service: &ServiceName,
        request: &Request,
    ) -> bool {
        fn nodes(request: &Request, family: Family) -> Option<&BTreeSet<NodeName>> {
            request.limits.as_ref()?.endpoints.get(&family)
        }
        let family = Family::of(vip);
        let Some(mine) = nodes(request, family) else { return true };
        let others = self.having(vip, owner, service);
        let theirs: Vec<_> =
            others.filter_map(|other| nodes(self.requests.get(other)?.as_ref(), family)).collect();
        mine.iter().any(|node| theirs.iter().all(|nodes| nodes.contains(node)))
    }

    /// Returns the other Services with an address: its owner, and those that share it.
    fn having<'a>(
        &'a self,
        vip: IpAddr,
        owner: &'a ServiceName,
        service: &'a ServiceName,
    ) -> impl Iterator<Item = &'a ServiceName> {
        std::iter::once(owner).chain(self.groups.sharers(vip)).filter(move |other| *other != service)
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

    /// Returns a port that a Service has and another one requests.
    fn clash(&self, request: &Request, with: &ServiceName) -> Option<Port> {
        let theirs = self.requests.get(with)?;
        request.ports.iter().find(|port| theirs.ports.contains(port)).copied()
    }
}
