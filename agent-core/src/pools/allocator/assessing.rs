//! Evaluates what a Service has, and what it is to have.

use std::{collections::BTreeSet, net::IpAddr, sync::Arc, time::Duration};

use super::{
    super::{Family, Keep},
    Allocator, Command, Given, Lack, Request, Surroundings,
    joining::Joined,
    known_pools::Pools,
};
use crate::records::{Reservation, ServiceName};

/// The longest time for which an address is kept for a Service of a namespace that is gone.
const WITHOUT_NAMESPACE: Duration = Duration::from_hours(1);

impl Allocator {
    /// Evaluates what a Service has, and what it is to have. A failed command is retried as long as
    /// the Service requests the same.
    pub(super) fn assess(
        &mut self,
        service: &ServiceName,
        surroundings: &impl Surroundings,
        commands: &mut Vec<Command>,
    ) {
        // Only another request is a reason: a Service that accepts any address would else get
        // another one each time.
        if self.reconsidered.contains(service) {
            for vip in self.allocations.set_aside_failed(service) {
                self.pools.has_free(vip);
            }
            // A request that is under way may fail.
            if !self.allocations.is_under_way(service) {
                self.reconsidered.remove(service);
            }
        }
        self.waiting.clear(service);
        let lacks = self.evaluate(service, surroundings, commands);
        self.waiting.settle(service, lacks);
        for vip in self.allocations.given_up() {
            commands.push(Command::GiveUp(vip));
            self.touch(vip, Some(service.clone()));
        }
    }

    /// Returns true if the Service lacks an address, or does not have it yet.
    fn evaluate(
        &mut self,
        service: &ServiceName,
        surroundings: &impl Surroundings,
        commands: &mut Vec<Command>,
    ) -> bool {
        let Some(request) = self.requests.get(service).cloned() else {
            self.let_go(service, commands);
            return false;
        };
        if request.is_elsewhere {
            let mine = self.allocations.of(service);
            self.assign(service, mine.clone(), Vec::new(), commands);
            let released = mine.into_iter().filter(|vip| self.allocations.is_to_be_released(*vip));
            released.collect::<Vec<_>>().into_iter().for_each(|vip| self.free(vip, commands));
            self.set_shared(service, BTreeSet::new());
            return false;
        }
        let mut lacks = Vec::new();
        let (addresses, spare) = if request.is_by_name() {
            self.by_address(service, &request, surroundings, &mut lacks, commands)
        } else {
            self.by_family(service, &request, surroundings, &mut lacks, commands)
        };
        // An address that it is to give up is freed when it has all others, and its status does not name
        // the address any more.
        if !self.allocations.is_asking(service) {
            for vip in spare.into_iter().filter(|vip| !request.status.contains(vip)) {
                self.free(vip, commands);
            }
        }
        let misses = lacks.iter().any(Lack::is_of_an_address);
        self.groups.put_unjoined(service, &lacks);
        self.assign(service, addresses, lacks, commands);
        // A reservation that is under way may go to another Service.
        misses || self.allocations.is_asking(service)
    }

    fn assign(
        &self,
        service: &ServiceName,
        addresses: Vec<IpAddr>,
        lacks: Vec<Lack>,
        commands: &mut Vec<Command>,
    ) {
        let pending = self.allocations.is_reserving_for(service);
        commands.push(Command::Assign(service.clone(), Given { addresses, lacks, pending }));
    }

    /// Frees or keeps the addresses of a Service that requests none any more.
    fn let_go(&mut self, service: &ServiceName, commands: &mut Vec<Command>) {
        for vip in self.allocations.of(service) {
            let Some(reservation) = self.allocations.reservation(vip).cloned() else { continue };
            if reservation.kept.is_none()
                && let Some(heir) = self.heir(vip, &reservation)
            {
                self.reserve(vip, Reservation { service: heir, ..reservation }, commands);
                continue;
            }
            let keep = self.pools.owner(vip, &reservation).map(|pool| pool.keep).unwrap_or_default();
            let until = match (keep, reservation.kept) {
                _ if self.allocations.is_to_be_released(vip) || self.is_one_too_many(vip, &reservation) => {
                    None
                }
                (Keep::Not, _) => None,
                (_, Some(kept)) => Some(kept),
                (Keep::For(time), None) => Some(Some(self.after(time))),
                (Keep::Forever, None) => Some(None),
            };
            let until = until.map(|until| {
                let has_namespace = self.namespaces.contains_key(&service.namespace);
                let last = self.after(WITHOUT_NAMESPACE);
                if has_namespace { until } else { Some(until.map_or(last, |until| until.min(last))) }
            });
            match until {
                None => self.free(vip, commands),
                Some(Some(until)) if until <= self.now => self.free(vip, commands),
                Some(_) if reservation.kept == until => {}
                Some(_) => self.reserve(vip, Reservation { kept: until, ..reservation }, commands),
            }
        }
    }

    fn after(&self, time: Duration) -> i64 {
        self.now.saturating_add(i64::try_from(time.as_secs()).unwrap_or(i64::MAX))
    }

    /// Returns true if the pool of an address keeps as many others of the namespace as it may.
    fn is_one_too_many(&self, vip: IpAddr, reservation: &Reservation) -> bool {
        let Some(pool) = self.pools.owner(vip, reservation) else { return false };
        let Some(most) = pool.record.keep_at_most else { return false };
        let is_of_pool = |other, reservation: &Reservation| {
            let owner = self.pools.owner(other, reservation);
            owner.is_some_and(|owner| owner.record.name == pool.record.name)
        };
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        self.allocations.keeps_before(most, vip, &reservation.service.namespace, is_of_pool)
    }

    /// Returns a Service that shares an address, and inherits it from the Service that it is
    /// reserved for. Any Service may request the address: one of another namespace shares it if its
    /// status names it.
    fn heir(&self, vip: IpAddr, reservation: &Reservation) -> Option<ServiceName> {
        let owner = &reservation.service;
        let shares = |other: &ServiceName, request: &Request| {
            (request.addresses.contains(&vip) || self.groups.shares(other, vip))
                && (other.namespace == owner.namespace || request.status.contains(&vip))
        };
        let asks = |other: &ServiceName| {
            self.requests.get(other).is_some_and(|request| shares(other, request))
                && Pools::may_share(self.pools.any_of(vip), owner, other)
        };
        let sharing = || self.waiting.for_address(vip).filter(|other| *other != owner && asks(other));
        // Another namespace inherits it only if no Service of the owner's namespace shares it.
        sharing().find(|other| other.namespace == owner.namespace).or_else(|| sharing().next()).cloned()
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
        let mine = self.allocations.of(service);
        let (mut addresses, mut spare, mut shared) = (Vec::new(), mine.clone(), BTreeSet::new());
        for family in &request.families {
            let of_family = |vip: &&IpAddr| Family::of(**vip) == *family;
            // An address that is not to be released comes first, then one of the pool that the Service
            // names, then the one in its status.
            let rank = |vip: &&IpAddr| {
                let is_named = self.is_of_named(**vip, request);
                (self.allocations.is_to_be_released(**vip), !is_named, !request.status.contains(vip), **vip)
            };
            let own = mine.iter().filter(of_family).min_by_key(rank).copied();
            let is_wanted =
                |vip: &IpAddr| !self.allocations.is_to_be_released(*vip) && self.is_of_named(*vip, request);
            let shares = || self.shared(service, request, *family);
            let has = own.filter(is_wanted).or_else(shares).or(own);
            let is_own = has.is_some() && has == own;
            let keeps =
                has.is_some_and(|vip| if is_own { is_wanted(&vip) } else { self.is_of_named(vip, request) });
            let is_settled = keeps || self.allocations.is_asking_for(service, *family);
            // A former address of its own comes before one that it may share.
            let adopted =
                if is_settled { None } else { self.adoptable(service, request, *family, surroundings) };
            let joined = match adopted {
                None if !is_settled => self.join(service, request, *family).unwrap_or_else(|lack| {
                    lacks.push(lack);
                    None
                }),
                _ => None,
            };
            // It keeps what it has until it has another one.
            if let Some(vip) = has.filter(|_| !matches!(joined, Some(Joined::Now(_)))) {
                addresses.push(vip);
                if is_own {
                    spare.retain(|other| *other != vip);
                    self.claim_back(vip, service, commands);
                } else {
                    self.waiting.add_address(service, vip);
                    shared.insert(vip);
                }
                if keeps {
                    let unjoined = if is_own { self.unjoined(service, request, vip) } else { None };
                    lacks.extend(self.out_of_pool(vip, service, request).into_iter().chain(unjoined));
                }
            }
            match (joined, adopted) {
                (Some(Joined::Now(vip)), _) => {
                    addresses.push(vip);
                    self.waiting.add_address(service, vip);
                    shared.insert(vip);
                }
                (Some(Joined::Soon(vip)), _) => self.waiting.add_address(service, vip),
                (None, Some(vip)) => self.reserve(vip, self.pools.reservation(vip, service), commands),
                (None, None) if !is_settled => {
                    self.ask(service, request, *family, surroundings, lacks, commands);
                }
                (None, None) => {}
            }
            // The Service keeps an address of its status while the address is being reserved.
            if !addresses.iter().any(|vip| Family::of(*vip) == *family) {
                let served = request.status.iter().copied().filter(|vip| Family::of(*vip) == *family);
                addresses.extend(served.filter(|vip| self.allocations.is_asked_by(*vip, service)));
            }
        }
        self.set_shared(service, shared);
        (addresses, spare)
    }

    /// Returns the address of the status that the Service shares, by the key of both, with the one that
    /// it is reserved for. It keeps that whatever becomes of the pool; the index of Services decides whether
    /// both may have it.
    fn shared(&self, service: &ServiceName, request: &Request, family: Family) -> Option<IpAddr> {
        let of_family = request.status.iter().copied().filter(|vip| Family::of(*vip) == family);
        let shared = of_family.filter(|vip| {
            let Some(owner) = self.allocations.owner(*vip) else { return false };
            match self.requests.get(owner) {
                Some(owner) => owner.keys.iter().any(|key| request.keys.contains(key)),
                // The owner has left, and one that shares the address is about to inherit it.
                None => self.groups.shares(service, *vip),
            }
        });
        shared.min_by_key(|vip| !self.is_of_named(*vip, request))
    }

    /// Returns true if the address is in the pool that a Service names, or came from it, or the Service
    /// names none.
    fn is_of_named(&self, vip: IpAddr, request: &Request) -> bool {
        let came_from = self.allocations.reservation(vip).and_then(|reservation| reservation.pool.as_ref());
        self.pools.is_of(vip, request.pool.as_deref()) || came_from == request.pool.as_ref()
    }

    fn claim_back(&mut self, vip: IpAddr, service: &ServiceName, commands: &mut Vec<Command>) {
        let Some(reservation) = self.allocations.reservation(vip) else { return };
        if reservation.kept.is_some() && reservation.service == *service {
            let reservation = Reservation { kept: None, ..reservation.clone() };
            self.reserve(vip, reservation, commands);
        }
    }

    fn out_of_pool(&self, vip: IpAddr, service: &ServiceName, request: &Request) -> Option<Lack> {
        let pool = self.allocations.reservation(vip)?.pool.clone()?;
        let serves = self
            .pools
            .get(&pool)
            .is_some_and(|known| known.contains(vip) && self.serves(known, service, request));
        (!serves).then_some(Lack::OutOfPool { vip, pool })
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
        let mut spare = self.allocations.of(service);
        spare.retain(|vip| !request.addresses.contains(vip));
        let (mut addresses, mut shared) = (Vec::new(), BTreeSet::new());
        for vip in request.addresses.iter().copied() {
            let pool = self.pools.any_of(vip);
            let is_served = request.status.contains(&vip);
            match self.allocations.reservation(vip).cloned() {
                // It is reserved again when it is free.
                Some(reservation)
                    if reservation.service == *service && self.allocations.is_being_freed(vip) =>
                {
                    self.waiting.add_address(service, vip);
                    addresses.extend(is_served.then_some(vip));
                }
                Some(reservation) if reservation.service == *service => {
                    addresses.push(vip);
                    self.claim_back(vip, service, commands);
                    lacks
                        .extend(self.allocations.is_to_be_released(vip).then_some(Lack::AskedByName { vip }));
                }
                Some(reservation)
                    if reservation.kept.is_none()
                        && Pools::may_share(pool, &reservation.service, service) =>
                {
                    addresses.push(vip);
                    let owner = &reservation.service;
                    // The index of Services refuses others, whose ports count for nobody.
                    if owner.namespace == service.namespace || self.share_a_key(vip, owner, service, request)
                    {
                        shared.insert(vip);
                    }
                    self.waiting.add_address(service, vip);
                }
                Some(reservation) => {
                    self.waiting.add_address(service, vip);
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
                None if surroundings.refuses(vip) => {
                    addresses.push(vip);
                    self.waiting.add_address(service, vip);
                }
                None if self.allocations.is_asked(vip) => {
                    self.waiting.add_address(service, vip);
                    let by = self.allocations.fails_for(vip).filter(|by| *by != service).cloned();
                    lacks.extend(by.map(|by| Lack::Reserved { vip, by, is_kept: false }));
                    addresses.extend(is_served.then_some(vip));
                }
                None if !is_served && self.limit_of(service).is_some() => {
                    // Another Service of the namespace may reserve it, and share it.
                    self.waiting.add_address(service, vip);
                    lacks.extend(self.limit_of(service).map(|limit| Lack::TooMany { limit }));
                }
                None if self.allocations.may_adopt(vip, service) => {
                    self.reserve(vip, self.pools.reservation(vip, service), commands);
                    addresses.extend(is_served.then_some(vip));
                }
                // Its claim names another Service. The index of Services decides whether they share a VIP.
                None => {
                    addresses.push(vip);
                    self.waiting.add_address(service, vip);
                }
            }
        }
        self.set_shared(service, shared);
        let has_less = request.names_refused || lacks.iter().any(Lack::is_of_an_address);
        if has_less || self.allocations.is_asking(service) {
            // It gives nothing up for what it does not get, or does not have yet. What is kept it does not have.
            let (had, kept): (Vec<_>, _) = spare
                .into_iter()
                .partition(|vip| !self.allocations.is_kept(*vip) || request.status.contains(vip));
            let (had, gone): (Vec<_>, Vec<_>) =
                had.into_iter().partition(|vip| request.families.contains(&Family::of(*vip)));
            for vip in &had {
                self.claim_back(*vip, service, commands);
            }
            addresses.extend(had);
            spare = kept;
            spare.retain(|vip| self.is_kept_no_longer(*vip));
            spare.extend(gone);
        }
        lacks.extend(self.not_of_named_pool(&addresses, request));
        (addresses, spare)
    }

    /// Returns the contradiction of a Service that requests addresses by name, and names a pool that has
    /// none of them.
    fn not_of_named_pool(&self, addresses: &[IpAddr], request: &Request) -> Option<Lack> {
        let pool = Arc::clone(request.pool.as_ref()?);
        let is_outside = |vip: &&IpAddr| request.addresses.contains(vip) && !self.is_of_named(**vip, request);
        let vips: Vec<_> = addresses.iter().filter(is_outside).copied().collect();
        (!vips.is_empty()).then_some(Lack::NotOfNamedPool { vips, pool })
    }

    /// Returns true if the time has ended for which an address was kept, or an admin wants it released.
    fn is_kept_no_longer(&self, vip: IpAddr) -> bool {
        let kept = self.allocations.reservation(vip).and_then(|reservation| reservation.kept.flatten());
        kept.is_some_and(|until| until <= self.now) || self.allocations.is_to_be_released(vip)
    }

    pub(super) fn reserve(&mut self, vip: IpAddr, reservation: Reservation, commands: &mut Vec<Command>) {
        let service = reservation.service.clone();
        commands.extend(self.allocations.write(vip, &service, Some(reservation)).map(Command::Write));
        self.note_owner(&service);
    }

    fn free(&mut self, vip: IpAddr, commands: &mut Vec<Command>) {
        let Some(reservation) = self.allocations.reservation(vip).cloned() else { return };
        if let Some(heir) = self.heir(vip, &reservation) {
            return self.reserve(vip, Reservation { service: heir, kept: None, ..reservation }, commands);
        }
        commands.extend(self.allocations.write(vip, &reservation.service, None).map(Command::Write));
    }
}
