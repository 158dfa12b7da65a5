//! Messages that wait to become Events. Warnings come first, and then the order of arrival counts.

use std::collections::BTreeMap;

use super::message::{Kind, Message, Object, Topic};
use crate::base::time::Monotonic;

#[cfg(test)]
mod tests;

/// Largest number of messages that wait.
pub(super) const MOST: usize = 8_192;
/// Largest number of waiting messages about moved and announced VIPs. About as
/// many can be written before they are old news.
pub(super) const MOST_MOVES: usize = 256;

#[derive(PartialEq, Eq, Debug)]
pub(super) struct Waiting {
    pub(super) message: Message,
    pub(super) posted: Monotonic,
}

type Place = (Kind, u64);

#[derive(Default, Debug)]
pub(super) struct Queue {
    waiting: BTreeMap<Place, Waiting>,
    places: BTreeMap<(Object, Topic), Place>,
    /// Number of messages so far.
    number: u64,
    /// Number of waiting messages about moved and announced VIPs.
    moves: usize,
}

impl Queue {
    /// Adds a message. It replaces older news of its topic about the same object, and gets that
    /// news's place in the order. Returns false if there is no room for it.
    pub(super) fn push(&mut self, message: Message, now: Monotonic) -> bool {
        let kind = message.reason.kind();
        let topic = (message.object.clone(), message.topic());
        let older = self.remove(&topic);
        if self.waiting.len() >= MOST || is_move(&message) && self.moves >= MOST_MOVES {
            return false;
        }
        let number = older.map_or_else(
            || {
                self.number += 1;
                self.number
            },
            |(_, number)| number,
        );
        self.moves += usize::from(is_move(&message));
        self.places.insert(topic, (kind, number));
        self.waiting.insert((kind, number), Waiting { message, posted: now });
        true
    }

    /// Removes the message of this topic about this object. Returns its place.
    pub(super) fn remove(&mut self, topic: &(Object, Topic)) -> Option<Place> {
        let place = self.places.remove(topic)?;
        let removed = self.waiting.remove(&place);
        self.moves -= usize::from(removed.is_some_and(|waiting| is_move(&waiting.message)));
        Some(place)
    }

    pub(super) fn first_kind(&self) -> Option<Kind> {
        self.waiting.first_key_value().map(|((kind, _), _)| *kind)
    }

    pub(super) fn pop(&mut self) -> Option<Waiting> {
        let (_, first) = self.waiting.pop_first()?;
        self.places.remove(&(first.message.object.clone(), first.message.topic()));
        self.moves -= usize::from(is_move(&first.message));
        Some(first)
    }
}

fn is_move(message: &Message) -> bool {
    message.reason.kind() == Kind::Normal && message.is_about_holder()
}
