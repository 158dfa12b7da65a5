//! What the API server refuses, so that it is told when it begins, when it changes and when it is over.
//!
//! Pure, with the time passed in.

use std::{collections::BTreeMap, fmt, net::Ipv4Addr, sync::Arc, time::Duration};

use crate::core::{
    cluster::NodeName,
    ownership::{Event, Outcome},
    time::Monotonic,
};

#[cfg(test)]
mod tests;

/// What is refused is asked again every few seconds. What was not for so long is not asked for any more.
const STALE: Duration = Duration::from_mins(1);
/// So many are told apart.
const MOST: usize = 256;

/// What was asked of the API server.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Asked {
    WriteClaim(Ipv4Addr),
    DeleteClaim(Ipv4Addr),
    ReadClaim(Ipv4Addr),
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

/// What is to be told.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum News {
    /// It is refused, in these words.
    Refused(Asked, Arc<str>),
    /// It is not any more.
    Over(Asked),
    /// More are than are told apart.
    More,
}

#[derive(Debug)]
struct Refusal {
    message: Arc<str>,
    last: Monotonic,
}

/// What is refused now.
#[derive(Default, Debug)]
pub(super) struct Refusals {
    standing: BTreeMap<Asked, Refusal>,
    more: bool,
}

impl Refusals {
    /// Takes note of what became of a request.
    pub(super) fn on_answer(&mut self, event: &Event, now: Monotonic) -> Option<News> {
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
            | Event::Links(_)
            | Event::Probed { .. }
            | Event::Wire { .. }
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
            return (!std::mem::replace(&mut self.more, true)).then_some(News::More);
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

fn bare<T>(outcome: &Outcome<T>) -> Outcome<()> {
    match outcome {
        Outcome::Done(_) => Outcome::Done(()),
        Outcome::Conflict => Outcome::Conflict,
        Outcome::Missing => Outcome::Missing,
        Outcome::Unknown => Outcome::Unknown,
        Outcome::Refused(message) => Outcome::Refused(Arc::clone(message)),
    }
}
