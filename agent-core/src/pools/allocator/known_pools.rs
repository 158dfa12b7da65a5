//! The pools as they were last read, with the numbers of their addresses.

use std::{
    cmp::Ordering,
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::Arc,
};

use ipnet::IpNet;

use super::super::{AddressRange, Choice, Family, Pool, PoolFault, PoolRecord, Sharing, range::number};
use crate::records::{Reservation, ServiceName, Shown};

/// Largest number of faults that a message names.
const MOST_FAULTS: usize = 8;
/// Largest number of segments that a message names.
const MOST_SEGMENTS: usize = 8;

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PoolState {
    /// The addresses of each family: all, reserved for Services, and kept for Services that are gone.
    pub counts: BTreeMap<Family, Counts>,
    /// An earlier pool with some of its addresses, and the first range of this pool that both have.
    /// While there is one, this pool gives out nothing.
    pub overlap: Option<(Arc<str>, AddressRange)>,
    /// The segments of the nodes, if no node can announce any address of the pool. It gives out nothing then.
    pub unreached: Option<BTreeSet<IpNet>>,
}

impl PoolState {
    /// Returns what of the pool cannot be used, and why.
    pub fn problem(&self, faults: &[PoolFault]) -> Option<String> {
        if let Some((other, range)) = &self.overlap {
            return Some(format!(
                "it gives out nothing: {}, which is older, has addresses of {range} too. Take them out of \
                 one of the two",
                Shown(other)
            ));
        }
        if let Some(segments) = &self.unreached {
            return Some(format!(
                "it gives out nothing: no node can announce its addresses. {}. Give it addresses of a segment, \
                 whose nodes spec.announce selects",
                listed(segments)
            ));
        }
        let mut words: Vec<String> = faults.iter().take(MOST_FAULTS).map(ToString::to_string).collect();
        if let Some(more) = faults.len().checked_sub(MOST_FAULTS).filter(|more| *more > 0) {
            words.push(format!("and {more} more"));
        }
        (!words.is_empty()).then(|| words.join("; "))
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// All that the pool gives out.
    pub total: u128,
    /// Those reserved for Services.
    pub allocated: u128,
    /// Those kept for Services that are gone.
    pub kept: u128,
}

impl Counts {
    pub fn available(&self) -> u128 {
        self.total.saturating_sub(self.allocated + self.kept)
    }
}

#[derive(Debug)]
struct Known {
    pool: Pool,
    faults: Vec<PoolFault>,
    allocated: BTreeMap<Family, u128>,
    kept: BTreeMap<Family, u128>,
    /// The families of which a search has found none, until one becomes free.
    full: BTreeSet<Family>,
    /// The number below which no address of a family is free, in a pool that gives the lowest first.
    full_below: BTreeMap<Family, u128>,
}

#[derive(Debug, Default)]
pub(super) struct Pools {
    known: BTreeMap<Arc<str>, Known>,
    /// The ranges of the pools that may give out addresses, by their first address. No two have an
    /// address in common.
    ranges: BTreeMap<IpAddr, (AddressRange, Arc<str>)>,
    /// The other pools, each with an earlier pool that has some of its addresses, and the first range
    /// of which that is so.
    overlaps: BTreeMap<Arc<str>, (Arc<str>, AddressRange)>,
}

impl Pools {
    /// Records a pool. Returns false if nothing of it has changed. [`Pools::look_again`] follows.
    pub(super) fn put(&mut self, record: PoolRecord) -> bool {
        if self.known.get(&record.name).is_some_and(|known| known.pool.record == record) {
            return false;
        }
        let name = Arc::clone(&record.name);
        let (pool, faults) = Pool::read(record);
        let known = Known {
            pool,
            faults,
            allocated: BTreeMap::new(),
            kept: BTreeMap::new(),
            full: BTreeSet::new(),
            full_below: BTreeMap::new(),
        };
        self.known.insert(name, known);
        true
    }

    /// Forgets a pool. [`Pools::look_again`] follows.
    pub(super) fn remove(&mut self, name: &str) {
        self.known.remove(name);
    }

    /// Finds the overlaps, and counts the reservations anew. The cost grows with the number of ranges
    /// and reservations, and not with its square.
    pub(super) fn look_again<'a>(&mut self, all: impl Iterator<Item = (IpAddr, &'a Reservation)>) {
        self.ranges.clear();
        self.overlaps.clear();
        let mut by_age: Vec<&Pool> = self.known.values().map(|known| &known.pool).collect();
        by_age.sort_by_key(|pool| (pool.record.created, &pool.record.name));
        for pool in by_age {
            let name = &pool.record.name;
            let mut ranges = pool.ranges().iter();
            let overlap = ranges.find_map(|range| Some((Arc::clone(earlier(&self.ranges, range)?), *range)));
            if let Some(overlap) = overlap {
                self.overlaps.insert(Arc::clone(name), overlap);
            } else {
                let ranges = pool.ranges().iter();
                self.ranges.extend(ranges.map(|range| (range.first(), (*range, Arc::clone(name)))));
            }
        }
        for known in self.known.values_mut() {
            known.allocated.clear();
            known.kept.clear();
            known.full.clear();
            known.full_below.clear();
        }
        for (vip, reservation) in all {
            self.count(vip, reservation, true);
        }
    }

    /// Counts an address in, or out.
    pub(super) fn count(&mut self, vip: IpAddr, reservation: &Reservation, comes: bool) {
        let Some(name) = self.of(vip).map(|pool| Arc::clone(&pool.record.name)) else { return };
        let Some(known) = self.known.get_mut(&name) else { return };
        let family = Family::of(vip);
        let counts = if reservation.kept.is_some() { &mut known.kept } else { &mut known.allocated };
        let count = counts.entry(family).or_default();
        *count = if comes { *count + 1 } else { count.saturating_sub(1) };
        if !comes && let Some(full) = known.full_below.get_mut(&family) {
            *full = number(vip).min(*full);
        }
    }

    pub(super) fn get(&self, name: &str) -> Option<&Pool> {
        self.known.get(name).map(|known| &known.pool)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    pub(super) fn usable(&self, name: &str) -> Option<&Pool> {
        self.get(name).filter(|_| !self.overlaps.contains_key(name))
    }

    /// Returns the pools that give addresses to Services which name none.
    pub(super) fn automatic(&self) -> impl Iterator<Item = &Pool> {
        let pools = self.known.values().map(|known| &known.pool);
        pools.filter(|pool| pool.record.auto_assign && !self.overlaps.contains_key(&pool.record.name))
    }

    pub(super) fn of(&self, vip: IpAddr) -> Option<&Pool> {
        let (_, (range, name)) = self.ranges.range(..=vip).next_back()?;
        self.get(name).filter(|_| range.contains(vip))
    }

    /// Returns the pool with an address whose rules count, though it may give out nothing.
    pub(super) fn any_of(&self, vip: IpAddr) -> Option<&Pool> {
        let mut others = self.overlaps.keys().filter_map(|name| self.get(name));
        self.of(vip).or_else(|| others.find(|pool| pool.contains(vip)))
    }

    /// Returns true if the address is in the pool that a Service names, or it names none.
    pub(super) fn is_of(&self, vip: IpAddr, named: Option<&str>) -> bool {
        named.is_none_or(|name| self.get(name).is_some_and(|pool| pool.contains(vip)))
    }

    /// Returns the pool whose rules count for a reserved address.
    pub(super) fn owner(&self, vip: IpAddr, reservation: &Reservation) -> Option<&Pool> {
        self.of(vip).or_else(|| self.get(reservation.pool.as_deref()?))
    }

    pub(super) fn reservation(&self, vip: IpAddr, service: &ServiceName) -> Reservation {
        let pool = self.of(vip).map(|pool| Arc::clone(&pool.record.name));
        Reservation { service: service.clone(), pool, kept: None }
    }

    /// Returns true if another Service may request a reserved address. Across namespaces, both
    /// Services must consent.
    pub(super) fn may_share(pool: Option<&Pool>, owner: &ServiceName, other: &ServiceName) -> bool {
        match pool.map(|pool| pool.record.sharing).unwrap_or_default() {
            Sharing::Never => false,
            Sharing::Namespace => owner.namespace == other.namespace,
            Sharing::Key => true,
        }
    }

    /// Returns a pool's rank for a family: the lowest number first, and then the least used.
    pub(super) fn rank(&self, pool: &Pool, family: Family) -> Rank {
        let counts = self.known.get(&pool.record.name).map(|known| counts(known, family)).unwrap_or_default();
        Rank { priority: pool.record.priority, used: counts.allocated + counts.kept, total: counts.total }
    }

    pub(super) fn find(
        &mut self,
        name: &str,
        family: Family,
        segments: Option<&BTreeSet<IpNet>>,
        seed: u64,
        is_free: impl Fn(IpAddr) -> bool,
    ) -> Option<IpAddr> {
        let known = self.known.get_mut(name)?;
        if counts(known, family).available() == 0 || known.full.contains(&family) {
            return None;
        }
        let spans = known.pool.spans_in(family, segments);
        let start = match known.pool.record.choice {
            Choice::Spread => known.pool.start(family, seed),
            Choice::First => known.full_below.get(&family).copied().unwrap_or_default(),
        };
        let found = known.pool.find(family, &spans, start, is_free);
        if spans != known.pool.spans_in(family, None) {
            return found;
        }
        match (found, known.pool.record.choice) {
            (None, _) => _ = known.full.insert(family),
            (Some(vip), Choice::First) if number(vip) >= start => {
                known.full_below.insert(family, number(vip));
            }
            (Some(_), Choice::First | Choice::Spread) => {}
        }
        found
    }

    /// Records that an address may be free.
    pub(super) fn has_free(&mut self, vip: IpAddr) {
        let Some(name) = self.of(vip).map(|pool| Arc::clone(&pool.record.name)) else { return };
        let Some(known) = self.known.get_mut(&name) else { return };
        let family = Family::of(vip);
        known.full.remove(&family);
        if let Some(full) = known.full_below.get_mut(&family) {
            *full = number(vip).min(*full);
        }
    }

    /// Records that addresses of a network may be free. Returns true if a pool has some of them.
    pub(super) fn has_free_in(&mut self, net: IpNet) -> bool {
        let (first, last) = (net.network(), net.broadcast());
        let before = self.ranges.range(..first).next_back().filter(|(_, (range, _))| range.last() >= first);
        let inside = self.ranges.range(first..=last);
        let names: Vec<_> = before.into_iter().chain(inside).map(|(_, (_, name))| Arc::clone(name)).collect();
        for name in &names {
            let Some(known) = self.known.get_mut(name) else { continue };
            known.full.remove(&Family::of(first));
            known.full_below.remove(&Family::of(first));
        }
        !names.is_empty()
    }

    pub(super) fn faults(&self, name: &str) -> &[PoolFault] {
        self.known.get(name).map_or(&[], |known| &known.faults)
    }

    pub(super) fn states(&self) -> impl Iterator<Item = (&Pool, PoolState)> {
        self.known.iter().map(|(name, known)| {
            let of = |family| (family, counts(known, family));
            let counts = [Family::V4, Family::V6].map(of).into_iter().filter(|(_, counts)| counts.total > 0);
            let overlap = self.overlaps.get(name).cloned();
            (&known.pool, PoolState { counts: counts.collect(), overlap, unreached: None })
        })
    }
}

/// Returns the pool of the first range that has an address of `range`.
fn earlier<'a>(
    ranges: &'a BTreeMap<IpAddr, (AddressRange, Arc<str>)>,
    range: &AddressRange,
) -> Option<&'a Arc<str>> {
    let before = ranges.range(..=range.first()).next_back();
    let inside = || ranges.range(range.first()..=range.last()).next();
    let (_, (_, name)) = before.filter(|(_, (other, _))| other.overlaps(range)).or_else(inside)?;
    Some(name)
}

/// Names segments: `The segments of the nodes are 192.0.2.0/24 and 2001:db8::/64`.
pub(super) fn listed(segments: &BTreeSet<IpNet>) -> String {
    let mut names: Vec<String> = segments.iter().take(MOST_SEGMENTS).map(ToString::to_string).collect();
    match segments.len().checked_sub(MOST_SEGMENTS).filter(|more| *more > 0) {
        Some(more) => names.push(format!("{more} more")),
        None if names.len() < 2 => return format!("The only segment of the nodes is {}", names.concat()),
        None => {}
    }
    let last = names.pop().unwrap_or_default();
    format!("The segments of the nodes are {} and {last}", names.join(", "))
}

fn counts(known: &Known, family: Family) -> Counts {
    let of = |counts: &BTreeMap<Family, u128>| counts.get(&family).copied().unwrap_or_default();
    Counts { total: known.pool.total(family), allocated: of(&known.allocated), kept: of(&known.kept) }
}

/// A pool's place among others: by its number, and then by the used part of its addresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Rank {
    pub(super) priority: i32,
    used: u128,
    total: u128,
}

impl Rank {
    pub(super) fn is_full(self) -> bool {
        self.used >= self.total
    }
}

impl Ord for Rank {
    fn cmp(&self, other: &Self) -> Ordering {
        let part = |one: &Self, of: &Self| one.used.saturating_mul(of.total);
        self.priority.cmp(&other.priority).then_with(|| part(self, other).cmp(&part(other, self)))
    }
}

impl PartialOrd for Rank {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
