//! This node's offer in its Lease, for the failure detector: its keys, its monitors, and its
//! voters.

use std::{cmp::Reverse, time::Duration};

use super::{Nodes, eligibility::weight, member::Member};
use crate::{
    base::time::Monotonic,
    ownership::times::RANK_DELAY,
    records::{KeyId, MOST_INVITED, Mode, NodeName, Offer, Session, Wid},
};

/// Returns the number of voters, and how many of them must get answers for the session to last.
/// `others` is the number of other nodes on the segments.
fn quorum(others: usize) -> (usize, usize) {
    match others {
        0 => (0, 0),
        1 => (1, 1),
        2 => (2, 1),
        3.. => (3, 2),
    }
}

impl Nodes {
    /// Returns the other nodes that take part, with their live sessions. A deleted Lease counts for a
    /// while, since it shows neither that the node is dead nor that it lives.
    pub(crate) fn partners(&self) -> impl Iterator<Item = (&NodeName, &Member, Session, &Offer)> {
        self.others().filter_map(|(name, member)| {
            let lease = member.description()?;
            Some((name, member, lease.live_session()?, lease.wire.as_ref()?))
        })
    }

    /// Records the keys that this node has, the newest last.
    pub(crate) fn on_wire_keys(&mut self, keys: Vec<KeyId>, now: Monotonic) {
        if self.wire.keys != keys {
            self.wire.keys = keys;
            self.say_otherwise(now);
        }
    }

    /// Records the number of this node as a monitor.
    pub(crate) fn on_wire_self(&mut self, wid: Option<Wid>, now: Monotonic) {
        if self.wire.wid != wid {
            self.wire.wid = wid;
            self.say_otherwise(now);
        }
    }

    /// Schedules an early write of the Lease, because the offer has changed.
    fn say_otherwise(&mut self, now: Monotonic) {
        if self.wire.scale.is_some() {
            self.wire.is_stale = true;
            self.own.renew_now(now);
        }
    }

    /// Chooses the key in use: the newest that all living nodes on this node's segments accept.
    /// Nodes that take no part do not matter. Without such a key, or without a monitor of its own,
    /// this node takes no part.
    pub(crate) fn choose_wire_key(&mut self, now: Monotonic) {
        let is_there = |name: &NodeName| self.is_alive(name, now) && !self.paths(name).is_empty();
        let accepted = |key: &&KeyId| {
            self.partners().all(|(name, .., offer)| offer.keys.contains(key) || !is_there(name))
        };
        // A node that is about to leave answers pings until its Lease states it.
        let leaves = self.wire.is_mute(now) && !self.wire.heeds;
        let takes_part = self.wire.scale.is_some() && self.wire.wid.is_some() && !leaves;
        self.wire.key = self.wire.keys.iter().rev().find(accepted).filter(|_| takes_part).copied();
    }

    /// Returns this node's monitors, in the order of rendezvous hashing, so that all nodes share
    /// the pings. A voter stays while its agent restarts.
    fn to_invite(&self, key: KeyId, set: &[Wid], now: Monotonic) -> Vec<Wid> {
        let us = &self.settings.node;
        let is_able = |(name, _, _, offer): &(&NodeName, &Member, Session, &Offer)| {
            let is_there = self.renews(name, now) || set.contains(&offer.wid) && self.is_alive(name, now);
            offer.keys.contains(&key) && is_there && !self.paths(name).is_empty()
        };
        let mut able: Vec<_> = self.partners().filter(is_able).collect();
        able.sort_by_key(|(name, ..)| (Reverse(weight(name.as_str(), us.as_str().bytes())), *name));
        able.into_iter().map(|(.., offer)| offer.wid).take(MOST_INVITED).collect()
    }

    /// Returns the new voters. Present voters stay while they can, even if one does not ping just
    /// now: the others suffice. A new one must ping.
    fn set(&self, invited: &[Wid], before: &[Wid], m: usize, now: Monotonic) -> Vec<Wid> {
        let wire = &self.wire;
        if m == 1 {
            // A sole voter that gets no answers of this node could move everything.
            let counts = |wid: &&Wid| {
                wire.pings_steadily(**wid, now) || before.contains(wid) && wire.pings(**wid) != Some(false)
            };
            return invited.iter().filter(counts).take(1).copied().collect();
        }
        let kept = before.iter().filter(|wid| invited.contains(wid));
        let (pinging, quiet): (Vec<Wid>, Vec<Wid>) =
            kept.copied().partition(|wid| wire.pings(*wid) != Some(false));
        let new =
            invited.iter().filter(|wid| !before.contains(wid) && wire.pings(**wid) == Some(true)).copied();
        let chosen: Vec<Wid> = pinging.into_iter().chain(new).chain(quiet).take(m).collect();
        let new = chosen.iter().filter(|wid| !before.contains(wid));
        before.iter().filter(|wid| chosen.contains(wid)).chain(new).copied().collect()
    }

    /// Returns the offer for the next write of the Lease. `holds` is true if this node answers for a VIP.
    pub(crate) fn offer(&mut self, holds: bool, is_last: bool, now: Monotonic) -> Option<Offer> {
        let session = self.own.session().filter(|_| !is_last)?;
        let wid = self.wire.wid?;
        if self.wire.keys.is_empty() || !self.wire.may_offer(now) {
            self.wire.said = None;
            return None;
        }
        let in_lease = self.wire_in_lease().cloned();
        let before = match self.wire.said.take() {
            Some((known, offer)) if known == session => Some(offer),
            Some(_) | None => in_lease,
        };
        let (before_set, before_need, before_round) = match &before {
            Some(Offer { set, need, round, .. }) => (set.clone(), *need, *round),
            None => (Vec::new(), 0, 0),
        };
        let key = self.wire.key;
        let invited = key.map(|key| self.to_invite(key, &before_set, now)).unwrap_or_default();
        let (m, need) = quorum(self.on_segments(now));
        // The write that makes a session states `off`: no VIP is held in it yet.
        let may_count = holds && m > 0 && !self.wire.is_slow(now);
        let set = if may_count { self.set(&invited, &before_set, m, now) } else { Vec::new() };
        let (set, need) = if set.len() < m || set.is_empty() { (Vec::new(), 0) } else { (set, need) };
        let is_other = set != before_set || need != before_need;
        let offer = Offer {
            wid,
            mode: if set.is_empty() { Mode::Off } else { Mode::Notice },
            round: before_round.wrapping_add(u64::from(is_other)),
            invited,
            set,
            need,
            keys: self.wire.keys.clone(),
        };
        self.wire.said = Some((session, offer.clone()));
        self.wire.is_stale = true;
        Some(offer)
    }

    /// Returns the time for which this node lets each better candidate take a VIP first. Where the
    /// failure detector finds dead nodes early, the better candidate may be dead too, and no node
    /// knows yet.
    pub(crate) fn rank_delay(&self) -> Duration {
        let scale = self.wire.scale.filter(|_| self.wire.key.is_some());
        scale.map_or(RANK_DELAY, |scale| RANK_DELAY.min(scale.ping() * 2))
    }

    /// Returns the offer in this node's Lease, if the Lease is of its session. An earlier process may
    /// have written it.
    pub(super) fn wire_in_lease(&self) -> Option<&Offer> {
        let session = self.own.session()?;
        let lease = self.lease(&self.settings.node).filter(|lease| lease.session == Some(session))?;
        lease.wire.as_ref()
    }

    /// Returns the number of living other nodes that share a segment with this one.
    pub(crate) fn on_segments(&self, now: Monotonic) -> usize {
        self.others().filter(|(name, _)| self.is_alive(name, now) && !self.paths(name).is_empty()).count()
    }
}
