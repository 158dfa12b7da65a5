//! Contact with peers: whether frames of wire failover go both ways on each interface, and what follows
//! for the VIPs there.

use std::{collections::BTreeMap, sync::Arc};

use super::{Command, Engine, Notice, member::Member, nodes::Nodes};
use crate::{
    base::time::Monotonic,
    liveness::{Answers, LEAST_SILENT, Path, Plan},
    records::{Mode, NodeInterface, NodeName},
};

/// Meaning of silence on an interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Standing {
    /// It means nothing: no frame has come yet, so switches may not pass them.
    Unproven,
    /// It would mean a fault of this node, since frames have passed.
    Proven,
    /// It means such a fault. The interface counts as without carrier.
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
        let before = self.standing(interface);
        let mut contact = Contact { heard, answers, found_at: now, standing: before };
        if contact.is_well() {
            contact.standing = Standing::Proven;
        }
        self.interfaces.insert(Arc::clone(interface), contact);
        before == Standing::Deaf && contact.is_well()
    }

    /// Forgets the interfaces on which the plan has no peer, and returns those of them that were deaf.
    pub(super) fn keep(&mut self, plan: &Plan) -> Vec<Arc<str>> {
        let has_peer = |interface: &Arc<str>| paths(plan).any(|path| path.interface == *interface);
        let forgotten = self.interfaces.extract_if(.., |interface, _| !has_peer(interface));
        let deaf = forgotten.filter(|(_, contact)| contact.standing == Standing::Deaf);
        deaf.map(|(interface, _)| interface).collect()
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

    /// Returns the meaning of silence on an interface.
    fn standing(&self, interface: &str) -> Standing {
        self.interfaces.get(interface).map_or(Standing::Unproven, |contact| contact.standing)
    }

    /// Returns all interfaces, with the carrier that counts.
    fn that_count(&self) -> Vec<NodeInterface> {
        let count = |interface: &NodeInterface| NodeInterface {
            carrier: interface.carrier && self.standing(&interface.name) != Standing::Deaf,
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
        let standing = wire.contacts.standing(&interface.name);
        let is_proven = wire.deposed_at.is_some() || standing != Standing::Unproven;
        // Only the nodes of the plan are pinged.
        let pinged = |name: &NodeName| wire.plan.peers.iter().any(|peer| peer.node == *name);
        self.partners().any(|(name, member, ..)| {
            let offer = member.lease.as_ref().and_then(|lease| lease.wire.as_ref());
            let has_witness = offer.is_some_and(|offer| offer.mode == Mode::Notice);
            pinged(name)
                && self.renews(name, now)
                && is_there(member, interface)
                && (is_proven || has_witness)
        })
    }

    /// Returns the meaning of the silence on an interface now. It is a fault of this node while others
    /// live there. When they count as without carrier as well, the segment does not pass frames.
    fn judge(&self, interface: &NodeInterface, contact: Contact, now: Monotonic) -> Standing {
        let peers =
            self.wire.plan.peers.iter().filter_map(|peer| Some((&peer.node, self.member(&peer.node)?)));
        let mut peers = peers.filter(|(_, member)| is_there(member, interface));
        // Peers that died may have caused the silence. One that has renewed since did not.
        let has_renewed = |(_, member): &(&NodeName, &Member)| contact.found_at < member.seen;
        let (is_deaf, otherwise) = match contact.standing {
            Standing::Unproven => (false, Standing::Unproven),
            Standing::Proven => (peers.filter(has_renewed).count() >= LEAST_SILENT, Standing::Proven),
            Standing::Deaf => (peers.any(|(node, _)| self.is_alive(node, now)), Standing::Unproven),
        };
        if is_deaf { Standing::Deaf } else { otherwise }
    }
}

/// Returns true if another node has an interface with carrier on the segment of one of this node.
fn is_there(member: &Member, interface: &NodeInterface) -> bool {
    let mut theirs = member.lease.iter().flat_map(|lease| &lease.interfaces);
    theirs.any(|their| their.carrier && interface.shares_a_segment(their))
}

impl Engine {
    /// Takes in what the witness has found of an interface.
    pub(super) fn on_contact(&mut self, interface: &Arc<str>, heard: bool, answers: Answers) {
        if self.nodes.wire.contacts.take_in(interface, heard, answers, self.now) {
            self.set_deaf(interface, false);
        }
        self.evaluate_all();
    }

    /// Lets an interface count as without carrier that hears none of several living peers, or over which
    /// several have answered and none does any longer.
    pub(super) fn tick_contact(&mut self) {
        let contacts = &self.nodes.wire.contacts;
        let silent = contacts.found.iter().filter_map(|interface| {
            let contact = *contacts.interfaces.get(&interface.name)?;
            let standing = (!contact.is_well()).then(|| self.nodes.judge(interface, contact, self.now))?;
            (standing != contact.standing).then(|| (Arc::clone(&interface.name), standing))
        });
        for (interface, standing) in silent.collect::<Vec<_>>() {
            if let Some(contact) = self.nodes.wire.contacts.interfaces.get_mut(&interface) {
                contact.standing = standing;
            }
            self.set_deaf(&interface, standing == Standing::Deaf);
        }
    }

    /// Tells that an interface has become deaf or is no longer, and takes in what counts now.
    pub(super) fn set_deaf(&mut self, interface: &Arc<str>, is_deaf: bool) {
        let interface = Arc::clone(interface);
        self.command(Command::Notify(Notice::WireContact { interface, is_deaf }));
        self.take_interfaces();
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
