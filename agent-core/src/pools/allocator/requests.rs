//! The requests of Services, and the Services that wait for an address.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::Arc,
};

use super::super::Family;
use crate::records::{ServiceLabels, ServiceName};

/// A Service's request to the pools.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Request {
    pub labels: ServiceLabels,
    /// The families of which it requests one address each, in its order.
    pub families: Vec<Family>,
    /// True if it is to have an address of each, false if one of them will do.
    pub needs_all: bool,
    pub pool: Option<Arc<str>>,
    /// The addresses that it requests by name. If there are any, it gets no others.
    pub addresses: Vec<IpAddr>,
    /// The addresses that Vipward has written into its status.
    pub status: Vec<IpAddr>,
    /// Its key for `MetalLB`: it shares the address in its status with another Service of this key.
    pub share: Option<Box<str>>,
    /// True if another controller gives it its addresses. It keeps those that are reserved for it,
    /// and gets no others.
    pub is_elsewhere: bool,
}

impl Request {
    /// Returns true if the Service requests the address by name, or shares it.
    pub(super) fn wants(&self, vip: IpAddr) -> bool {
        let is_sharing = self.addresses.is_empty() && self.share.is_some() && self.status.contains(&vip);
        self.addresses.contains(&vip) || is_sharing
    }
}

#[derive(Debug, Default)]
pub(super) struct Waiting {
    by_family: BTreeSet<(Family, ServiceName)>,
    by_address: BTreeSet<(IpAddr, ServiceName)>,
    addresses: BTreeMap<ServiceName, BTreeSet<IpAddr>>,
}

impl Waiting {
    /// Records a Service that waits for any address of a family.
    pub(super) fn add(&mut self, service: ServiceName, family: Family) {
        self.by_family.insert((family, service));
    }

    /// Records a Service that waits for a certain address, or shares it.
    pub(super) fn add_address(&mut self, service: ServiceName, vip: IpAddr) {
        self.by_address.insert((vip, service.clone()));
        self.addresses.entry(service).or_default().insert(vip);
    }

    pub(super) fn remove(&mut self, service: &ServiceName) {
        for family in [Family::V4, Family::V6] {
            self.by_family.remove(&(family, service.clone()));
        }
        for vip in self.addresses.remove(service).unwrap_or_default() {
            self.by_address.remove(&(vip, service.clone()));
        }
    }

    /// Returns the Services that may get an address which has become free.
    pub(super) fn of(&self, vip: IpAddr) -> impl Iterator<Item = ServiceName> {
        let family = Family::of(vip);
        let any = self.by_family.iter().filter(move |(wanted, _)| *wanted == family);
        any.map(|(_, service)| service.clone()).chain(self.for_address(vip).cloned())
    }

    /// Returns the Services that wait for a certain address, or share it.
    pub(super) fn for_address(&self, vip: IpAddr) -> impl Iterator<Item = &ServiceName> {
        let first = ServiceName { namespace: "".into(), name: "".into() };
        let from = self.by_address.range((vip, first)..);
        from.take_while(move |(wanted, _)| *wanted == vip).map(|(_, service)| service)
    }
}
