//! Order of the VIPs that each namespace wants, for the limit of their number.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::Arc,
};

use crate::base::address;

/// Place of a VIP among those that a namespace wants. They are in ascending order.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Rank {
    pub(crate) namespace: Arc<str>,
    /// True if the namespace has not had it yet.
    pub(crate) is_new: bool,
    /// The time of creation of the namespace's oldest Service that wants it.
    pub(crate) created: i64,
}

#[derive(Debug, Default)]
pub(crate) struct Quotas {
    in_order: BTreeSet<(Rank, IpAddr)>,
    by_vip: BTreeMap<IpAddr, Vec<Rank>>,
}

impl Quotas {
    /// Sets a VIP's places. Returns the VIPs at the limit of its namespaces, if a place has changed:
    /// one of them may be within the limit now, or beyond it.
    pub(crate) fn put(&mut self, limit: usize, vip: IpAddr, ranks: Vec<Rank>) -> BTreeSet<IpAddr> {
        let before = self.by_vip.remove(&vip).unwrap_or_default();
        let mut namespaces = BTreeSet::new();
        for rank in before.iter().filter(|rank| !ranks.contains(rank)) {
            self.in_order.remove(&(rank.clone(), vip));
            namespaces.insert(Arc::clone(&rank.namespace));
        }
        for rank in ranks.iter().filter(|rank| !before.contains(rank)) {
            self.in_order.insert((rank.clone(), vip));
            namespaces.insert(Arc::clone(&rank.namespace));
        }
        if !ranks.is_empty() {
            self.by_vip.insert(vip, ranks);
        }
        let at_limit = |namespace| self.of(namespace).skip(limit.saturating_sub(1)).take(2);
        namespaces.iter().flat_map(at_limit).map(|(_, vip)| *vip).filter(|other| *other != vip).collect()
    }

    /// Returns true if fewer than `limit` VIPs of the namespace come before one with this rank.
    pub(crate) fn is_among_first(&self, limit: usize, vip: IpAddr, rank: &Rank) -> bool {
        let before = self.of(&rank.namespace).take_while(|(known, other)| (known, other) < (rank, &vip));
        before.filter(|(_, other)| *other != vip).take(limit).count() < limit
    }

    fn of(&self, namespace: &Arc<str>) -> impl Iterator<Item = &(Rank, IpAddr)> {
        let first = Rank { namespace: Arc::clone(namespace), is_new: false, created: i64::MIN };
        let all = self.in_order.range((first, address::FIRST)..);
        all.take_while(move |(rank, _)| *rank.namespace == **namespace)
    }
}
