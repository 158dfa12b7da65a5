//! Where the addresses of pools may be announced.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    ops::RangeInclusive,
    sync::{Arc, OnceLock},
};

use super::{AddressRange, Family, L2Advertisement, L2AdvertisementRecord, Pool, PoolRecord};
use crate::records::{Allowance, PoolKind, PoolPolicy, ServiceLabels};

#[cfg(test)]
mod tests;

/// A change of a pool, or of where pools have their addresses announced.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Change {
    Pool(Box<PoolRecord>),
    PoolGone(Arc<str>),
    Advertisement(Box<L2AdvertisementRecord>),
    AdvertisementGone(Arc<str>),
    /// True if the `L2Advertisement` objects are known: they were listed, and the API server has the
    /// type.
    Advertised(bool),
}

#[derive(Debug)]
struct Known {
    record: PoolRecord,
    ranges: Vec<AddressRange>,
    /// What was last read of [`PoolRecord::announce`].
    allowance: Allowance,
    policy: Option<Arc<PoolPolicy>>,
}

#[derive(Debug, Default)]
struct Advertised {
    all: BTreeMap<Arc<str>, L2Advertisement>,
    /// False until they were listed.
    is_known: bool,
}

impl Advertised {
    /// Returns the policy of a pool. A `VIPPool` has its own allowance. An `IPAddressPool` has the
    /// advertisements' allowances.
    fn policy(&self, record: &PoolRecord, own: &Allowance) -> Option<Arc<PoolPolicy>> {
        let pool = Arc::clone(&record.name);
        let is_limited = match PoolKind::of(&pool).0 {
            PoolKind::VipPool => {
                let allowances = vec![own.clone()];
                let policy = || PoolPolicy { pool, advertisements: Arc::default(), allowances };
                return (*own != Allowance::default()).then(|| Arc::new(policy()));
            }
            PoolKind::IpAddressPool => self.is_known,
        };
        let meant = self.all.iter().filter(|(_, advertisement)| advertisement.announces(record));
        let (names, allowances): (Vec<_>, _) =
            meant.map(|(name, advertisement)| (Arc::clone(name), advertisement.allowance.clone())).unzip();
        is_limited.then(|| Arc::new(PoolPolicy { pool, advertisements: names.into(), allowances }))
    }
}

/// The policy of each address. Of several pools that have an address, the oldest decides.
#[derive(Debug, Default)]
pub struct Policies {
    pools: BTreeMap<Arc<str>, Known>,
    advertised: Advertised,
    /// The last address, and the policy, of each part of a range, by the first address. No two have
    /// an address in common.
    /// They are found when they are first needed, so that the pools of a list are divided once.
    parts: OnceLock<Parts>,
}

type Parts = BTreeMap<IpAddr, (IpAddr, Arc<PoolPolicy>)>;

impl Policies {
    /// Returns the policy of an address that Services with these labels want. Without one, it may be
    /// announced everywhere.
    pub fn of(&self, vip: IpAddr, services: &[&ServiceLabels]) -> Option<Arc<PoolPolicy>> {
        let parts = self.parts.get_or_init(|| self.divide());
        let (_, (last, policy)) = parts.range(..=vip).next_back()?;
        (vip <= *last).then(|| policy.of_services(services))
    }

    /// Returns the policy of a pool. Without one, its addresses may be announced everywhere.
    pub(super) fn of_pool(&self, name: &str) -> Option<&Arc<PoolPolicy>> {
        self.pools.get(name)?.policy.as_ref()
    }

    /// Records a change. Returns the addresses whose policies may have changed.
    pub fn on_change(&mut self, change: &Change) -> Vec<RangeInclusive<IpAddr>> {
        match change {
            Change::Pool(record) => self.put(record),
            Change::PoolGone(name) => self.remove(name),
            Change::Advertisement(record) => self.put_advertisement(record),
            Change::AdvertisementGone(name) => {
                self.advertised.all.remove(name);
                self.advertise()
            }
            // Until they are known, the addresses of each `IPAddressPool` may be announced everywhere.
            Change::Advertised(is_known) => {
                self.advertised.is_known = *is_known;
                self.advertise()
            }
        }
    }

    /// Records an `L2Advertisement`. An unreadable one stays as it was, so that a typing error
    /// takes no VIP away. Returns the addresses whose policies may be others now.
    fn put_advertisement(&mut self, record: &L2AdvertisementRecord) -> Vec<RangeInclusive<IpAddr>> {
        let (read, faults) = L2Advertisement::read(record.clone());
        if faults.is_empty() || !self.advertised.all.contains_key(&record.name) {
            self.advertised.all.insert(Arc::clone(&record.name), read);
        }
        self.advertise()
    }

    fn advertise(&mut self) -> Vec<RangeInclusive<IpAddr>> {
        let mut changed = Vec::new();
        for known in self.pools.values_mut() {
            let policy = self.advertised.policy(&known.record, &known.allowance);
            if known.policy != policy {
                known.policy = policy;
                changed.extend(addresses(&known.ranges));
            }
        }
        if !changed.is_empty() {
            self.parts.take();
        }
        changed
    }

    /// Records a pool. Returns the addresses whose policies may have changed.
    fn put(&mut self, record: &PoolRecord) -> Vec<RangeInclusive<IpAddr>> {
        let before = self.pools.get(&record.name);
        if before.is_some_and(|known| known.record == *record) {
            return Vec::new();
        }
        let former = before.filter(|known| known.record.created == record.created);
        let mut allowance = former.map(|known| known.allowance.clone()).unwrap_or_default();
        // The pool's status has the faults.
        allowance.update(&record.announce, &mut Vec::new());
        let (pool, _) = Pool::read(record.clone());
        let ranges = pool.ranges().to_vec();
        let policy = self.advertised.policy(record, &allowance);
        let is_same = former.is_some_and(|known| known.ranges == ranges && known.policy == policy);
        let known = Known { record: record.clone(), ranges, allowance, policy };
        let mut changed = if is_same { Vec::new() } else { addresses(&known.ranges) };
        let replaced = self.pools.insert(Arc::clone(&record.name), known);
        if !is_same {
            changed.extend(replaced.iter().flat_map(|known| addresses(&known.ranges)));
            self.parts.take();
        }
        changed
    }

    /// Forgets a pool. Returns the addresses whose policies may be others now.
    fn remove(&mut self, name: &str) -> Vec<RangeInclusive<IpAddr>> {
        let Some(known) = self.pools.remove(name) else { return Vec::new() };
        self.parts.take();
        addresses(&known.ranges)
    }

    /// Divides the ranges of all pools into parts with one policy each.
    fn divide(&self) -> Parts {
        let mut by_age: Vec<&Known> = self.pools.values().collect();
        by_age.sort_by_key(|known| (known.record.created, Arc::clone(&known.record.name)));
        // The pools that begin to have, or have no longer, the addresses from here on.
        let mut edges: BTreeMap<(Family, u128), Vec<usize>> = BTreeMap::new();
        for (age, known) in by_age.iter().enumerate() {
            for edge in known.ranges.iter().flat_map(AddressRange::edges) {
                edges.entry(edge).or_default().push(age);
            }
        }
        let mut parts = BTreeMap::new();
        let mut having = BTreeSet::new();
        let mut first = 0;
        for ((family, edge), ages) in edges {
            let oldest = having.first().and_then(|age: &usize| by_age[*age].policy.as_ref());
            if let Some(policy) = oldest {
                let (first, last) = (family.address(first), family.address(edge - 1));
                parts.insert(first, (last, Arc::clone(policy)));
            }
            for age in ages {
                if !having.insert(age) {
                    having.remove(&age);
                }
            }
            first = edge;
        }
        parts
    }
}

fn addresses(ranges: &[AddressRange]) -> Vec<RangeInclusive<IpAddr>> {
    ranges.iter().map(|range| range.first()..=range.last()).collect()
}
