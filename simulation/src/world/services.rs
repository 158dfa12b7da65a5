//! Services: the agents' own index turns them into demands.

use std::collections::BTreeMap;

use vipward_core::{
    base::time::Monotonic,
    ownership::Event,
    records::Epoch,
    services::{Agent, Command, Event as Served, Settings},
};

use super::World;
use crate::{
    api::Incoming,
    schedule::{Sabotage, names},
};

impl World {
    /// Starts an agent's index. The VIPs' addresses are permitted, whatever the Leases say.
    pub(super) fn start_services(&self) -> Agent {
        let segments = self.network.segments.len();
        let allow = (0..segments).flat_map(|segment| names::subnets(segment, segments)).collect();
        let mut services = Agent::alone(Settings { allow, ..Settings::default() });
        services.on_event(Served::SlicesListed);
        if self.sabotage == Some(Sabotage::NoConsent) {
            let (name, share_with) = (names::namespace(), [names::strangers_namespace()].into());
            services.on_event(Served::Namespace { name, labels: BTreeMap::new(), share_with });
        }
        services
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
                | Command::ProblemOver { .. } => {}
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
