//! Counters of requests, answers and deliveries.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::request::{Action, Verb};

/// Requests of one user with one verb on one resource.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct RequestKind {
    pub user: String,
    pub verb: Verb,
    /// The plural, with its subresource: `leases`, `services/status`.
    pub resource: String,
}

/// The deliveries of the watches of one user on one resource.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Delivered {
    pub objects: u64,
    pub bookmarks: u64,
    /// The length of all lines, without the framing of HTTP.
    pub bytes: u64,
}

/// The counters since the start, or since the last reset.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stats {
    /// Requests that were understood and whose user is known, whatever the answer.
    pub requests: BTreeMap<RequestKind, u64>,
    /// Answers by HTTP status.
    pub answers: BTreeMap<u16, u64>,
    /// Deliveries by user and resource.
    pub delivered: BTreeMap<(String, String), Delivered>,
}

impl Stats {
    /// Returns the number of requests whose kind is `wanted`.
    pub fn count(&self, wanted: impl Fn(&RequestKind) -> bool) -> u64 {
        self.requests.iter().filter(|(kind, _)| wanted(kind)).map(|(_, count)| count).sum()
    }

    pub fn writes(&self) -> u64 {
        self.count(|kind| kind.verb.is_write())
    }

    pub fn verb(&self, verb: Verb) -> u64 {
        self.count(|kind| kind.verb == verb)
    }

    /// Returns the deliveries of all watches together.
    pub fn delivered(&self) -> Delivered {
        self.delivered.values().fold(Delivered::default(), |sum, one| Delivered {
            objects: sum.objects + one.objects,
            bookmarks: sum.bookmarks + one.bookmarks,
            bytes: sum.bytes + one.bytes,
        })
    }
}

/// The counters of a running server.
#[derive(Debug, Default)]
pub(super) struct Counters(Mutex<Stats>);

impl Counters {
    fn stats(&self) -> MutexGuard<'_, Stats> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn request(&self, user: &str, action: &Action) {
        let kind =
            RequestKind { user: user.to_owned(), verb: action.verb, resource: action.qualified_resource() };
        *self.stats().requests.entry(kind).or_default() += 1;
    }

    pub(super) fn answer(&self, status: u16) {
        *self.stats().answers.entry(status).or_default() += 1;
    }

    /// Counts lines that a watch delivered.
    pub(super) fn delivery(&self, user: &str, resource: &str, delivered: Delivered) {
        let mut stats = self.stats();
        let sum = stats.delivered.entry((user.to_owned(), resource.to_owned())).or_default();
        sum.objects += delivered.objects;
        sum.bookmarks += delivered.bookmarks;
        sum.bytes += delivered.bytes;
    }

    pub(super) fn now(&self) -> Stats {
        self.stats().clone()
    }

    /// Sets all counters to zero.
    pub(super) fn reset(&self) {
        *self.stats() = Stats::default();
    }
}
