//! Reservations as agents see them: what a Service was given, it has.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use super::{Role, Services, StatusOwner};
use crate::records::{Reservation, ServiceName};

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

    /// Returns true if the address is reserved for a Service.
    pub(super) fn has(&self, vip: IpAddr) -> bool {
        self.services.contains_key(&vip)
    }

    fn of(&self, service: &ServiceName) -> Vec<IpAddr> {
        self.addresses.get(service).into_iter().flatten().copied().collect()
    }
}

impl Services {
    /// Takes in the reservation of an address. One that is kept for a Service that is gone gives
    /// nobody the address.
    pub(super) fn put_grant(&mut self, vip: IpAddr, reservation: Option<&Reservation>) {
        if self.settings.role == Role::Controller {
            return;
        }
        let service =
            reservation.filter(|it| it.kept.is_none()).map(|reservation| reservation.service.clone());
        let touched = self.grants.put(vip, service);
        let sharing = self.vips.get(&vip).filter(|_| !touched.is_empty());
        let sharing = sharing.into_iter().flat_map(|known| &known.services);
        self.touched.services.extend(sharing.map(|(service, _)| service.clone()));
        self.touched.services.extend(touched);
    }

    /// Gives a Service the addresses that are reserved for it, and those that its status has by
    /// `MetalLB`'s key from the Service that they are reserved for.
    pub(super) fn grant(&mut self, service: &ServiceName) {
        if self.settings.role == Role::Controller {
            return;
        }
        let Some(entry) = self.entries.get(service) else { return };
        let key = &entry.record.annotations.metallb_share;
        let is_shared = |vip: &IpAddr| {
            let owner = self.grants.services.get(vip).and_then(|owner| self.entries.get(owner));
            key.is_some() && owner.is_some_and(|owner| owner.record.annotations.metallb_share == *key)
        };
        let mut given = self.grants.of(service);
        if entry.record.status_owner() == StatusOwner::Vipward {
            let status = entry.record.ingress.iter().filter_map(|ingress| ingress.ip);
            given.extend(status.filter(|vip| !self.grants.of(service).contains(vip) && is_shared(vip)));
        }
        if let Some(entry) = self.entries.get_mut(service) {
            entry.given = given;
        }
    }
}
