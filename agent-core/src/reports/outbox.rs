//! Decisions about Events: which messages become Events, and when. All
//! messages share one queue, one limit and one retry.
//!
//! - A message about an object is one Event, however often it is posted. Its count is written at
//!   most every 10 minutes. The Event's name follows from the message, so all nodes share the
//!   Event: a node that finds it there counts on it.
//! - All Events together are limited to a burst and one a second. The last of the burst is kept for
//!   warnings, and warnings go first.
//! - A message beyond the limit waits. Newer news of its topic about the
//!   same object replaces it. News about a VIP's holder is left out when
//!   it is old. A conflict or a problem waits until it is written or over.
//! - A request with an unknown outcome is repeated for some minutes, each time after a longer pause. A
//!   refused request is given up. An Event that is gone when its count is written is created anew.
//!
//! There is one request at a time.

mod message;
mod queue;
mod series;

use std::{collections::BTreeMap, mem, time::Duration};

use self::{
    message::Topic,
    queue::{Queue, Waiting},
    series::AllSeries,
};
use crate::{
    base::{
        pace::{Backoff, Pace},
        time::Monotonic,
    },
    records::ServiceName,
    services::Problem,
};

pub use self::message::{ApiObject, Kind, Message, News, Object, ObjectFault, Reason};

#[cfg(test)]
mod tests;

/// Largest number of Events that are written at once.
const BURST: u32 = 50;
/// Number of Events at the end of the burst that are kept for warnings.
const FOR_WARNINGS: u32 = 10;
/// Time in which the limit allows one more Event after the burst.
const REFILL: Duration = Duration::from_secs(1);
/// Pauses between two attempts to write an Event.
const BACKOFF: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(30));
/// Time after which news about a VIP's holder is old. A request is not repeated for longer.
const FRESH: Duration = Duration::from_mins(5);
/// Number of waiting repetitions at which no other Event is begun.
const MOST_RETRIED: usize = 64;
/// Least time between two reports of messages that became no Event.
const REPORT: Duration = Duration::from_mins(1);

#[derive(PartialEq, Eq, Debug)]
pub enum Command {
    /// Send a request; [`Outbox::on_outcome`] follows.
    Write(Write),
    /// Log the number of messages that became no Event since the last report.
    Report {
        /// Number of normal messages that were left out: there were too many, or they were old.
        left_out: u64,
        /// Number of warnings that were left out, and of Events that the API server did not take.
        unwritten: u64,
    },
}

/// A request to create an Event, or to write its count.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Write {
    pub message: Message,
    pub name: String,
    /// The count to write. None creates the Event.
    pub count: Option<u32>,
    /// Time since the message was posted.
    pub age: Duration,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// The API server has carried out the request.
    Done,
    /// The API server already has an Event of this name.
    Exists,
    /// The API server has no Event of this name, or no namespace.
    Missing,
    /// The API server may have carried out the request or not. It may succeed later.
    Unknown,
    Refused,
}

#[derive(Debug)]
struct Attempt {
    message: Message,
    /// The count to write. None creates the Event.
    count: Option<u32>,
    posted: Monotonic,
    begun: Monotonic,
    failures: u32,
}

#[derive(Debug)]
pub struct Outbox {
    queue: Queue,
    series: AllSeries,
    limit: Pace,
    under_way: Option<Attempt>,
    /// Attempts that failed, by the time of the repetition and a number.
    retries: BTreeMap<(Monotonic, u64), Attempt>,
    /// Number of attempts put there so far.
    retried: u64,
    left_out: u64,
    unwritten: u64,
    /// Time at which these two numbers are reported.
    report: Option<Monotonic>,
}

impl Outbox {
    pub fn start(now: Monotonic) -> Self {
        Self {
            queue: Queue::default(),
            series: AllSeries::default(),
            limit: Pace::with_burst(BURST, REFILL, now),
            under_way: None,
            retries: BTreeMap::new(),
            retried: 0,
            left_out: 0,
            unwritten: 0,
            report: None,
        }
    }

    pub fn post(&mut self, message: Message, now: Monotonic) {
        let kind = message.reason.kind();
        if self.series.on_posted(&message, now) {
            // The waiting message is older news.
            self.queue.remove(&(message.object.clone(), message.topic()));
        } else if !self.queue.push(message, now) {
            self.leave_out(kind, now);
        }
    }

    /// Withdraws the message about a Service's problem, because the problem is
    /// over. The message may have been written already.
    pub fn withdraw(&mut self, service: &ServiceName, problem: &Problem) {
        self.queue.remove(&(Object::Service(service.clone()), Topic::of_problem(problem)));
    }

    /// Withdraws the message about a fault of an object, which is over.
    pub fn withdraw_fault(&mut self, object: &ApiObject, fault: &ObjectFault) {
        self.queue.remove(&(Object::Other(object.clone()), Topic::of_words(&fault.words)));
    }

    /// Records the outcome of the request that is under way. `jitter` is from 0 to 1.
    pub fn on_outcome(&mut self, outcome: Outcome, jitter: f64, now: Monotonic) {
        let Some(attempt) = self.under_way.take() else { return };
        match outcome {
            Outcome::Done => {}
            // Most likely an earlier attempt created the Event, and its answer got lost.
            Outcome::Exists if attempt.count.is_none() && attempt.failures > 0 => {}
            Outcome::Exists if attempt.count.is_none() => {
                let count = Some(self.series.on_exists(&attempt.message));
                self.repeat(Attempt { count, ..attempt }, now);
            }
            Outcome::Missing if attempt.count.is_some() => {
                self.repeat(Attempt { count: None, ..attempt }, now);
            }
            Outcome::Unknown => {
                let due = now + BACKOFF.pause(attempt.failures, jitter);
                if due > attempt.begun + FRESH {
                    self.give_up(&attempt.message, now);
                } else {
                    self.repeat(Attempt { failures: attempt.failures + 1, ..attempt }, due);
                }
            }
            Outcome::Exists | Outcome::Missing | Outcome::Refused => self.give_up(&attempt.message, now),
        }
    }

    pub fn due(&mut self, now: Monotonic) -> Vec<Command> {
        let mut commands = Vec::new();
        if self.under_way.is_none() {
            self.under_way = self.next_attempt(now);
            commands.extend(self.under_way.as_ref().map(|attempt| Command::Write(attempt.write(now))));
        }
        if self.report.is_some_and(|report| report <= now) {
            self.report = None;
            let (left_out, unwritten) = (mem::take(&mut self.left_out), mem::take(&mut self.unwritten));
            commands.push(Command::Report { left_out, unwritten });
        }
        commands
    }

    /// Returns the time of the next [`Outbox::due`].
    pub fn next_deadline(&self) -> Option<Monotonic> {
        let attempt = if self.under_way.is_none() { self.next_attempt_at() } else { None };
        attempt.into_iter().chain(self.report).min()
    }

    /// Begins the next attempt: a repeated one, then a new message, then a count.
    fn next_attempt(&mut self, now: Monotonic) -> Option<Attempt> {
        if let Some(first) = self.retries.first_entry()
            && first.key().0 <= now
        {
            return Some(first.remove());
        }
        if self.retries.len() >= MOST_RETRIED {
            return None;
        }
        while let Some(kind) = self.queue.first_kind() {
            if !self.limit.is_open_beyond(reserve(kind), now) {
                return None;
            }
            let Waiting { message, posted } = self.queue.pop()?;
            if message.is_about_holder() && posted + FRESH <= now {
                self.leave_out(kind, now);
                continue;
            }
            self.limit.take();
            self.series.begin(&message, now);
            return Some(Attempt { message, count: None, posted, begun: now, failures: 0 });
        }
        let (kind, due) = self.series.first_due()?;
        if now < due || !self.limit.is_open_beyond(reserve(kind), now) {
            return None;
        }
        self.limit.take();
        let series::Due { message, count, posted } = self.series.take_due(now)?;
        Some(Attempt { message, count: Some(count), posted, begun: now, failures: 0 })
    }

    /// Returns the time at which [`Outbox::next_attempt`] begins an attempt.
    fn next_attempt_at(&self) -> Option<Monotonic> {
        let retry = self.retries.first_key_value().map(|((due, _), _)| *due);
        if self.retries.len() >= MOST_RETRIED {
            return retry;
        }
        let opens = |kind| self.limit.next_beyond(reserve(kind));
        let next = match self.queue.first_kind() {
            Some(kind) => Some(opens(kind)),
            None => self.series.first_due().map(|(kind, due)| due.max(opens(kind))),
        };
        retry.into_iter().chain(next).min()
    }

    fn repeat(&mut self, attempt: Attempt, at: Monotonic) {
        self.retried += 1;
        self.retries.insert((at, self.retried), attempt);
    }

    /// Gives up an Event. If its message is posted again, the Event is created anew.
    fn give_up(&mut self, message: &Message, now: Monotonic) {
        self.series.forget(message);
        self.unwritten += 1;
        self.report.get_or_insert(now + REPORT);
    }

    fn leave_out(&mut self, kind: Kind, now: Monotonic) {
        match kind {
            Kind::Normal => self.left_out += 1,
            Kind::Warning => self.unwritten += 1,
        }
        self.report.get_or_insert(now + REPORT);
    }
}

impl Attempt {
    fn write(&self, now: Monotonic) -> Write {
        Write {
            message: self.message.clone(),
            name: self.message.event_name(),
            count: self.count,
            age: now.saturating_since(self.posted),
        }
    }
}

/// Returns the part of the limit that is kept from messages of this kind.
fn reserve(kind: Kind) -> u32 {
    match kind {
        Kind::Normal => FOR_WARNINGS,
        Kind::Warning => 0,
    }
}
