//! Knowledge of the nodes, and the end of the sessions of dead ones.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::Ipv4Addr,
    time::Duration,
};

use vipward_common::MacAddr;

use super::{
    Command, Engine, Expected, LeaseWrite, Outcome, RANK_DELAY, REFUSED_RETRY, RETRY, eligibility::weight,
};
use crate::{
    cluster::{LeaseRecord, NodeName, NodeRecord, Session, Version},
    time::Monotonic,
};

/// The claims that name a session.
#[derive(Debug)]
pub(super) struct SessionClaims {
    pub(super) vips: BTreeSet<Ipv4Addr>,
    /// Time at which the first of these claims was seen.
    since: Monotonic,
}

/// A node, as this node sees it.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) lease: Option<LeaseRecord>,
    pub(super) node: Option<NodeRecord>,
    /// Time at which the present version of the Lease, or its absence, was first seen.
    seen: Monotonic,
    /// Duration of the last Lease that was seen, and the time at which it was
    /// first seen. Both stay when the Lease is gone.
    duration: Option<(Duration, Monotonic)>,
    /// Time at which the Lease's session was first seen.
    session_seen: Monotonic,
    /// Time since which each of its MACs has stood in the Lease without a break.
    macs: BTreeMap<MacAddr, Monotonic>,
    /// Time at which it was last seen to get a VIP.
    pub(super) took: Option<Monotonic>,
    /// True if this node's request about its Lease is under way.
    deposing: bool,
    /// Time before which no next request about its Lease is sent.
    retry: Monotonic,
}

impl Member {
    fn new(now: Monotonic) -> Self {
        Self {
            lease: None,
            node: None,
            seen: now,
            duration: None,
            session_seen: now,
            macs: BTreeMap::new(),
            took: None,
            deposing: false,
            retry: now,
        }
    }

    /// Returns the time since which this MAC has stood in its Lease.
    pub(super) fn mac_since(&self, mac: MacAddr) -> Option<Monotonic> {
        self.macs.get(&mac).copied()
    }

    pub(super) fn last_seen(&self) -> Monotonic {
        self.seen
    }

    pub(super) fn session(&self) -> Option<Session> {
        self.lease.as_ref()?.live_session()
    }

    /// Returns true if its Lease says that the node leaves.
    pub(super) fn is_leaving(&self) -> bool {
        self.lease.as_ref().is_some_and(|lease| lease.leaving)
    }

    /// Returns the time until which the node may be away: one duration after
    /// `since`, or after that duration was first seen.
    pub(super) fn away_until(&self, since: Monotonic) -> Option<Monotonic> {
        self.duration.map(|(duration, said)| since.max(said) + duration)
    }

    fn version(&self) -> Option<&Version> {
        self.lease.as_ref().map(|lease| &lease.version)
    }

    fn take_in(&mut self, record: LeaseRecord, now: Monotonic) {
        if self.version() == Some(&record.version) {
            return;
        }
        self.seen = now;
        if self.lease.as_ref().and_then(|lease| lease.session) != record.session {
            self.session_seen = now;
        }
        self.macs.retain(|mac, _| record.links.iter().any(|link| link.mac == *mac));
        for link in &record.links {
            self.macs.entry(link.mac).or_insert(now);
        }
        if self.duration.is_none_or(|(known, _)| known != record.duration) {
            self.duration = Some((record.duration, now));
        }
        self.lease = Some(record);
    }
}

impl Engine {
    pub(super) fn on_lease(&mut self, record: LeaseRecord, now: Monotonic) {
        if record.node == self.settings.node {
            self.on_own_lease_seen(&record);
        }
        self.take_lease(record, now);
    }

    fn take_lease(&mut self, record: LeaseRecord, now: Monotonic) {
        let known = self.members.get(&record.node).and_then(|member| member.lease.as_ref());
        let is_other = known.is_none_or(|known| {
            known.session != record.session
                || known.ended != record.ended
                || known.links != record.links
                || known.leaving != record.leaving
        });
        let was_silent = self.silent_at(&record.node, now).is_some_and(|silent| silent <= now);
        let member = self.members.entry(record.node.clone()).or_insert_with(|| Member::new(now));
        member.take_in(record, now);
        if is_other || was_silent {
            self.peers_may_have_changed();
            self.all_dirty();
        }
    }

    pub(super) fn on_lease_gone(&mut self, name: &NodeName, now: Monotonic) {
        if *name == self.settings.node {
            self.on_own_lease_gone();
        }
        let Some(member) = self.members.get_mut(name) else { return };
        if member.lease.take().is_some() {
            member.seen = now;
            member.session_seen = now;
            member.macs.clear();
            self.forget_if_unknown(name);
            self.peers_may_have_changed();
            self.all_dirty();
        }
    }

    pub(super) fn on_node(&mut self, record: NodeRecord, now: Monotonic) {
        let member = self.members.entry(record.name.clone()).or_insert_with(|| Member::new(now));
        if member.node.as_ref() != Some(&record) {
            member.node = Some(record);
            self.all_dirty();
        }
    }

    pub(super) fn on_node_gone(&mut self, name: &NodeName) {
        if self.members.get_mut(name).and_then(|member| member.node.take()).is_some() {
            self.forget_if_unknown(name);
            self.all_dirty();
        }
    }

    fn forget_if_unknown(&mut self, name: &NodeName) {
        let is_claimed = self.sessions_claimed_of(name).next().is_some();
        let nothing_is_known =
            |member: &Member| member.lease.is_none() && member.node.is_none() && !member.deposing;
        if !is_claimed && self.members.get(name).is_some_and(nothing_is_known) {
            self.members.remove(name);
        }
    }

    /// Returns the sessions of a node that are named by claims.
    fn sessions_claimed_of(&self, name: &NodeName) -> impl Iterator<Item = Session> {
        let first = Session::from_number(1).expect("invariant: 1 is not zero");
        let last = Session::from_number(u64::MAX).expect("invariant: this is not zero");
        self.claimed.range((name.clone(), first)..=(name.clone(), last)).map(|((_, session), _)| *session)
    }

    /// Sets the peers, once all Leases have been listed. If a peer were removed
    /// too early, the program would not give way to it.
    pub(super) fn peers_may_have_changed(&mut self) {
        if !self.has_begun() {
            return;
        }
        let others = self.members.iter().filter(|(name, _)| **name != self.settings.node);
        let links = others.filter_map(|(_, member)| member.lease.as_ref()).flat_map(|lease| &lease.links);
        let peers: BTreeSet<MacAddr> = links.map(|link| link.mac).collect();
        if self.peers.as_ref() != Some(&peers) {
            self.peers = Some(peers.clone());
            self.command(Command::SetPeers(peers));
        }
    }

    /// Returns true if a session is over for good: the Lease of its node lists it as ended.
    pub(super) fn has_ended(&self, name: &NodeName, session: Session, now: Monotonic) -> bool {
        // While this node lives in a session that it renews, its other sessions are over.
        let is_ours = *name == self.settings.node;
        let is_past =
            self.own.has_ended(session) || self.own.is_valid(now) && self.own.session() != Some(session);
        let lease = self.members.get(name).and_then(|member| member.lease.as_ref());
        is_ours && is_past || lease.is_some_and(|lease| lease.ended.contains(&session))
    }

    /// Returns the time for which a Lease must stay unchanged until its node counts as dead.
    fn patience(&self, member: &Member) -> Duration {
        // The duration of a Lease that was never seen is unknown.
        let duration = member.duration.map_or(self.settings.restart_lease, |(duration, _)| duration);
        duration.max(self.settings.lease) + self.settings.margin
    }

    /// Returns the time at which a node has been silent for long enough to end its session. Silence
    /// counts only while this node's own fence is valid.
    pub(super) fn silent_at(&self, name: &NodeName, now: Monotonic) -> Option<Monotonic> {
        let member = self.members.get(name)?;
        let since = member.seen.max(self.own.valid_since(now)?);
        Some(since + self.patience(member))
    }

    /// Returns true if a node has a session and renews it, as far as this node can see.
    pub(super) fn is_alive(&self, name: &NodeName, now: Monotonic) -> bool {
        if *name == self.settings.node {
            return self.own.is_valid(now);
        }
        self.members.get(name).is_some_and(|member| member.session().is_some())
            && self.silent_at(name, now).is_none_or(|silent| now < silent)
    }

    /// Returns true if a node has renewed lately. A node whose agent is
    /// restarting is alive, but cannot take a VIP over.
    pub(super) fn renews(&self, name: &NodeName, now: Monotonic) -> bool {
        self.members.get(name).is_some_and(|member| now < member.seen + self.settings.lease)
    }

    /// Returns the time at which this node would depose another.
    /// Returns none if there is no reason to.
    fn deposing_at(&self, name: &NodeName, now: Monotonic) -> Option<Monotonic> {
        if *name == self.settings.node {
            return None;
        }
        let member = self.members.get(name)?;
        if member.deposing {
            return None;
        }
        let due =
            self.sessions_claimed_of(name).filter_map(|session| self.over_at(name, session, now)).min()?;
        // The rank matters only when a session is due to be ended.
        let rank = if due > now { 0 } else { self.rank_as_deposer(name, now) };
        Some((due + RANK_DELAY * rank).max(member.retry))
    }

    /// Returns the time at which a session that a claim names may
    /// be ended. Returns none if it has ended.
    fn over_at(&self, name: &NodeName, session: Session, now: Monotonic) -> Option<Monotonic> {
        if self.has_ended(name, session, now) {
            return None;
        }
        let silent = self.silent_at(name, now)?;
        let member = self.members.get(name)?;
        let carries_another =
            member.lease.as_ref().and_then(|lease| lease.session).is_some_and(|carried| carried != session);
        if !carries_another {
            return Some(silent);
        }
        // The node lives in another session. Or somebody has edited the Lease,
        // and the node will repair it. Or the claim is ahead of the Lease that
        // is known here, and the write will show that.
        let claimed = self.claimed.get(&(name.clone(), session)).map_or(now, |claimed| claimed.since);
        let since = member.session_seen.max(claimed).max(self.own.valid_since(now)?);
        Some((since + self.patience(member)).min(silent))
    }

    /// Returns the number of living nodes that come before this one in deposing another.
    fn rank_as_deposer(&self, dead: &NodeName, now: Monotonic) -> u32 {
        let weight = |name: &NodeName| (weight(name.as_str(), dead.as_str().as_bytes()), name.clone());
        let ours = weight(&self.settings.node);
        let before = self
            .members
            .keys()
            .filter(|name| **name != self.settings.node && *name != dead && self.is_alive(name, now))
            .filter(|name| weight(name) > ours);
        u32::try_from(before.count()).unwrap_or(u32::MAX)
    }

    pub(super) fn next_deposing(&self) -> Option<Monotonic> {
        self.claimed_nodes().filter_map(|name| self.deposing_at(name, self.now)).min()
    }

    fn claimed_nodes(&self) -> impl Iterator<Item = &NodeName> {
        let mut last = None;
        self.claimed.keys().map(|(name, _)| name).filter(move |name| last.replace(*name) != Some(*name))
    }

    pub(super) fn depose_the_silent(&mut self, now: Monotonic) {
        if !self.own.is_valid(now) {
            return;
        }
        let due: Vec<NodeName> = self
            .claimed_nodes()
            .filter(|name| self.deposing_at(name, now).is_some_and(|due| due <= now))
            .cloned()
            .collect();
        for name in due {
            self.depose(&name, now);
        }
    }

    /// Ends the sessions of a dead node by one write to its Lease, at the version that was seen.
    fn depose(&mut self, name: &NodeName, now: Monotonic) {
        let is_silent = self.silent_at(name, now).is_some_and(|silent| silent <= now);
        // If the node lives in another session, only the session that claims name is over.
        let kept = self.members.get(name).and_then(Member::session).filter(|_| !is_silent);
        let claimed: Vec<Session> =
            self.sessions_claimed_of(name).filter(|session| Some(*session) != kept).collect();
        let Some(member) = self.members.get_mut(name) else { return };
        member.deposing = true;
        let lease = member.lease.as_ref();
        let mut ended = lease.map(|lease| lease.ended.clone()).unwrap_or_default();
        let carried = lease.and_then(|lease| lease.session).filter(|session| Some(*session) != kept);
        for session in claimed.into_iter().chain(carried) {
            if !ended.contains(&session) {
                ended.push(session);
            }
        }
        let write = LeaseWrite {
            node: name.clone(),
            expected: lease.map_or(Expected::Absent, |lease| Expected::At(lease.version.clone())),
            session: kept,
            ended,
            duration: lease.map_or(self.settings.lease, |lease| lease.duration),
            links: lease.map(|lease| lease.links.clone()).unwrap_or_default(),
            leaving: member.is_leaving(),
        };
        self.command(Command::WriteLease(write));
    }

    pub(super) fn on_deposed(&mut self, name: &NodeName, outcome: Outcome<LeaseRecord>, now: Monotonic) {
        let Some(member) = self.members.get_mut(name) else { return };
        member.deposing = false;
        match outcome {
            Outcome::Done(record) => self.take_lease(record, now),
            // The node lives. The watch shows an old Lease, and the time of silence starts again.
            Outcome::Conflict | Outcome::Missing => {
                member.seen = now;
                member.deposing = true;
                self.command(Command::ReadLease(name.clone()));
            }
            Outcome::Unknown => member.retry = now + RETRY,
            Outcome::Refused(_) => member.retry = now + REFUSED_RETRY,
        }
    }

    pub(super) fn on_lease_read(&mut self, name: &NodeName, outcome: Outcome<LeaseRecord>, now: Monotonic) {
        if let Some(member) = self.members.get_mut(name) {
            member.deposing = false;
        }
        match outcome {
            Outcome::Done(record) => self.take_lease(record, now),
            Outcome::Missing => self.on_lease_gone(name, now),
            Outcome::Conflict | Outcome::Unknown | Outcome::Refused(_) => {}
        }
    }

    /// Updates the index when a claim names other sessions.
    pub(super) fn index_claim(
        &mut self,
        vip: Ipv4Addr,
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
            self.members.entry(session.0.clone()).or_insert_with(|| Member::new(now));
            let claimed = SessionClaims { vips: BTreeSet::new(), since: now };
            self.claimed.entry(session).or_insert(claimed).vips.insert(vip);
        }
    }
}
