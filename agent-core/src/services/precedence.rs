//! Precedence between a VIP and something else that needs its address: whichever was there first.
//!
//! A VIP is there while a node holds it: this one, or one that its claim names in the session that
//! the node's Lease carries. That it was held once gives it nothing: its address may be another's by
//! now. Claims and Leases are written with tokens of nodes, so neither proves that a VIP came first
//! where a source that no such token writes says otherwise.

use std::{collections::BTreeMap, net::IpAddr, time::Duration};

use super::{Refusal, Role, Services, records::StatusOwner, standing::Standing};
use crate::{
    base::time::Monotonic,
    host::net::Vital,
    records::{NodeName, Session},
};

/// Time for which a VIP without a holder keeps its precedence, so that another node can take it.
const LATELY: Duration = Duration::from_secs(10);

/// The holders of VIPs, as claims and Leases show them.
#[derive(Debug, Default)]
pub(super) struct Holders {
    /// The session that the Lease of each other node carries. What a claim says of this node is no
    /// proof: this node knows better what it holds.
    sessions: BTreeMap<NodeName, Session>,
    /// The node that this host is.
    own: Option<NodeName>,
    /// The VIPs that lost their last holder, and the time of that. None until the time is known. Those
    /// that stood in a status when the controller began are among them.
    pub(super) left: BTreeMap<IpAddr, Option<Monotonic>>,
    /// True once every VIP has been evaluated after the first list.
    pub(super) begun: bool,
    /// True if this process may see late what happened long ago.
    pub(super) is_behind: bool,
}

impl Holders {
    /// Records the node that this host is.
    pub(super) fn put_own(&mut self, node: &NodeName) {
        if self.own.as_ref() != Some(node) {
            self.sessions.remove(node);
            self.own = Some(node.clone());
        }
    }

    /// Records the session that a node's Lease carries. Returns false if it is the known one.
    pub(super) fn put(&mut self, node: &NodeName, session: Option<Session>) -> bool {
        let session = session.filter(|_| self.own.as_ref() != Some(node));
        let before = match session {
            Some(session) => self.sessions.insert(node.clone(), session),
            None => self.sessions.remove(node),
        };
        before != session
    }

    fn live(&self, named: &[(NodeName, Session)]) -> bool {
        named.iter().any(|(node, session)| self.sessions.get(node) == Some(session))
    }

    /// Returns the VIPs that have been without a holder for long enough, and forgets them.
    pub(super) fn expire(&mut self, now: Monotonic) -> Vec<IpAddr> {
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
    pub(super) fn next_deadline(&self) -> Option<Monotonic> {
        self.left.values().map(|since| since.map_or_else(Monotonic::default, |since| since + LATELY)).min()
    }
}

/// The order in time of a VIP and of what else needs its address.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Order {
    /// True if a node holds the VIP.
    pub(super) is_held: bool,
    /// True if the VIP was held before anything else needed its address.
    pub(super) came_first: bool,
}

/// The precedence of a VIP.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Precedence {
    /// Whatever else needs the address came first.
    #[default]
    Last,
    /// The VIP was held before anything else needed its address.
    First,
    /// This node holds it.
    Here,
}

impl Precedence {
    /// Returns true if the VIP is kept although something else needs its address.
    pub(super) fn keeps(self, other: &Refusal) -> bool {
        match self {
            Self::Last => false,
            // Without the API server, this node could not learn that the VIP has left.
            Self::First => *other != Refusal::ApiServer,
            Self::Here => true,
        }
    }
}

impl Services {
    /// Decides if a VIP or one of `others` came first, and remembers it.
    pub(super) fn note_precedence(
        &mut self,
        address: IpAddr,
        standing: &Standing,
        others: &[Refusal],
    ) -> Precedence {
        let is_here = self.held.get(&address) == Some(&true);
        let is_held = is_here || self.holders.live(&standing.sessions);
        let may_claim_it = others.is_empty()
            || standing.is_forced && others.iter().all(Refusal::yields_to_force)
            || !self.holders.begun && self.came_first_before(address, others);
        let is_found = !self.holders.begun && self.found.get(&address) == Some(&true);
        let was_named =
            !self.holders.begun && self.settings.role == Role::Controller && self.is_in_a_status(address);
        let Some(vip) = self.vips.get_mut(&address) else { return Precedence::Last };
        if is_held {
            self.holders.left.remove(&address);
            vip.order.came_first |= is_here || may_claim_it;
        } else if is_found {
            // The program has answered for it all the time. This node is about to take it back.
            vip.order.came_first = true;
            self.holders.left.insert(address, None);
        } else if was_named {
            // The claim may be lost, and the holder about to write it again.
            self.holders.left.insert(address, None);
        } else if vip.order.is_held && vip.order.came_first && !self.holders.is_behind {
            self.holders.left.insert(address, None);
        } else {
            vip.order.came_first &= self.holders.left.contains_key(&address);
        }
        vip.order.is_held = is_held;
        match (is_here, vip.order.came_first) {
            (true, _) => Precedence::Here,
            (false, true) => Precedence::First,
            (false, false) => Precedence::Last,
        }
    }

    /// Returns true if this process may see late what happened long ago.
    pub fn is_behind(&self) -> bool {
        self.holders.is_behind
    }

    /// Returns the addresses whose owners an agent must hear to reach the API server.
    pub fn vital(&self) -> Vital {
        Vital {
            api_servers: self.reserved.api_servers().collect(),
            next_hops: self.reserved.next_hops().collect(),
        }
    }

    /// Returns true if a VIP that was held when this process began came before what else needs its
    /// address: the process before this one has guarded it, or the controller has written its status.
    /// Otherwise a false Lease would darken it.
    fn came_first_before(&self, address: IpAddr, others: &[Refusal]) -> bool {
        self.found.contains_key(&address)
            || self.settings.role != Role::Alone && self.is_in_a_status(address)
            || others.iter().all(Refusal::is_by_lease)
    }

    /// Returns true if Vipward has written the address into the status of a Service that wants it.
    fn is_in_a_status(&self, address: IpAddr) -> bool {
        let has_it = |service| {
            self.entries.get(service).is_some_and(|entry| {
                entry.record.status_owner() == StatusOwner::Vipward && entry.record.has_in_status(address)
            })
        };
        let mut services = self.vips.get(&address).into_iter().flat_map(|vip| &vip.services);
        services.any(|(service, _)| has_it(service))
    }
}
