//! Contact with peers: whether frames of wire failover go both ways on each interface, and what follows
//! for the VIPs there.

use std::{collections::BTreeMap, sync::Arc};

use super::{Command, Engine, Notice, nodes::Nodes, wire_plan::share_a_segment};
use crate::{
    cluster::{NodeInterface, NodeName},
    time::Monotonic,
    wire::{Answers, Mode, Path, Plan},
};

/// Least number of peers that renew their Leases and are not heard, for the fault to be here.
const LEAST_PEERS: usize = 2;

/// What silence on an interface shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Standing {
    /// Nothing: no frame has come yet, so switches may not pass them.
    Unproven,
    /// A fault of this node, unless the others are silent for each other, too.
    Proven,
    /// That fault. The interface counts as without carrier.
    Deaf,
}

/// The contact of one interface, as the witness has found.
#[derive(Clone, Copy, Debug)]
struct Contact {
    heard: bool,
    answers: Answers,
    /// The time at which the witness found this.
    found_at: Monotonic,
    standing: Standing,
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
    /// All interfaces, with their true carrier.
    found: Vec<NodeInterface>,
}

impl Contacts {
    pub(super) fn find(&mut self, interfaces: Vec<NodeInterface>) {
        self.found = interfaces;
    }

    /// Takes in what the witness has found. Returns true if the interface was deaf, and is no longer.
    pub(super) fn take_in(
        &mut self,
        interface: &Arc<str>,
        heard: bool,
        answers: Answers,
        now: Monotonic,
    ) -> bool {
        let before = self.interfaces.get(interface).map_or(Standing::Unproven, |contact| contact.standing);
        let mut contact = Contact { heard, answers, found_at: now, standing: before };
        if contact.is_well() {
            contact.standing = Standing::Proven;
        }
        self.interfaces.insert(Arc::clone(interface), contact);
        before == Standing::Deaf && contact.is_well()
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

    /// Returns the interfaces that count as without carrier.
    pub(super) fn deaf(&self) -> impl Iterator<Item = &Arc<str>> {
        let deaf = self.interfaces.iter().filter(|(_, contact)| contact.standing == Standing::Deaf);
        deaf.map(|(interface, _)| interface)
    }

    /// Returns all interfaces, with the carrier that counts.
    fn that_count(&self) -> Vec<NodeInterface> {
        let count = |interface: &NodeInterface| NodeInterface {
            carrier: interface.carrier && !self.deaf().any(|deaf| *deaf == interface.name),
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
        let wire = &self.wire;
        if wire.key.is_none() {
            return false;
        }
        // An answer from before this node was deposed for silence proves nothing: deposing takes less
        // time than an answer counts.
        let is_too_early = wire.answers_count_from().is_some_and(|from| now < from);
        if !is_too_early && wire.contacts.is_answered(&interface.name) {
            return false;
        }
        // Where no frame passes, silence shows nothing. A node that was deposed, or has a witness, shows
        // that they pass.
        let standing = wire.contacts.interfaces.get(&interface.name).map(|contact| contact.standing);
        let is_proven = wire.deposed_at.is_some() || standing.is_some_and(|it| it != Standing::Unproven);
        // Only the nodes of the plan are pinged.
        let pinged = |name: &NodeName| wire.plan.peers.iter().any(|peer| peer.node == *name);
        self.partners().any(|(name, member, ..)| {
            let offer = member.lease.as_ref().and_then(|lease| lease.wire.as_ref());
            let has_witness = offer.is_some_and(|offer| offer.mode == Mode::Notice);
            pinged(name)
                && self.renews(name, now)
                && self.is_there(name, interface)
                && (is_proven || has_witness)
        })
    }

    /// Returns true if another node has an interface with carrier on the segment of one of this node.
    fn is_there(&self, node: &NodeName, interface: &NodeInterface) -> bool {
        let lease = self.member(node).and_then(|member| member.lease.as_ref());
        let mut theirs = lease.into_iter().flat_map(|lease| &lease.interfaces);
        theirs.any(|their| their.carrier && share_a_segment(interface, their))
    }

    /// Returns what the silence on an interface shows now. It is a fault of this node while others live
    /// there. When they count as without carrier as well, the segment does not pass frames.
    fn standing(&self, interface: &NodeInterface, contact: Contact, now: Monotonic) -> Standing {
        let peers = self.wire.plan.peers.iter().map(|peer| &peer.node);
        let mut peers = peers.filter(|node| self.is_there(node, interface));
        match contact.standing {
            Standing::Deaf if peers.any(|node| self.is_alive(node, now)) => Standing::Deaf,
            Standing::Deaf => Standing::Unproven,
            // What has died with them is theirs. So they must have renewed since.
            Standing::Proven
                if peers.filter(|node| self.has_renewed_since(node, contact.found_at)).count()
                    >= LEAST_PEERS =>
            {
                Standing::Deaf
            }
            standing => standing,
        }
    }

    fn has_renewed_since(&self, node: &NodeName, since: Monotonic) -> bool {
        self.member(node).is_some_and(|member| since < member.seen)
    }
}

impl Engine {
    /// Takes in what the witness has found of an interface.
    pub(super) fn on_contact(&mut self, interface: &Arc<str>, heard: bool, answers: Answers) {
        if self.nodes.wire.contacts.take_in(interface, heard, answers, self.now) {
            self.tell_contact(interface, false);
            self.take_interfaces();
        }
        self.evaluate_all();
    }

    /// Lets an interface count as without carrier that hears none of several living peers, or over which
    /// several have answered and none does any longer.
    pub(super) fn tick_contact(&mut self) {
        let contacts = &self.nodes.wire.contacts;
        let silent = contacts.found.iter().filter_map(|interface| {
            let contact = *contacts.interfaces.get(&interface.name)?;
            let standing = (!contact.is_well()).then(|| self.nodes.standing(interface, contact, self.now))?;
            (standing != contact.standing).then(|| (Arc::clone(&interface.name), standing))
        });
        let changed: Vec<_> = silent.collect();
        if changed.is_empty() {
            return;
        }
        for (interface, standing) in changed {
            if let Some(contact) = self.nodes.wire.contacts.interfaces.get_mut(&interface) {
                contact.standing = standing;
            }
            self.tell_contact(&interface, standing == Standing::Deaf);
        }
        self.take_interfaces();
    }

    fn tell_contact(&mut self, interface: &Arc<str>, is_deaf: bool) {
        let interface = Arc::clone(interface);
        self.command(Command::Notify(Notice::WireContact { interface, is_deaf }));
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
