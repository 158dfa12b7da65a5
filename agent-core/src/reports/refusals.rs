//! Choice of the API server's refusals that are logged: their beginnings, changes and ends.

use std::{collections::BTreeMap, fmt, mem, net::IpAddr, sync::Arc, time::Duration};

use crate::{
    base::time::Monotonic,
    ownership::{Event, Outcome},
    records::NodeName,
};

#[cfg(test)]
mod tests;

/// Time after which a refused request that was not repeated counts as not needed any
/// more. A refused request is repeated every few seconds.
const STALE: Duration = Duration::from_mins(1);
/// Largest number of refusals that are remembered.
const MOST: usize = 256;

/// A request to the API server.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Asked {
    WriteClaim(IpAddr),
    DeleteClaim(IpAddr),
    ReadClaim(IpAddr),
    WriteLease(NodeName),
    ReadLease(NodeName),
}

impl fmt::Display for Asked {
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
    Refused(Asked, Arc<str>),
    /// The API server no longer refuses the request.
    Over(Asked),
    /// The API server refuses more requests than are remembered.
    More,
}

#[derive(Debug)]
struct Refusal {
    message: Arc<str>,
    last: Monotonic,
}

/// The requests that the API server refuses now.
#[derive(Default, Debug)]
pub struct Refusals {
    standing: BTreeMap<Asked, Refusal>,
    more: bool,
}

impl Refusals {
    /// Takes in the outcome of a request. Returns the news to be logged about it.
    pub fn on_answer(&mut self, event: &Event, now: Monotonic) -> Option<News> {
        let (asked, outcome) = match event {
            Event::ClaimWritten { vip, outcome } => (Asked::WriteClaim(*vip), bare(outcome)),
            Event::ClaimDeleted { vip, outcome } => (Asked::DeleteClaim(*vip), bare(outcome)),
            Event::ClaimRead { vip, outcome } => (Asked::ReadClaim(*vip), bare(outcome)),
            Event::LeaseWritten { node, outcome } => (Asked::WriteLease(node.clone()), bare(outcome)),
            Event::LeaseRead { node, outcome } => (Asked::ReadLease(node.clone()), bare(outcome)),
            Event::Synced
            | Event::Lease(_)
            | Event::LeaseGone(_)
            | Event::Claim(_)
            | Event::ClaimGone(_)
            | Event::Node(_)
            | Event::NodeGone(_)
            | Event::Demand(..)
            | Event::Interfaces(_)
            | Event::Probed { .. }
            | Event::Wire { .. }
            | Event::Witnessed(_)
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

    fn on_refused(&mut self, asked: Asked, message: Arc<str>, now: Monotonic) -> Option<News> {
        let is_standing = |refusal: &Refusal| now < refusal.last + STALE;
        if let Some(known) = self.standing.get_mut(&asked)
            && is_standing(known)
            && known.message == message
        {
            known.last = now;
            return None;
        }
        if self.standing.len() >= MOST && !self.standing.contains_key(&asked) {
            self.standing.retain(|_, refusal| is_standing(refusal));
            self.more &= self.standing.len() >= MOST;
        }
        if self.standing.len() >= MOST && !self.standing.contains_key(&asked) {
            return (!mem::replace(&mut self.more, true)).then_some(News::More);
        }
        self.standing.insert(asked.clone(), Refusal { message: Arc::clone(&message), last: now });
        Some(News::Refused(asked, message))
    }

    fn on_taken(&mut self, asked: Asked) -> Option<News> {
        self.standing.remove(&asked)?;
        self.more &= !self.standing.is_empty();
        Some(News::Over(asked))
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
