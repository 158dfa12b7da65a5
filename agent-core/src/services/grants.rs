//! Reservations as agents without a controller see them: what a Service was given, it has.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use super::{Role, Services};
use crate::{cluster::ServiceName, pools::Reservation};

/// The Service of each reserved address, and the addresses of each Service.
#[derive(Debug, Default)]
pub(super) struct Grants {
    services: BTreeMap<IpAddr, ServiceName>,
    addresses: BTreeMap<ServiceName, BTreeSet<IpAddr>>,
}

impl Grants {
    /// Takes in the Service that an address is reserved for. Returns the Services that it affects.
    fn put(&mut self, vip: IpAddr, now: Option<ServiceName>) -> Vec<ServiceName> {
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

    fn of(&self, service: &ServiceName) -> Vec<IpAddr> {
        self.addresses.get(service).into_iter().flatten().copied().collect()
    }
}

impl Services {
    /// Takes in the reservation of an address. One that is kept for a Service that is gone gives
    /// nobody the address.
    pub(super) fn put_grant(&mut self, vip: IpAddr, reservation: Option<&Reservation>) {
        if self.settings.role != Role::Alone {
            return;
        }
        let service =
            reservation.filter(|it| it.kept.is_none()).map(|reservation| reservation.service.clone());
        let touched = self.grants.put(vip, service);
        self.touched.services.extend(touched);
    }

    /// Gives a Service the addresses that are reserved for it.
    pub(super) fn grant(&mut self, service: &ServiceName) {
        if self.settings.role != Role::Alone {
            return;
        }
        if let Some(entry) = self.entries.get_mut(service) {
            entry.given = self.grants.of(service);
        }
    }
}
