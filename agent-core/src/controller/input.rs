//! What the controller reads, and the outcomes of its requests.

use std::sync::Arc;

use crate::{
    agent::cluster::Seen,
    base::time::Monotonic,
    ownership::Outcome,
    pools::ReservationWrite,
    records::{ClaimRecord, ServiceName, Version},
};

#[derive(Debug)]
pub enum Input {
    /// Objects were read.
    Seen(Vec<Seen>),
    /// Requests have outcomes.
    Replies(Vec<Reply>),
    /// A deadline has come.
    Deadline,
}

/// The time, by both clocks.
#[derive(Clone, Copy, Debug)]
pub struct Now {
    pub at: Monotonic,
    /// Seconds since 1970. They end what is kept for a time.
    pub unix_seconds: i64,
}

/// The outcome of a request.
#[derive(Clone, PartialEq, Debug)]
pub enum Reply {
    Reserved(Box<ReservationWrite>, Reserved),
    Status {
        service: ServiceName,
        outcome: Outcome<()>,
        /// A random number from 0 to 1, for the pause until the next attempt.
        jitter: f64,
    },
}

/// The outcome of writing the reservation of an address.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Reserved {
    /// The address's object, or none if there is none: as it was written, or as it was found in the way.
    Object(Option<Box<ClaimRecord>>),
    /// The object is known, and it was read again after that.
    ReadSince,
    /// The API server refused the write, for this reason.
    Refused(Arc<str>),
    Unknown,
}

impl Reserved {
    /// Returns what follows from a request's outcome. `found` is the object that was in the way, if it was
    /// read, and `latest` the version that was read last: versions have no order, and the news of a watch
    /// may have come first.
    pub fn of(
        outcome: Outcome<Option<Box<ClaimRecord>>>,
        found: Option<Option<Box<ClaimRecord>>>,
        latest: Option<&Version>,
    ) -> Self {
        match (outcome, found) {
            (Outcome::Done(object), _) | (_, Some(object)) => {
                let is_latest = object.as_ref().map(|record| &record.version) == latest;
                if is_latest { Self::Object(object) } else { Self::ReadSince }
            }
            (Outcome::Refused(why), None) => Self::Refused(why),
            (Outcome::Conflict | Outcome::Missing | Outcome::Unknown, None) => Self::Unknown,
        }
    }
}
