//! Messages for which there was no room: the last about each object, offered again until there is.

use std::{collections::BTreeMap, time::Duration};

use crate::{
    core::time::Monotonic,
    shell::kube::{Message, Regarding},
};

#[cfg(test)]
mod tests;

/// How often they are offered again: as often as one more Event may be written when very many are.
const AGAIN: Duration = Duration::from_secs(1);
/// Objects that are remembered.
const MOST: usize = 8_192;

/// The messages.
#[derive(Default, Debug)]
pub(super) struct Untold {
    messages: BTreeMap<Regarding, Message>,
    again: Option<Monotonic>,
}

impl Untold {
    /// Tells it by `offer`, which says whether there was room, or later. What could not be told about the same object is older
    /// news, and is dropped.
    pub(super) fn tell(&mut self, message: Message, offer: impl Fn(Message) -> bool, now: Monotonic) {
        let older = self.messages.remove(&message.regarding);
        // Who waited goes first.
        if self.messages.is_empty() && offer(message.clone()) {
            return;
        }
        if older.is_some() || self.messages.len() < MOST {
            self.messages.insert(message.regarding.clone(), message);
            self.again.get_or_insert(now + AGAIN);
        }
    }

    /// Offers what waits, when it is time.
    pub(super) fn offer_again(&mut self, offer: impl Fn(Message) -> bool, now: Monotonic) {
        if self.again.is_none_or(|again| now < again) {
            return;
        }
        while let Some(first) = self.messages.first_entry() {
            if !offer(first.get().clone()) {
                break;
            }
            first.remove();
        }
        self.again = (!self.messages.is_empty()).then_some(now + AGAIN);
    }

    /// When [`Untold::offer_again`] is wanted.
    pub(super) fn next_deadline(&self) -> Option<Monotonic> {
        self.again
    }
}
