//! The addresses that Services are given: by the pools, or for an agent by the reservations that it reads.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::Arc,
};

use super::{
    super::{
        Annotations, Command, Role, Settings, StatusOwner,
        addresses::{Reserved, Standing, Verdict, judge},
        sharing::Kept,
    },
    ServiceEntry, Services, Vip,
};
use crate::{
    pools::{self, Allocator, Request, Surroundings},
    records::{PoolKind, Reservation, ServiceName},
};

/// What the Services know of addresses, without the pools.
struct Known<'a> {
    reserved: &'a Reserved,
    settings: &'a Settings,
    vips: &'a BTreeMap<IpAddr, Box<Vip>>,
    claims: &'a BTreeMap<IpAddr, Standing>,
    named_at_start: &'a BTreeSet<IpAddr>,
}

impl Known<'_> {
    fn is_needed(&self, vip: IpAddr) -> bool {
        let verdict = judge(vip, self.settings, self.reserved.others(vip), |_| false);
        matches!(verdict, Verdict::Refused(_))
    }

    fn was_held(&self, vip: IpAddr) -> bool {
        self.vips.get(&vip).is_some_and(|known| known.was_held)
            || self.claims.get(&vip).is_some_and(|standing| standing.was_held)
    }
}

impl Surroundings for Known<'_> {
    fn refuses(&self, vip: IpAddr) -> bool {
        self.is_needed(vip) || self.reserved.is_elsewhere(vip, self.settings, self.was_held(vip))
    }

    // An address of a pool outside of every segment is given all the same: that is the pool's fault.
    fn is_free(&self, vip: IpAddr) -> bool {
        let is_wanted = self.vips.contains_key(&vip) || self.named_at_start.contains(&vip);
        !is_wanted && !self.is_needed(vip)
    }
}

impl Services {
    /// Returns the pools and reservations.
    pub fn allocator(&self) -> &Allocator {
        &self.allocator
    }

    /// Returns true if the status of a Service names the address.
    pub fn has_in_status(&self, service: &ServiceName, vip: IpAddr) -> bool {
        let entry = self.entries.get(service);
        entry.is_some_and(|entry| entry.record.has_in_status(vip))
    }

    /// Passes an event to the pools, if this process has them.
    pub(super) fn allocate(&mut self, event: impl FnOnce() -> pools::Event, commands: &mut Vec<Command>) {
        if self.settings.role != Role::Controller {
            return;
        }
        let Self { allocator, reserved, settings, vips, claims, named_at_start, .. } = self;
        let known = Known { reserved, settings, vips, claims, named_at_start };
        for command in allocator.on_event(event(), &known) {
            match command {
                pools::Command::Write(write) => commands.push(Command::Reserve(write)),
                pools::Command::Assign { service, addresses, lacks, pending } => {
                    if let Some(entry) = self.entries.get_mut(&service) {
                        (entry.given, entry.lacks, entry.pending) = (addresses, lacks, pending);
                        self.touched.services.insert(service);
                    }
                }
            }
        }
    }

    /// Returns true if the controller reserves an address for no Service that asks for it.
    pub(super) fn is_shut(&self, vip: IpAddr) -> bool {
        let Self { reserved, settings, vips, claims, named_at_start, .. } = self;
        let known = Known { reserved, settings, vips, claims, named_at_start };
        settings.role == Role::Controller && known.refuses(vip)
    }

    /// Returns true if Services of several namespaces may share an address by `MetalLB`'s key. What an
    /// agent finds in the statuses, the controller has allowed.
    pub(super) fn shares_by_metallb(&self, vip: IpAddr) -> bool {
        self.settings.metallb
            && (self.settings.role == Role::Announcer
                || self.allocator.kind_of(vip) == Some(PoolKind::IpAddressPool))
    }

    /// Returns which Services keep an address of another namespace by `MetalLB`'s key. That of a
    /// `VIPPool` needs consent, unless `MetalLB` gave it out.
    pub(super) fn kept_by_metallb(&self, vip: IpAddr) -> Kept {
        let was_given = self.settings.role == Role::Alone && self.grants.owner(vip).is_some();
        if !self.settings.metallb && !was_given {
            Kept::Never
        } else if self.allocator.kind_of(vip) == Some(PoolKind::VipPool) {
            Kept::FromMetallb
        } else {
            Kept::Always
        }
    }

    /// Has the pools begin, with all requests: a reservation without a request is given up.
    pub(super) fn begin_allocating(&mut self, commands: &mut Vec<Command>) {
        if self.settings.role != Role::Controller {
            return;
        }
        for name in self.entries.keys().cloned().collect::<Vec<_>>() {
            self.read(&name);
            self.ask_pools(&name, commands);
        }
        // The VIPs are not known yet, and no address that a Service names is given to another.
        let named = |entry: &ServiceEntry| {
            let status = entry.record.ingress.iter().filter_map(|ingress| ingress.ip);
            let others = entry.reading.asked().iter().chain(&entry.record.external_ips).copied();
            status.chain(others).collect::<Vec<_>>()
        };
        self.named_at_start = self.entries.values().flat_map(|entry| named(entry)).collect();
        self.allocate(|| pools::Event::Synced, commands);
        self.named_at_start.clear();
    }

    /// Tells the pools what a Service asks for.
    pub(super) fn ask_pools(&mut self, name: &ServiceName, commands: &mut Vec<Command>) {
        let Some(entry) = self.entries.get(name).filter(|_| self.settings.role == Role::Controller) else {
            return;
        };
        if entry.selection.is_err() {
            return self.allocate(|| pools::Event::Withdrawn(name.clone()), commands);
        }
        let record = &entry.record;
        let (status, is_elsewhere) = match record.status_owner() {
            StatusOwner::Nobody => (Vec::new(), false),
            StatusOwner::Vipward => (record.ingress.iter().filter_map(|ingress| ingress.ip).collect(), false),
            StatusOwner::Other(_) => (Vec::new(), true),
        };
        let request = Request {
            labels: record.labels.clone(),
            families: record.families.clone(),
            needs_all: record.needs_all_families,
            pool: named_pool(&record.annotations, self.settings.metallb),
            share: record.annotations.metallb_share.clone().filter(|_| self.settings.metallb),
            // One Service must not take whole pools.
            addresses: entry.reading.asked().iter().copied().take(self.settings.most_addresses).collect(),
            status,
            is_elsewhere,
        };
        self.allocate(|| pools::Event::Request(name.clone(), Box::new(request)), commands);
    }

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
            let owner = self.grants.owner(*vip).and_then(|owner| self.entries.get(owner));
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

/// Returns the name, among all pools, of the pool that a Service names. Instead of `MetalLB`, its
/// annotation names an `IPAddressPool`, and else a `VIPPool`.
pub(super) fn named_pool(annotations: &Annotations, metallb: bool) -> Option<Arc<str>> {
    let theirs = if metallb { PoolKind::IpAddressPool } else { PoolKind::VipPool };
    let named = [(PoolKind::VipPool, &annotations.pool), (theirs, &annotations.metallb_pool)];
    named.into_iter().find_map(|(kind, pool)| {
        let name = pool.as_deref().map(str::trim).filter(|pool| !pool.is_empty())?;
        Some(kind.key(name))
    })
}
