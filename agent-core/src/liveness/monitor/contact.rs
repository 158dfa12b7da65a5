//! Contact of this node's interfaces with peers.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use crate::{
    base::time::Boottime,
    liveness::{Answers, Finding, LEAST_UNANSWERED, Scale, Sight},
    records::Session,
};

#[derive(Debug)]
struct Contact {
    /// Time since which this node has listened without a break.
    since: Boottime,
    /// Time from which pings count.
    begun: Boottime,
    /// The last frame.
    received: Boottime,
    /// The newest ping that each session has answered, of those that count.
    answered: BTreeMap<Session, Boottime>,
    reported: Option<(bool, Answers)>,
}

impl Contact {
    fn new(now: Boottime) -> Self {
        Self {
            since: now,
            begun: now,
            received: Boottime::default(),
            answered: BTreeMap::new(),
            reported: None,
        }
    }

    fn answers(&self, scale: Scale, now: Boottime) -> Answers {
        if self.answered.values().any(|answered| now < *answered + scale.one_way()) {
            Answers::Lately
        } else if self.answered.len() < LEAST_UNANSWERED || now < self.since + scale.one_way() {
            Answers::None
        } else {
            Answers::NoLonger
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Contacts {
    interfaces: BTreeMap<Arc<str>, Contact>,
}

impl Contacts {
    /// Records the sessions of the peers, with this node's interfaces to them.
    pub(super) fn set<'a>(&mut self, ways: impl Iterator<Item = (&'a Arc<str>, Session)>, now: Boottime) {
        let wanted: BTreeSet<(&Arc<str>, Session)> = ways.collect();
        self.interfaces.retain(|interface, contact| {
            contact.answered.retain(|session, _| wanted.contains(&(interface, *session)));
            wanted.iter().any(|(wanted, _)| *wanted == interface)
        });
        for (interface, _) in wanted {
            self.interfaces.entry(Arc::clone(interface)).or_insert(Contact::new(now));
        }
    }

    /// Records that this node reads the records again. After a long pause it has not listened: the
    /// host may have stood still.
    pub(super) fn listen(&mut self, scale: Scale, last: Boottime, now: Boottime) {
        if now.saturating_since(last) > scale.contact_ping() + scale.own_gap() {
            for contact in self.interfaces.values_mut() {
                contact.since = now;
            }
        }
    }

    pub(super) fn begin_anew(&mut self, now: Boottime) {
        self.interfaces.values_mut().for_each(|contact| *contact = Contact::new(now));
    }

    pub(super) fn see(&mut self, interface: &str, session: Session, answers: Sight, pings: Sight) {
        if let Some(contact) = self.interfaces.get_mut(interface) {
            contact.received = contact.received.max(answers.received).max(pings.received);
            if answers.answered >= contact.begun {
                contact.answered.insert(session, answers.answered);
            }
        }
    }

    pub(super) fn receive(&mut self, interface: &str, now: Boottime) {
        if let Some(contact) = self.interfaces.get_mut(interface) {
            contact.received = contact.received.max(now);
        }
    }

    pub(super) fn news(&mut self, scale: Scale, now: Boottime) -> impl Iterator<Item = Finding> {
        self.interfaces.iter_mut().filter_map(move |(interface, contact)| {
            let (received, answers) = (now < contact.received + scale.one_way(), contact.answers(scale, now));
            // Missing answers count only after this node has listened for as long.
            if !received && now < contact.since + scale.one_way() {
                return None;
            }
            let is_news = contact.reported.replace((received, answers)) != Some((received, answers));
            is_news.then(|| Finding::Contact { interface: Arc::clone(interface), received, answers })
        })
    }

    pub(super) fn deadlines(&self, scale: Scale) -> impl Iterator<Item = Boottime> {
        let times = |contact: &Contact| {
            let answered = contact.answered.values().copied().max();
            [contact.since, contact.received, answered.unwrap_or_default()]
        };
        self.interfaces.values().flat_map(times).map(move |time| time + scale.one_way())
    }
}
