//! Decides which Service gets which address.
//!
//! The allocator knows the objects as it last read them, and waits for the answer to each of its
//! commands. Two allocators at once allocate no address twice, because one object decides. A
//! Service that got an address from each keeps the one in its status, or else the lower one.

mod allocations;
mod answers;
mod assessing;
mod choosing;
mod known_pools;
mod requests;
mod types;

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::Arc,
};

use self::{allocations::Allocations, known_pools::Pools, requests::Waiting};
pub use self::{
    answers::{Fit, Lack, Prospect},
    known_pools::{Counts, PoolState},
    requests::Request,
    types::{Command, Event, Expected, Given, ReservationWrite, Surroundings},
};
use super::{Pool, PoolFault};
use crate::records::{PoolKind, Reservation, ServiceName};

#[derive(Debug, Default)]
pub struct Allocator {
    pools: Pools,
    allocations: Allocations,
    requests: BTreeMap<ServiceName, Box<Request>>,
    namespaces: BTreeMap<Arc<str>, BTreeMap<String, String>>,
    waiting: Waiting,
    touched: BTreeSet<ServiceName>,
    /// The Services whose failed commands may no longer be what they want.
    reconsidered: BTreeSet<ServiceName>,
    freed: BTreeSet<IpAddr>,
    is_synced: bool,
    most: Option<usize>,
    now: i64,
}

impl Allocator {
    pub fn start(most: Option<usize>) -> Self {
        Self { most, ..Self::default() }
    }

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
            Event::Namespace { name, labels } => {
                if self.namespaces.get(&name) != Some(&labels) {
                    let of_it = self.requests.keys().filter(|service| service.namespace == name);
                    self.touched.extend(of_it.cloned());
                    self.reconsidered
                        .extend(self.allocations.failing().filter(|it| it.namespace == name).cloned());
                    self.namespaces.insert(name, labels);
                }
            }
            Event::NamespaceGone(name) => {
                self.namespaces.remove(&name);
                let of_it = self.requests.keys().filter(|service| service.namespace == name);
                self.touched.extend(of_it.cloned().chain(self.allocations.owners_in(&name)));
                self.reconsidered
                    .extend(self.allocations.failing().filter(|it| it.namespace == name).cloned());
            }
            Event::Request(service, request) => {
                if self.requests.get(&service) != Some(&request) {
                    self.waiting.remove(&service);
                    self.requests.insert(service.clone(), request);
                    self.reconsidered.insert(service.clone());
                    self.touched.insert(service);
                }
            }
            Event::Withdrawn(service) => {
                self.requests.remove(&service);
                self.waiting.remove(&service);
                self.reconsidered.insert(service.clone());
                self.touched.insert(service);
            }
            Event::Object { vip, reservation, release, services } => {
                let before = self.allocations.put(vip, reservation, release, services, &mut self.pools);
                self.touch_changed(vip, before);
            }
            Event::ObjectGone(vip) => {
                let before = self.allocations.remove(vip, &mut self.pools);
                self.touch_changed(vip, before);
            }
            Event::Permitted(vip) => self.touch_free(vip),
            Event::Answered(vip) => {
                // The one that has it now may have waited for this answer, to give the address up.
                let asking = self.allocations.answered(vip);
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
                // Those that have or name addresses come first, and an address is given up last.
                let names_some =
                    |request: &Request| !request.addresses.is_empty() || !request.status.is_empty();
                let (first, then): (Vec<_>, Vec<_>) =
                    self.requests.iter().partition(|(_, request)| names_some(request));
                let all = first.into_iter().chain(then);
                for service in all.map(|(service, _)| service.clone()).collect::<Vec<_>>() {
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
                while let Some(service) = self.touched.pop_first() {
                    self.assess(&service, surroundings, &mut commands);
                }
                let Some(vip) = self.freed.pop_first() else { break };
                self.offer(vip, surroundings, &mut commands);
            }
        }
        commands
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
        for service in self.waiting.of(vip).collect::<Vec<_>>() {
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
        self.pools.states()
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
    fn touch_changed(&mut self, vip: IpAddr, before: Option<Reservation>) {
        let after = self.allocations.reservation(vip);
        if after.is_some() && after != before.as_ref() {
            self.touched.extend(self.waiting.for_address(vip).cloned());
        }
        self.touch(vip, before.map(|reservation| reservation.service));
    }

    fn touch(&mut self, vip: IpAddr, before: Option<ServiceName>) {
        let after = self.allocations.reservation(vip).map(|reservation| reservation.service.clone());
        // Where a namespace may have so many addresses, another of its Services may have one now.
        if let Some(before) = before.as_ref().filter(|_| after.is_none() && self.most.is_some()) {
            let first = ServiceName { namespace: Arc::clone(&before.namespace), name: "".into() };
            let from = self.requests.range(first..).map(|(service, _)| service);
            self.touched.extend(from.take_while(|other| other.namespace == before.namespace).cloned());
        }
        self.touch_free(vip);
        self.touched.extend(before.into_iter().chain(after));
    }

    /// Records an address that Services may get, if it is free.
    fn touch_free(&mut self, vip: IpAddr) {
        if self.allocations.reservation(vip).is_none() {
            self.freed.insert(vip);
            self.pools.has_free(vip);
        }
    }
}
