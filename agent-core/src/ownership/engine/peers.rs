//! Effects of the Leases of all nodes: who the peers are, and whose sessions have ended.

use super::Engine;
use crate::{
    ownership::{command::Command, event::Outcome, nodes::Expired, vip::Vip},
    records::{LeaseRecord, NodeName, Proxy, Reach},
};

impl Engine {
    pub(super) fn on_lease(&mut self, record: LeaseRecord) {
        if record.node == self.nodes.settings.node {
            self.on_own_lease_seen(Some(&record));
        }
        self.take_lease(record);
    }

    fn take_lease(&mut self, record: LeaseRecord) {
        let session = self.nodes.live_session(&record.node);
        // A node that leaves, or has begun another session, lives.
        let is_dead = !record.leaving && record.live_session().is_none();
        let has_ended = is_dead && session.is_some_and(|session| record.ended.contains(&session));
        if has_ended && record.node != self.nodes.settings.node {
            // Whichever news was first, the claims that follow must not wait for its API server.
            self.command(Command::AvoidServer(record.node.clone()));
        }
        let before = self.nodes.lease(&record.node).and_then(|lease| lease.proxy.as_ref());
        // Most are renewals and no more. Nothing is copied for them, and no VIP is visited.
        let differs = record.node != self.nodes.settings.node && before != record.proxy.as_ref();
        let changed = differs.then(|| (before.cloned(), record.proxy.clone()));
        if self.nodes.take_lease(record, self.now) {
            self.update_peers();
            self.update_unreached();
            self.evaluate_all();
        } else if let Some((before, after)) = changed {
            self.evaluate_delivered(before.as_ref(), after.as_ref());
        }
    }

    /// Records the state of this node's own proxy, and has other nodes learn of it at once.
    pub(super) fn on_proxy(&mut self, proxy: Option<Proxy>) {
        if self.nodes.own.proxy == proxy {
            return;
        }
        let before = self.nodes.own.set_proxy(proxy, self.now);
        let after = self.nodes.own.proxy.clone();
        self.evaluate_delivered(before.as_ref(), after.as_ref());
    }

    /// Has the VIPs evaluated for which a node's proxy states something else.
    fn evaluate_delivered(&mut self, before: Option<&Proxy>, after: Option<&Proxy>) {
        let port = |vip: &Vip| match &vip.demand.as_ref()?.reach {
            Reach::On(local) => local.health_port,
            Reach::Anywhere | Reach::Unknown => None,
        };
        let differs = |port| Proxy::delivers(before, port) != Proxy::delivers(after, port);
        let vips = self.vips.iter().filter(|(_, vip)| differs(port(vip)));
        self.queue.add_all(vips.map(|(address, _)| *address));
    }

    pub(super) fn on_lease_gone(&mut self, name: &NodeName) {
        if *name == self.nodes.settings.node {
            self.on_own_lease_seen(None);
        }
        if self.nodes.lose_lease(name, self.now) {
            self.update_peers();
            self.update_unreached();
            self.evaluate_all();
        }
    }

    /// Sets the peers, once all Leases have been listed. If a peer were removed
    /// too early, the program would not give way to it.
    pub(super) fn update_peers(&mut self) {
        if !self.has_begun() {
            return;
        }
        let peers = self.nodes.peers();
        if self.peers.as_ref() != Some(&peers) {
            self.peers = Some(peers.clone());
            self.command(Command::SetPeers(peers));
        }
    }

    pub(super) fn on_expired(&mut self, name: NodeName, outcome: Outcome<LeaseRecord>) {
        self.nodes.count_expiring(&name, matches!(outcome, Outcome::Done(_)));
        match self.nodes.on_expired(&name, outcome, self.now) {
            Some(Expired::Done(record)) => self.take_answer(*record),
            Some(Expired::Read) => self.command(Command::ReadLease(name)),
            Some(Expired::Again) | None => {}
        }
    }

    pub(super) fn on_lease_read(&mut self, name: &NodeName, outcome: Outcome<LeaseRecord>) {
        self.nodes.end_expiring(name);
        let is_read = matches!(outcome, Outcome::Done(_) | Outcome::Missing);
        match outcome {
            Outcome::Done(record) => self.take_answer(record),
            Outcome::Missing => self.on_lease_gone(name),
            Outcome::Conflict | Outcome::Unknown | Outcome::Refused(_) => {}
        }
        let write = self.nodes.expire_suspect(name, is_read, self.now);
        self.commands.extend(write.map(Command::WriteLease));
    }

    /// Records another node's Lease from the answer to a request. A later Lease from the watch
    /// stays: the watch does not show it again, and an ended session would seem to live.
    fn take_answer(&mut self, record: LeaseRecord) {
        let known = self.nodes.lease(&record.node);
        if known.is_none_or(|known| !record.version.is_older_than(&known.version)) {
            self.take_lease(record);
        }
    }
}
