//! Contact of this node's interfaces with peers.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::Sight;
use crate::{
    time::Boottime,
    wire::{Answers, Finding, Scale},
};

/// The contact of one interface.
#[derive(Debug)]
struct Contact {
    /// Time since which this node has listened without a break.
    since: Boottime,
    /// Time from which pings count.
    begun: Boottime,
    /// The last frame.
    heard: Boottime,
    /// The newest ping that was answered, of those that count.
    answered: Option<Boottime>,
    reported: Option<(bool, Answers)>,
}

impl Contact {
    fn new(now: Boottime) -> Self {
        Self { since: now, begun: now, heard: Boottime::default(), answered: None, reported: None }
    }

    fn answers(&self, scale: Scale, now: Boottime) -> Answers {
        match self.answered {
            None => Answers::None,
            Some(answered) if now < answered + scale.deaf() => Answers::Lately,
            Some(_) => Answers::NoLonger,
        }
    }
}

/// The contacts of all interfaces that have a peer.
#[derive(Debug, Default)]
pub(super) struct Contacts {
    interfaces: BTreeMap<Arc<str>, Contact>,
}

impl Contacts {
    /// Takes in the interfaces on which there are peers.
    pub(super) fn set<'a>(&mut self, interfaces: impl Iterator<Item = &'a Arc<str>>, now: Boottime) {
        let wanted: BTreeSet<&Arc<str>> = interfaces.collect();
        self.interfaces.retain(|interface, _| wanted.contains(interface));
        for interface in wanted {
            self.interfaces.entry(Arc::clone(interface)).or_insert(Contact::new(now));
        }
    }

    /// Takes in that this node looks again. After a long pause it has not listened: the host may have
    /// stood still.
    pub(super) fn listen(&mut self, scale: Scale, last: Boottime, now: Boottime) {
        if now.saturating_since(last) > scale.contact_ping() + scale.own_gap() {
            for contact in self.interfaces.values_mut() {
                contact.since = now;
            }
        }
    }

    /// Forgets what was heard, and who has answered.
    pub(super) fn begin_anew(&mut self, now: Boottime) {
        self.interfaces.values_mut().for_each(|contact| *contact = Contact::new(now));
    }

    /// Takes in the program's records of a peer over an interface.
    pub(super) fn see(&mut self, interface: &str, answers: Sight, pings: Sight) {
        if let Some(contact) = self.interfaces.get_mut(interface) {
            contact.heard = contact.heard.max(answers.heard).max(pings.heard);
            contact.answered = contact.answered.max(Some(answers.answered).filter(|at| *at >= contact.begun));
        }
    }

    /// Takes in a frame of a peer.
    pub(super) fn hear(&mut self, interface: &str, now: Boottime) {
        if let Some(contact) = self.interfaces.get_mut(interface) {
            contact.heard = contact.heard.max(now);
        }
    }

    /// Returns what has changed.
    pub(super) fn news(&mut self, scale: Scale, now: Boottime) -> impl Iterator<Item = Finding> {
        self.interfaces.iter_mut().filter_map(move |(interface, contact)| {
            let (heard, answers) = (now < contact.heard + scale.deaf(), contact.answers(scale, now));
            // Silence counts only after this node has listened for as long.
            let is_well = heard && answers != Answers::NoLonger;
            if !is_well && now < contact.since + scale.deaf() {
                return None;
            }
            let is_news = contact.reported.replace((heard, answers)) != Some((heard, answers));
            is_news.then(|| Finding::Contact { interface: Arc::clone(interface), heard, answers })
        })
    }

    /// Returns the times at which there may be news.
    pub(super) fn deadlines(&self, scale: Scale) -> impl Iterator<Item = Boottime> {
        let times = |contact: &Contact| [contact.since, contact.heard, contact.answered.unwrap_or_default()];
        self.interfaces.values().flat_map(times).map(move |time| time + scale.deaf())
    }
}
