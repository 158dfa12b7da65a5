mod allocating;
mod grouping;
mod leaders;
mod metallb;
mod reading;
mod sharing;
mod waiting;

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use super::{
    Allocator, Command, Event, Expected, Family, Given, PoolRecord, Request, ReservationWrite, Surroundings,
};
use crate::{
    base::samples::ip,
    records::{Port, Protocol, Reservation, ServiceName},
};

/// Addresses that something else needs, and addresses that other Services want.
#[derive(Default)]
struct Around {
    refused: BTreeSet<IpAddr>,
    wanted: BTreeSet<IpAddr>,
}

impl Surroundings for Around {
    fn refuses(&self, vip: IpAddr) -> bool {
        self.refused.contains(&vip)
    }

    fn is_free(&self, vip: IpAddr) -> bool {
        !self.refused.contains(&vip) && !self.wanted.contains(&vip)
    }
}

/// The API server's objects, which decide who has what.
#[derive(Default)]
struct Store {
    objects: BTreeMap<IpAddr, Option<Reservation>>,
    wishes: BTreeSet<IpAddr>,
}

impl Store {
    /// Carries out a write. Returns false if the object has changed since it was read.
    fn carry_out(&mut self, write: &ReservationWrite) -> bool {
        let stored = self.objects.get(&write.vip).cloned().map_or(Expected::Absent, Expected::Present);
        if stored != write.expected {
            return false;
        }
        if write.reservation.is_some() {
            self.objects.insert(write.vip, write.reservation.clone());
        } else {
            self.objects.remove(&write.vip);
            self.wishes.remove(&write.vip);
        }
        true
    }

    fn event(&self, vip: IpAddr) -> Event {
        match self.objects.get(&vip) {
            Some(reservation) => Event::Object {
                vip,
                reservation: reservation.clone(),
                release: self.wishes.contains(&vip),
                services: Vec::new(),
            },
            None => Event::ObjectGone(vip),
        }
    }
}

/// An allocator whose commands succeed at once.
#[derive(Default)]
struct World {
    allocator: Allocator,
    around: Around,
    store: Store,
    assigned: BTreeMap<ServiceName, (Vec<IpAddr>, Vec<String>)>,
}

impl World {
    fn new(pools: impl IntoIterator<Item = PoolRecord>) -> Self {
        let mut world = Self::default();
        world.notify(namespace("default", BTreeMap::new()));
        for pool in pools {
            world.notify(Event::Pool(Box::new(pool)));
        }
        world.notify(Event::Synced);
        world
    }

    fn notify(&mut self, event: Event) {
        let mut commands = self.allocator.on_event(event, &self.around);
        while let Some(command) = (!commands.is_empty()).then(|| commands.remove(0)) {
            let write = match command {
                Command::Assign(service, Given { addresses, lacks, .. }) => {
                    let lacks = lacks.iter().map(ToString::to_string).collect();
                    self.assigned.insert(service, (addresses, lacks));
                    continue;
                }
                Command::Write(write) => write,
                Command::GiveUp(_) => continue,
            };
            assert!(self.store.carry_out(&write));
            let vip = write.vip;
            let event = self.store.event(vip);
            commands.extend(self.allocator.on_event(event, &self.around));
            commands.extend(self.allocator.on_event(Event::Answered(vip), &self.around));
        }
    }

    fn ask(&mut self, name: &str, request: Request) -> Vec<IpAddr> {
        self.notify(Event::Request(service(name), Box::new(request)));
        self.has(name)
    }

    fn release(&mut self, vip: IpAddr) {
        self.store.wishes.insert(vip);
        self.notify(self.store.event(vip));
    }

    fn has(&self, name: &str) -> Vec<IpAddr> {
        self.assigned.get(&service(name)).map(|(addresses, _)| addresses.clone()).unwrap_or_default()
    }

    fn lacks(&self, name: &str) -> Vec<String> {
        self.assigned.get(&service(name)).map(|(_, lacks)| lacks.clone()).unwrap_or_default()
    }
}

/// Returns a Service's name: `namespace/name`, or a name in `default`.
pub(super) fn service(text: &str) -> ServiceName {
    let (namespace, name) = text.split_once('/').unwrap_or(("default", text));
    ServiceName { namespace: namespace.into(), name: name.into() }
}

fn namespace(name: &str, labels: BTreeMap<String, String>) -> Event {
    Event::Namespace { name: name.into(), labels, share_with: BTreeSet::new() }
}

pub(super) fn pool(name: &str, addresses: &[&str]) -> PoolRecord {
    PoolRecord {
        name: name.into(),
        auto_assign: true,
        addresses: addresses.iter().map(|text| (*text).into()).collect(),
        ..PoolRecord::default()
    }
}

fn v4() -> Request {
    Request { families: vec![Family::V4], ..Request::default() }
}

fn for_addresses(addresses: &[&str]) -> Request {
    Request { addresses: addresses.iter().map(|text| ip(text)).collect(), ..v4() }
}
