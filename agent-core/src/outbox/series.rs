//! Messages that have become Events, and how often each has been posted.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use super::message::{Kind, Message};
use crate::time::Monotonic;

#[cfg(test)]
mod tests;

/// The count of one message is written at most this often.
pub(super) const REPEAT: Duration = Duration::from_mins(10);
/// A message that was not posted for this long is forgotten: the API server forgets Events after an
/// hour.
const FORGET: Duration = Duration::from_mins(45);
/// At most this many messages are remembered.
pub(super) const MOST: usize = 4_096;
/// The API server refuses a series of one.
const LEAST_COUNT: u32 = 2;

#[derive(Debug)]
struct Series {
    count: u32,
    /// When the message or its count was written last.
    written: Monotonic,
    /// When the message was posted last.
    posted: Monotonic,
}

/// A count to be written.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct Due {
    pub(super) message: Message,
    pub(super) count: u32,
    pub(super) posted: Monotonic,
}

/// The series of all messages.
///
/// To forget one does no harm. Its Event is found when it is to be created again, and counted on.
#[derive(Default, Debug)]
pub(super) struct AllSeries {
    series: BTreeMap<Message, Series>,
    /// Messages whose count is not written, by when it may be.
    due: BTreeSet<(Monotonic, Message)>,
}

impl AllSeries {
    /// Counts a message that has an Event. Returns false if it has none.
    pub(super) fn on_posted(&mut self, message: &Message, now: Monotonic) -> bool {
        let Some(series) = self.series.get_mut(message).filter(|series| is_remembered(series, now)) else {
            self.forget(message);
            return false;
        };
        series.count = series.count.saturating_add(1);
        series.posted = now;
        self.due.insert((series.written + REPEAT, message.clone()));
        true
    }

    /// Begins the series of a message that becomes an Event.
    pub(super) fn begin(&mut self, message: &Message, now: Monotonic) {
        self.forget(message);
        if self.series.len() >= MOST {
            self.make_room();
        }
        self.series.insert(message.clone(), Series { count: 1, written: now, posted: now });
    }

    /// Counts on an Event that exists already: another node has created it, or this one before it
    /// was restarted. Returns the count to write, which is a lower bound.
    pub(super) fn on_exists(&mut self, message: &Message) -> u32 {
        let Some(series) = self.series.get_mut(message) else { return LEAST_COUNT };
        series.count = series.count.max(LEAST_COUNT);
        self.due.remove(&(series.written + REPEAT, message.clone()));
        series.count
    }

    /// Forgets a message that has no Event.
    pub(super) fn forget(&mut self, message: &Message) {
        if let Some(series) = self.series.remove(message) {
            self.due.remove(&(series.written + REPEAT, message.clone()));
        }
    }

    /// Returns the kind of the message whose count is due first, and when.
    pub(super) fn first_due(&self) -> Option<(Kind, Monotonic)> {
        self.due.first().map(|(due, message)| (message.reason.kind(), *due))
    }

    /// Takes the count that is due first as written now.
    pub(super) fn take_due(&mut self, now: Monotonic) -> Option<Due> {
        let (_, message) = self.due.pop_first()?;
        let series = self.series.get_mut(&message)?;
        series.written = now;
        Some(Due { count: series.count, posted: series.posted, message })
    }

    fn make_room(&mut self) {
        let oldest = self.series.iter().min_by_key(|(_, series)| series.posted);
        if let Some(oldest) = oldest.map(|(message, _)| message.clone()) {
            self.forget(&oldest);
        }
    }
}

fn is_remembered(series: &Series, now: Monotonic) -> bool {
    now < series.posted + FORGET
}
