//! Election of one leader by a Lease.
//!
//! No wall clocks are compared: a Lease that has not changed for its duration, by this process's
//! clock, has no holder any more. Two leaders at once do no harm (docs/kubernetes/pools.md): this election only
//! saves their work.

use std::time::Duration;

use crate::{base::time::Monotonic, records::Version};

#[cfg(test)]
mod tests;

/// The Lease as it was read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ballot {
    /// Its version. Every write changes it.
    pub version: Version,
    /// Its holder's name. Empty: it has none.
    pub holder: String,
    /// The time for which it is valid without a renewal.
    pub duration: Duration,
}

/// The next step of a candidate or leader.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Step {
    /// Create the Lease, in this process's name.
    Create,
    /// Write this process's name and time into the Lease at this version.
    Write(Version),
    /// Read it again later.
    Wait,
}

/// A candidate or leader.
#[derive(Debug)]
pub struct Election {
    name: String,
    lease: Duration,
    /// The version that was read last, and the time when it was first read.
    seen: Option<(Version, Monotonic)>,
    /// The end of this process's term, if it leads.
    until: Option<Monotonic>,
}

impl Election {
    /// Starts as a candidate with a name that no other process has.
    pub fn start(name: String, lease: Duration) -> Self {
        Self { name, lease, seen: None, until: None }
    }

    /// Applies a reading. Returns the next step. `now` is the time of the response: the Lease may
    /// have been written as late as that.
    pub fn on_read(&mut self, ballot: Option<&Ballot>, now: Monotonic) -> Step {
        let Some(Ballot { version, holder, duration }) = ballot else {
            self.seen = None;
            return Step::Create;
        };
        let since = match &self.seen {
            Some((seen, since)) if seen == version => *since,
            Some(_) | None => now,
        };
        self.seen = Some((version.clone(), since));
        if *holder == self.name || holder.is_empty() || since + *duration <= now {
            Step::Write(version.clone())
        } else {
            self.until = None;
            Step::Wait
        }
    }

    /// Records that a step which began at `asked` was carried out.
    pub fn on_written(&mut self, asked: Monotonic) {
        self.until = Some(asked + self.lease);
    }

    /// Records that another process has the Lease.
    pub fn on_lost(&mut self) {
        self.until = None;
    }

    /// Returns true if this process leads. It stops before others may begin.
    pub fn leads(&self, now: Monotonic) -> bool {
        self.until.is_some_and(|until| now < until)
    }
}
