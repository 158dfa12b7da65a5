//! Wire failover, as this node takes part in it: its keys, its witnesses, and the offer in its Lease.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use vipward_common::Policy;

use super::{
    RANK_DELAY, Settings, contact::Contacts, eligibility::weight, member::Member, nodes::Nodes,
    silence::Suspects,
};
use crate::{
    base::time::Monotonic,
    liveness::{Plan, Scale},
    records::{KeyId, MOST_INVITED, Mode, NodeName, Offer, Session, Wid},
};

/// Time for which an only witness must have pinged before its word counts again, in times of
/// [`Scale::deaf`].
const STEADY: u32 = 2;
/// Number of false moves, or of false words that the session has ended, after which only the Lease counts.
const MOST_FALSE: usize = 2;
/// Time within which so many of them must have come.
const FALSE_WITHIN: Duration = Duration::from_mins(10);
/// Time for which only the Lease counts after them.
const SLOW_FOR: Duration = Duration::from_hours(1);

/// Wire failover, as this node takes part in it.
#[derive(Debug)]
pub(super) struct Witnesses {
    /// The times. None if this node takes no part: its policy is `stop`, or the option says so.
    pub(super) scale: Option<Scale>,
    pub(super) wid: Option<Wid>,
    /// The keys that this node has, the newest last.
    pub(super) keys: Vec<KeyId>,
    /// The key in use.
    pub(super) key: Option<KeyId>,
    /// The offer in the last write of the Lease, with the session of that write.
    said: Option<(Session, Offer)>,
    /// For each witness, true if it pings this node, and the time since which that is so.
    pinged: BTreeMap<Wid, (bool, Monotonic)>,
    pub(super) contacts: Contacts,
    pub(super) suspects: Suspects,
    /// The plan of the last command.
    pub(super) plan: Plan,
    /// True if the plan may have to change.
    pub(super) is_stale: bool,
    /// False moves. While they are too many, no witness counts.
    moves: Falsehoods,
    /// False words that the session has ended. While they are too many, this node takes no part, and its
    /// program refuses all frames.
    ends: Falsehoods,
    /// True if the program has the keys, as far as this process knows. An earlier one may have given
    /// them.
    heeds: bool,
    /// Time at which this process learned that another node has ended a session of it.
    pub(super) deposed_at: Option<Monotonic>,
    /// True if that was for silence on the wire, and answers will show if this node lived.
    pub(super) is_to_judge: bool,
    pub(super) counts: WireCounts,
}

/// Counts of wire failover since the start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WireCounts {
    /// Sessions of other nodes that this node has ended because they were silent on the wire.
    pub deposed_by_wire: u64,
    /// Sessions that it has ended because their Leases were silent.
    pub deposed_by_lease: u64,
    /// Times that this node's session was ended for silence although it lived.
    pub false_moves: u64,
    /// Times that a peer said that this node's session had ended, and it had not.
    pub false_ends: u64,
}

/// Things that must not happen, of one kind.
#[derive(Debug, Default)]
struct Falsehoods {
    /// The times of those lately.
    lately: VecDeque<Monotonic>,
    until: Option<Monotonic>,
}

impl Falsehoods {
    /// Takes in another one. Returns their number if they are too many from now on.
    fn add(&mut self, now: Monotonic) -> Option<usize> {
        self.lately.push_back(now);
        while self.lately.front().is_some_and(|at| *at + FALSE_WITHIN < now) {
            self.lately.pop_front();
        }
        if self.lately.len() < MOST_FALSE || self.are_too_many(now) {
            return None;
        }
        self.until = Some(now + SLOW_FOR);
        Some(self.lately.len())
    }

    /// Returns true if they were too many within the last hour.
    fn are_too_many(&self, now: Monotonic) -> bool {
        self.until.is_some_and(|until| now < until)
    }
}

impl Witnesses {
    pub(super) fn new(settings: &Settings) -> Self {
        Self {
            scale: settings.wire.filter(|_| settings.policy == Policy::Hold),
            wid: None,
            keys: Vec::new(),
            key: None,
            said: None,
            pinged: BTreeMap::new(),
            contacts: Contacts::default(),
            suspects: Suspects::default(),
            plan: Plan::default(),
            is_stale: false,
            moves: Falsehoods::default(),
            ends: Falsehoods::default(),
            heeds: true,
            deposed_at: None,
            is_to_judge: false,
            counts: WireCounts::default(),
        }
    }

    /// Returns the offer in the last write of the Lease.
    pub(super) fn said(&self) -> Option<&Offer> {
        self.said.as_ref().map(|(_, offer)| offer)
    }

    /// Takes in that a witness pings this node, or no longer does. Returns true if the Lease must say
    /// at once that the witness's word counts no more: it is the only one, and may be about to act.
    pub(super) fn on_pinged(&mut self, by: Wid, lately: bool, now: Monotonic) -> bool {
        self.pinged.insert(by, (lately, now));
        !lately && self.said().is_some_and(|offer| offer.set == [by])
    }

    /// Takes in another plan. What is known of a witness ends with its session, and a witness whose word
    /// counts is from then on one that does not ping. Returns true if the Lease must say so at once.
    pub(super) fn set_plan(&mut self, plan: &Plan, now: Monotonic) -> bool {
        let session =
            |plan: &Plan, wid| plan.peers.iter().find(|peer| peer.wid == wid).map(|peer| peer.session);
        let before = std::mem::replace(&mut self.plan, plan.clone());
        let goes_on = |wid: &Wid| session(plan, *wid).is_some_and(|now| session(&before, *wid) == Some(now));
        let over: Vec<Wid> = self.pinged.keys().filter(|wid| !goes_on(wid)).copied().collect();
        self.pinged.retain(|wid, _| goes_on(wid));
        self.suspects.keep(plan);
        let counts = |wid: &Wid| self.said().is_some_and(|offer| offer.set.contains(wid));
        let over: Vec<Wid> = over.into_iter().filter(counts).collect();
        let mut leaves = false;
        for wid in over {
            leaves |= self.on_pinged(wid, false, now);
        }
        leaves
    }

    pub(super) fn pings(&self, wid: Wid) -> Option<bool> {
        self.pinged.get(&wid).map(|(lately, _)| *lately)
    }

    /// Returns true if a witness has pinged this node for a while.
    fn pings_steadily(&self, wid: Wid, now: Monotonic) -> bool {
        let (Some(scale), Some((true, since))) = (self.scale, self.pinged.get(&wid)) else { return false };
        *since + scale.deaf() * STEADY <= now
    }

    /// Takes in that the session was ended for silence although this node lived. If only the Lease counts
    /// from now on, returns the number of such moves, and for how long.
    pub(super) fn on_false_move(&mut self, now: Monotonic) -> Option<(usize, Duration)> {
        self.counts.false_moves += 1;
        self.moves.add(now).map(|many| (many, SLOW_FOR))
    }

    /// Takes in that a peer has said that the session has ended, and it has not. If this node takes no
    /// part from now on, returns for how long.
    pub(super) fn on_false_end(&mut self, now: Monotonic) -> Option<Duration> {
        self.counts.false_ends += 1;
        self.ends.add(now).map(|_| SLOW_FOR)
    }

    /// Returns the time until which only the Lease counts, after false moves or false words.
    pub(super) fn slow_until(&self) -> Option<Monotonic> {
        self.moves.until.max(self.ends.until)
    }

    /// Returns true if this node takes no part because of false words that its session has ended.
    pub(super) fn is_mute(&self, now: Monotonic) -> bool {
        self.ends.are_too_many(now)
    }

    /// Returns true if this node's Lease may have an offer.
    pub(super) fn may_offer(&self, now: Monotonic) -> bool {
        self.scale.is_some() && self.wid.is_some() && !self.is_mute(now)
    }

    /// Takes in whether the program is to heed frames. Returns true if that changes.
    pub(super) fn set_heeding(&mut self, heeds: bool) -> bool {
        self.is_stale |= self.heeds != heeds;
        std::mem::replace(&mut self.heeds, heeds) != heeds
    }

    /// Returns the time from which answers prove that this node's interfaces work: those to pings
    /// which it has sent after it was deposed.
    pub(super) fn answers_count_from(&self) -> Option<Monotonic> {
        Some(self.deposed_at? + self.scale?.deaf())
    }

    pub(super) fn is_slow(&self, now: Monotonic) -> bool {
        self.moves.are_too_many(now)
    }
}

/// Returns the number of witnesses whose word counts, and how many of them must hear this node for its
/// session to last. `others` is the number of other nodes on the segments.
fn quorum(others: usize) -> (usize, usize) {
    match others {
        0 => (0, 0),
        1 => (1, 1),
        2 => (2, 1),
        3.. => (3, 2),
    }
}

impl Nodes {
    /// Returns the other nodes that take part, with their live sessions.
    pub(super) fn partners(&self) -> impl Iterator<Item = (&NodeName, &Member, Session, &Offer)> {
        self.others().filter_map(|(name, member)| {
            let offer = member.lease.as_ref()?.wire.as_ref()?;
            Some((name, member, member.session()?, offer))
        })
    }

    /// Chooses the key in use: the newest that all living nodes on this node's segments accept. Those that
    /// take no part do not matter. Without such a key, or without a witness of its own, this node takes
    /// no part.
    pub(super) fn choose_wire_key(&mut self, now: Monotonic) {
        let is_there = |name: &NodeName| self.is_alive(name, now) && !self.paths(name).is_empty();
        let accepted = |key: &&KeyId| {
            self.partners().all(|(name, .., offer)| offer.keys.contains(key) || !is_there(name))
        };
        // A node that is about to leave answers pings until its Lease says so.
        let leaves = self.wire.is_mute(now) && !self.wire.heeds;
        let takes_part = self.wire.scale.is_some() && self.wire.wid.is_some() && !leaves;
        self.wire.key = self.wire.keys.iter().rev().find(accepted).filter(|_| takes_part).copied();
    }

    /// Returns the nodes that this one asks to ping it, in the order of rendezvous hashing, so that the
    /// pings are shared among all nodes. A node whose word counts stays while its agent restarts.
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

    /// Returns the witnesses whose word is to count. Those that count already stay while they can, even
    /// if one does not ping just now: the others suffice. A new one must ping.
    fn set(&self, invited: &[Wid], before: &[Wid], m: usize, now: Monotonic) -> Vec<Wid> {
        let wire = &self.wire;
        if m == 1 {
            // An only witness that does not hear this node could move everything.
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
    pub(super) fn offer(&mut self, holds: bool, is_last: bool, now: Monotonic) -> Option<Offer> {
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
        // The write that makes a session says off: no VIP is held in it yet.
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

    /// Returns the time for which this node lets each better candidate take a VIP first. Where nodes are
    /// found dead sooner than their Leases tell, the better one may be dead too, and no node knows yet.
    pub(super) fn rank_delay(&self) -> Duration {
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
    pub(super) fn on_segments(&self, now: Monotonic) -> usize {
        self.others().filter(|(name, _)| self.is_alive(name, now) && !self.paths(name).is_empty()).count()
    }
}
