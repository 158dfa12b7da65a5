//! Hosts that have the addresses of VIPs: what they answer, and what their nodes' kernels have.

use ipnet::IpNet;
use vipward_common::MacAddr;
use vipward_core::agent::{Changed, Input, Network};

use super::{Happening, World};
use crate::{
    machine::{Frame, Host},
    schedule::{Sabotage, names},
};

impl World {
    pub(super) fn network_of(&self, node: usize) -> Network {
        let has = |host: &Option<Host>| host.is_some_and(|host| host.node == Some(node));
        let vips = self.network.hosts.iter().enumerate().filter(|(_, host)| has(host)).map(|(vip, _)| vip);
        let addresses = vips.map(|vip| (self.segment_of(vip), IpNet::new_assert(names::vip(vip), 24)));
        let is_known = self.sabotage != Some(Sabotage::NoOwnAddresses);
        self.nodes[node].network(&addresses.filter(|_| is_known).collect::<Vec<_>>())
    }

    /// Notifies the agent that its interfaces have changed.
    pub(super) fn notice_links(&mut self, node: usize, life: u32) {
        self.incoming(node, life, Input::Changed(Changed::default()));
    }

    /// Returns the host of a frame's address that is no node.
    pub(super) fn host_of(&self, segment: usize, frame: &Frame) -> Option<usize> {
        let vip = names::vip_index(frame.target()?);
        let host = (*self.network.hosts.get(vip)?)?;
        let is_there = host.node.is_none() && self.segment_of(vip) == segment;
        (is_there && self.sabotage != Some(Sabotage::OneWayProbes)).then_some(vip)
    }

    /// Lets a host that has a VIP's address answer a request for it. A fabric answers for a host that is gone,
    /// until it learns the holder's MAC.
    pub(super) fn frame_to_host(&mut self, segment: usize, vip: usize, frame: &Frame) {
        let Some(host) = self.network.hosts[vip].filter(|_| self.host_of(segment, frame) == Some(vip)) else {
            return;
        };
        if host.is_cached && frame.is_gratuitous() {
            let holder = self.nodes.get(names::mac_node(frame.sha));
            let answer = holder.and_then(|node| node.answer(vip, segment, self.now));
            if answer == Some(frame.sha) {
                self.network.hosts[vip] = None;
            }
        } else if !frame.is_gratuitous() && (!host.is_cached || frame.to.is_multicast()) {
            let frame = frame.answered(names::HOST, names::HOST);
            self.after(host.late, Happening::HostAnswer { segment, vip, frame });
        }
    }

    /// Lets a host that still has a VIP's address answer.
    pub(super) fn host_answers(&mut self, segment: usize, vip: usize, frame: Frame) {
        if self.network.hosts[vip].is_some_and(|host| host.node.is_none()) {
            self.transmit(segment, names::host(vip), frame);
        }
    }

    /// Returns the answer of a node's kernel to a frame that its program lets pass.
    pub(super) fn kernel_answers(&self, node: usize, segment: usize, frame: &Frame) -> Option<Frame> {
        let vip = names::vip_index(frame.target().filter(|_| !frame.is_gratuitous())?);
        let host = (*self.network.hosts.get(vip)?)?;
        let mac = self.nodes[node].links[segment].mac;
        let has = host.node == Some(node) && self.segment_of(vip) == segment;
        has.then(|| frame.answered(mac, mac))
    }

    /// Returns the answer of a host that is no program, if a node receives it.
    pub(super) fn answer_of_host(
        &self,
        node: usize,
        vip: usize,
        receives: impl Fn(usize) -> bool,
    ) -> Option<MacAddr> {
        let host = self.network.hosts[vip]?;
        let segment = self.segment_of(vip);
        match host.node {
            None => {
                let is_linked = !self.nodes[node].links[segment].no_carrier.any();
                let reaches = is_linked && !self.network.segments[segment].is_dead(node);
                (reaches && !host.is_cached && self.sabotage != Some(Sabotage::OneWayProbes))
                    .then_some(names::HOST)
            }
            Some(other) => {
                let it = &self.nodes[other];
                let is_silent = it.program.entry(names::key(vip, segment)).is_some();
                (receives(other) && it.kernel_runs() && !is_silent).then_some(it.links[segment].mac)
            }
        }
    }
}
