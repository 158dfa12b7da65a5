//! Hosts that get the addresses of VIPs which no node holds, and tokens of nodes that lie.

use std::time::Duration;

use vipward_core::records::{ClaimNote, ClaimRecord, ClaimState, Holder};

use crate::{
    machine::{At, Host},
    schedule::names,
    world::World,
};

/// The time for which no node must have held a VIP before a host gets its address. It is longer than the
/// time in which an agent takes a VIP without a probe, or after an earlier one.
const VACANT: Duration = Duration::from_secs(13);

/// The times after which hosts answer.
const LATE: [Option<Duration>; 4] =
    [None, Some(Duration::from_millis(900)), None, Some(Duration::from_millis(1_500))];
/// The number of those hosts of which a fabric has the address.
const CACHED: usize = 2;

impl World {
    /// Gives a host the address of a VIP, if no node has held the VIP for a while, or takes it away. A fabric
    /// keeps an address until the VIP's holder announces it.
    pub(crate) fn change_host(
        &mut self,
        disturbance: usize,
        (vip, node): (usize, Option<usize>),
        begins: bool,
    ) {
        let is_vacant = self.now.since(self.record.people.occupied[vip]) >= VACANT;
        let changed = if begins && is_vacant && self.network.hosts[vip].is_none() {
            // Every second host that is no node answers after the results of probes.
            let late = LATE[disturbance % LATE.len()].filter(|_| node.is_none()).unwrap_or_default();
            let is_cached = node.is_none() && disturbance % LATE.len() == CACHED;
            self.network.hosts[vip] = Some(Host {
                disturbance,
                node,
                since: self.now,
                away: At::default(),
                late,
                is_cached,
                robbed_by: None,
                robbed: (Duration::ZERO, None),
                is_void: false,
            });
            self.record.facts.hosts.late |= !late.is_zero();
            self.record.facts.hosts.any = true;
            node
        } else if !begins
            && self.network.hosts[vip].is_some_and(|host| host.disturbance == disturbance && !host.is_cached)
        {
            self.network.hosts[vip].take().and_then(|host| host.node)
        } else {
            return;
        };
        if let Some(node) = changed {
            self.links_changed(node);
        }
    }

    /// Lets the token of a node claim a VIP that no living node has, as the policies permit it.
    pub(crate) fn lie(&mut self, vip: usize, node: usize) {
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
            state: ClaimState::Released,
            note: ClaimNote { services: vec![names::service(vip)], ..ClaimNote::default() },
            ..ClaimRecord::blank(address, "".into())
        });
        self.record_edit(vip);
        self.record.people.lied[vip] = Some((holder.node.clone(), session));
        self.record.facts.lies = true;
        self.api.put_claim(ClaimRecord {
            epoch: claim.epoch.next(),
            state: ClaimState::Held(holder),
            ..claim
        });
        self.spread();
    }
}
