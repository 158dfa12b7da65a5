//! All nodes, this one included: their Leases, their liveness, and the sessions that claims name.

mod candidates;
mod contact;
mod eligibility;
mod expiring;
mod failure_detector;
mod lease_deadline;
mod member;
mod offer;
mod own;
mod suspects;
mod unresponsive;
mod wire_plan;

#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    time::Duration,
};

use vipward_common::{MacAddr, Policy};

use super::{settings::Settings, times::CLOCKS_DIFFER};
use crate::{
    base::{address, time::Monotonic},
    records::{ClaimState, LeaseRecord, NodeName, NodeRecord, Session},
};

use self::failure_detector::FailureDetector;
pub(super) use self::{
    candidates::Candidate,
    expiring::Expired,
    lease_deadline::LeaseDeadline,
    member::Member,
    own::{Beginning, Own, Verdict},
    wire_plan::Former,
};
pub use self::{
    eligibility::{Disqualified, Eligible, NodeFacts, eligibility, weight},
    failure_detector::WireCounts,
};

#[derive(Debug)]
struct SessionClaims {
    vips: BTreeSet<IpAddr>,
    /// Time at which the first of these claims was seen.
    since: Monotonic,
}

/// All nodes, as this node sees them.
#[derive(Debug)]
pub(super) struct Nodes {
    pub(super) settings: Settings,
    pub(super) own: Own,
    /// All nodes that have a Lease or a Node, this one included.
    members: BTreeMap<NodeName, Member>,
    claimed: BTreeMap<(NodeName, Session), SessionClaims>,
    /// The nodes that hold VIPs which others follow.
    leaders: BTreeMap<IpAddr, NodeName>,
    pub(super) wire: FailureDetector,
}

impl Nodes {
    pub(super) fn new(settings: Settings, own: Own) -> Self {
        let wire = FailureDetector::new(&settings);
        let (members, claimed, leaders) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Self { settings, own, members, claimed, leaders, wire }
    }

    /// Returns the node that holds a VIP which others follow.
    pub(super) fn leading(&self, leader: IpAddr) -> Option<&NodeName> {
        self.leaders.get(&leader)
    }

    /// Records the holder of a VIP that others follow. Returns true if it has changed.
    pub(super) fn lead(&mut self, leader: IpAddr, holder: Option<&NodeName>) -> bool {
        let before = match holder {
            Some(holder) => self.leaders.insert(leader, holder.clone()),
            None => self.leaders.remove(&leader),
        };
        before.as_ref() != holder
    }

    /// Records a Lease. Returns true if that may matter to any VIP.
    pub(super) fn take_lease(&mut self, record: LeaseRecord, now: Monotonic) -> bool {
        let known = self.lease(&record.node);
        let is_other = known.is_none_or(|known| {
            known.session != record.session
                || known.ended != record.ended
                || known.interfaces != record.interfaces
                || known.leaving != record.leaving
        });
        let says_otherwise = known.is_none_or(|known| known.wire != record.wire);
        self.wire.is_stale |= is_other || says_otherwise;
        let was_expired = self.is_expired(&record.node, now);
        self.member_or_new(&record.node.clone(), now).update(record, now);
        is_other || was_expired
    }

    /// Records that a Lease is gone. Returns true if that may matter to any VIP.
    pub(super) fn lose_lease(&mut self, name: &NodeName, now: Monotonic) -> bool {
        let is_gone = self.members.get_mut(name).is_some_and(|member| member.lose_lease(now));
        self.wire.is_stale |= is_gone;
        if is_gone {
            self.forget_if_unknown(name);
        }
        is_gone
    }

    /// Records a Node. Returns true if it has changed.
    pub(super) fn take_node(&mut self, record: NodeRecord, now: Monotonic) -> bool {
        let member = self.member_or_new(&record.name.clone(), now);
        let is_other = member.node.as_ref() != Some(&record);
        member.node = Some(record);
        is_other
    }

    /// Records that a Node is gone. Returns false if there was none.
    pub(super) fn lose_node(&mut self, name: &NodeName) -> bool {
        let is_gone = self.members.get_mut(name).and_then(|member| member.node.take()).is_some();
        if is_gone {
            self.forget_if_unknown(name);
        }
        is_gone
    }

    fn member_or_new(&mut self, name: &NodeName, now: Monotonic) -> &mut Member {
        self.members.entry(name.clone()).or_insert_with(|| Member::new(now))
    }

    fn forget_if_unknown(&mut self, name: &NodeName) {
        let is_claimed = self.sessions_claimed_of(name).next().is_some();
        let nothing_is_known =
            |member: &Member| member.lease.is_none() && member.node.is_none() && !member.expiring;
        if !is_claimed && self.members.get(name).is_some_and(nothing_is_known) {
            self.members.remove(name);
        }
    }

    /// Updates the index when a claim names other sessions.
    pub(super) fn index_claim(
        &mut self,
        vip: IpAddr,
        before: &[(NodeName, Session)],
        after: Vec<(NodeName, Session)>,
        now: Monotonic,
    ) {
        for gone in before.iter().filter(|session| !after.contains(session)) {
            let Some(claimed) = self.claimed.get_mut(gone) else { continue };
            claimed.vips.remove(&vip);
            if claimed.vips.is_empty() {
                self.claimed.remove(gone);
                self.forget_if_unknown(&gone.0);
            }
        }
        for session in after {
            self.member_or_new(&session.0, now);
            let claimed = SessionClaims { vips: BTreeSet::new(), since: now };
            self.claimed.entry(session).or_insert(claimed).vips.insert(vip);
        }
    }

    pub(super) fn member(&self, name: &NodeName) -> Option<&Member> {
        self.members.get(name)
    }

    pub(super) fn member_mut(&mut self, name: &NodeName) -> Option<&mut Member> {
        self.members.get_mut(name)
    }

    pub(super) fn lease(&self, name: &NodeName) -> Option<&LeaseRecord> {
        self.members.get(name)?.lease.as_ref()
    }

    /// Returns the session that a node's Lease carries, if it has not ended.
    pub(super) fn live_session(&self, name: &NodeName) -> Option<Session> {
        self.member(name)?.session()
    }

    /// Returns the last Lease that a node has written. It may be deleted.
    fn description(&self, name: &NodeName) -> Option<&LeaseRecord> {
        self.members.get(name)?.description()
    }

    /// Forgets deleted Leases whose nodes have not written them again in time.
    pub(super) fn forget_deleted(&mut self, now: Monotonic) {
        let deleted = self.members.iter().filter(|(_, member)| member.deleted.is_some());
        let over: Vec<NodeName> =
            deleted.filter(|(name, _)| self.is_expired(name, now)).map(|(name, _)| name.clone()).collect();
        for name in over {
            self.wire.is_stale = true;
            if let Some(member) = self.members.get_mut(&name) {
                member.deleted = None;
            }
        }
    }

    /// Returns true if this process has seen a node's Lease carry a session.
    pub(super) fn has_lived(&self, name: &NodeName) -> bool {
        self.members.get(name).is_some_and(|member| member.has_lived)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&NodeName, &Member)> {
        self.members.iter()
    }

    pub(super) fn others(&self) -> impl Iterator<Item = (&NodeName, &Member)> {
        self.members.iter().filter(|(name, _)| **name != self.settings.node)
    }

    /// Returns the MACs of the other nodes' interfaces.
    pub(super) fn peers(&self) -> BTreeSet<MacAddr> {
        let leases = self.others().filter_map(|(_, member)| member.lease.as_ref());
        leases.flat_map(|lease| &lease.interfaces).map(|interface| interface.mac).collect()
    }

    /// Returns the sessions of a node that are named by claims.
    pub(super) fn sessions_claimed_of(&self, name: &NodeName) -> impl Iterator<Item = Session> {
        let first = Session::from_number(1).expect("invariant: 1 is not zero");
        let last = Session::from_number(u64::MAX).expect("invariant: this is not zero");
        self.claimed.range((name.clone(), first)..=(name.clone(), last)).map(|((_, session), _)| *session)
    }

    /// Returns the sessions that claims name, with their VIPs.
    pub(super) fn claimed(&self) -> impl Iterator<Item = (&NodeName, Session, &BTreeSet<IpAddr>)> {
        self.claimed.iter().map(|((name, session), claimed)| (name, *session, &claimed.vips))
    }

    /// Returns the VIPs whose claims name a session.
    pub(super) fn claimed_in(&self, name: &NodeName, session: Session) -> impl Iterator<Item = IpAddr> {
        let claimed = self.claimed.get(&(name.clone(), session));
        claimed.into_iter().flat_map(|claimed| claimed.vips.iter().copied())
    }

    /// Returns the time since which claims have named a session.
    pub(super) fn claimed_since(&self, name: &NodeName, session: Session) -> Option<Monotonic> {
        self.claimed.get(&(name.clone(), session)).map(|claimed| claimed.since)
    }

    /// Returns true if this is this node's present session.
    pub(super) fn is_us(&self, name: &NodeName, session: Session) -> bool {
        *name == self.settings.node && self.own.session() == Some(session)
    }

    /// Returns true if a claim's pair of node and session is this node's own.
    pub(super) fn names_us(&self, (node, session): &(NodeName, Session)) -> bool {
        self.is_us(node, *session)
    }

    /// Returns true if a claim names this node as the holder or the successor.
    pub(super) fn is_ours(&self, state: &ClaimState) -> bool {
        state.holder().is_some_and(|holder| self.is_us(&holder.node, holder.session))
    }

    /// Returns true if a session is over for good: the Lease of its node lists it as ended.
    pub(super) fn has_ended(&self, name: &NodeName, session: Session, now: Monotonic) -> bool {
        // While this node lives in a session that it renews, its other sessions are over.
        let is_ours = *name == self.settings.node;
        let is_past =
            self.own.has_ended(session) || self.own.is_valid(now) && self.own.session() != Some(session);
        is_ours && is_past || self.lease(name).is_some_and(|lease| lease.ended.contains(&session))
    }

    /// Returns true if all sessions that a claim names are over, except this node's own.
    pub(super) fn no_other_may_answer(&self, state: &ClaimState, now: Monotonic) -> bool {
        let mut others = state.sessions().into_iter().filter(|session| !self.names_us(session));
        others.all(|(node, session)| self.has_ended(&node, session, now))
    }

    /// Returns the time for which a Lease must stay unchanged until its node counts as dead.
    pub(super) fn patience(&self, member: &Member) -> Duration {
        let Settings { lease, restart_lease, probing, .. } = self.settings;
        // The duration of a Lease that was never seen is unknown. Without a Node, the claim is probably
        // a restored one. If a program answers all the same, the probes find it.
        let is_restored = member.node.is_none() && probing.is_some();
        let unknown = if is_restored { lease } else { restart_lease };
        let duration = member.duration.map_or(unknown, |(duration, _)| duration);
        duration.max(self.settings.lease) + self.settings.margin
    }

    /// Returns the time at which a node's Lease expires for want of a renewal. Missing renewals
    /// count only while this node's own lease deadline lies ahead.
    pub(super) fn expires_at(&self, name: &NodeName, now: Monotonic) -> Option<Monotonic> {
        let member = self.members.get(name)?;
        let since = member.seen.max(self.own.lease_deadline.valid_since(now)?);
        Some(since + self.patience(member))
    }

    /// Returns true if a node's Lease has expired for want of a renewal.
    pub(super) fn is_expired(&self, name: &NodeName, now: Monotonic) -> bool {
        self.expires_at(name, now).is_some_and(|at| at <= now)
    }

    /// Returns true if a node has a session and renews it, as far as this node can see.
    pub(super) fn is_alive(&self, name: &NodeName, now: Monotonic) -> bool {
        if *name == self.settings.node {
            return self.own.is_valid(now);
        }
        self.members.get(name).is_some_and(|member| member.session().is_some()) && !self.is_expired(name, now)
    }

    /// Returns true if a node has renewed lately. A node whose agent is
    /// restarting is alive, but cannot take a VIP over.
    pub(super) fn renews(&self, name: &NodeName, now: Monotonic) -> bool {
        self.members.get(name).is_some_and(|member| now < member.seen + self.settings.lease)
    }

    /// Returns the other nodes that have an interface with this MAC.
    fn peers_with(&self, mac: MacAddr) -> impl Iterator<Item = &NodeName> {
        let has_it = move |member: &Member| {
            member.lease.iter().flat_map(|lease| &lease.interfaces).any(|interface| interface.mac == mac)
        };
        self.others().filter(move |(_, member)| has_it(member)).map(|(name, _)| name)
    }

    /// Returns the other node that has an interface with this MAC.
    pub(super) fn peer(&self, mac: MacAddr) -> Option<&NodeName> {
        self.peers_with(mac).next()
    }

    /// Returns true if another node of this name has an interface with this MAC.
    pub(super) fn is_peers(&self, node: &NodeName, mac: MacAddr) -> bool {
        self.peers_with(mac).any(|name| name == node)
    }

    /// Returns that node, if it renews its Lease.
    pub(super) fn living_peer(&self, mac: MacAddr, now: Monotonic) -> Option<&NodeName> {
        self.peers_with(mac).find(|name| self.is_alive(name, now))
    }

    /// Returns true if this node is the one that reports a VIP without a holder.
    pub(super) fn is_reporter(&self, vip: IpAddr, now: Monotonic) -> bool {
        let weight = |name: &NodeName| (weight(name.as_str(), address::octets(vip)), name.clone());
        let own = weight(&self.settings.node);
        self.own.is_valid(now)
            && self.members.keys().filter(|name| self.is_alive(name, now)).all(|name| weight(name) <= own)
    }

    /// Returns the time for which a claim rests after a change of holder.
    /// Meanwhile only a holder or successor that the claim names gets the VIP.
    pub(super) fn rest(&self) -> Duration {
        self.settings.lease + self.settings.margin
    }

    /// Returns the duration of a handover entry. The program ends the entry by itself,
    /// even if this process dies. The duration is shorter than the rest of the claim
    /// after the offer, on any node's clock, so a later holder answers alone.
    pub(super) fn handover_lasts(&self) -> Duration {
        self.rest().saturating_sub(self.rest() / CLOCKS_DIFFER)
    }

    /// Returns the time that a successor has to accept an offer. After
    /// it, and before the entry ends, this node takes the VIP back.
    pub(super) fn take_back(&self) -> Duration {
        self.settings.lease / 2
    }

    /// Returns true if this node was cut off lately: it may see late what happened long ago.
    pub(super) fn is_behind(&self, now: Monotonic) -> bool {
        let since = self.own.lease_deadline.valid_since(now);
        since.is_none_or(|since| since + self.rest() > now)
    }

    /// Returns the time until which this node's program answers, if the lease deadline does not
    /// move.
    pub(super) fn answers_until(&self, deadline: Monotonic) -> Monotonic {
        let Settings { policy, hold_for, .. } = self.settings;
        match policy {
            Policy::Hold => deadline + hold_for,
            Policy::Stop => deadline,
        }
    }
}
