//! End of the sessions of dead nodes, so that their VIPs can be taken.

use super::{Nodes, eligibility::weight, member::Member};
use crate::{
    base::time::Monotonic,
    ownership::{
        command::{Expected, LeaseWrite},
        event::Outcome,
        times::{RANK_DELAY, REFUSED_RETRY, RETRY},
    },
    records::{LeaseRecord, MOST_ENDED, NodeName, Session},
};

/// Next step after the answer to a write that ends sessions.
#[derive(PartialEq, Eq, Debug)]
pub(crate) enum Expired {
    /// The Lease was written.
    Done(Box<LeaseRecord>),
    /// The Lease must be read: it has changed, or is gone.
    Read,
    /// The write is repeated later.
    Again,
}

impl Nodes {
    /// Returns the time at which this node would expire another's session. Returns none without a
    /// reason, or once this node's own lease deadline has passed: then missing renewals do not
    /// count.
    fn expiring_at(&self, name: &NodeName, now: Monotonic) -> Option<Monotonic> {
        let member = self.member(name).filter(|member| !member.expiring && !member.notices.reads)?;
        if *name == self.settings.node {
            return None;
        }
        let due =
            self.sessions_claimed_of(name).filter_map(|session| self.over_at(name, session, now)).min()?;
        // The rank matters only when a session is due to be ended.
        let rank = if due > now { 0 } else { self.rank_as_expirer(name, now) };
        Some((due + RANK_DELAY * rank).max(member.retry))
    }

    /// Returns the time at which a session that a claim names may
    /// be ended. Returns none if it has ended.
    fn over_at(&self, name: &NodeName, session: Session, now: Monotonic) -> Option<Monotonic> {
        if self.has_ended(name, session, now) {
            return None;
        }
        let expires = self.expires_at(name, now)?;
        let member = self.member(name)?;
        let carries_another =
            member.lease.as_ref().and_then(|lease| lease.session).is_some_and(|carried| carried != session);
        if !carries_another {
            return Some(expires);
        }
        // There are three cases. The node lives in another session. The Lease
        // was edited by hand, and the node will repair it. Or the claim is
        // ahead of the Lease that is known here, and the write will show that.
        let claimed = self.claimed_since(name, session).unwrap_or(now);
        let since = member.session_seen.max(claimed).max(self.own.lease_deadline.valid_since(now)?);
        Some((since + self.patience(member)).min(expires))
    }

    /// Returns the number of living nodes that come before this one in expiring another.
    fn rank_as_expirer(&self, dead: &NodeName, now: Monotonic) -> u32 {
        let weight = |name: &NodeName| (weight(name.as_str(), dead.as_str().bytes()), name.clone());
        let own = weight(&self.settings.node);
        let before = self
            .others()
            .map(|(name, _)| name)
            .filter(|name| *name != dead && self.is_alive(name, now))
            .filter(|name| weight(name) > own);
        u32::try_from(before.count()).unwrap_or(u32::MAX)
    }

    /// Returns the time at which the next node is expired.
    pub(crate) fn next_expiring(&self, now: Monotonic) -> Option<Monotonic> {
        self.claimed_nodes().filter_map(|name| self.expiring_at(name, now)).min()
    }

    fn claimed_nodes(&self) -> impl Iterator<Item = &NodeName> {
        let mut last = None;
        self.claimed().map(|(name, ..)| name).filter(move |name| last.replace(*name) != Some(*name))
    }

    /// Returns the writes that end the sessions of dead nodes.
    pub(crate) fn expire_dead_nodes(&mut self, now: Monotonic) -> Vec<LeaseWrite> {
        let is_due = |name: &&NodeName| self.expiring_at(name, now).is_some_and(|due| due <= now);
        let due: Vec<NodeName> = self.claimed_nodes().filter(is_due).cloned().collect();
        let expire = |name: &NodeName| {
            if self.is_expired(name, now) {
                return self.expire_all(name);
            }
            // The node lives in another session. Only those that claims name are over.
            let kept = self.member(name).and_then(Member::session);
            self.expire(name, kept, self.sessions_claimed_of(name).collect())
        };
        due.iter().filter_map(expire).collect()
    }

    /// Ends all sessions of a dead node that are known, by one write to its Lease.
    pub(super) fn expire_all(&mut self, name: &NodeName) -> Option<LeaseWrite> {
        self.expire(name, None, self.sessions_claimed_of(name).collect())
    }

    /// Ends sessions of a dead node by one write to its Lease, at the version that was seen. The
    /// Lease then carries the session `kept`, if any. Another one that it carried is over too.
    pub(super) fn expire(
        &mut self,
        name: &NodeName,
        kept: Option<Session>,
        over: Vec<Session>,
    ) -> Option<LeaseWrite> {
        let default = self.settings.lease;
        let member = self.member_mut(name)?;
        member.expiring = true;
        let lease = member.lease.as_ref();
        let mut ended = lease.map(|lease| lease.ended.clone()).unwrap_or_default();
        let carried = lease.and_then(|lease| lease.session);
        // The admission policies take as many in one write. The others follow in the next.
        let known = ended.clone();
        let new = over.into_iter().filter(|session| !known.contains(session)).take(MOST_ENDED - 1);
        for session in new.chain(carried).filter(|session| Some(*session) != kept) {
            if !ended.contains(&session) {
                ended.push(session);
            }
        }
        Some(LeaseWrite {
            node: name.clone(),
            expected: lease.map_or(Expected::Absent, |lease| Expected::At(lease.version.clone())),
            session: kept,
            ended,
            duration: lease.map_or(default, |lease| lease.duration),
            interfaces: lease.map(|lease| lease.interfaces.clone()).unwrap_or_default(),
            leaving: member.is_leaving(),
            wire: lease.and_then(|lease| lease.wire.clone()),
            proxy: lease.and_then(|lease| lease.proxy.clone()),
        })
    }

    /// Records that the request about a node's Lease is over.
    pub(crate) fn end_expiring(&mut self, name: &NodeName) {
        if let Some(member) = self.member_mut(name) {
            member.expiring = false;
            member.notices.reads = false;
        }
    }

    /// Applies the outcome of a write that ends sessions. Returns none for a node that is no longer
    /// known.
    pub(crate) fn on_expired(
        &mut self,
        name: &NodeName,
        outcome: Outcome<LeaseRecord>,
        now: Monotonic,
    ) -> Option<Expired> {
        let member = self.member_mut(name)?;
        member.expiring = false;
        Some(match outcome {
            Outcome::Done(record) => Expired::Done(record.into()),
            // The watch shows an old Lease. The wait for a renewal starts again.
            Outcome::Conflict | Outcome::Missing => {
                member.seen = now;
                member.expiring = true;
                Expired::Read
            }
            // Another node's write may have been first. The read is no reason to wait for a renewal.
            Outcome::Unknown => {
                member.retry = now + RETRY;
                member.expiring = true;
                Expired::Read
            }
            Outcome::Refused(_) => {
                member.retry = now + REFUSED_RETRY;
                Expired::Again
            }
        })
    }
}
