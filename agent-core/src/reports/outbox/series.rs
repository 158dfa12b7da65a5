//! Messages that have become Events, and the number of times that each was posted.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use super::message::{Kind, Message};
use crate::base::time::Monotonic;

#[cfg(test)]
mod tests;

/// Least time between two writes of a message's count.
pub(super) const REPEAT: Duration = Duration::from_mins(10);
/// Time after which a message that was not posted again is forgotten.
/// The API server forgets Events after an hour.
const FORGET: Duration = Duration::from_mins(45);
/// Largest number of messages that are remembered.
pub(super) const MOST: usize = 4_096;
/// Least count of a series. The API server refuses a series of one.
const LEAST_COUNT: u32 = 2;

#[derive(Debug)]
struct Series {
    count: u32,
    /// Time of the last write of the message or its count.
    written: Monotonic,
    /// Time of the last posting of the message.
    posted: Monotonic,
}

/// A count that is due to be written.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct Due {
    pub(super) message: Message,
    pub(super) count: u32,
    pub(super) posted: Monotonic,
}

/// The series of all messages.
///
/// A series may be forgotten. The next request to create
/// its Event finds the Event, and its count goes on.
#[derive(Default, Debug)]
pub(super) struct AllSeries {
    series: BTreeMap<Message, Series>,
    /// Messages whose count has changed, by the earliest time to write it.
    due: BTreeSet<(Monotonic, Message)>,
}

impl AllSeries {
    /// Counts a message that has an Event. Returns false if no Event of the message is remembered.
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

    /// Starts the series of a message that becomes an Event.
    pub(super) fn begin(&mut self, message: &Message, now: Monotonic) {
        self.forget(message);
        if self.series.len() >= MOST {
            self.make_room();
        }
        self.series.insert(message.clone(), Series { count: 1, written: now, posted: now });
    }

    /// Goes on with the count of an Event that already exists. Another node has created it, or this
    /// node before its restart. Returns the count to write, which is a lower bound.
    pub(super) fn on_exists(&mut self, message: &Message) -> u32 {
        let Some(series) = self.series.get_mut(message) else { return LEAST_COUNT };
        series.count = series.count.max(LEAST_COUNT);
        self.due.remove(&(series.written + REPEAT, message.clone()));
        series.count
    }

    pub(super) fn forget(&mut self, message: &Message) {
        if let Some(series) = self.series.remove(message) {
            self.due.remove(&(series.written + REPEAT, message.clone()));
        }
    }

    /// Returns the kind of the message whose count is due first, and the time.
    pub(super) fn first_due(&self) -> Option<(Kind, Monotonic)> {
        self.due.first().map(|(due, message)| (message.reason.kind(), *due))
    }

    /// Takes out the count that is due first, and marks it as written now.
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
