//! Services: the agents' own index turns them into demands, and a stranger asks for VIPs.

use std::collections::BTreeMap;

use vipward_core::{
    base::time::Monotonic,
    ownership::Event,
    records::{Epoch, ServiceName},
    services::{Command, Event as Served, Services, Settings},
};

use super::{World, marks::CREATED};
use crate::{api::Service, names, node::Incoming, sabotage::Sabotage, schedule::What};

/// A stranger's Service that is in force.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stranger {
    /// The number of its disturbance.
    disturbance: usize,
    number: u8,
    /// The VIPs that it asks for, a bit each.
    vips: u8,
    /// The nodes with endpoints, a bit each.
    on: u8,
    /// True if it is older than the owners of these VIPs.
    older: bool,
}

impl World {
    /// Starts an agent's index. The VIPs' addresses are permitted, whatever the Leases say.
    pub(super) fn start_services(&self) -> Services {
        let segments = self.segments.len();
        let allow = (0..segments).flat_map(|segment| names::subnets(segment, segments)).collect();
        let mut services = Services::start(Settings { allow, ..Settings::default() });
        services.on_event(Served::SlicesListed);
        if self.sabotage == Some(Sabotage::NoConsent) {
            let (name, share_with) = (names::namespace(), [names::strangers_namespace()].into());
            services.on_event(Served::Namespace { name, labels: BTreeMap::new(), share_with });
        }
        services
    }

    /// Begins or ends a stranger's wish. It asks only for VIPs whose claims name their owner: others
    /// belong to the first that asks.
    pub(super) fn change_stranger(&mut self, disturbance: usize, what: What, begins: bool) {
        let What::Stranger { number, vips, on, older, for_ms: _ } = what else { return };
        if begins {
            let mut asked = 0;
            for vip in (0..self.plan.vips.len()).filter(|vip| vips >> vip & 1 == 1) {
                let claim = self.api.claims.get(&names::vip(vip));
                if claim.is_some_and(|claim| claim.note.services == [names::service(vip)]) {
                    asked |= 1 << vip;
                    self.record.unrecorded[vip] &= self.is_asked_for(vip);
                }
            }
            self.facts.strangers |= asked != 0;
            self.strangers.push(Stranger { disturbance, number, vips: asked, on, older });
        } else {
            self.strangers.retain(|known| known.disturbance != disturbance);
        }
        let latest = self.strangers.iter().rev().find(|known| known.number == number);
        let service = latest.map(|stranger| self.service_of(*stranger));
        self.api.put_service(&names::strangers_service(number), service);
        self.spread();
    }

    /// Notes the VIPs without a claim when an agent that knows none yet lists the claims: it can only
    /// go by the age of Services.
    pub(super) fn note_unrecorded(&mut self, node: usize) {
        if self.nodes[node].process.as_ref().is_some_and(|process| process.synced) {
            return;
        }
        for vip in 0..self.plan.vips.len() {
            self.record.unrecorded[vip] |= !self.api.claims.contains_key(&names::vip(vip));
        }
    }

    /// Notes that a Service of the stranger has a VIP, or its status.
    pub(super) fn note_strangers(&mut self, vip: usize, service: &ServiceName, what: &str) {
        if names::is_strangers(service) && !self.record.unrecorded[vip] {
            self.violate("owner", format!("{what} {service}, which has no right to {}", names::vip(vip)));
        }
    }

    /// Returns true if a stranger's Service asks for a VIP.
    fn is_asked_for(&self, vip: usize) -> bool {
        self.strangers.iter().any(|stranger| stranger.vips >> vip & 1 == 1)
    }

    fn service_of(&self, stranger: Stranger) -> Service {
        let vips = (0..self.plan.vips.len()).filter(|vip| stranger.vips >> vip & 1 == 1);
        let addresses: Vec<_> = vips.map(|vip| names::vip(vip).to_string()).collect();
        let created = if stranger.older { CREATED - 1 } else { CREATED + 1 };
        let name = names::strangers_service(stranger.number);
        // Its port is free, so that only the lack of consent keeps it from the VIPs.
        let port = 8_080 + u16::from(stranger.number);
        Service::new(name, &addresses.join(","), (created, port), Some(self.nodes_of(stranger.on)))
    }

    /// Lets an agent's index take in what only it gets.
    pub(super) fn take_services(&mut self, node: usize, events: Vec<Served>) {
        self.tell_index(node, events);
        self.drain(node);
    }

    /// Lets an agent's index take in what its engine has seen.
    pub(super) fn tell_index_of(&mut self, node: usize, event: &Event) {
        match event {
            Event::Lease(record) => {
                let (node_named, interfaces) = (record.node.clone(), record.interfaces.clone());
                let session = record.live_session();
                let event = Served::NodeInterfaces { node: node_named, interfaces, session };
                self.tell_index(node, vec![event]);
            }
            Event::NodeGone(gone) => self.tell_index(node, vec![Served::NodeGone(gone.clone())]),
            Event::Claim(record) => {
                let was_held = record.epoch > Epoch(0) || record.state.holder().is_some();
                let mut services = record.note.services.clone();
                if self.sabotage == Some(Sabotage::NoRecord) {
                    services.clear();
                }
                let vip = record.vip;
                self.tell_index(
                    node,
                    vec![Served::Claim {
                        vip,
                        was_held,
                        sessions: record.state.sessions(),
                        force: false,
                        services,
                        reservation: None,
                        release: false,
                    }],
                );
            }
            Event::ClaimGone(vip) => self.tell_index(node, vec![Served::ClaimGone(*vip)]),
            Event::Synced
            | Event::LeaseGone(_)
            | Event::Node(_)
            | Event::Demand(..)
            | Event::Interfaces(_)
            | Event::LeaseWritten { .. }
            | Event::LeaseRead { .. }
            | Event::ClaimWritten { .. }
            | Event::ClaimDeleted { .. }
            | Event::ClaimRead { .. }
            | Event::Probed { .. }
            | Event::Wire { .. }
            | Event::Witnessed(_)
            | Event::WireKeys(_)
            | Event::WireSelf(_)
            | Event::Stop(_)
            | Event::Tick => {}
        }
    }

    /// Lets an agent's index take in that an entry was written.
    pub(super) fn tell_index_of_entry(&mut self, node: usize, vip: usize) {
        let vip = names::vip(vip);
        let here = self.nodes[node].process.as_ref().is_some_and(|process| process.engine.holds(vip));
        self.tell_index(node, vec![Served::Held { vip, here }]);
    }

    /// Lets an agent's index take in the time.
    pub(super) fn tell_index_the_time(&mut self, node: usize, local: Monotonic) {
        let Some(process) = &mut self.nodes[node].process else { return };
        let commands = process.services.on_time(local);
        self.serve(node, commands);
        self.drain(node);
    }

    /// Lets an agent's index take in events. The agent's engine gets the new demands next.
    pub(super) fn tell_index(&mut self, node: usize, events: Vec<Served>) {
        let Some(process) = &mut self.nodes[node].process else { return };
        let services = &mut process.services;
        let commands = events.into_iter().flat_map(|event| services.on_event(event)).collect();
        self.serve(node, commands);
    }

    /// Carries out commands of an agent's index.
    fn serve(&mut self, node: usize, commands: Vec<Command>) {
        let Some(process) = &mut self.nodes[node].process else { return };
        let mut written = Vec::new();
        for command in commands.into_iter().rev() {
            match command {
                Command::Demand(vip, demand) => {
                    process.inbox.push_front(Incoming::Event(Event::Demand(vip, demand).into()));
                }
                Command::WriteIngress { service, addresses } => written.push((service, addresses)),
                Command::ListSlices { .. } => panic!("the slices are known"),
                Command::ClearIngress { .. }
                | Command::LeaveIngress { .. }
                | Command::Report { .. }
                | Command::ProblemOver { .. }
                | Command::Reserve(_) => {}
            }
        }
        for (service, addresses) in written {
            for address in addresses {
                let what = format!("{} writes the status of", names::node(node));
                self.note_strangers(names::vip_index(address), &service, &what);
            }
        }
    }
}
