//! The plan of this node's monitor: the nodes to ping, and the sessions that get expiry notices.

use std::sync::Arc;

use vipward_common::MacAddr;

use super::{Nodes, member::Member};
use crate::{
    base::time::Monotonic,
    liveness::{Ended, Path, Peer, Plan, Watched},
    records::{ClaimState, LeaseRecord, Mode, NodeName, Offer, Session, Wid},
};

/// The node that answered for a VIP before this one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Former {
    pub(crate) node: NodeName,
    /// Its session and its MAC, if the session has ended and the node may not know it.
    pub(crate) to_notify: Option<(Session, MacAddr)>,
}

impl Nodes {
    /// Returns the ways to a node: its MACs, each with this node's interface on the same segment.
    /// Carrier does not matter: frames show if it has returned.
    pub(crate) fn paths(&self, name: &NodeName) -> Vec<Path> {
        let theirs = self.description(name).map(|lease| lease.interfaces.as_slice()).unwrap_or_default();
        let mut paths: Vec<Path> = Vec::new();
        for own in &self.own.interfaces {
            let shared = theirs.iter().filter(|their| own.shares_a_segment(their));
            paths.extend(shared.map(|their| Path { interface: Arc::clone(&own.name), mac: their.mac }));
        }
        paths
    }

    fn paths_to(&self, wid: Wid) -> Vec<Path> {
        let node = self.partners().find(|(.., offer)| offer.wid == wid);
        node.map(|(name, ..)| self.paths(name)).unwrap_or_default()
    }

    pub(crate) fn wire_plan(&self) -> Plan {
        let (Some(wid), Some(key)) = (self.wire.wid, self.wire.key) else { return Plan::default() };
        let said = self.wire.said().or_else(|| self.wire_in_lease());
        let invited = said.map(|offer| offer.invited.as_slice()).unwrap_or_default();
        let is_peer = |offer: &Offer| offer.invited.contains(&wid) || invited.contains(&offer.wid);
        let peers = self.partners().filter(|(.., offer)| is_peer(offer));
        let peers = peers.filter_map(|(name, _, session, offer)| {
            let paths = self.paths(name);
            let watched = self.watched(wid, offer);
            let peer = Peer { node: name.clone(), session, wid: offer.wid, paths, watched };
            (!peer.paths.is_empty()).then_some(peer)
        });
        Plan {
            key: Some(key),
            peers: peers.collect(),
            set: said.map(|offer| offer.set.clone()).unwrap_or_default(),
            ended: self.others().flat_map(|(name, member)| self.to_notify(wid, name, member)).collect(),
        }
    }

    /// Returns the holder of this offer as one to watch, or none if this node is no voter.
    fn watched(&self, wid: Wid, offer: &Offer) -> Option<Watched> {
        let place = offer.set.iter().position(|member| *member == wid)?;
        let others = offer.set.iter().filter(|member| **member != wid);
        let others: Vec<_> = others.map(|member| (*member, self.paths_to(*member))).collect();
        // One of several voters never suffices, whatever the Lease states.
        let least = if others.is_empty() { 1 } else { 2 };
        (offer.mode == Mode::Notice).then(|| Watched {
            round: offer.round,
            place: u32::try_from(place).unwrap_or(u32::MAX),
            quorum: offer.quorum().max(least),
            others,
        })
    }

    /// Returns the ended sessions for which this node sends another one expiry notices. The other
    /// node has invited it, and its Lease carries no other session yet. A node that ends its own
    /// session withdraws its invitations. A program heeds only notices for its own session.
    /// The nodes that may take the VIPs are notified too: their watches may be dead.
    fn to_notify(&self, wid: Wid, name: &NodeName, member: &Member) -> Vec<Ended> {
        let lease = member.description().filter(|lease| lease.live_session().is_none());
        let is_invited =
            |lease: &&LeaseRecord| lease.wire.as_ref().is_some_and(|offer| offer.invited.contains(&wid));
        let Some(lease) = lease.filter(is_invited) else { return Vec::new() };
        let paths = self.paths(name);
        if paths.is_empty() {
            return Vec::new();
        }
        let takers: Vec<Path> = self.partners().flat_map(|(partner, ..)| self.paths(partner)).collect();
        // The last one is the one that they may hold to be alive.
        let is_last = |session| lease.ended.last() == Some(session);
        let ended = lease.ended.iter().map(|session| Ended {
            session: *session,
            paths: paths.clone(),
            takers: if is_last(session) { takers.clone() } else { Vec::new() },
        });
        ended.collect()
    }

    /// Returns the node that answers for a VIP by its claim. It gets expiry notices if its session
    /// has ended and it takes part in the failure detector.
    pub(crate) fn former(&self, state: &ClaimState, now: Monotonic) -> Option<Former> {
        let node = state.answering()?.clone();
        let is_partner = self.description(&node).is_some_and(|lease| lease.wire.is_some());
        let may_notify = node != self.settings.node && is_partner && self.wire.key.is_some();
        let to_notify = match state {
            ClaimState::Held(holder) if may_notify && self.has_ended(&node, holder.session, now) => {
                Some((holder.session, holder.mac))
            }
            ClaimState::Held(_) | ClaimState::Offered { .. } | ClaimState::Released | ClaimState::Blank => {
                None
            }
        };
        Some(Former { node, to_notify })
    }
}
