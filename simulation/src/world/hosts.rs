//! What nodes hear of hosts that have the addresses of VIPs, and of their own addresses.

use ipnet::IpNet;
use vipward_common::MacAddr;
use vipward_core::{
    ownership::Event,
    records::NodeInterface,
    services::{Event as Served, HostAddress, HostNetwork},
};

use super::World;
use crate::{
    machine::{Host, Role},
    schedule::{Sabotage, names},
};

/// The MAC of a host that is no node.
const MAC: MacAddr = MacAddr([2, 0, 0, 0, 0xff, 0xff]);

impl World {
    /// Returns the answer that a node hears from a host that is no program.
    pub(crate) fn answer_of_host(
        &self,
        node: usize,
        vip: usize,
        hears: impl Fn(usize) -> bool,
    ) -> Option<MacAddr> {
        let host = self.network.hosts[vip]?;
        let segment = self.segment_of(vip);
        match host.node {
            None => {
                let is_linked = !self.nodes[node].links[segment].no_carrier.any();
                let reaches = is_linked && !self.network.segments[segment].is_dead(node);
                (reaches && self.sabotage != Some(Sabotage::DeafProbes)).then_some(MAC)
            }
            Some(other) => {
                let it = &self.nodes[other];
                let is_audible = hears(other) && it.kernel_runs() && it.program.slot(vip).is_none();
                is_audible.then_some(it.links[segment].mac)
            }
        }
    }

    /// Returns the addresses of VIPs that a node's kernel has, each with its segment.
    fn addresses_of(&self, node: usize) -> impl Iterator<Item = (usize, IpNet)> {
        let has = move |host: &Option<Host>| host.is_some_and(|host| host.node == Some(node));
        let vips =
            self.network.hosts.iter().enumerate().filter(move |(_, host)| has(host)).map(|(vip, _)| vip);
        vips.map(|vip| (self.segment_of(vip), IpNet::new_assert(names::vip(vip), 24)))
    }

    /// Returns the interfaces of a node, with the addresses that its kernel has.
    pub(crate) fn interfaces_of(&self, node: usize) -> Vec<NodeInterface> {
        let mut interfaces = self.nodes[node].node_interfaces();
        for (segment, net) in self.addresses_of(node) {
            interfaces[segment].subnets.push(net);
        }
        interfaces
    }

    /// Lets an agent's index take in the addresses of its host.
    pub(crate) fn tell_index_of_host(&mut self, node: usize) {
        if self.sabotage == Some(Sabotage::NoOwnAddresses) {
            return;
        }
        let address =
            |(segment, net)| HostAddress { interface: names::interface(segment), segment: true, net };
        let network = HostNetwork {
            node: names::node(node),
            addresses: self.addresses_of(node).map(address).collect(),
            next_hops: [].into(),
            name_servers: [].into(),
        };
        self.tell_index(node, vec![Served::HostNetwork(network)]);
    }

    /// Tells the agent its interfaces as they are.
    pub(super) fn feed_links(&mut self, node: usize) {
        for link in &mut self.nodes[node].links {
            link.known_mac = link.mac;
        }
        self.stirred = true;
        let links = self.interfaces_of(node);
        self.tell_index_of_host(node);
        let own = (0..self.network.hosts.len())
            .filter(|vip| self.network.hosts[*vip].is_some_and(|host| host.node == Some(node)));
        let own: Vec<_> = own.collect();
        if let Some(process) = &mut self.nodes[node].process {
            // The shell reads all entries again.
            process.writing.extend(own);
        }
        self.feed(node, Event::Interfaces(links));
    }

    /// Lets the agent notice changed interfaces.
    pub(super) fn notice_links(&mut self, node: usize, life: u32) {
        if self.nodes[node].life != life || !self.nodes[node].agent_runs() {
            return;
        }
        self.feed_links(node);
        for vip in 0..self.plan.vips.len() {
            let slot = self.nodes[node].program.slot(vip);
            if slot.is_some_and(|slot| slot.role == Role::Held) {
                self.begin_rounds(node, vip);
            }
        }
    }
}
