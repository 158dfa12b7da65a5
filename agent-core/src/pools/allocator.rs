//! Decides which Service gets which address.
//!
//! The allocator knows the objects as it last read them, and waits for the answer to each of its
//! commands. Two allocators at once give no address twice, since one object decides; a Service that
//! got an address from each keeps the one in its status, or else the lower one.

mod answers;
mod books;
mod requests;

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::Arc,
};

pub use self::{
    answers::{Fit, Lack, Prospect},
    books::{Counts, PoolState, Reservation},
    requests::Request,
};
use self::{
    books::{Book, Pools},
    requests::Waiting,
};
use super::{Family, Keep, L2AdvertisementRecord, Pool, PoolFault, PoolKind, PoolRecord};
use crate::{cluster::ServiceName, pace::mix};

/// Knowledge about addresses that the allocator lacks.
pub trait Surroundings {
    /// Returns true if no Service may have the address.
    fn refuses(&self, vip: IpAddr) -> bool;
    /// Returns true if a Service may have the address, and none wants it.
    fn is_free(&self, vip: IpAddr) -> bool;
}

/// An input of the allocator.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// A pool was listed or changed.
    Pool(Box<PoolRecord>),
    /// A pool is gone.
    PoolGone(Arc<str>),
    /// An `L2Advertisement` was listed or changed.
    Advertisement(Box<L2AdvertisementRecord>),
    /// An `L2Advertisement` is gone.
    AdvertisementGone(Arc<str>),
    /// True if the `L2Advertisement` objects are known: they were listed, and the API server has the
    /// type.
    Advertised(bool),
    /// A Namespace was listed or changed.
    Namespace {
        /// Its name.
        name: Arc<str>,
        /// Its labels.
        labels: BTreeMap<String, String>,
    },
    /// A Service asks for addresses, or asks for others than before.
    Request(ServiceName, Box<Request>),
    /// A Service asks for none any more, or is gone.
    Withdrawn(ServiceName),
    /// The `VirtualIP` of an address was listed or changed.
    Object {
        /// The address.
        vip: IpAddr,
        /// Its reservation, if it has one.
        reservation: Option<Reservation>,
        /// True if an admin wants the reservation given up.
        release: bool,
        /// The Services that its claim names.
        services: Vec<ServiceName>,
    },
    /// The `VirtualIP` of an address is gone.
    ObjectGone(IpAddr),
    /// The write of an address's reservation has ended. What the object is now comes before, as an
    /// event of its own.
    Answered(IpAddr),
    /// The write of an address's reservation has failed, and is tried again. [`Event::Answered`]
    /// follows.
    Failed(IpAddr),
    /// Everything has been listed. No command comes before the first of these events.
    Synced,
    /// The time, in seconds since 1970. It ends what is kept for a time.
    Time(i64),
}

/// A command of the allocator.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Command {
    /// Write the reservation of an address. [`Event::Answered`] follows.
    Write(ReservationWrite),
    /// The addresses of a Service have changed: those that are reserved for it, or shared with it.
    Assign {
        /// The Service.
        service: ServiceName,
        /// Its addresses, in the order in which it asks for them.
        addresses: Vec<IpAddr>,
        /// The addresses that it lacks, with the reasons.
        lacks: Vec<Lack>,
        /// True if a reservation for it is being written: another [`Command::Assign`] follows soon.
        pending: bool,
    },
}

/// A write of an address's reservation (compare and swap).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReservationWrite {
    /// The address.
    pub vip: IpAddr,
    /// Its object, as it was last read.
    pub expected: Expected,
    /// The new reservation. None: the address is free again, and the wish to release it fulfilled.
    pub reservation: Option<Reservation>,
}

/// The state of an object that a write rests on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Expected {
    /// There is none.
    Absent,
    /// There is one, with this reservation.
    Present(Option<Reservation>),
}

/// The Services' requests, the pools, and the reservations.
#[derive(Debug, Default)]
pub struct Allocator {
    pools: Pools,
    book: Book,
    requests: BTreeMap<ServiceName, Box<Request>>,
    namespaces: BTreeMap<Arc<str>, BTreeMap<String, String>>,
    /// The last [`Command::Assign`] of each Service.
    assigned: BTreeMap<ServiceName, (Vec<IpAddr>, Vec<Lack>, bool)>,
    waiting: Waiting,
    touched: BTreeSet<ServiceName>,
    /// Addresses that have become free.
    freed: BTreeSet<IpAddr>,
    is_synced: bool,
    /// The largest number of addresses of a namespace.
    most: Option<usize>,
    now: i64,
}

impl Allocator {
    /// Starts without a pool. `most` is the largest number of addresses of a namespace.
    pub fn start(most: Option<usize>) -> Self {
        Self { most, ..Self::default() }
    }

    /// Takes in an event. Returns the commands that follow.
    pub fn on_event(&mut self, event: Event, surroundings: &impl Surroundings) -> Vec<Command> {
        let mut commands = Vec::new();
        match event {
            Event::Pool(record) => {
                if self.pools.put(*record) {
                    self.look_again();
                }
            }
            Event::PoolGone(name) => {
                self.pools.remove(&name);
                self.look_again();
            }
            // They say where addresses are announced, not who gets them.
            Event::Advertisement(_) | Event::AdvertisementGone(_) | Event::Advertised(_) => {}
            Event::Namespace { name, labels } => {
                if self.namespaces.get(&name) != Some(&labels) {
                    let of_it = self.requests.keys().filter(|service| service.namespace == name);
                    self.touched.extend(of_it.cloned());
                    self.namespaces.insert(name, labels);
                }
            }
            Event::Request(service, request) => {
                if self.requests.get(&service) != Some(&request) {
                    self.waiting.remove(&service);
                    self.requests.insert(service.clone(), request);
                    self.touched.insert(service);
                }
            }
            Event::Withdrawn(service) => {
                self.requests.remove(&service);
                self.waiting.remove(&service);
                self.assigned.remove(&service);
                self.touched.insert(service);
            }
            Event::Object { vip, reservation, release, services } => {
                let before = self.book.put(vip, reservation, release, services, &mut self.pools);
                self.touch(vip, before);
            }
            Event::ObjectGone(vip) => {
                let before = self.book.remove(vip, &mut self.pools);
                self.touch(vip, before);
            }
            Event::Answered(vip) => {
                // The one that has it now may have waited for this answer, to give the address up.
                let asking = self.book.answered(vip);
                self.touch(vip, asking);
            }
            Event::Failed(vip) => self.touched.extend(self.book.failed(vip)),
            Event::Synced => {
                self.is_synced = true;
                self.pools.look_again(&self.book);
                // Those that have or name addresses come first, and an address is given up last.
                let names_some =
                    |request: &Request| !request.addresses.is_empty() || !request.status.is_empty();
                let (first, then): (Vec<_>, Vec<_>) =
                    self.requests.iter().partition(|(_, request)| names_some(request));
                let all = first.into_iter().chain(then);
                for service in all.map(|(service, _)| service.clone()).collect::<Vec<_>>() {
                    self.assess(&service, surroundings, &mut commands);
                }
                self.touched.extend(self.book.owners());
            }
            Event::Time(now) => {
                self.now = now;
                self.touched.extend(self.book.expired(now));
            }
        }
        if self.is_synced {
            while let Some(service) = self.touched.pop_first() {
                self.assess(&service, surroundings, &mut commands);
            }
            for vip in std::mem::take(&mut self.freed) {
                self.offer(vip, surroundings, &mut commands);
            }
        }
        commands
    }

    /// Takes in that a pool has changed. The pools of the first list are looked at when all are known.
    fn look_again(&mut self) {
        if !self.is_synced {
            return;
        }
        self.pools.look_again(&self.book);
        self.touched.extend(self.requests.keys().cloned());
        self.touched.extend(self.book.owners());
    }

    /// Evaluates the Services that wait for an address which nobody has, until one asks for it.
    fn offer(&mut self, vip: IpAddr, surroundings: &impl Surroundings, commands: &mut Vec<Command>) {
        for service in self.waiting.of(vip).collect::<Vec<_>>() {
            if self.book.reservation(vip).is_some() || self.book.is_asked(vip) {
                return;
            }
            self.assess(&service, surroundings, commands);
        }
    }

    /// Returns the time at which the next kept address becomes free.
    pub fn next_expiry(&self) -> Option<i64> {
        self.book.next_expiry()
    }

    /// Returns what has become of each pool.
    pub fn pools(&self) -> impl Iterator<Item = (&Pool, PoolState)> {
        self.pools.states()
    }

    /// Returns the faults of a pool's values.
    pub fn faults(&self, pool: &str) -> &[PoolFault] {
        self.pools.faults(pool)
    }

    /// Returns the kind of the pool that an address came from, else of the one that has it.
    pub fn kind_of(&self, vip: IpAddr) -> Option<PoolKind> {
        let came_from = self.book.reservation(vip).and_then(|reservation| reservation.pool.as_ref());
        let pool = came_from.or_else(|| self.pools.any_of(vip).map(|pool| &pool.record.name));
        pool.map(|pool| PoolKind::of(pool).0)
    }

    /// Returns the reservations, by address.
    pub fn reservations(&self) -> impl Iterator<Item = (IpAddr, &Reservation)> {
        self.book.reservations()
    }

    /// Returns the reservation of an address.
    pub fn reservation(&self, vip: IpAddr) -> Option<&Reservation> {
        self.book.reservation(vip)
    }

    /// Returns what each pool is to a Service that asks for an address, those that come first in front.
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

    fn touch(&mut self, vip: IpAddr, before: Option<ServiceName>) {
        let after = self.book.reservation(vip).map(|reservation| reservation.service.clone());
        self.touch_free(vip);
        self.touched.extend(before.into_iter().chain(after));
    }

    /// Notes an address that Services may get, if nobody has it.
    fn touch_free(&mut self, vip: IpAddr) {
        if self.book.reservation(vip).is_none() {
            self.freed.insert(vip);
            self.pools.has_free(vip);
        }
    }

    /// Evaluates what a Service has, and what it is to have.
    fn assess(
        &mut self,
        service: &ServiceName,
        surroundings: &impl Surroundings,
        commands: &mut Vec<Command>,
    ) {
        let Some(request) = self.requests.get(service).cloned() else {
            return self.let_go(service, commands);
        };
        if request.is_elsewhere {
            let mine = self.book.of(service);
            self.assign(service, mine.clone(), Vec::new(), commands);
            let released = mine.into_iter().filter(|vip| self.book.is_to_be_released(*vip));
            return released.collect::<Vec<_>>().into_iter().for_each(|vip| self.free(vip, commands));
        }
        let mut lacks = Vec::new();
        let (addresses, spare) = if request.addresses.is_empty() {
            self.by_family(service, &request, surroundings, &mut lacks, commands)
        } else {
            self.by_address(service, &request, surroundings, &mut lacks, commands)
        };
        // An address that it is to give up is freed when it has all others, and its status does not name
        // the address any more.
        if !self.book.is_asking(service) {
            for vip in spare.into_iter().filter(|vip| !request.status.contains(vip)) {
                self.free(vip, commands);
            }
        }
        self.assign(service, addresses, lacks, commands);
    }

    fn assign(
        &mut self,
        service: &ServiceName,
        addresses: Vec<IpAddr>,
        lacks: Vec<Lack>,
        commands: &mut Vec<Command>,
    ) {
        let assigned = (addresses, lacks, self.book.is_reserving_for(service));
        if self.assigned.get(service) != Some(&assigned) {
            // The copy has no spare room. It is kept for thousands of Services.
            self.assigned.insert(service.clone(), assigned.clone());
            let (addresses, lacks, pending) = assigned;
            commands.push(Command::Assign { service: service.clone(), addresses, lacks, pending });
        }
    }

    /// Frees or keeps the addresses of a Service that asks for none any more.
    fn let_go(&mut self, service: &ServiceName, commands: &mut Vec<Command>) {
        for vip in self.book.of(service) {
            let Some(reservation) = self.book.reservation(vip).cloned() else { continue };
            if reservation.kept.is_none()
                && let Some(heir) = self.heir(vip, &reservation)
            {
                self.reserve(vip, Reservation { service: heir, ..reservation }, commands);
                continue;
            }
            let keep = self.pools.owner(vip, &reservation).map(|pool| pool.keep).unwrap_or_default();
            let until = match (keep, reservation.kept) {
                _ if self.book.is_to_be_released(vip) => None,
                (Keep::Not, _) => None,
                (_, Some(kept)) => Some(kept),
                (Keep::For(time), None) => {
                    let seconds = i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
                    Some(Some(self.now.saturating_add(seconds)))
                }
                (Keep::Forever, None) => Some(None),
            };
            match until {
                None => self.free(vip, commands),
                Some(Some(until)) if until <= self.now => self.free(vip, commands),
                Some(_) if reservation.kept == until => {}
                Some(_) => self.reserve(vip, Reservation { kept: until, ..reservation }, commands),
            }
        }
    }

    /// Returns a Service that shares an address, and has it when the Service goes that it is reserved
    /// for. Any Service may ask for the address: one of another namespace shares it if its status
    /// names it.
    fn heir(&self, vip: IpAddr, reservation: &Reservation) -> Option<ServiceName> {
        let owner = &reservation.service;
        let shares = |other: &ServiceName, request: &Request| {
            request.wants(vip) && (other.namespace == owner.namespace || request.status.contains(&vip))
        };
        let asks = |other: &ServiceName| {
            self.requests.get(other).is_some_and(|request| shares(other, request))
                && Pools::may_share(self.pools.any_of(vip), owner, other)
        };
        self.waiting.for_address(vip).find(|other| *other != owner && asks(other)).cloned()
    }

    /// Evaluates a request for one address of each family. Returns the addresses that it has, and
    /// those that it is to give up.
    fn by_family(
        &mut self,
        service: &ServiceName,
        request: &Request,
        surroundings: &impl Surroundings,
        lacks: &mut Vec<Lack>,
        commands: &mut Vec<Command>,
    ) -> (Vec<IpAddr>, Vec<IpAddr>) {
        let mine = self.book.of(service);
        let (mut addresses, mut spare) = (Vec::new(), mine.clone());
        for family in &request.families {
            let of_family = |vip: &&IpAddr| Family::of(**vip) == *family;
            // One that is not to be released goes first, then one of the named pool, then that of the
            // status.
            let rank = |vip: &&IpAddr| {
                let is_named = self.is_of_named(**vip, request);
                (self.book.is_to_be_released(**vip), !is_named, !request.status.contains(vip), **vip)
            };
            let own = mine.iter().filter(of_family).min_by_key(rank).copied();
            if let Some(vip) = own.or_else(|| self.shared(request, *family)) {
                addresses.push(vip);
                if own.is_some() {
                    spare.retain(|other| *other != vip);
                    self.claim_back(vip, service, commands);
                } else {
                    self.waiting.add_address(service.clone(), vip);
                }
                let is_released = own.is_some() && self.book.is_to_be_released(vip);
                if is_released || !self.is_of_named(vip, request) {
                    // It keeps what it has until it has another one.
                    if !self.book.is_asking_for(service, *family) {
                        self.ask(service, request, *family, surroundings, lacks, commands);
                    }
                } else if let Some(lack) = self.out_of_pool(vip, service, request) {
                    lacks.push(lack);
                }
            } else if !self.book.is_asking_for(service, *family) {
                self.ask(service, request, *family, surroundings, lacks, commands);
            }
            // What it is served with stays so while that is being reserved.
            if !addresses.iter().any(|vip| Family::of(*vip) == *family) {
                let served = request.status.iter().copied().filter(|vip| Family::of(*vip) == *family);
                addresses.extend(served.filter(|vip| self.book.is_asked_by(*vip, service)));
            }
        }
        (addresses, spare)
    }

    /// Returns the address of the status that the Service shares, by the key of both, with the one that
    /// it is reserved for. It keeps that whatever becomes of the pool.
    fn shared(&self, request: &Request, family: Family) -> Option<IpAddr> {
        let of_family = request.status.iter().copied().filter(|vip| Family::of(*vip) == family);
        let shared = of_family.filter(|vip| {
            let owner = self.book.owner(*vip).and_then(|owner| self.requests.get(owner));
            request.share.is_some() && owner.is_some_and(|owner| owner.share == request.share)
        });
        shared.min_by_key(|vip| !self.is_of_named(*vip, request))
    }

    /// Returns true if the address is in the pool that a Service names, or came from it, or the Service
    /// names none.
    fn is_of_named(&self, vip: IpAddr, request: &Request) -> bool {
        let came_from = self.book.reservation(vip).and_then(|reservation| reservation.pool.as_ref());
        self.pools.is_of(vip, request.pool.as_deref()) || came_from == request.pool.as_ref()
    }

    /// Ends the time for which an address was kept.
    fn claim_back(&mut self, vip: IpAddr, service: &ServiceName, commands: &mut Vec<Command>) {
        let Some(reservation) = self.book.reservation(vip) else { return };
        if reservation.kept.is_some() && reservation.service == *service {
            let reservation = Reservation { kept: None, ..reservation.clone() };
            self.reserve(vip, reservation, commands);
        }
    }

    fn out_of_pool(&self, vip: IpAddr, service: &ServiceName, request: &Request) -> Option<Lack> {
        let pool = self.book.reservation(vip)?.pool.clone()?;
        let serves = self
            .pools
            .get(&pool)
            .is_some_and(|known| known.contains(vip) && self.serves(known, service, request));
        (!serves).then_some(Lack::OutOfPool { vip, pool })
    }

    fn serves(&self, pool: &Pool, service: &ServiceName, request: &Request) -> bool {
        static NONE: BTreeMap<String, String> = BTreeMap::new();
        let namespace = self.namespaces.get(&service.namespace).unwrap_or(&NONE);
        pool.serves(service, &request.labels, namespace)
    }

    /// Reserves an address of a family for a Service that has none.
    fn ask(
        &mut self,
        service: &ServiceName,
        request: &Request,
        family: Family,
        surroundings: &impl Surroundings,
        lacks: &mut Vec<Lack>,
        commands: &mut Vec<Command>,
    ) {
        // What the status says was its own before: another version wrote it, or the object was lost.
        let own = request.status.iter().copied().find(|vip| {
            let fits = request.pool.is_none() || self.pools.is_of(*vip, request.pool.as_deref());
            Family::of(*vip) == family && fits && self.book.may_adopt(*vip, service)
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
            let book = &self.book;
            let is_free = |vip| book.is_free(vip) && surroundings.is_free(vip);
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
    fn limit_of(&self, service: &ServiceName) -> Option<usize> {
        self.most.filter(|most| self.book.number_of(&service.namespace) >= *most)
    }

    /// Returns true if a Service is not content without an address of a family.
    fn is_missed(&self, service: &ServiceName, request: &Request, family: Family) -> bool {
        let has_other = || self.book.of(service).iter().any(|vip| Family::of(*vip) != family);
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
                return Err(Some(match self.pools.get(name) {
                    Some(_) => Lack::NotServed { pool: Arc::clone(name) },
                    None => Lack::NoSuchPool { pool: Arc::clone(name) },
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
        self.book.all_of(service).into_iter().filter(is_other).collect()
    }

    /// Returns true if a dual-stack Service that gets an address of this pool has, or may have, its
    /// addresses from several of `MetalLB`'s pools. `MetalLB` gives it all of them from one.
    fn splits(&self, pool: &Pool, request: &Request, others: &[IpAddr]) -> bool {
        let has_all = || request.families.iter().all(|family| !self.pools.rank(pool, *family).is_full());
        let is_one = if others.is_empty() { has_all() } else { others.iter().all(|vip| pool.contains(*vip)) };
        PoolKind::of(&pool.record.name).0 == PoolKind::IpAddressPool && !is_one
    }

    /// Evaluates a request for certain addresses.
    fn by_address(
        &mut self,
        service: &ServiceName,
        request: &Request,
        surroundings: &impl Surroundings,
        lacks: &mut Vec<Lack>,
        commands: &mut Vec<Command>,
    ) -> (Vec<IpAddr>, Vec<IpAddr>) {
        let mut spare = self.book.of(service);
        spare.retain(|vip| !request.addresses.contains(vip));
        let mut addresses = Vec::new();
        for vip in request.addresses.iter().copied() {
            let pool = self.pools.any_of(vip);
            let is_served = request.status.contains(&vip);
            match self.book.reservation(vip).cloned() {
                Some(reservation) if reservation.service == *service => {
                    addresses.push(vip);
                    self.claim_back(vip, service, commands);
                    lacks.extend(self.book.is_to_be_released(vip).then_some(Lack::AskedByName { vip }));
                }
                Some(reservation)
                    if reservation.kept.is_none()
                        && Pools::may_share(pool, &reservation.service, service) =>
                {
                    addresses.push(vip);
                    self.waiting.add_address(service.clone(), vip);
                }
                Some(reservation) => {
                    self.waiting.add_address(service.clone(), vip);
                    let (by, is_kept) = (reservation.service, reservation.kept.is_some());
                    lacks.push(Lack::Reserved { vip, by, is_kept });
                    addresses.extend(is_served.then_some(vip));
                }
                None if pool.is_some_and(|pool| !self.serves(pool, service, request)) => {
                    let pool = pool.map(|pool| Arc::clone(&pool.record.name)).unwrap_or_default();
                    lacks.push(Lack::NotServedAddress { vip, pool });
                    addresses.extend(is_served.then_some(vip));
                }
                // The Services' own rules refuse it, and report that.
                None if surroundings.refuses(vip) => addresses.push(vip),
                None if self.book.is_asked(vip) => {
                    self.waiting.add_address(service.clone(), vip);
                    addresses.extend(is_served.then_some(vip));
                }
                None if !is_served && self.limit_of(service).is_some() => {
                    lacks.extend(self.limit_of(service).map(|limit| Lack::TooMany { limit }));
                }
                None if self.book.may_adopt(vip, service) => {
                    self.reserve(vip, self.pools.reservation(vip, service), commands);
                    addresses.extend(is_served.then_some(vip));
                }
                // Whether a VIP of other Services is shared is the Services' own matter.
                None => addresses.push(vip),
            }
        }
        let misses = |lack: &Lack| !matches!(lack, Lack::AskedByName { .. });
        if lacks.iter().any(misses) || self.book.is_asking(service) {
            // It gives nothing up for what it does not get, or does not have yet.
            addresses.append(&mut spare);
        }
        (addresses, spare)
    }

    fn reserve(&mut self, vip: IpAddr, reservation: Reservation, commands: &mut Vec<Command>) {
        if self.book.ask(vip, &reservation.service) {
            let expected = self.book.expected(vip);
            commands.push(Command::Write(ReservationWrite { vip, expected, reservation: Some(reservation) }));
        }
    }

    fn free(&mut self, vip: IpAddr, commands: &mut Vec<Command>) {
        let Some(reservation) = self.book.reservation(vip).cloned() else { return };
        if let Some(heir) = self.heir(vip, &reservation) {
            return self.reserve(vip, Reservation { service: heir, kept: None, ..reservation }, commands);
        }
        if self.book.ask_to_free(vip, &reservation.service) {
            let expected = self.book.expected(vip);
            commands.push(Command::Write(ReservationWrite { vip, expected, reservation: None }));
        }
    }
}

/// Returns a number that depends on a Service's name alone.
fn seed(service: &ServiceName) -> u64 {
    let bytes = service.namespace.bytes().chain([0]).chain(service.name.bytes());
    bytes.fold(0, |seed, byte| mix(seed ^ u64::from(byte)))
}
