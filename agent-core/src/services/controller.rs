//! The Services as the controller serves them. The index and the allocator stand side by side: the
//! index finds what each Service requests, and the allocator decides which addresses it gets.

use std::{collections::BTreeSet, net::IpAddr, sync::Arc};

use super::{
    Command, Event, Settings,
    index::{Index, Origin, Role, Subject},
};
use crate::{
    base::time::Monotonic,
    pools::{self, Allocator, Announcing, ReservationWrite, Surroundings},
    records::ServiceName,
};

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ControllerCommand {
    /// Write the reservation of an address. [`pools::Event::Answered`] follows.
    Reserve(ReservationWrite),
    /// Do not try the reservation of this address again that has failed.
    GiveUp(IpAddr),
    Serve(Command),
}

/// The controller's index of Services, and the allocator of the pools' addresses.
#[derive(Debug)]
pub struct Controller {
    index: Index,
    allocator: Allocator,
}

/// The index while the pools begin. The VIPs are not known yet, and no address that a Service names
/// is given to another.
struct Beginning<'a> {
    index: &'a Index,
    named: BTreeSet<IpAddr>,
}

impl Surroundings for Beginning<'_> {
    fn refuses(&self, vip: IpAddr) -> bool {
        self.index.refuses(vip)
    }

    fn is_free(&self, vip: IpAddr) -> bool {
        !self.named.contains(&vip) && self.index.is_free(vip)
    }
}

impl Controller {
    /// Starts without a Service or a pool.
    pub fn start(settings: Settings) -> Self {
        let allocator = Allocator::start(settings.most_vips, !settings.allow.is_empty());
        Self { index: Index::start(settings, Role::Controller), allocator }
    }

    pub fn index(&self) -> &Index {
        &self.index
    }

    pub fn allocator(&self) -> &Allocator {
        &self.allocator
    }

    /// Records an event. Returns the commands that follow from it.
    pub fn on_event(&mut self, event: Event) -> Vec<ControllerCommand> {
        let mut commands = Vec::new();
        if matches!(event, Event::Synced) {
            self.begin(&mut commands);
        }
        let mut for_allocator = of_pools(&event);
        // The allocator has a claim while the index still refuses an address that was never held. So the
        // address is reserved after its VIP is evaluated.
        if let Event::Claim { vip, .. } = &event {
            self.allocate(for_allocator.take(), &mut commands);
            // Statuses name what is reserved.
            self.index.touch([], *vip);
        }
        of_index(self.index.on_event(event), &mut commands);
        self.allocate(for_allocator, &mut commands);
        for net in self.index.take_needed() {
            self.allocate(Some(pools::Event::Needs(net)), &mut commands);
        }
        self.step(commands)
    }

    /// Records an event of the allocator alone: an answer to a write, or the time.
    pub fn on_pools(&mut self, event: pools::Event) -> Vec<ControllerCommand> {
        let mut commands = Vec::new();
        self.allocate(Some(event), &mut commands);
        self.step(commands)
    }

    /// Records the time. Returns the commands that follow from it.
    pub fn on_time(&mut self, now: Monotonic) -> Vec<ControllerCommand> {
        self.index.on_time(now);
        self.step(Vec::new())
    }

    /// Evaluates all that was touched. The pools get a Service's request before the Service is
    /// evaluated, so that it wants what it is given.
    fn step(&mut self, mut commands: Vec<ControllerCommand>) -> Vec<ControllerCommand> {
        while let Some(subject) = self.index.next_touched() {
            match subject {
                Subject::Service(name) => {
                    self.ask(&name, &mut commands);
                    of_index(self.index.assess(&name), &mut commands);
                }
                Subject::Vip(vip) => {
                    let reservation = self.allocator.reservation(vip).filter(|it| it.kept.is_none());
                    let reserved_for = reservation.map(|reservation| &reservation.service);
                    let origin = Origin { pool: self.allocator.kind_of(vip), reserved_for };
                    of_index(self.index.resolve(vip, origin), &mut commands);
                    let permitted = self.index.opens(vip).then_some(pools::Event::Permitted(vip));
                    self.allocate(permitted, &mut commands);
                }
            }
        }
        of_index(self.index.settle(), &mut commands);
        commands
    }

    /// Has the pools begin, with all requests: a reservation without a request is given up.
    fn begin(&mut self, commands: &mut Vec<ControllerCommand>) {
        for name in self.index.entries.keys().cloned().collect::<Vec<_>>() {
            self.ask(&name, commands);
        }
        let beginning = Beginning { index: &self.index, named: self.index.named() };
        let given = self.allocator.on_event(pools::Event::Synced, &beginning);
        self.give(given, commands);
    }

    /// Passes a Service's request on to the pools.
    fn ask(&mut self, name: &ServiceName, commands: &mut Vec<ControllerCommand>) {
        let event = match self.index.request(name) {
            Some(request) => pools::Event::Request(name.clone(), request),
            None => pools::Event::Withdrawn(name.clone()),
        };
        self.allocate(Some(event), commands);
    }

    fn allocate(&mut self, event: Option<pools::Event>, commands: &mut Vec<ControllerCommand>) {
        let given = event.map(|event| self.allocator.on_event(event, &self.index));
        self.give(given.unwrap_or_default(), commands);
    }

    fn give(&mut self, given: Vec<pools::Command>, commands: &mut Vec<ControllerCommand>) {
        for command in given {
            match command {
                pools::Command::Write(write) => commands.push(ControllerCommand::Reserve(write)),
                pools::Command::GiveUp(vip) => commands.push(ControllerCommand::GiveUp(vip)),
                pools::Command::Assign(service, given) => self.index.give(&service, given),
            }
        }
    }
}

fn of_index(served: Vec<Command>, commands: &mut Vec<ControllerCommand>) {
    commands.extend(served.into_iter().map(ControllerCommand::Serve));
}

/// Returns what the allocator is to know of an event.
fn of_pools(event: &Event) -> Option<pools::Event> {
    let announcing = |change| Some(pools::Event::Announcing(change));
    match event {
        Event::Pool(pools::Change::Pool(record)) => Some(pools::Event::Pool(record.clone())),
        Event::Pool(pools::Change::PoolGone(name)) => Some(pools::Event::PoolGone(Arc::clone(name))),
        Event::Namespace { name, labels, share_with } => {
            let (labels, share_with) = (labels.clone(), share_with.clone());
            Some(pools::Event::Namespace { name: Arc::clone(name), labels, share_with })
        }
        Event::NamespaceGone(name) => Some(pools::Event::NamespaceGone(Arc::clone(name))),
        Event::Claim { vip, services, reservation, release, .. } => Some(pools::Event::Object {
            vip: *vip,
            reservation: reservation.as_deref().cloned(),
            release: *release,
            services: services.clone(),
        }),
        Event::ClaimGone(vip) => Some(pools::Event::ObjectGone(*vip)),
        Event::Pool(change) => announcing(Announcing::Pools(change.clone())),
        Event::NodeAddresses { node, labels, .. } => {
            announcing(Announcing::Labels(node.clone(), labels.clone()))
        }
        Event::NodeInterfaces { node, interfaces, .. } => {
            announcing(Announcing::Interfaces(node.clone(), interfaces.clone()))
        }
        Event::LeaseGone(node) => announcing(Announcing::Interfaces(node.clone(), Vec::new())),
        Event::NodeGone(node) => announcing(Announcing::NodeGone(node.clone())),
        Event::Service(_)
        | Event::ServiceGone(_)
        | Event::SlicesListed
        | Event::Slice(_)
        | Event::SliceGone { .. }
        | Event::ServiceCidr { .. }
        | Event::Leader(_)
        | Event::Behind(_)
        | Event::Found(_)
        | Event::HostNetwork(_)
        | Event::ApiServers { .. }
        | Event::Held { .. }
        | Event::Synced => None,
    }
}
