//! Reservations, as agents read them: the addresses that Services have.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use crate::records::ServiceName;

#[derive(Debug, Default)]
pub(crate) struct Reservations {
    services: BTreeMap<IpAddr, ServiceName>,
    addresses: BTreeMap<ServiceName, BTreeSet<IpAddr>>,
}

impl Reservations {
    /// Records the Service that an address is reserved for. Returns the Services that it affects.
    pub(crate) fn put(&mut self, vip: IpAddr, now: Option<ServiceName>) -> Vec<ServiceName> {
        let before = match now.clone() {
            Some(service) => self.services.insert(vip, service),
            None => self.services.remove(&vip),
        };
        if before == now {
            return Vec::new();
        }
        if let Some(service) = &before {
            let addresses = self.addresses.entry(service.clone()).or_default();
            addresses.remove(&vip);
            if addresses.is_empty() {
                self.addresses.remove(service);
            }
        }
        if let Some(service) = &now {
            self.addresses.entry(service.clone()).or_default().insert(vip);
        }
        before.into_iter().chain(now).collect()
    }

    pub(crate) fn owner(&self, vip: IpAddr) -> Option<&ServiceName> {
        self.services.get(&vip)
    }

    pub(crate) fn of(&self, service: &ServiceName) -> Vec<IpAddr> {
        self.addresses.get(service).into_iter().flatten().copied().collect()
    }
}
