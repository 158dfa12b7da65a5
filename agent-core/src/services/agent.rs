//! The Services as an agent serves them: it reads what is reserved for them.

use std::net::IpAddr;

use super::{
    Command, Event, ServiceRecord, Settings, StatusOwner,
    index::{Index, Origin, Role, Subject, share_keys},
    leader::Leader,
    sharing::Reservations,
};
use crate::{
    base::time::Monotonic,
    pools::{Given, Lack},
    records::{Reservation, ServiceName},
};

/// An agent's index of Services, with the reservations.
#[derive(Debug)]
pub struct Agent {
    index: Index,
    reservations: Reservations,
    leader: Leader,
}

impl Agent {
    /// Starts without a Service, where no controller runs.
    pub fn alone(settings: Settings) -> Self {
        Self::start(settings, Role::Alone)
    }

    /// Starts without a Service, beside a controller.
    pub fn announcer(settings: Settings) -> Self {
        Self::start(settings, Role::Announcer)
    }

    fn start(settings: Settings, role: Role) -> Self {
        let index = Index::start(settings, role);
        Self { index, reservations: Reservations::default(), leader: Leader::default() }
    }

    pub fn index(&self) -> &Index {
        &self.index
    }

    /// Returns true if a controller leads beside the agents, which sees what all nodes see.
    pub fn has_controller(&self) -> bool {
        self.index.role() == Role::Announcer && !self.leader.is_gone()
    }

    /// Records an event. Returns the commands that follow from it.
    pub fn on_event(&mut self, event: Event) -> Vec<Command> {
        if let Event::Claim { vip, reservation, .. } = &event {
            self.put_grant(*vip, reservation.as_deref());
        } else if let Event::ClaimGone(vip) = &event {
            self.put_grant(*vip, None);
        } else if let Event::Leader(version) = &event {
            if self.leader.on_lease(version.clone()) {
                self.index.touch_lacking();
            }
        } else if let Event::Behind(_) = &event {
            self.leader.doubt();
        }
        let commands = self.index.on_event(event);
        self.step(commands)
    }

    /// Records the time. Returns the commands that follow from it.
    pub fn on_time(&mut self, now: Monotonic) -> Vec<Command> {
        self.index.on_time(now);
        if self.sees_leader() && self.leader.on_time(now) {
            self.index.touch_lacking();
        }
        self.step(Vec::new())
    }

    /// Returns the time of the next [`Agent::on_time`].
    pub fn next_deadline(&self) -> Option<Monotonic> {
        let leader = self.leader.next_deadline().filter(|_| self.sees_leader());
        self.index.next_deadline().into_iter().chain(leader).min()
    }

    /// Returns true if a renewal by the controller is seen in time.
    fn sees_leader(&self) -> bool {
        self.index.is_synced() && !self.index.is_behind()
    }

    /// Evaluates all that was touched.
    fn step(&mut self, mut commands: Vec<Command>) -> Vec<Command> {
        while let Some(subject) = self.index.next_touched() {
            commands.extend(match subject {
                Subject::Service(name) => {
                    self.grant(&name);
                    self.index.assess(&name)
                }
                Subject::Vip(vip) => {
                    let origin = Origin { pool: None, reserved_for: self.reservations.owner(vip) };
                    self.index.resolve(vip, origin)
                }
            });
        }
        commands.extend(self.index.settle());
        commands
    }

    /// Records the reservation of an address. One that is kept for a Service that is gone gives the
    /// address to no Service.
    fn put_grant(&mut self, vip: IpAddr, reservation: Option<&Reservation>) {
        let service =
            reservation.filter(|it| it.kept.is_none()).map(|reservation| reservation.service.clone());
        let touched = self.reservations.put(vip, service);
        if !touched.is_empty() {
            self.index.touch(touched, vip);
        }
    }

    /// Gives a Service the addresses that are reserved for it. Also gives it the addresses of its
    /// status that it shares with their owner by a key.
    fn grant(&mut self, service: &ServiceName) {
        let Some(record) = self.index.record(service) else { return };
        let keys = |record: &ServiceRecord| share_keys(&record.annotations, true);
        let own = keys(record);
        let is_shared = |vip: &IpAddr| {
            // Where no controller runs, the reservation of one that has left stays.
            self.reservations.owner(*vip).is_some_and(|owner| match self.index.record(owner) {
                Some(owner) => keys(owner).iter().any(|key| own.contains(key)),
                None => !own.is_empty(),
            })
        };
        let mut addresses = self.reservations.of(service);
        if record.status_owner() == StatusOwner::Vipward {
            let status = record.ingress.iter().filter_map(|ingress| ingress.ip);
            addresses
                .extend(status.filter(|vip| !self.reservations.of(service).contains(vip) && is_shared(vip)));
        }
        let lacks = if addresses.is_empty() { self.lack(service) } else { None };
        self.index.give(service, Given { addresses, lacks: lacks.into_iter().collect(), pending: false });
    }

    /// Returns what a Service lacks that has no address, and gets none while no controller leads.
    fn lack(&mut self, service: &ServiceName) -> Option<Lack> {
        if !self.leader.is_gone() {
            return None;
        }
        let request = self.index.request(service)?;
        let serves_by_name = self.index.role() == Role::Alone;
        let is_served = request.is_elsewhere
            || !request.status.is_empty()
            || serves_by_name && !request.addresses.is_empty();
        (!is_served).then_some(Lack::NoController {
            pool: request.pool,
            addresses: request.addresses,
            is_helped_by_name: serves_by_name,
        })
    }
}
