//! The pools with their counts, and the reservations as they were last read.

use std::{
    cmp::Ordering,
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::Arc,
};

use super::{
    super::{AddressRange, Choice, Family, Pool, PoolFault, PoolRecord, Sharing, Shown, range::number},
    Expected,
};
use crate::{address, cluster::ServiceName};

/// Largest number of faults that a message names.
const MOST_FAULTS: usize = 8;

/// The reservation of an address, as its object has it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reservation {
    /// The Service that it is for.
    pub service: ServiceName,
    /// The pool that it is from. None: the Service asked for an address of no pool.
    pub pool: Option<Arc<str>>,
    /// Set when the Service is gone: the time until which the address is kept for another one of its
    /// name, in seconds since 1970, or none for ever.
    pub kept: Option<Option<i64>>,
}

/// What has become of a pool.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PoolState {
    /// The addresses of each family: all, reserved for Services, and kept for Services that are gone.
    pub counts: BTreeMap<Family, Counts>,
    /// An earlier pool with some of its addresses, and the first range of this pool that both have.
    /// While there is one, this pool gives out nothing.
    pub overlap: Option<(Arc<str>, AddressRange)>,
}

impl PoolState {
    /// Returns what of the pool cannot be used, and why.
    pub fn problem(&self, faults: &[PoolFault]) -> Option<String> {
        if let Some((other, range)) = &self.overlap {
            return Some(format!(
                "it gives out nothing: {}, which is older, has addresses of {range} too. Take them out of one of the two",
                Shown(other)
            ));
        }
        let mut words: Vec<String> = faults.iter().take(MOST_FAULTS).map(ToString::to_string).collect();
        if let Some(more) = faults.len().checked_sub(MOST_FAULTS).filter(|more| *more > 0) {
            words.push(format!("and {more} more"));
        }
        (!words.is_empty()).then(|| words.join("; "))
    }
}

/// Numbers of addresses of a pool.
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
    /// Returns the number of free addresses.
    pub fn available(&self) -> u128 {
        self.total.saturating_sub(self.allocated + self.kept)
    }
}

/// An address with an object.
#[derive(Debug)]
struct Entry {
    reservation: Option<Reservation>,
    release: bool,
    services: Vec<ServiceName>,
}

/// A command that is under way.
#[derive(Debug)]
struct Asked {
    /// The Service that it is about.
    service: ServiceName,
    /// True if it frees the address.
    frees: bool,
    /// True if it has failed, and is tried again.
    has_failed: bool,
}

/// The objects as they were last read, and the commands that are under way.
#[derive(Debug, Default)]
pub(super) struct Book {
    entries: BTreeMap<IpAddr, Entry>,
    /// The reserved addresses by Service. Most Services have one, for which a set of its own is large.
    by_service: ByService,
    expiries: BTreeSet<(i64, IpAddr)>,
    /// The commands that are under way, each with the Service that it is about.
    asked: BTreeMap<IpAddr, Asked>,
    /// The same by Service.
    asking: BTreeSet<(ServiceName, IpAddr)>,
}

impl Book {
    pub(super) fn put(
        &mut self,
        vip: IpAddr,
        reservation: Option<Reservation>,
        release: bool,
        services: Vec<ServiceName>,
        pools: &mut Pools,
    ) -> Option<ServiceName> {
        let before = self.take(vip, pools);
        if let Some(reservation) = &reservation {
            self.by_service.insert((reservation.service.clone(), vip));
            if let Some(Some(until)) = reservation.kept {
                self.expiries.insert((until, vip));
            }
            pools.count(vip, reservation, true);
        }
        self.entries.insert(vip, Entry { reservation, release, services });
        before
    }

    pub(super) fn remove(&mut self, vip: IpAddr, pools: &mut Pools) -> Option<ServiceName> {
        let before = self.take(vip, pools);
        self.entries.remove(&vip);
        before
    }

    /// Takes the reservation of an address out. Returns its Service.
    fn take(&mut self, vip: IpAddr, pools: &mut Pools) -> Option<ServiceName> {
        let reservation = self.entries.get_mut(&vip)?.reservation.take()?;
        pools.count(vip, &reservation, false);
        if let Some(Some(until)) = reservation.kept {
            self.expiries.remove(&(until, vip));
        }
        self.by_service.remove(&(reservation.service.clone(), vip));
        Some(reservation.service)
    }

    /// Notes that an address is being reserved for a Service. Returns false if a command about the
    /// address is under way already.
    pub(super) fn ask(&mut self, vip: IpAddr, service: &ServiceName) -> bool {
        self.note(vip, Asked { service: service.clone(), frees: false, has_failed: false })
    }

    /// Notes that the address of a Service is being freed. Returns as [`Book::ask`] does.
    pub(super) fn ask_to_free(&mut self, vip: IpAddr, service: &ServiceName) -> bool {
        self.note(vip, Asked { service: service.clone(), frees: true, has_failed: false })
    }

    fn note(&mut self, vip: IpAddr, asked: Asked) -> bool {
        let is_new = !self.asked.contains_key(&vip);
        if is_new {
            self.asking.insert((asked.service.clone(), vip));
            self.asked.insert(vip, asked);
        }
        is_new
    }

    /// Notes that a command was carried out. Returns its Service.
    pub(super) fn answered(&mut self, vip: IpAddr) -> Option<ServiceName> {
        let Asked { service, .. } = self.asked.remove(&vip)?;
        self.asking.remove(&(service.clone(), vip));
        Some(service)
    }

    /// Notes that a command has failed, and is tried again. Returns its Service.
    pub(super) fn failed(&mut self, vip: IpAddr) -> Option<ServiceName> {
        let asked = self.asked.get_mut(&vip)?;
        asked.has_failed = true;
        Some(asked.service.clone())
    }

    /// Returns true if an address is being reserved for the Service, and the write has not failed.
    pub(super) fn is_reserving_for(&self, service: &ServiceName) -> bool {
        let is_under_way = |vip| self.asked.get(&vip).is_some_and(|asked| !asked.frees && !asked.has_failed);
        self.asked_for(service).any(is_under_way)
    }

    /// Returns true if a command about the Service is under way.
    pub(super) fn is_asking(&self, service: &ServiceName) -> bool {
        self.asked_for(service).next().is_some()
    }

    /// Returns true if a command about the Service and an address of the family is under way.
    pub(super) fn is_asking_for(&self, service: &ServiceName, family: Family) -> bool {
        self.asked_for(service).any(|vip| Family::of(vip) == family)
    }

    fn asked_for(&self, service: &ServiceName) -> impl Iterator<Item = IpAddr> {
        vips_of(&self.asking, service)
    }

    /// Returns true if the address is being reserved for the Service.
    pub(super) fn is_asked_by(&self, vip: IpAddr, service: &ServiceName) -> bool {
        self.asked.get(&vip).is_some_and(|asked| !asked.frees && asked.service == *service)
    }

    pub(super) fn is_asked(&self, vip: IpAddr) -> bool {
        self.asked.contains_key(&vip)
    }

    /// Returns true if the address has no object, and no command about it is under way.
    pub(super) fn is_free(&self, vip: IpAddr) -> bool {
        !self.entries.contains_key(&vip) && !self.is_asked(vip)
    }

    /// Returns true if the Service may have the address reserved: nobody has, and its claim names no
    /// other Service.
    pub(super) fn may_adopt(&self, vip: IpAddr, service: &ServiceName) -> bool {
        let is_its_own = |entry: &Entry| {
            entry.reservation.is_none() && (entry.services.is_empty() || entry.services.contains(service))
        };
        !self.is_asked(vip) && self.entries.get(&vip).is_none_or(is_its_own)
    }

    /// Returns the address's object, as it was last read.
    pub(super) fn expected(&self, vip: IpAddr) -> Expected {
        let present = |entry: &Entry| Expected::Present(entry.reservation.clone());
        self.entries.get(&vip).map_or(Expected::Absent, present)
    }

    pub(super) fn reservation(&self, vip: IpAddr) -> Option<&Reservation> {
        self.entries.get(&vip)?.reservation.as_ref()
    }

    /// Returns the Service that has an address, or is about to.
    pub(super) fn owner(&self, vip: IpAddr) -> Option<&ServiceName> {
        let reserved = self.reservation(vip).filter(|reservation| reservation.kept.is_none());
        match self.asked.get(&vip) {
            Some(asked) => (!asked.frees).then_some(&asked.service),
            None => reserved.map(|reservation| &reservation.service),
        }
    }

    /// Returns true if an admin wants the address's reservation given up.
    pub(super) fn is_to_be_released(&self, vip: IpAddr) -> bool {
        self.entries.get(&vip).is_some_and(|entry| entry.release)
    }

    /// Returns the addresses that are reserved for a Service, and are not being freed.
    pub(super) fn of(&self, service: &ServiceName) -> Vec<IpAddr> {
        vips_of(&self.by_service, service)
            .filter(|vip| self.asked.get(vip).is_none_or(|asked| !asked.frees))
            .collect()
    }

    /// Returns the addresses that a Service has, or is about to have.
    pub(super) fn all_of(&self, service: &ServiceName) -> BTreeSet<IpAddr> {
        let reserving = self.asked_for(service).filter(|vip| self.is_asked_by(*vip, service));
        self.of(service).into_iter().chain(reserving).collect()
    }

    /// Returns the number of addresses that a namespace's Services have, or are about to have.
    pub(super) fn number_of(&self, namespace: &Arc<str>) -> usize {
        let is_new = |vip: &IpAddr| self.reservation(*vip).is_none();
        vips_in(&self.by_service, namespace).count() + vips_in(&self.asking, namespace).filter(is_new).count()
    }

    /// Returns the Services with a reservation. One with several comes several times.
    pub(super) fn owners(&self) -> impl Iterator<Item = ServiceName> {
        self.by_service.iter().map(|(service, _)| service.clone())
    }

    pub(super) fn reservations(&self) -> impl Iterator<Item = (IpAddr, &Reservation)> {
        self.entries.iter().filter_map(|(vip, entry)| Some((*vip, entry.reservation.as_ref()?)))
    }

    pub(super) fn next_expiry(&self) -> Option<i64> {
        self.expiries.first().map(|(until, _)| *until)
    }

    /// Returns the Services whose addresses are kept no longer.
    pub(super) fn expired(&self, now: i64) -> Vec<ServiceName> {
        let due = self.expiries.iter().take_while(|(until, _)| *until <= now);
        due.filter_map(|(_, vip)| Some(self.reservation(*vip)?.service.clone())).collect()
    }
}

/// Addresses by Service.
type ByService = BTreeSet<(ServiceName, IpAddr)>;

/// Returns the addresses of a Service.
fn vips_of(all: &ByService, service: &ServiceName) -> impl Iterator<Item = IpAddr> {
    vips_from(all, service.clone(), move |other| other == service)
}

/// Returns the addresses of all Services of a namespace.
fn vips_in(all: &ByService, namespace: &Arc<str>) -> impl Iterator<Item = IpAddr> {
    let first = ServiceName { namespace: Arc::clone(namespace), name: "".into() };
    vips_from(all, first, move |service| service.namespace == *namespace)
}

fn vips_from(
    all: &ByService,
    first: ServiceName,
    is_wanted: impl Fn(&ServiceName) -> bool,
) -> impl Iterator<Item = IpAddr> {
    let from = all.range((first, address::FIRST)..);
    from.take_while(move |(service, _)| is_wanted(service)).map(|(_, vip)| *vip)
}

/// A pool, and what is known of it.
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

/// The pools by name.
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
    /// Takes in a pool. Returns false if nothing of it has changed. [`Pools::look_again`] follows.
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

    /// Finds the overlaps, and counts anew. The cost grows with the number of ranges and reservations,
    /// and not with its square.
    pub(super) fn look_again(&mut self, book: &Book) {
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
        for (vip, reservation) in book.reservations() {
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

    /// Returns a pool that gives out addresses.
    pub(super) fn usable(&self, name: &str) -> Option<&Pool> {
        self.get(name).filter(|_| !self.overlaps.contains_key(name))
    }

    /// Returns the pools that give addresses to Services which name none.
    pub(super) fn automatic(&self) -> impl Iterator<Item = &Pool> {
        let pools = self.known.values().map(|known| &known.pool);
        pools.filter(|pool| pool.record.auto_assign && !self.overlaps.contains_key(&pool.record.name))
    }

    /// Returns the pool with an address.
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

    /// Returns the reservation of an address for a Service.
    pub(super) fn reservation(&self, vip: IpAddr, service: &ServiceName) -> Reservation {
        let pool = self.of(vip).map(|pool| Arc::clone(&pool.record.name));
        Reservation { service: service.clone(), pool, kept: None }
    }

    /// Returns true if another Service may ask for an address that is reserved. Across namespaces,
    /// the consent of both is the Services' own matter.
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

    /// Returns a free address of a pool.
    pub(super) fn find(
        &mut self,
        name: &str,
        family: Family,
        seed: u64,
        is_free: impl Fn(IpAddr) -> bool,
    ) -> Option<IpAddr> {
        let known = self.known.get_mut(name)?;
        if counts(known, family).available() == 0 || known.full.contains(&family) {
            return None;
        }
        let start = match known.pool.record.choice {
            Choice::Spread => known.pool.start(family, seed),
            Choice::First => known.full_below.get(&family).copied().unwrap_or_default(),
        };
        let found = known.pool.find(family, start, is_free);
        match (found, known.pool.record.choice) {
            (None, _) => _ = known.full.insert(family),
            (Some(vip), Choice::First) if number(vip) >= start => {
                known.full_below.insert(family, number(vip));
            }
            (Some(_), Choice::First | Choice::Spread) => {}
        }
        found
    }

    /// Notes that an address may be free.
    pub(super) fn has_free(&mut self, vip: IpAddr) {
        let Some(name) = self.of(vip).map(|pool| Arc::clone(&pool.record.name)) else { return };
        let Some(known) = self.known.get_mut(&name) else { return };
        let family = Family::of(vip);
        known.full.remove(&family);
        if let Some(full) = known.full_below.get_mut(&family) {
            *full = number(vip).min(*full);
        }
    }

    pub(super) fn faults(&self, name: &str) -> &[PoolFault] {
        self.known.get(name).map_or(&[], |known| &known.faults)
    }

    pub(super) fn states(&self) -> impl Iterator<Item = (&Pool, PoolState)> {
        self.known.iter().map(|(name, known)| {
            let of = |family| (family, counts(known, family));
            let counts = [Family::V4, Family::V6].map(of).into_iter().filter(|(_, counts)| counts.total > 0);
            (&known.pool, PoolState { counts: counts.collect(), overlap: self.overlaps.get(name).cloned() })
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
