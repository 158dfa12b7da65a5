//! An `L2Advertisement` of `MetalLB`'s: where the addresses of which pools are announced.

use std::{collections::BTreeSet, sync::Arc};

use super::{PoolFault, PoolRecord, fault::selectors};
use crate::{
    base::pattern::InterfacePattern,
    records::{Allowance, PoolKind, Preference, Selector},
};

#[cfg(test)]
mod tests;

/// An `L2Advertisement` as its object describes it. Selectors are texts.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct L2AdvertisementRecord {
    pub name: Arc<str>,
    pub pools: BTreeSet<Arc<str>>,
    /// Selectors for the labels of `IPAddressPool` objects.
    pub pool_selectors: Vec<Box<str>>,
    /// Selectors for the nodes that may announce. If empty: all nodes.
    pub nodes: Vec<Box<str>>,
    /// Selectors for the nodes that come first, each with its weight.
    pub preferred: Vec<(i32, Box<str>)>,
    /// Selectors for Services. If empty: all Services.
    pub services: Vec<Box<str>>,
    /// The names of interfaces. If empty: all interfaces.
    pub interfaces: Vec<Box<str>>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct L2Advertisement {
    pools: BTreeSet<Arc<str>>,
    pool_selectors: Vec<Selector>,
    /// Where it has the addresses announced.
    pub allowance: Allowance,
    /// False if a selector could not be read: then it announces nothing, for it might do so from a
    /// node that is not to announce.
    is_usable: bool,
}

impl L2Advertisement {
    /// Reads a record. A selector with a fault shuts the advertisement.
    pub fn read(record: L2AdvertisementRecord) -> (Self, Vec<PoolFault>) {
        let mut faults = Vec::new();
        let pool_selectors = selectors("ipAddressPoolSelectors[#]", &record.pool_selectors, &mut faults);
        let nodes = selectors("nodeSelectors[#]", &record.nodes, &mut faults);
        let services = selectors("serviceSelectors[#]", &record.services, &mut faults);
        let (weights, texts): (Vec<_>, Vec<_>) = record.preferred.into_iter().unzip();
        let preferred = selectors("preferredNodeSelectors[#].preference", &texts, &mut faults);
        let preferred = weights.into_iter().zip(preferred);
        let interfaces = record.interfaces.iter().map(|name| InterfacePattern::exactly(name)).collect();
        let preferred = preferred.map(|(weight, nodes)| Preference { weight, nodes }).collect();
        let allowance = Allowance { nodes, interfaces, preferred, services };
        let is_usable = faults.is_empty();
        let read = Self { pools: record.pools, pool_selectors, allowance, is_usable };
        (read, faults)
    }

    /// Returns true if it announces the addresses of a pool: it names the pool, selects its labels,
    /// or has neither names nor selectors. It never announces a `VIPPool`'s addresses.
    pub fn announces(&self, pool: &PoolRecord) -> bool {
        let (kind, name) = PoolKind::of(&pool.name);
        let is_any = self.pools.is_empty() && self.pool_selectors.is_empty();
        let is_selected = || self.pool_selectors.iter().any(|selector| selector.matches(&pool.labels));
        self.is_usable
            && kind == PoolKind::IpAddressPool
            && (is_any || self.pools.contains(name) || is_selected())
    }
}
