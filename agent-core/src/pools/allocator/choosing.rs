//! Chooses the pool and the address for a Service.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::Arc,
};

use super::{
    super::{Family, Pool, PoolRecord},
    Allocator, Command, Fit, Lack, PoolState, Prospect, Request, Surroundings,
};
use crate::{
    base::address::mix,
    records::{PoolKind, ServiceName},
};

impl Allocator {
    /// Returns what each pool is to a Service that requests an address, in the order of preference.
    pub fn prospects(&self, service: &ServiceName) -> Vec<Prospect> {
        let Some(request) = self.requests.get(service) else { return Vec::new() };
        let prospect = |(pool, state): (&Pool, PoolState)| {
            let fit = if state.overlap.is_some() {
                Fit::Overlaps
            } else if request.pool.as_ref().is_some_and(|named| *named != pool.record.name) {
                Fit::OtherNamed
            } else if !self.serves(pool, service, request) {
                Fit::NotFor
            } else if request.pool.is_none() && !pool.record.auto_assign {
                Fit::NotAutomatic
            } else if !request.families.iter().any(|family| self.reaches(pool, *family, Some(request))) {
                Fit::NotAnnounced
            } else {
                Fit::Serves
            };
            let Pool { record: PoolRecord { name, priority, .. }, .. } = pool;
            Prospect { pool: Arc::clone(name), fit, priority: *priority, counts: state.counts }
        };
        let mut prospects: Vec<_> = self.pools.states().map(prospect).collect();
        let family = request.families.first().copied().unwrap_or(Family::V4);
        prospects.sort_by_key(|prospect| {
            let rank = self.pools.get(&prospect.pool).map(|pool| self.pools.rank(pool, family));
            (prospect.fit, rank)
        });
        prospects
    }

    pub(super) fn serves(&self, pool: &Pool, service: &ServiceName, request: &Request) -> bool {
        static NONE: BTreeMap<String, String> = BTreeMap::new();
        let namespace = self.namespaces.get(&service.namespace).map_or(&NONE, |namespace| &namespace.labels);
        pool.serves(service, &request.labels, namespace)
    }

    /// Returns true if a node can announce an address of a pool for a Service, or for any (none).
    fn reaches(&self, pool: &Pool, family: Family, request: Option<&Request>) -> bool {
        let segments = self.announcers.segments(&pool.record.name, family, request.map(Request::whereabouts));
        !pool.spans_in(family, segments.as_ref()).is_empty()
    }

    /// Returns an address of a family that was the Service's before.
    ///
    /// One in its status was: another version wrote it, or its object was lost. So was one whose claim names
    /// the Service: it was deleted, and is back before its VIP is gone.
    pub(super) fn adoptable(
        &self,
        service: &ServiceName,
        request: &Request,
        family: Family,
        surroundings: &impl Surroundings,
    ) -> Option<IpAddr> {
        let is_named = |vip: IpAddr| self.pools.is_of(vip, request.pool.as_deref());
        let is_served = |vip: IpAddr| {
            let has_it = |pool: &Pool| pool.contains(vip) && self.serves(pool, service, request);
            is_named(vip) && (request.pool.is_some() || self.pools.automatic().any(has_it))
        };
        let in_status = request.status.iter().copied().filter(|vip| {
            if request.is_left { is_served(*vip) && !surroundings.refuses(*vip) } else { is_named(*vip) }
        });
        let is_given = |pool: &Pool, vip| pool.gives(vip) && self.serves(pool, service, request);
        let claimed = self.allocations.claimed_by(service).filter(|vip| {
            let pool = self.pools.of(*vip).filter(|pool| is_given(pool, *vip));
            is_served(*vip) && pool.is_some() && !surroundings.refuses(*vip)
        });
        let mut own = in_status.chain(claimed).filter(|vip| Family::of(*vip) == family);
        own.find(|vip| self.allocations.may_adopt(*vip, service))
    }

    /// Reserves any free address of a family for a Service.
    pub(super) fn ask(
        &mut self,
        service: &ServiceName,
        request: &Request,
        family: Family,
        surroundings: &impl Surroundings,
        lacks: &mut Vec<Lack>,
        commands: &mut Vec<Command>,
    ) {
        if let Some(limit) = self.limit_of(service) {
            return lacks.push(Lack::TooMany { limit });
        }
        if request.awaits_endpoints {
            return lacks.push(Lack::EndpointsUnknown);
        }
        let pools = match self.candidates(service, request, family) {
            Ok(pools) => pools,
            Err(lack) => {
                let is_new = self.is_missed(service, request, family) && !lacks.contains(&lack);
                return lacks.extend(is_new.then_some(lack));
            }
        };
        let seed = seed(service);
        let found = pools.iter().find_map(|name| {
            let allocations = &self.allocations;
            let is_free = |vip| allocations.is_free(vip) && surroundings.is_free(vip);
            let segments = self.announcers.segments(name, family, Some(request.whereabouts()));
            self.pools.find(name, family, segments.as_ref(), seed, is_free)
        });
        if let Some(vip) = found {
            return self.reserve(vip, self.pools.reservation(vip, service), commands);
        }
        self.waiting.add(service, family);
        if self.is_missed(service, request, family) {
            lacks.push(self.why_none(request, family, pools));
        }
    }

    /// Returns the reason why none of these pools gives a Service an address.
    fn why_none(&self, request: &Request, family: Family, mut pools: Vec<Arc<str>>) -> Lack {
        pools.sort_unstable();
        let reaches = |name: &Arc<str>, request| {
            self.pools.get(name).is_some_and(|pool| self.reaches(pool, family, request))
        };
        let (reached, unreached): (Vec<_>, Vec<_>) =
            pools.into_iter().partition(|name| reaches(name, Some(request)));
        if !reached.is_empty() {
            return Lack::UsedUp { family, pools: reached };
        }
        let is_own = unreached.iter().any(|name| reaches(name, None));
        Lack::NotAnnounced { family, pools: unreached, is_own, segments: self.announcers.all() }
    }

    /// Returns the limit, if the Service's namespace has as many addresses as it may have.
    pub(super) fn limit_of(&self, service: &ServiceName) -> Option<usize> {
        self.most.filter(|most| self.addresses_in(&service.namespace).len() >= *most)
    }

    /// Returns true if the Service's namespace may have an address, which another one may have reserved.
    pub(super) fn has_room(&self, service: &ServiceName, vip: IpAddr) -> bool {
        self.most.is_none_or(|most| {
            let all = self.addresses_in(&service.namespace);
            all.contains(&vip) || all.len() < most
        })
    }

    fn addresses_in(&self, namespace: &Arc<str>) -> BTreeSet<IpAddr> {
        let mut all = self.allocations.in_namespace(namespace);
        all.extend(self.groups.shared_in(namespace));
        all
    }

    /// Returns true if a Service is not content without an address of a family.
    fn is_missed(&self, service: &ServiceName, request: &Request, family: Family) -> bool {
        let has_other = || self.allocations.of(service).iter().any(|vip| Family::of(*vip) != family);
        request.needs_all || request.families.len() == 1 || !has_other()
    }

    /// Returns the pools that may give an address of a family, the first one first.
    fn candidates(
        &self,
        service: &ServiceName,
        request: &Request,
        family: Family,
    ) -> Result<Vec<Arc<str>>, Lack> {
        if let Some(name) = &request.pool {
            let Some(pool) = self.pools.usable(name) else {
                let (kind, object) = PoolKind::of(name);
                return Err(match self.pools.get(name) {
                    Some(_) => Lack::NotServed { pool: Arc::clone(name) },
                    None => Lack::NoSuchPool { kind, name: object.into() },
                });
            };
            if !self.serves(pool, service, request) {
                return Err(Lack::NotServed { pool: Arc::clone(name) });
            }
            return Ok(vec![Arc::clone(name)]);
        }
        let serving = self.pools.automatic().filter(|pool| self.serves(pool, service, request));
        let others = self.others(service, request, family);
        let mut pools: Vec<_> = serving
            .filter(|pool| pool.total(family) > 0)
            .map(|pool| (self.splits(pool, request, &others), self.pools.rank(pool, family), pool))
            .filter(|(splits, ..)| request.needs_all || others.is_empty() || !splits)
            .collect();
        pools.sort_by(|(splits, rank, pool), (other_splits, other_rank, other)| {
            let by_number = rank.priority.cmp(&other_rank.priority);
            by_number
                .then_with(|| splits.cmp(other_splits))
                .then_with(|| rank.cmp(other_rank))
                .then_with(|| pool.record.name.cmp(&other.record.name))
        });
        if pools.is_empty() {
            return Err(if self.pools.is_empty() { Lack::NoPoolAtAll } else { Lack::NoPool { family } });
        }
        Ok(pools.into_iter().map(|(.., pool)| Arc::clone(&pool.record.name)).collect())
    }

    /// Returns the addresses of its other families that a Service has or is about to have.
    fn others(&self, service: &ServiceName, request: &Request, family: Family) -> Vec<IpAddr> {
        let is_other = |vip: &IpAddr| {
            let of_vip = Family::of(*vip);
            of_vip != family && request.families.contains(&of_vip)
        };
        self.allocations.all_of(service).into_iter().filter(is_other).collect()
    }

    /// Returns true if a dual-stack Service that gets an address of this pool has, or may have, its
    /// addresses from several of `MetalLB`'s pools. `MetalLB` gives it all of them from one.
    fn splits(&self, pool: &Pool, request: &Request, others: &[IpAddr]) -> bool {
        let has_all = || request.families.iter().all(|family| !self.pools.rank(pool, *family).is_full());
        let is_one = if others.is_empty() { has_all() } else { others.iter().all(|vip| pool.contains(*vip)) };
        PoolKind::of(&pool.record.name).0 == PoolKind::IpAddressPool && !is_one
    }
}

/// Returns a number that depends on a Service's name alone.
fn seed(service: &ServiceName) -> u64 {
    let bytes = service.namespace.bytes().chain([0]).chain(service.name.bytes());
    bytes.fold(0, |seed, byte| mix(seed ^ u64::from(byte)))
}
