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
        let namespace = self.namespaces.get(&service.namespace).unwrap_or(&NONE);
        pool.serves(service, &request.labels, namespace)
    }

    /// Reserves an address of a family for a Service that has none.
    pub(super) fn ask(
        &mut self,
        service: &ServiceName,
        request: &Request,
        family: Family,
        surroundings: &impl Surroundings,
        lacks: &mut Vec<Lack>,
        commands: &mut Vec<Command>,
    ) {
        // An address in the status was the Service's before: another version wrote it, or its object was
        // lost.
        let own = request.status.iter().copied().find(|vip| {
            let fits = request.pool.is_none() || self.pools.is_of(*vip, request.pool.as_deref());
            Family::of(*vip) == family && fits && self.allocations.may_adopt(*vip, service)
        });
        if let Some(vip) = own {
            return self.reserve(vip, self.pools.reservation(vip, service), commands);
        }
        if let Some(limit) = self.limit_of(service) {
            return lacks.push(Lack::TooMany { limit });
        }
        let pools = match self.candidates(service, request, family) {
            Ok(pools) => pools,
            Err(lack) => return lacks.extend(lack.filter(|_| self.is_missed(service, request, family))),
        };
        let seed = seed(service);
        let found = pools.iter().find_map(|name| {
            let allocations = &self.allocations;
            let is_free = |vip| allocations.is_free(vip) && surroundings.is_free(vip);
            self.pools.find(name, family, seed, is_free)
        });
        if let Some(vip) = found {
            return self.reserve(vip, self.pools.reservation(vip, service), commands);
        }
        self.waiting.add(service.clone(), family);
        if self.is_missed(service, request, family) {
            let pools: BTreeSet<_> = pools.into_iter().collect();
            lacks.push(Lack::UsedUp { family, pools: pools.into_iter().collect() });
        }
    }

    /// Returns the limit, if the Service's namespace has as many addresses as it may have.
    pub(super) fn limit_of(&self, service: &ServiceName) -> Option<usize> {
        self.most.filter(|most| self.allocations.number_of(&service.namespace) >= *most)
    }

    /// Returns true if a Service is not content without an address of a family.
    fn is_missed(&self, service: &ServiceName, request: &Request, family: Family) -> bool {
        let has_other = || self.allocations.of(service).iter().any(|vip| Family::of(*vip) != family);
        request.needs_all || request.families.len() == 1 || !has_other()
    }

    /// Returns the pools that may give an address of a family, the first one first. Where there is no
    /// pool, other controllers give addresses, and nothing is missed.
    fn candidates(
        &self,
        service: &ServiceName,
        request: &Request,
        family: Family,
    ) -> Result<Vec<Arc<str>>, Option<Lack>> {
        if let Some(name) = &request.pool {
            let Some(pool) = self.pools.usable(name) else {
                let (kind, object) = PoolKind::of(name);
                return Err(Some(match self.pools.get(name) {
                    Some(_) => Lack::NotServed { pool: Arc::clone(name) },
                    None => Lack::NoSuchPool { kind, name: object.into() },
                }));
            };
            if !self.serves(pool, service, request) {
                return Err(Some(Lack::NotServed { pool: Arc::clone(name) }));
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
            return Err((!self.pools.is_empty()).then_some(Lack::NoPool { family }));
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
