//! The reservations as they were last read, and the commands about them that are under way.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::Arc,
};

use super::{super::Family, Expected, ReservationWrite, known_pools::Pools};
use crate::{
    base::address,
    records::{Reservation, ServiceName},
};

/// An address with an object.
#[derive(Debug)]
struct Entry {
    reservation: Option<Reservation>,
    release: bool,
    services: Vec<ServiceName>,
}

/// A command that is under way.
#[derive(Debug)]
struct PendingWrite {
    service: ServiceName,
    write: ReservationWrite,
    /// True if it has failed, and is tried again.
    has_failed: bool,
    /// True from a failure until the next attempt.
    is_waiting: bool,
}

impl PendingWrite {
    fn frees(&self) -> bool {
        self.write.reservation.is_none()
    }

    /// Returns true if the Service is gone, and the address is kept for another one of its name.
    fn keeps(&self) -> bool {
        self.write.reservation.as_ref().is_some_and(|reservation| reservation.kept.is_some())
    }
}

/// The objects as they were last read, and the commands that are under way.
#[derive(Debug, Default)]
pub(super) struct Allocations {
    entries: BTreeMap<IpAddr, Entry>,
    /// The reserved addresses by Service. Most Services have one, for which a set of its own is large.
    by_service: ByService,
    /// The addresses by the Services that their claims name, and that they are not reserved for.
    claimed: ByService,
    expiries: BTreeSet<(i64, IpAddr)>,
    /// The commands that are under way, each with the Service that it is about.
    pending: BTreeMap<IpAddr, PendingWrite>,
    /// The same by Service.
    pending_by_service: BTreeSet<(ServiceName, IpAddr)>,
    /// Failed commands about the Service that is evaluated. A command that it requests again goes
    /// on.
    set_aside: BTreeMap<IpAddr, PendingWrite>,
}

impl Allocations {
    pub(super) fn put(
        &mut self,
        vip: IpAddr,
        reservation: Option<Reservation>,
        release: bool,
        services: Vec<ServiceName>,
        pools: &mut Pools,
    ) -> Option<Reservation> {
        let before = self.take(vip, pools);
        if let Some(reservation) = &reservation {
            self.by_service.insert((reservation.service.clone(), vip));
            if let Some(Some(until)) = reservation.kept {
                self.expiries.insert((until, vip));
            }
            pools.count(vip, reservation, true);
        }
        let owner = reservation.as_ref().map(|reservation| &reservation.service);
        let others = services.iter().filter(|service| Some(*service) != owner);
        self.claimed.extend(others.map(|service| (service.clone(), vip)));
        self.entries.insert(vip, Entry { reservation, release, services });
        before
    }

    pub(super) fn remove(&mut self, vip: IpAddr, pools: &mut Pools) -> Option<Reservation> {
        let before = self.take(vip, pools);
        self.entries.remove(&vip);
        before
    }

    /// Takes the reservation of an address out.
    fn take(&mut self, vip: IpAddr, pools: &mut Pools) -> Option<Reservation> {
        let entry = self.entries.get_mut(&vip)?;
        for service in std::mem::take(&mut entry.services) {
            self.claimed.remove(&(service, vip));
        }
        let reservation = entry.reservation.take()?;
        pools.count(vip, &reservation, false);
        if let Some(Some(until)) = reservation.kept {
            self.expiries.remove(&(until, vip));
        }
        self.by_service.remove(&(reservation.service.clone(), vip));
        Some(reservation)
    }

    /// Returns the command that gives an address to a Service, or has it kept or freed. None if a command
    /// about the address is under way, or the same one has failed and is tried again.
    pub(super) fn write(
        &mut self,
        vip: IpAddr,
        service: &ServiceName,
        reservation: Option<Reservation>,
    ) -> Option<ReservationWrite> {
        if self.pending.contains_key(&vip) {
            return None;
        }
        let write = ReservationWrite { vip, expected: self.expected(vip), reservation };
        let has_failed = self.set_aside.remove(&vip).is_some_and(|pending| pending.write == write);
        self.pending_by_service.insert((service.clone(), vip));
        let pending = PendingWrite {
            service: service.clone(),
            write: write.clone(),
            has_failed,
            is_waiting: has_failed,
        };
        self.pending.insert(vip, pending);
        (!has_failed).then_some(write)
    }

    /// Returns the Services about which a command has failed. One with several comes several times.
    pub(super) fn failing(&self) -> impl Iterator<Item = &ServiceName> {
        self.pending.values().filter(|pending| pending.has_failed).map(|pending| &pending.service)
    }

    /// Sets the commands about a Service aside that have failed and wait: it is evaluated now. Returns
    /// their addresses.
    pub(super) fn set_aside_failed(&mut self, service: &ServiceName) -> Vec<IpAddr> {
        let waits = |vip: &IpAddr| self.pending.get(vip).is_some_and(|pending| pending.is_waiting);
        let failed: Vec<_> = self.asked_for(service).filter(waits).collect();
        for vip in &failed {
            self.pending_by_service.remove(&(service.clone(), *vip));
            self.set_aside.extend(self.pending.remove(vip).map(|pending| (*vip, pending)));
        }
        failed
    }

    /// Returns the addresses of the commands that were set aside and not requested again.
    pub(super) fn given_up(&mut self) -> Vec<IpAddr> {
        std::mem::take(&mut self.set_aside).into_keys().collect()
    }

    pub(super) fn answered(&mut self, vip: IpAddr) -> Option<ServiceName> {
        let PendingWrite { service, .. } = self.pending.remove(&vip)?;
        self.pending_by_service.remove(&(service.clone(), vip));
        Some(service)
    }

    /// Records that a command has failed, and is retried. Returns its Service.
    pub(super) fn failed(&mut self, vip: IpAddr) -> Option<ServiceName> {
        let pending = self.pending.get_mut(&vip)?;
        (pending.has_failed, pending.is_waiting) = (true, true);
        Some(pending.service.clone())
    }

    /// Records that a command is retried.
    pub(super) fn tried_again(&mut self, vip: IpAddr) {
        if let Some(pending) = self.pending.get_mut(&vip) {
            pending.is_waiting = false;
        }
    }

    /// Returns true if a command about the Service has been sent and has no outcome yet.
    pub(super) fn is_under_way(&self, service: &ServiceName) -> bool {
        self.asked_for(service).any(|vip| self.pending.get(&vip).is_some_and(|pending| !pending.is_waiting))
    }

    /// Returns the Service for which an address is being reserved, if the write has failed.
    pub(super) fn fails_for(&self, vip: IpAddr) -> Option<&ServiceName> {
        self.pending
            .get(&vip)
            .filter(|pending| pending.has_failed && !pending.frees())
            .map(|pending| &pending.service)
    }

    pub(super) fn is_reserving_for(&self, service: &ServiceName) -> bool {
        let is_under_way =
            |vip| self.pending.get(&vip).is_some_and(|pending| !pending.frees() && !pending.has_failed);
        self.asked_for(service).any(is_under_way)
    }

    pub(super) fn is_asking(&self, service: &ServiceName) -> bool {
        self.asked_for(service).next().is_some()
    }

    pub(super) fn is_asking_for(&self, service: &ServiceName, family: Family) -> bool {
        self.asked_for(service).any(|vip| Family::of(vip) == family)
    }

    fn asked_for(&self, service: &ServiceName) -> impl Iterator<Item = IpAddr> {
        vips_of(&self.pending_by_service, service)
    }

    pub(super) fn is_asked_by(&self, vip: IpAddr, service: &ServiceName) -> bool {
        self.pending.get(&vip).is_some_and(|pending| !pending.frees() && pending.service == *service)
    }

    /// Returns true if the reservation of the address is being given up.
    pub(super) fn is_being_freed(&self, vip: IpAddr) -> bool {
        self.pending.get(&vip).is_some_and(PendingWrite::frees)
    }

    /// Returns true if the address is kept for a Service, and the Service does not have it.
    pub(super) fn is_kept(&self, vip: IpAddr) -> bool {
        self.reservation(vip).is_some_and(|reservation| reservation.kept.is_some())
    }

    pub(super) fn is_asked(&self, vip: IpAddr) -> bool {
        self.pending.contains_key(&vip)
    }

    /// Returns true if the address has no object, and no command about it is under way.
    pub(super) fn is_free(&self, vip: IpAddr) -> bool {
        !self.entries.contains_key(&vip) && !self.is_asked(vip)
    }

    /// Returns true if the Service may reserve the address: it is not reserved, and its claim names
    /// no other Service.
    pub(super) fn may_adopt(&self, vip: IpAddr, service: &ServiceName) -> bool {
        let is_its_own = |entry: &Entry| {
            entry.reservation.is_none() && (entry.services.is_empty() || entry.services.contains(service))
        };
        !self.is_asked(vip) && self.entries.get(&vip).is_none_or(is_its_own)
    }

    /// Returns the addresses whose claims name a Service, and that are not reserved for it.
    pub(super) fn claimed_by(&self, service: &ServiceName) -> impl Iterator<Item = IpAddr> {
        vips_of(&self.claimed, service)
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
        match self.pending.get(&vip) {
            Some(pending) => (!pending.frees()).then_some(&pending.service),
            None => reserved.map(|reservation| &reservation.service),
        }
    }

    pub(super) fn is_to_be_released(&self, vip: IpAddr) -> bool {
        self.entries.get(&vip).is_some_and(|entry| entry.release)
    }

    /// Returns the addresses that are reserved for a Service, and are not being freed.
    pub(super) fn of(&self, service: &ServiceName) -> Vec<IpAddr> {
        vips_of(&self.by_service, service)
            .filter(|vip| self.pending.get(vip).is_none_or(|pending| !pending.frees()))
            .collect()
    }

    /// Returns the addresses that a Service has, or is about to have.
    pub(super) fn all_of(&self, service: &ServiceName) -> BTreeSet<IpAddr> {
        let reserving = self.asked_for(service).filter(|vip| self.is_asked_by(*vip, service));
        self.of(service).into_iter().chain(reserving).collect()
    }

    /// Returns the addresses that a namespace's Services have, or are about to have.
    pub(super) fn in_namespace(&self, namespace: &Arc<str>) -> BTreeSet<IpAddr> {
        // A Service that is back finds the address that its claim names.
        let is_new = |vip: &IpAddr| self.reservation(*vip).is_none();
        let pending = vips_in(&self.pending_by_service, namespace).filter(is_new);
        let claimed = vips_in(&self.claimed, namespace).filter(is_new);
        vips_in(&self.by_service, namespace).chain(pending).chain(claimed).collect()
    }

    /// Returns the namespaces of the Services that the claim of an address names.
    pub(super) fn claimed_in(&self, vip: IpAddr) -> BTreeSet<Arc<str>> {
        let services = self.entries.get(&vip).map_or(&[][..], |entry| &entry.services);
        services.iter().map(|service| Arc::clone(&service.namespace)).collect()
    }

    /// Returns true if a namespace keeps `most` addresses, of those that `counts`, that come before an
    /// address: those that are kept already, the lower ones first.
    pub(super) fn keeps_before(
        &self,
        most: usize,
        vip: IpAddr,
        namespace: &Arc<str>,
        counts: impl Fn(IpAddr, &Reservation) -> bool,
    ) -> bool {
        let is_kept = |reservation: &Reservation| reservation.kept.is_some();
        let comes_first = !self.reservation(vip).is_some_and(is_kept);
        let is_before = |other: &IpAddr| {
            let Some(reservation) = self.reservation(*other) else { return false };
            let keeps = self.pending.get(other).map_or(is_kept(reservation), PendingWrite::keeps);
            keeps && counts(*other, reservation)
        };
        let others = vips_in(&self.by_service, namespace).filter(|other| *other != vip);
        others.filter(|other| comes_first || *other < vip).filter(is_before).take(most).count() == most
    }

    /// Returns the Services of a namespace with a reservation, as [`Allocations::owners`] does.
    pub(super) fn owners_in(&self, namespace: &Arc<str>) -> impl Iterator<Item = ServiceName> {
        let reserved = vips_in(&self.by_service, namespace).filter_map(|vip| self.reservation(vip));
        reserved.map(|reservation| reservation.service.clone())
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

type ByService = BTreeSet<(ServiceName, IpAddr)>;

fn vips_of(all: &ByService, service: &ServiceName) -> impl Iterator<Item = IpAddr> {
    vips_from(all, service.clone(), move |other| other == service)
}

fn vips_in(all: &ByService, namespace: &Arc<str>) -> impl Iterator<Item = IpAddr> {
    let first = ServiceName::before(namespace);
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
