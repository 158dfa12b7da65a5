//! Precedence between a VIP and another use of its address: the first one wins.
//!
//! A VIP is there while a node holds it: this node, or the node that its claim names, in the
//! session of that node's Lease. A former holder does not count: the address may be another's by
//! now. Claims and Leases are written with tokens of nodes. So they do not prove that a VIP came
//! first against a source that no such token can write.

use std::{collections::BTreeMap, net::IpAddr, sync::Arc, time::Duration};

use super::refusal::Refusal;
use crate::{
    base::time::Monotonic,
    records::{NodeName, ServiceName, Session},
};

/// Time for which a VIP without a holder keeps its precedence, so that another node can take it.
const LATELY: Duration = Duration::from_secs(10);

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct ClaimSummary {
    /// True if it is a VIP that has had a holder.
    pub(crate) was_held: bool,
    /// The sessions that its claim names. While one of them lives, its node may hold the VIP.
    pub(crate) sessions: Box<[(NodeName, Session)]>,
    /// True if an admin has it taken by force.
    pub(crate) is_forced: bool,
    /// The Services that have it, in the order of their rights.
    pub(crate) services: Arc<[ServiceName]>,
    /// The Service that it is reserved for, unless it is kept for one that is gone.
    pub(crate) heir: Option<ServiceName>,
}

#[derive(Debug, Default)]
pub(crate) struct Holders {
    /// The session that the Lease of each other node carries. A claim that names this node is no
    /// proof: this node knows better what it holds.
    sessions: BTreeMap<NodeName, Session>,
    own: Option<NodeName>,
    /// The VIPs that lost their last holder, and the time of that. None until the time is known. Those
    /// that stood in a status when the controller began are among them.
    pub(crate) left: BTreeMap<IpAddr, Option<Monotonic>>,
    /// True once every VIP has been evaluated after the first list.
    pub(crate) begun: bool,
    /// True if this process may see late what happened long ago.
    pub(crate) is_behind: bool,
}

impl Holders {
    pub(crate) fn put_own(&mut self, node: &NodeName) {
        if self.own.as_ref() != Some(node) {
            self.sessions.remove(node);
            self.own = Some(node.clone());
        }
    }

    /// Records the session that a node's Lease carries. Returns false if it is the known one.
    pub(crate) fn put(&mut self, node: &NodeName, session: Option<Session>) -> bool {
        let session = session.filter(|_| self.own.as_ref() != Some(node));
        let before = match session {
            Some(session) => self.sessions.insert(node.clone(), session),
            None => self.sessions.remove(node),
        };
        before != session
    }

    pub(crate) fn live(&self, named: &[(NodeName, Session)]) -> bool {
        named.iter().any(|(node, session)| self.sessions.get(node) == Some(session))
    }

    /// Returns the VIPs that have been without a holder for long enough, and forgets them.
    pub(crate) fn expire(&mut self, now: Monotonic) -> Vec<IpAddr> {
        let mut expired = Vec::new();
        self.left.retain(|vip, since| {
            let stands = now < *since.get_or_insert(now) + LATELY;
            if !stands {
                expired.push(*vip);
            }
            stands
        });
        expired
    }

    /// Returns the time of the next [`Holders::expire`].
    pub(crate) fn next_deadline(&self) -> Option<Monotonic> {
        self.left.values().map(|since| since.map_or_else(Monotonic::default, |since| since + LATELY)).min()
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Order {
    pub(crate) is_held: bool,
    /// True if the VIP was held before anything else needed its address.
    pub(crate) came_first: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Precedence {
    #[default]
    Last,
    First,
    Here,
}

impl Precedence {
    /// Returns true if the VIP is kept although something else needs its address.
    pub(crate) fn keeps(self, other: &Refusal) -> bool {
        match self {
            Self::Last => false,
            // Without the API server, this node could not learn that the VIP has left.
            Self::First => *other != Refusal::ApiServer,
            Self::Here => true,
        }
    }
}
