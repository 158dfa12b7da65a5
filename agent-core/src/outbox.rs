//! Decides which messages become Events, and when. All share one queue, one limit and one retry.
//!
//! - A message about an object is one Event, however often it is posted. Its count is written at
//!   most every 10 minutes. The Event's name follows from the message, so all nodes share the
//!   Event: a node that finds it there counts on it.
//! - All Events together are limited to a burst and one a second. The last of the burst is kept for
//!   warnings, and warnings go first.
//! - A message that finds no room waits. Newer news of its topic about the same object replaces it.
//!   News about a VIP's holder is left out when it is old; a conflict or a problem waits until it
//!   is written or over.
//! - A request that fails is repeated for some minutes, each time after a longer pause.
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
use super::{
    cluster::ServiceName,
    pace::{Backoff, Pace},
    services::Problem,
    time::Monotonic,
};

pub use self::message::{Kind, Message, News, Object, Reason};

#[cfg(test)]
mod tests;

/// At most this many Events are written at once.
const BURST: u32 = 50;
/// The last of them are kept for warnings.
const FOR_WARNINGS: u32 = 10;
/// After the burst, one more Event is written in this time.
const REFILL: Duration = Duration::from_secs(1);
/// The pauses between two attempts to write one Event.
const BACKOFF: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(30));
/// News about a VIP's holder is old after this long. A request is not repeated for longer.
const FRESH: Duration = Duration::from_mins(5);
/// While this many requests are to be repeated, no other Event is begun.
const MOST_RETRIED: usize = 64;
/// Messages that became no Event are reported at most this often.
const REPORT: Duration = Duration::from_mins(1);

/// A command to the shell.
#[derive(PartialEq, Eq, Debug)]
pub enum Command {
    /// Send a request; [`Outbox::on_outcome`] follows.
    Write(Write),
    /// Log how many messages became no Event since the last report.
    Report {
        /// Messages about moved and announced VIPs that were left out, since there were too many.
        left_out: u64,
        /// Warnings that were left out, and Events that the API server did not take.
        unwritten: u64,
    },
}

/// A request to create an Event, or to write its count.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Write {
    /// The message.
    pub message: Message,
    /// The name of its Event.
    pub name: String,
    /// The count to write; none to create the Event.
    pub count: Option<u32>,
    /// How long ago the message was posted.
    pub age: Duration,
}

/// The outcome of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// The API server has done it.
    Done,
    /// There is an Event of this name already.
    Exists,
    /// It may have been done or not, and may succeed later.
    Unknown,
    /// The API server refuses it.
    Refused,
}

/// An Event that is being written.
#[derive(Debug)]
struct Attempt {
    message: Message,
    /// The count to write; none to create the Event.
    count: Option<u32>,
    posted: Monotonic,
    /// When it was attempted first.
    begun: Monotonic,
    failures: u32,
}

/// The outbox.
#[derive(Debug)]
pub struct Outbox {
    queue: Queue,
    series: AllSeries,
    limit: Pace,
    under_way: Option<Attempt>,
    /// Attempts that failed, by when they are repeated and a number.
    retries: BTreeMap<(Monotonic, u64), Attempt>,
    /// How many attempts have been put there.
    retried: u64,
    left_out: u64,
    unwritten: u64,
    /// When these two are reported.
    report: Option<Monotonic>,
}

impl Outbox {
    /// Starts with nothing to write.
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

    /// Takes in a message.
    pub fn post(&mut self, message: Message, now: Monotonic) {
        let kind = message.reason.kind();
        if self.series.on_posted(&message, now) {
            // What waits is older news.
            self.queue.remove(&(message.object.clone(), message.topic()));
        } else if !self.queue.push(message, now) {
            self.leave_out(kind, now);
        }
    }

    /// Withdraws the message about a Service's problem that is over, if it still waits.
    pub fn withdraw(&mut self, service: &ServiceName, problem: &Problem) {
        self.queue.remove(&(Object::Service(service.clone()), Topic::of_problem(problem)));
    }

    /// Takes in the outcome of the request that is under way. `jitter` is from 0 to 1.
    pub fn on_outcome(&mut self, outcome: Outcome, jitter: f64, now: Monotonic) {
        let Some(attempt) = self.under_way.take() else { return };
        match outcome {
            Outcome::Done => {}
            // Most likely this node has created it, and the answer got lost.
            Outcome::Exists if attempt.count.is_none() && attempt.failures > 0 => {}
            Outcome::Exists if attempt.count.is_none() => {
                let count = Some(self.series.on_exists(&attempt.message));
                self.repeat(Attempt { count, ..attempt }, now);
            }
            Outcome::Unknown => {
                let due = now + BACKOFF.pause(attempt.failures, jitter);
                if due > attempt.begun + FRESH {
                    self.give_up(&attempt.message, now);
                } else {
                    self.repeat(Attempt { failures: attempt.failures + 1, ..attempt }, due);
                }
            }
            Outcome::Exists | Outcome::Refused => self.give_up(&attempt.message, now),
        }
    }

    /// Returns what is to be done now.
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

    /// Returns when [`Outbox::due`] has something next.
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

    /// Returns when [`Outbox::next_attempt`] begins one.
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

    /// Gives up an Event. It may have been deleted: the message creates it anew when it is posted
    /// again.
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

/// Returns how much of the limit is kept from messages of this kind.
fn reserve(kind: Kind) -> u32 {
    match kind {
        Kind::Normal => FOR_WARNINGS,
        Kind::Warning => 0,
    }
}
