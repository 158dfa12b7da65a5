//! Contact of this node's interfaces with peers: whether frames of wire failover go both ways.

use std::{collections::BTreeMap, sync::Arc};

use crate::{
    base::time::Monotonic,
    liveness::{Answers, Path, Plan},
    records::NodeInterface,
};

/// Meaning of missing answers on an interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Standing {
    /// It means nothing: no frame has come yet, so switches may not pass them.
    Unproven,
    /// It would mean a fault of this node, since frames have passed.
    Proven,
    /// It means such a fault. The interface counts as without carrier.
    OneWay,
}

/// The contact of one interface, as the monitor has found.
#[derive(Clone, Copy, Debug)]
pub(super) struct Contact {
    received: bool,
    answers: Answers,
    pub(super) found_at: Monotonic,
    pub(super) standing: Standing,
}

impl Contact {
    /// Returns true if frames come in, and nothing shows that they do not go out.
    fn is_well(self) -> bool {
        self.received && self.answers != Answers::NoLonger
    }
}

#[derive(Debug, Default)]
pub(crate) struct Contacts {
    interfaces: BTreeMap<Arc<str>, Contact>,
    /// All interfaces, with their true carrier.
    found: Vec<NodeInterface>,
}

impl Contacts {
    pub(crate) fn find(&mut self, interfaces: Vec<NodeInterface>) {
        self.found = interfaces;
    }

    /// Records the monitor's finding. Returns true if the interface was one-way, and is no longer.
    pub(crate) fn update(
        &mut self,
        interface: &Arc<str>,
        received: bool,
        answers: Answers,
        now: Monotonic,
    ) -> bool {
        let before = self.standing(interface);
        let mut contact = Contact { received, answers, found_at: now, standing: before };
        if contact.is_well() {
            contact.standing = Standing::Proven;
        }
        self.interfaces.insert(Arc::clone(interface), contact);
        before == Standing::OneWay && contact.is_well()
    }

    /// Forgets the interfaces on which the plan has no peer. Returns the one-way ones among them.
    pub(crate) fn keep(&mut self, plan: &Plan) -> Vec<Arc<str>> {
        let has_peer = |interface: &Arc<str>| paths(plan).any(|path| path.interface == *interface);
        let forgotten = self.interfaces.extract_if(.., |interface, _| !has_peer(interface));
        let one_way = forgotten.filter(|(_, contact)| contact.standing == Standing::OneWay);
        one_way.map(|(interface, _)| interface).collect()
    }

    /// Returns true if a peer has answered over an interface lately, so both directions work.
    pub(crate) fn is_answered(&self, interface: &str) -> bool {
        self.interfaces.get(interface).is_some_and(|contact| contact.answers == Answers::Lately)
    }

    /// Returns true if a peer has answered lately, over any interface.
    pub(super) fn is_any_answered(&self) -> bool {
        self.interfaces.values().any(|contact| contact.answers == Answers::Lately)
    }

    /// Returns the interfaces that count as without carrier.
    pub(crate) fn one_way(&self) -> impl Iterator<Item = &Arc<str>> {
        let one_way = self.interfaces.iter().filter(|(_, contact)| contact.standing == Standing::OneWay);
        one_way.map(|(interface, _)| interface)
    }

    pub(super) fn standing(&self, interface: &str) -> Standing {
        self.interfaces.get(interface).map_or(Standing::Unproven, |contact| contact.standing)
    }

    pub(super) fn set_standing(&mut self, interface: &str, standing: Standing) {
        if let Some(contact) = self.interfaces.get_mut(interface) {
            contact.standing = standing;
        }
    }

    /// Returns the interfaces whose contact is not well.
    pub(super) fn unanswered(&self) -> impl Iterator<Item = (&NodeInterface, Contact)> {
        let contacts =
            self.found.iter().filter_map(|found| Some((found, *self.interfaces.get(&found.name)?)));
        contacts.filter(|(_, contact)| !contact.is_well())
    }

    /// Returns all interfaces, with the carrier that counts.
    pub(crate) fn that_count(&self) -> Vec<NodeInterface> {
        let count = |interface: &NodeInterface| NodeInterface {
            carrier: interface.carrier && self.standing(&interface.name) != Standing::OneWay,
            ..interface.clone()
        };
        self.found.iter().map(count).collect()
    }
}

fn paths(plan: &Plan) -> impl Iterator<Item = &Path> {
    plan.peers.iter().flat_map(|peer| &peer.paths)
}
