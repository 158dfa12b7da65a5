//! Hosts that get the addresses of VIPs which no node holds, and tokens of nodes that lie.

use std::time::Duration;

use ipnet::IpNet;
use vipward_common::MacAddr;
use vipward_core::{
    records::{ClaimNote, ClaimRecord, ClaimState, Epoch, Holder, NodeInterface, Version},
    services::{Event as Served, HostAddress, HostNetwork},
};

use super::World;
use crate::{names, sabotage::Sabotage, time::At};

/// The MAC of a host that is no node.
const MAC: MacAddr = MacAddr([2, 0, 0, 0, 0xff, 0xff]);
/// The time for which no node must have held a VIP before a host gets its address: longer than an
/// agent takes a VIP without a probe, or after an earlier one.
const VACANT: Duration = Duration::from_secs(13);

/// A host that has the address of a VIP.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Host {
    /// The number of its disturbance.
    disturbance: usize,
    /// The node that it is. None for another host.
    pub(crate) node: Option<usize>,
    /// The time at which it got the address.
    pub(crate) since: At,
    /// The last time at which a node could not hear it.
    pub(crate) away: At,
    /// True if a node took the VIP, since it had not heard the host.
    pub(crate) is_void: bool,
}

impl World {
    /// Gives a host the address of a VIP, if no node has held the VIP for a while, or takes it away.
    pub(super) fn change_host(
        &mut self,
        disturbance: usize,
        (vip, node): (usize, Option<usize>),
        begins: bool,
    ) {
        let is_vacant = self.now.since(self.record.occupied[vip]) >= VACANT;
        let changed = if begins && is_vacant && self.hosts[vip].is_none() {
            self.hosts[vip] =
                Some(Host { disturbance, node, since: self.now, away: At::default(), is_void: false });
            self.facts.hosts = true;
            node
        } else if !begins && self.hosts[vip].is_some_and(|host| host.disturbance == disturbance) {
            self.hosts[vip].take().and_then(|host| host.node)
        } else {
            return;
        };
        if let Some(node) = changed {
            self.links_changed(node);
        }
    }

    /// Lets the token of a node claim a VIP that no living node has, as the policies permit it.
    pub(super) fn lie(&mut self, vip: usize, node: usize) {
        let name = names::node(node);
        let Some(session) = self.api.leases.get(&name).and_then(|lease| lease.session) else { return };
        let address = names::vip(vip);
        let known = self.api.claims.get(&address).cloned();
        if known.as_ref().is_some_and(|claim| !claim.state.sessions().is_empty()) {
            return;
        }
        let segment = self.segment_of(vip);
        let mac = self.nodes[node].links[segment].mac;
        let holder = Holder { node: name, session, mac, interface: names::interface(segment) };
        let claim = known.unwrap_or_else(|| ClaimRecord {
            vip: address,
            version: Version::from(""),
            epoch: Epoch(0),
            state: ClaimState::Released,
            deleting: false,
            move_to: None,
            force: false,
            release: false,
            note: ClaimNote { services: vec![names::service(vip)], ..ClaimNote::default() },
            reservation: None,
        });
        self.note_edit(vip);
        self.record.lied[vip] = Some((holder.node.clone(), session));
        self.facts.lies = true;
        self.api.put_claim(ClaimRecord {
            epoch: claim.epoch.next(),
            state: ClaimState::Held(holder),
            ..claim
        });
        self.spread();
    }

    /// Returns the answer that a node hears from a host that is no program.
    pub(super) fn answer_of_host(
        &self,
        node: usize,
        vip: usize,
        hears: impl Fn(usize) -> bool,
    ) -> Option<MacAddr> {
        let host = self.hosts[vip]?;
        let segment = self.segment_of(vip);
        match host.node {
            None => {
                let is_linked = !self.nodes[node].links[segment].no_carrier.any();
                let reaches = is_linked && !self.segments[segment].is_dead(node);
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
        let vips = self.hosts.iter().enumerate().filter(move |(_, host)| has(host)).map(|(vip, _)| vip);
        vips.map(|vip| (self.segment_of(vip), IpNet::new_assert(names::vip(vip), 24)))
    }

    /// Returns the interfaces of a node, with the addresses that its kernel has.
    pub(super) fn interfaces_of(&self, node: usize) -> Vec<NodeInterface> {
        let mut interfaces = self.nodes[node].node_interfaces();
        for (segment, net) in self.addresses_of(node) {
            interfaces[segment].subnets.push(net);
        }
        interfaces
    }

    /// Lets an agent's index take in the addresses of its host.
    pub(super) fn tell_index_of_host(&mut self, node: usize) {
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
}
