//! Decides which Service gets which address.
//!
//! The allocator knows the objects as it last read them, and waits for the answer to each of its
//! commands. Two allocators at once allocate no address twice, because one object decides. A
//! Service that got an address from each keeps the one in its status, or else the lower one.

mod allocations;
mod announcers;
mod answers;
mod apart;
mod assessing;
mod choosing;
mod groups;
mod joining;
mod known_pools;
mod requests;
mod types;

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::Arc,
};

use ipnet::IpNet;

use self::{
    allocations::Allocations, announcers::Announcers, groups::Groups, known_pools::Pools, requests::Waiting,
};
pub use self::{
    announcers::{Announcing, Limits},
    answers::{Fit, Lack, Prospect},
    apart::Apart,
    groups::ShareKey,
    known_pools::{Counts, PoolState},
    requests::Request,
    types::{Command, Event, Expected, Given, ReservationWrite, Surroundings},
};
use super::{Change, Family, Pool, PoolFault};
use crate::records::{PoolKind, Reservation, ServiceName};

#[derive(Debug, Default)]
pub struct Allocator {
    pools: Pools,
    allocations: Allocations,
    requests: BTreeMap<ServiceName, Box<Request>>,
    namespaces: BTreeMap<Arc<str>, Namespace>,
    announcers: Announcers,
    groups: Groups,
    waiting: Waiting,
    touched: BTreeSet<ServiceName>,
    /// The Services whose failed commands may no longer be what they want.
    reconsidered: BTreeSet<ServiceName>,
    freed: BTreeSet<IpAddr>,
    is_synced: bool,
    most: Option<usize>,
    now: i64,
}

#[derive(PartialEq, Eq, Debug)]
struct Namespace {
    labels: BTreeMap<String, String>,
    share_with: BTreeSet<Arc<str>>,
}

impl Allocator {
    /// Starts without a pool. A namespace may have `most` addresses. If they may be anywhere, no node need
    /// have an interface in their subnets.
    pub fn start(most: Option<usize>, is_anywhere: bool) -> Self {
        Self { most, announcers: Announcers::start(is_anywhere), ..Self::default() }
    }

    pub fn on_event(&mut self, event: Event, surroundings: &impl Surroundings) -> Vec<Command> {
        let mut commands = Vec::new();
        match event {
            Event::Pool(record) => {
                self.announcers.on_pool(&Change::Pool(record.clone()));
                if self.pools.put(*record) {
                    self.look_again();
                }
            }
            Event::PoolGone(name) => {
                self.pools.remove(&name);
                self.announcers.on_pool(&Change::PoolGone(name));
                self.look_again();
            }
            Event::Announcing(change) => {
                if self.announcers.on_change(change) {
                    self.touched.extend(self.waiting.services().chain(self.groups.all_unjoined()).cloned());
                }
            }
            Event::Needs(net) => self.touch_needed(net),
            Event::Namespace { name, labels, share_with } => {
                let namespace = Namespace { labels, share_with };
                if self.namespaces.get(&name) != Some(&namespace) {
                    self.touch_namespace(&name);
                    self.namespaces.insert(name, namespace);
                }
            }
            Event::NamespaceGone(name) => {
                self.namespaces.remove(&name);
                self.touch_namespace(&name);
                self.touched.extend(self.allocations.owners_in(&name));
            }
            Event::Request(service, request) => {
                if self.requests.get(&service) != Some(&request) {
                    self.put_request(service, Some(request));
                }
            }
            Event::Withdrawn(service) => {
                self.set_shared(&service, BTreeSet::new());
                self.groups.put_unjoined(&service, &[]);
                self.waiting.remove(&service);
                self.put_request(service, None);
            }
            Event::Object { vip, reservation, release, services } => {
                let named = self.allocations.claimed_in(vip);
                let before = self.allocations.put(vip, reservation, release, services, &mut self.pools);
                self.touch_changed(vip, before, &named);
            }
            Event::ObjectGone(vip) => {
                let named = self.allocations.claimed_in(vip);
                let before = self.allocations.remove(vip, &mut self.pools);
                self.touch_changed(vip, before, &named);
            }
            Event::Permitted(vip) => self.touch_free(vip),
            Event::Answered(vip) => {
                // The one that has it now may have waited for this answer, to give the address up; others to
                // share it.
                let asking = self.allocations.answered(vip);
                if let Some(asking) = &asking {
                    self.note_owner(asking);
                }
                self.touched.extend(self.waiting.for_address(vip).cloned());
                self.touch(vip, asking);
            }
            Event::Failed(vip) => {
                self.touched.extend(self.allocations.failed(vip));
                self.touched.extend(self.waiting.for_address(vip).cloned());
            }
            Event::TriedAgain(vip) => self.allocations.tried_again(vip),
            Event::Synced => {
                self.is_synced = true;
                self.pools.look_again(self.allocations.reservations());
                for service in self.in_order_of_age() {
                    self.assess(&service, surroundings, &mut commands);
                }
                self.touched.extend(self.allocations.owners());
            }
            Event::Time(now) => {
                self.now = now;
                self.touched.extend(self.allocations.expired(now));
            }
        }
        if self.is_synced {
            loop {
                while !self.touched.is_empty() {
                    for service in self.waiting.in_order(std::mem::take(&mut self.touched)) {
                        self.assess(&service, surroundings, &mut commands);
                    }
                }
                let Some(vip) = self.freed.pop_first() else { break };
                self.offer(vip, surroundings, &mut commands);
            }
        }
        commands
    }

    /// Returns all Services with a request. Those that have or name addresses come first, and then the
    /// oldest: an address is given up last.
    fn in_order_of_age(&self) -> Vec<ServiceName> {
        let names_some = |request: &Request| !request.addresses.is_empty() || !request.status.is_empty();
        let mut all: Vec<_> = self.requests.iter().collect();
        all.sort_by_key(|(_, request)| (!names_some(request), request.created));
        all.into_iter().map(|(service, _)| service.clone()).collect()
    }

    /// Records a Service's request, or that it has none any more.
    fn put_request(&mut self, service: ServiceName, request: Option<Box<Request>>) {
        let before = self.requests.remove(&service);
        let shares_alike = |one: &Request, other: &Request| one.sharing() == other.sharing();
        if let Some(before) = &before {
            self.groups.remove(&service, &before.keys);
        }
        if !before.as_deref().zip(request.as_deref()).is_some_and(|(one, other)| shares_alike(one, other)) {
            self.touched.extend(self.groups.unjoined(&service).cloned());
            if request.is_some() {
                // The heir of one that has left wakes those that share.
                for vip in self.allocations.all_of(&service) {
                    self.touched.extend(self.groups.sharers(vip).cloned());
                }
            }
        }
        if let Some(request) = request {
            self.groups.put(&service, &request.keys);
            let is_new = !before.is_some_and(|before| shares_alike(&before, &request));
            let keys = request.keys.clone();
            self.requests.insert(service.clone(), request);
            self.note_owner(&service);
            if is_new && !self.allocations.all_of(&service).is_empty() {
                self.touch_group(&keys);
            }
        }
        self.reconsidered.insert(service.clone());
        self.touched.insert(service);
    }

    /// Records the addresses that a Service shares with those that have them.
    fn set_shared(&mut self, service: &ServiceName, vips: BTreeSet<IpAddr>) {
        let [gone, new] = self.groups.share(service, vips);
        let owners = gone.iter().chain(&new).filter_map(|vip| self.allocations.owner(*vip));
        self.touched.extend(owners.filter(|owner| *owner != service).cloned());
        if !gone.is_empty() {
            self.touch_limited(&service.namespace);
        }
    }

    /// Records whether a Service with keys has an address, or is about to.
    fn note_owner(&mut self, service: &ServiceName) {
        let Some(request) = self.requests.get(service).filter(|request| !request.keys.is_empty()) else {
            return;
        };
        let has_one = !self.allocations.all_of(service).is_empty();
        self.groups.put_owner(service, &request.keys, has_one);
    }

    /// Records that a Service with these keys has an address. Those that lack one may share it.
    fn touch_group(&mut self, keys: &[ShareKey]) {
        let waiting = self.groups.with(keys).filter(|other| self.waiting.has_place(other));
        self.touched.extend(waiting.cloned());
    }

    fn touch_namespace(&mut self, name: &Arc<str>) {
        let first = ServiceName::before(name);
        let of_it = self.requests.range(first..).take_while(|(service, _)| service.namespace == *name);
        // Another namespace may share, or not any more.
        let keys: BTreeSet<_> = of_it.clone().flat_map(|(_, request)| request.keys.iter().cloned()).collect();
        let of_it = of_it.map(|(service, _)| service);
        let kept_out = of_it.clone().flat_map(|service| self.groups.unjoined(service));
        let sharers = self.groups.all_sharers();
        self.touched.extend(of_it.clone().chain(kept_out).chain(sharers).cloned());
        self.touch_group(&keys.into_iter().collect::<Vec<_>>());
        self.reconsidered.extend(self.allocations.failing().filter(|it| it.namespace == *name).cloned());
    }

    /// Records that a pool has changed. The pools of the first list are evaluated when all are
    /// known.
    fn look_again(&mut self) {
        if !self.is_synced {
            return;
        }
        self.pools.look_again(self.allocations.reservations());
        self.touched.extend(self.requests.keys().cloned());
        self.touched.extend(self.allocations.owners());
        self.reconsidered.extend(self.allocations.failing().cloned());
    }

    /// Evaluates the Services that wait for a free address, until one requests it.
    fn offer(&mut self, vip: IpAddr, surroundings: &impl Surroundings, commands: &mut Vec<Command>) {
        for service in self.waiting.of(vip) {
            if self.allocations.reservation(vip).is_some() || self.allocations.is_asked(vip) {
                return;
            }
            self.assess(&service, surroundings, commands);
        }
    }

    /// Returns the time at which the next kept address becomes free.
    pub fn next_expiry(&self) -> Option<i64> {
        self.allocations.next_expiry()
    }

    pub fn pools(&self) -> impl Iterator<Item = (&Pool, PoolState)> {
        self.pools.states().map(|(pool, state)| {
            let unreached = self.announcers.unreached(pool);
            (pool, PoolState { unreached, ..state })
        })
    }

    pub fn faults(&self, pool: &str) -> &[PoolFault] {
        self.pools.faults(pool)
    }

    /// Returns the kind of the pool that an address came from, else of the one that has it.
    pub fn kind_of(&self, vip: IpAddr) -> Option<PoolKind> {
        let came_from = self.allocations.reservation(vip).and_then(|reservation| reservation.pool.as_ref());
        let pool = came_from.or_else(|| self.pools.any_of(vip).map(|pool| &pool.record.name));
        pool.map(|pool| PoolKind::of(pool).0)
    }

    pub fn reservations(&self) -> impl Iterator<Item = (IpAddr, &Reservation)> {
        self.allocations.reservations()
    }

    pub fn reservation(&self, vip: IpAddr) -> Option<&Reservation> {
        self.allocations.reservation(vip)
    }

    /// Records an address whose reservation may have changed. The Services that wait for the
    /// address share it with its new owner, or get the owner's name.
    fn touch_changed(&mut self, vip: IpAddr, before: Option<Reservation>, named: &BTreeSet<Arc<str>>) {
        let after = self.allocations.reservation(vip).cloned();
        if after != before {
            for service in before.iter().chain(&after).map(|reservation| reservation.service.clone()) {
                self.note_owner(&service);
                self.touched.extend(self.groups.unjoined(&service).cloned());
            }
            if let Some(after) = &after {
                self.touched.extend(self.waiting.for_address(vip).cloned());
                let keys = self.requests.get(&after.service).map(|owner| owner.keys.clone());
                self.touch_group(&keys.unwrap_or_default());
            }
        }
        // An address counts for the namespaces of the Services that its claim names.
        let now = self.allocations.claimed_in(vip);
        named.difference(&now).for_each(|namespace| self.touch_limited(namespace));
        self.touch(vip, before.map(|reservation| reservation.service));
    }

    fn touch(&mut self, vip: IpAddr, before: Option<ServiceName>) {
        let after = self.allocations.reservation(vip).map(|reservation| reservation.service.clone());
        let is_still_in =
            |namespace: &Arc<str>| after.as_ref().is_some_and(|after| after.namespace == *namespace);
        if let Some(before) = before.as_ref().filter(|before| !is_still_in(&before.namespace)) {
            self.touch_limited(&before.namespace);
        }
        self.touch_free(vip);
        self.touched.extend(before.into_iter().chain(after));
    }

    /// Records that addresses of a network may be free, for those that wait for them.
    fn touch_needed(&mut self, net: IpNet) {
        let (first, last) = (net.network(), net.broadcast());
        self.touched.extend(self.waiting.within(first, last).cloned());
        if self.pools.has_free_in(net) {
            self.touched.extend(self.waiting.for_family(Family::of(first)).cloned());
        }
    }

    /// Records that a namespace may have fewer addresses than before. Where it may have so many, another of
    /// its Services may have one now.
    fn touch_limited(&mut self, namespace: &Arc<str>) {
        if self.most.is_some() {
            let first = ServiceName::before(namespace);
            let from = self.requests.range(first..).map(|(service, _)| service);
            self.touched.extend(from.take_while(|other| other.namespace == *namespace).cloned());
        }
    }

    /// Records an address that Services may get, if it is free.
    fn touch_free(&mut self, vip: IpAddr) {
        if self.allocations.reservation(vip).is_none() {
            self.freed.insert(vip);
            self.pools.has_free(vip);
        }
    }
}
