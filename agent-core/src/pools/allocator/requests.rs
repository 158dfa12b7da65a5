//! The requests of Services, and the Services that wait for an address.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::Arc,
};

use super::{super::Family, Limits, ShareKey};
use crate::records::{Port, ServiceLabels, ServiceName};

/// A Service's request to the pools.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own about the Service")]
pub struct Request {
    pub labels: ServiceLabels,
    /// The time of the Service's creation, in seconds since 1970.
    pub created: i64,
    /// The families of which it requests one address each, in its order.
    pub families: Vec<Family>,
    /// True if it is to have an address of each, false if one of them will do.
    pub needs_all: bool,
    pub pool: Option<Arc<str>>,
    /// The addresses that it requests by name. If there are any, it gets no others.
    pub addresses: Vec<IpAddr>,
    /// True if it requests others by name too, which it may not have. It gets none in their place.
    pub names_refused: bool,
    /// The addresses in its status that Vipward has written, or that do not bind.
    pub status: Vec<IpAddr>,
    /// True if another controller has left them there. It keeps one if a pool that serves it has it.
    pub is_left: bool,
    /// Its keys for sharing.
    pub keys: Vec<ShareKey>,
    pub ports: Box<[Port]>,
    /// True if its traffic goes only to nodes with endpoints.
    pub is_local: bool,
    /// True if its endpoints are not known yet. Until then it gets no other addresses than it has.
    pub awaits_endpoints: bool,
    /// The nodes and interfaces that its VIPs may be on. None: all.
    pub limits: Option<Box<Limits>>,
    /// True if another controller gives it its addresses. It keeps those that are reserved for it,
    /// and gets no others.
    pub is_elsewhere: bool,
}

impl Request {
    /// Returns what decides where the Service's VIPs may be announced.
    pub(super) fn whereabouts(&self) -> (&ServiceLabels, &Limits) {
        static ALL: Limits = Limits { nodes: None, interfaces: Vec::new(), endpoints: BTreeMap::new() };
        (&self.labels, self.limits.as_deref().unwrap_or(&ALL))
    }

    /// Returns what decides with whom the Service shares an address.
    pub(super) fn sharing(&self) -> (&[ShareKey], &[Port], bool, Option<&Limits>) {
        (&self.keys, &self.ports, self.is_local, self.limits.as_deref())
    }

    pub(super) fn is_by_name(&self) -> bool {
        !self.addresses.is_empty() || self.names_refused
    }
}

/// The Services that wait for addresses, or share them. The one that has waited longest is first.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    services: BTreeMap<ServiceName, Wait>,
    by_family: BTreeSet<(Family, Place, ServiceName)>,
    by_address: BTreeSet<(IpAddr, Place, ServiceName)>,
    /// The place of the next Service that begins to wait.
    next: Place,
}

/// The place among those that wait: the lowest has waited longest.
type Place = u64;

#[derive(Debug)]
struct Wait {
    place: Place,
    families: BTreeSet<Family>,
    addresses: BTreeSet<IpAddr>,
}

impl Waiting {
    /// Records a Service that waits for any address of a family.
    pub(super) fn add(&mut self, service: &ServiceName, family: Family) {
        let wait = self.begin(service);
        let place = wait.place;
        wait.families.insert(family);
        self.by_family.insert((family, place, service.clone()));
    }

    /// Records a Service that waits for a certain address, or shares it.
    pub(super) fn add_address(&mut self, service: &ServiceName, vip: IpAddr) {
        let wait = self.begin(service);
        let place = wait.place;
        wait.addresses.insert(vip);
        self.by_address.insert((vip, place, service.clone()));
    }

    /// Gives a Service a place, if it has none.
    fn begin(&mut self, service: &ServiceName) -> &mut Wait {
        let Self { services, next, .. } = self;
        services.entry(service.clone()).or_insert_with(|| {
            *next += 1;
            Wait { place: *next, families: BTreeSet::new(), addresses: BTreeSet::new() }
        })
    }

    /// Forgets what a Service waits for. It is evaluated anew, and keeps its place meanwhile.
    pub(super) fn clear(&mut self, service: &ServiceName) {
        let Some(wait) = self.services.get_mut(service) else { return };
        for family in std::mem::take(&mut wait.families) {
            self.by_family.remove(&(family, wait.place, service.clone()));
        }
        for vip in std::mem::take(&mut wait.addresses) {
            self.by_address.remove(&(vip, wait.place, service.clone()));
        }
    }

    /// Records if a Service lacks an address. Unless it does, or shares one, its place is free.
    pub(super) fn settle(&mut self, service: &ServiceName, lacks: bool) {
        if lacks {
            self.begin(service);
        } else if self
            .services
            .get(service)
            .is_some_and(|wait| wait.families.is_empty() && wait.addresses.is_empty())
        {
            self.services.remove(service);
        }
    }

    /// Forgets a Service.
    pub(super) fn remove(&mut self, service: &ServiceName) {
        self.clear(service);
        self.services.remove(service);
    }

    pub(super) fn services(&self) -> impl Iterator<Item = &ServiceName> {
        self.services.keys()
    }

    /// Returns true if a Service lacks an address, or shares one.
    pub(super) fn has_place(&self, service: &ServiceName) -> bool {
        self.services.contains_key(service)
    }

    /// Puts Services in the order in which they began to wait. Those that do not wait come last.
    pub(super) fn in_order(&self, services: BTreeSet<ServiceName>) -> Vec<ServiceName> {
        let mut ordered: Vec<_> = services.into_iter().collect();
        ordered.sort_by_key(|service| self.services.get(service).map_or(Place::MAX, |wait| wait.place));
        ordered
    }

    /// Returns the Services that may get an address which has become free: those that name it, and those
    /// that accept any.
    pub(super) fn of(&self, vip: IpAddr) -> Vec<ServiceName> {
        let any = self.for_family(Family::of(vip)).cloned();
        self.in_order(any.chain(self.for_address(vip).cloned()).collect())
    }

    pub(super) fn for_family(&self, family: Family) -> impl Iterator<Item = &ServiceName> {
        let from = self.by_family.range((family, 0, ServiceName::lowest())..);
        from.take_while(move |(wanted, ..)| *wanted == family).map(|(.., service)| service)
    }

    /// Returns the Services that wait for a certain address, or share it.
    pub(super) fn for_address(&self, vip: IpAddr) -> impl Iterator<Item = &ServiceName> {
        self.within(vip, vip)
    }

    /// Returns the Services that wait for an address of a range, or share it.
    pub(super) fn within(&self, first: IpAddr, last: IpAddr) -> impl Iterator<Item = &ServiceName> {
        let from = self.by_address.range((first, 0, ServiceName::lowest())..);
        from.take_while(move |(wanted, ..)| *wanted <= last).map(|(.., service)| service)
    }
}
