//! The API server's refusals: which are logged, and which are problems of Services.

use std::{collections::BTreeMap, fmt, mem, net::IpAddr, sync::Arc};

use super::seldom::Seldom;
use crate::{
    base::time::Monotonic,
    ownership::{Event, Outcome},
    records::{NodeName, ServiceName},
    services::Problem,
};

#[cfg(test)]
mod tests;

/// Largest number of refusals that are remembered.
const MOST: usize = 256;

/// A request to the API server.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum RefusedRequest {
    WriteClaim(IpAddr),
    DeleteClaim(IpAddr),
    ReadClaim(IpAddr),
    WriteLease(NodeName),
    ReadLease(NodeName),
}

impl fmt::Display for RefusedRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WriteClaim(vip) => write!(f, "writing VirtualIP {vip}"),
            Self::DeleteClaim(vip) => write!(f, "deleting VirtualIP {vip}"),
            Self::ReadClaim(vip) => write!(f, "reading VirtualIP {vip}"),
            Self::WriteLease(node) => write!(f, "writing the Lease of {node}"),
            Self::ReadLease(node) => write!(f, "reading the Lease of {node}"),
        }
    }
}

/// Change to be logged.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum News {
    /// The API server refuses the request, with this message.
    Refused(RefusedRequest, Arc<str>),
    /// The API server no longer refuses the request.
    Over(RefusedRequest),
    /// The API server refuses more requests than are remembered.
    More,
}

/// The requests that the API server refuses now, with its messages. A refused request is repeated every few
/// seconds: one that was not repeated for long is not needed any more.
#[derive(Debug)]
pub struct Refusals {
    said: Seldom<RefusedRequest, Arc<str>>,
    more: bool,
}

impl Default for Refusals {
    fn default() -> Self {
        Self { said: Seldom::start(MOST), more: false }
    }
}

impl Refusals {
    /// Records the outcome of a request. Returns the news to be logged about it.
    pub fn on_answer(&mut self, event: &Event, now: Monotonic) -> Option<News> {
        let (asked, outcome) = match event {
            Event::ClaimWritten { vip, outcome } => (RefusedRequest::WriteClaim(*vip), bare(outcome)),
            Event::ClaimDeleted { vip, outcome } => (RefusedRequest::DeleteClaim(*vip), bare(outcome)),
            Event::ClaimRead { vip, outcome } => (RefusedRequest::ReadClaim(*vip), bare(outcome)),
            Event::LeaseWritten { node, outcome } => {
                (RefusedRequest::WriteLease(node.clone()), bare(outcome))
            }
            Event::LeaseRead { node, outcome } => (RefusedRequest::ReadLease(node.clone()), bare(outcome)),
            Event::Synced
            | Event::Lease(_)
            | Event::LeaseGone(_)
            | Event::Claim(_)
            | Event::ClaimGone(_)
            | Event::Node(_)
            | Event::NodeGone(_)
            | Event::Demand(..)
            | Event::Interfaces(_)
            | Event::Proxy(_)
            | Event::Probed { .. }
            | Event::Wire { .. }
            | Event::Detected(_)
            | Event::WireKeys(_)
            | Event::WireSelf(_)
            | Event::Stop(_)
            | Event::Tick => return None,
        };
        match outcome {
            Outcome::Refused(message) => self.on_refused(asked, message, now),
            Outcome::Done(()) | Outcome::Conflict | Outcome::Missing => self.on_taken(asked),
            Outcome::Unknown => None,
        }
    }

    fn on_refused(&mut self, asked: RefusedRequest, message: Arc<str>, now: Monotonic) -> Option<News> {
        match self.said.on(asked.clone(), Arc::clone(&message), now) {
            Some(_) => {
                self.more &= self.said.number() >= MOST;
                Some(News::Refused(asked, message))
            }
            None if self.said.go_on(&asked, now) => None,
            None => (!mem::replace(&mut self.more, true)).then_some(News::More),
        }
    }

    fn on_taken(&mut self, asked: RefusedRequest) -> Option<News> {
        let is_over = self.said.end(&asked);
        self.more &= self.said.number() > 0;
        is_over.then_some(News::Over(asked))
    }
}

/// Returns the outcome without the object that was read or written.
fn bare<T>(outcome: &Outcome<T>) -> Outcome<()> {
    match outcome {
        Outcome::Done(_) => Outcome::Done(()),
        Outcome::Conflict => Outcome::Conflict,
        Outcome::Missing => Outcome::Missing,
        Outcome::Unknown => Outcome::Unknown,
        Outcome::Refused(message) => Outcome::Refused(Arc::clone(message)),
    }
}

/// The Services whose statuses the API server refuses to change, each with the problem that it has.
#[derive(Debug, Default)]
pub struct RefusedStatuses(BTreeMap<ServiceName, Problem>);

impl RefusedStatuses {
    /// Records the outcome of writing a status. Returns the problem that is over, and the one that begins.
    pub fn on_answer(
        &mut self,
        service: &ServiceName,
        outcome: &Outcome<()>,
    ) -> (Option<Problem>, Option<Problem>) {
        let problem = match outcome {
            Outcome::Refused(why) => Some(Problem::StatusRefused { why: Arc::clone(why) }),
            Outcome::Done(()) | Outcome::Conflict | Outcome::Missing => None,
            Outcome::Unknown => return (None, None),
        };
        if self.0.get(service) == problem.as_ref() {
            return (None, None);
        }
        let over = match problem.clone() {
            Some(problem) => self.0.insert(service.clone(), problem),
            None => self.end(service),
        };
        (over, problem)
    }

    /// Forgets a status that this process no longer writes. Returns the problem that is over.
    pub fn end(&mut self, service: &ServiceName) -> Option<Problem> {
        self.0.remove(service)
    }
}
