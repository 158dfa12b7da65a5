//! Contact with peers: an interface over which no peer answers may not be where VIPs go.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::{Engine, nodes::Nodes, wire_plan::share_a_segment};
use crate::{
    cluster::{NodeInterface, NodeName},
    time::Monotonic,
    wire::{Answers, Path, Peer, Plan},
};

/// Least number of peers that renew their Leases and are not heard, for the fault to be here.
const LEAST_PEERS: usize = 2;

/// The contact of one interface, as the witness has found.
#[derive(Clone, Copy, Debug)]
struct Contact {
    heard: bool,
    answers: Answers,
}

impl Contact {
    /// Returns true if frames come in, and nothing shows that they do not go out.
    fn is_well(self) -> bool {
        self.heard && self.answers != Answers::NoLonger
    }
}

/// The contacts of this node's interfaces.
#[derive(Debug, Default)]
pub(super) struct Contacts {
    interfaces: BTreeMap<Arc<str>, Contact>,
    /// The interfaces that hear no peer, or over which none answers any longer. They count as without
    /// carrier.
    deaf: BTreeSet<Arc<str>>,
    /// All interfaces, with their true carrier.
    found: Vec<NodeInterface>,
}

impl Contacts {
    pub(super) fn find(&mut self, interfaces: Vec<NodeInterface>) {
        self.found = interfaces;
    }

    pub(super) fn take_in(&mut self, interface: Arc<str>, heard: bool, answers: Answers) {
        self.interfaces.insert(interface, Contact { heard, answers });
    }

    /// Forgets the interfaces on which the plan has no peer.
    pub(super) fn keep(&mut self, plan: &Plan) {
        let has_peer = |interface: &Arc<str>| paths(plan).any(|path| path.interface == *interface);
        self.interfaces.retain(|interface, _| has_peer(interface));
    }

    /// Returns true if a peer has answered over an interface lately, so both directions work.
    pub(super) fn is_answered(&self, interface: &str) -> bool {
        self.interfaces.get(interface).is_some_and(|contact| contact.answers == Answers::Lately)
    }

    /// Returns true if a peer has answered lately, over any interface.
    pub(super) fn is_any_answered(&self) -> bool {
        self.interfaces.values().any(|contact| contact.answers == Answers::Lately)
    }

    pub(super) fn deaf(&self) -> impl Iterator<Item = &Arc<str>> {
        self.deaf.iter()
    }

    /// Returns all interfaces, with the carrier that counts.
    fn that_count(&self) -> Vec<NodeInterface> {
        let count = |interface: &NodeInterface| NodeInterface {
            carrier: interface.carrier && !self.deaf.contains(&interface.name),
            ..interface.clone()
        };
        self.found.iter().map(count).collect()
    }
}

fn paths(plan: &Plan) -> impl Iterator<Item = &Path> {
    plan.peers.iter().flat_map(|peer| &peer.paths)
}

impl Nodes {
    /// Returns true if this node may not take a VIP on an interface: no peer answers there, although
    /// one is there that lives. The fault may be this node's, which was deposed for it.
    pub(super) fn lacks_contact(&self, interface: &NodeInterface, now: Monotonic) -> bool {
        if self.wire.key.is_none() {
            return false;
        }
        // An answer from before this node was deposed for silence proves nothing: deposing takes less
        // time than an answer counts.
        let is_too_early = self.wire.answers_count_from().is_some_and(|from| now < from);
        if !is_too_early && self.wire.contacts.is_answered(&interface.name) {
            return false;
        }
        // Only the nodes of the plan are pinged. Where none of them is, silence shows nothing.
        let pinged = |name: &NodeName| self.wire.plan.peers.iter().any(|peer| peer.node == *name);
        self.partners().any(|(name, member, ..)| {
            let mut theirs = member.lease.iter().flat_map(|lease| &lease.interfaces);
            let is_there = |their: &NodeInterface| their.carrier && share_a_segment(interface, their);
            pinged(name) && self.renews(name, now) && theirs.any(is_there)
        })
    }

    /// Returns true if an interface without contact counts as without carrier. It goes on to count so
    /// while a peer lives, although the API server may be away.
    fn is_deaf(&self, interface: &str, was_deaf: bool, now: Monotonic) -> bool {
        let is_there = |peer: &&Peer| peer.paths.iter().any(|path| &*path.interface == interface);
        let mut peers = self.wire.plan.peers.iter().filter(is_there).map(|peer| &peer.node);
        if was_deaf {
            return peers.any(|node| self.is_alive(node, now));
        }
        let lately = |seen: Monotonic| now < seen + self.settings.renewal * 2;
        peers.filter(|node| self.member(node).is_some_and(|member| lately(member.seen))).count()
            >= LEAST_PEERS
    }
}

impl Engine {
    /// Lets an interface count as without carrier if it hears none of several living peers, or if all
    /// of them have ceased to answer over it.
    pub(super) fn tick_contact(&mut self) {
        let contacts = &self.nodes.wire.contacts;
        let silent =
            contacts.interfaces.iter().filter(|(_, contact)| !contact.is_well()).map(|(name, _)| name);
        let is_deaf = |name: &&Arc<str>| self.nodes.is_deaf(name, contacts.deaf.contains(*name), self.now);
        let deaf: BTreeSet<Arc<str>> = silent.filter(is_deaf).cloned().collect();
        if deaf != contacts.deaf {
            self.nodes.wire.contacts.deaf = deaf;
            self.take_interfaces();
        }
    }

    /// Takes in the interfaces that count, if they have changed.
    pub(super) fn take_interfaces(&mut self) {
        let interfaces = self.nodes.wire.contacts.that_count();
        if self.nodes.own.interfaces != interfaces {
            self.nodes.own.interfaces = interfaces;
            self.nodes.own.renew_now(self.now);
            self.nodes.wire.is_stale = true;
            self.evaluate_all();
        }
    }
}
