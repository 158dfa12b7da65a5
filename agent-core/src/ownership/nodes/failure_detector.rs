//! State of the failure detector: this node's keys, its monitors, and the offer in its Lease.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use serde::{Deserialize, Serialize};
use vipward_common::Policy;

use super::{contact::Contacts, suspects::Suspects};
use crate::{
    base::time::Monotonic,
    liveness::{Plan, Scale},
    ownership::settings::Settings,
    records::{KeyId, Offer, Session, Wid},
};

/// Time for which a sole monitor must have pinged before it is a voter again, in multiples of
/// [`Scale::one_way`].
const STEADY: u32 = 2;
/// Number of false positives, or of false expiry notices, after which only the Lease counts.
const MOST_FALSE: usize = 2;
/// Time within which so many of them must have come.
const FALSE_WITHIN: Duration = Duration::from_mins(10);
/// Time for which only the Lease counts after them.
const SLOW_FOR: Duration = Duration::from_hours(1);

/// Wire failover, as this node takes part in it.
#[derive(Debug)]
pub(crate) struct FailureDetector {
    /// The times. None if this node takes no part, by its policy (`stop`) or by the option.
    pub(crate) scale: Option<Scale>,
    pub(crate) wid: Option<Wid>,
    /// The keys that this node has, the newest last.
    pub(crate) keys: Vec<KeyId>,
    pub(crate) key: Option<KeyId>,
    /// The offer in the last write of the Lease, with the session of that write.
    pub(super) said: Option<(Session, Offer)>,
    /// For each monitor, true if it pings this node, and the time since which that is so.
    pinged: BTreeMap<Wid, (bool, Monotonic)>,
    pub(crate) contacts: Contacts,
    pub(crate) suspects: Suspects,
    /// The plan of the last command.
    pub(crate) plan: Plan,
    /// True if the plan may have to change.
    pub(crate) is_stale: bool,
    /// False positives. While they are too many, no monitor counts.
    moves: Falsehoods,
    /// False expiry notices. While they are too many, this node takes no part, and its program
    /// refuses all frames.
    ends: Falsehoods,
    /// True if the program has the keys, as far as this process knows. An earlier one may have given
    /// them.
    pub(super) heeds: bool,
    /// Time at which this process learned that another node has ended a session of it.
    pub(crate) expired_at: Option<Monotonic>,
    /// True if it was found unresponsive. Later answers show if this node lived.
    pub(super) is_to_judge: bool,
    pub(crate) counts: WireCounts,
}

/// Counts of wire failover since the start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct WireCounts {
    /// Sessions of other nodes that this node has expired as unresponsive.
    pub expired_by_wire: u64,
    /// Sessions that it has expired because their Leases were not renewed.
    pub expired_by_lease: u64,
    /// False positives: times that this node's session was expired although the node lived.
    pub false_moves: u64,
    /// False expiry notices for this node's sessions.
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
    /// Records another one. Returns their number if they are too many from now on.
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

impl FailureDetector {
    pub(crate) fn new(settings: &Settings) -> Self {
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
            expired_at: None,
            is_to_judge: false,
            counts: WireCounts::default(),
        }
    }

    /// Returns the offer in the last write of the Lease.
    pub(crate) fn said(&self) -> Option<&Offer> {
        self.said.as_ref().map(|(_, offer)| offer)
    }

    /// Records that a monitor pings this node, or no longer does. Returns true if the Lease must
    /// state at once that the monitor is no voter any more: it is the only one, and may be about to
    /// act.
    pub(crate) fn on_pinged(&mut self, by: Wid, lately: bool, now: Monotonic) -> bool {
        self.pinged.insert(by, (lately, now));
        !lately && self.said().is_some_and(|offer| offer.set == [by])
    }

    /// Applies another plan. The record of a monitor ends with its session. A voter with an ended
    /// session counts as one that does not ping. Returns true if the Lease must state it at once.
    pub(crate) fn set_plan(&mut self, plan: &Plan, now: Monotonic) -> bool {
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

    pub(crate) fn pings(&self, wid: Wid) -> Option<bool> {
        self.pinged.get(&wid).map(|(lately, _)| *lately)
    }

    /// Returns true if a monitor has pinged this node for a while.
    pub(super) fn pings_steadily(&self, wid: Wid, now: Monotonic) -> bool {
        let (Some(scale), Some((true, since))) = (self.scale, self.pinged.get(&wid)) else { return false };
        *since + scale.one_way() * STEADY <= now
    }

    /// Records a false positive. If only the Lease counts from now on, returns the number of false
    /// positives, and for how long.
    pub(super) fn on_false_move(&mut self, now: Monotonic) -> Option<(usize, Duration)> {
        self.counts.false_moves += 1;
        self.moves.add(now).map(|many| (many, SLOW_FOR))
    }

    /// Records a false expiry notice. If this node takes no part from now on, returns for how long.
    pub(crate) fn on_false_end(&mut self, now: Monotonic) -> Option<Duration> {
        self.counts.false_ends += 1;
        self.ends.add(now).map(|_| SLOW_FOR)
    }

    /// Returns the time until which only the Lease counts, after false positives or false expiry
    /// notices.
    pub(crate) fn slow_until(&self) -> Option<Monotonic> {
        self.moves.until.max(self.ends.until)
    }

    /// Returns true if this node takes no part because of false expiry notices.
    pub(crate) fn is_mute(&self, now: Monotonic) -> bool {
        self.ends.are_too_many(now)
    }

    /// Returns true if this node's Lease may have an offer.
    pub(crate) fn may_offer(&self, now: Monotonic) -> bool {
        self.scale.is_some() && self.wid.is_some() && !self.is_mute(now)
    }

    /// Records whether the program is to heed frames. Returns true if that changes.
    pub(crate) fn set_heeding(&mut self, heeds: bool) -> bool {
        self.is_stale |= self.heeds != heeds;
        std::mem::replace(&mut self.heeds, heeds) != heeds
    }

    /// Returns the time from which answers prove that this node's interfaces work: those to pings
    /// which it has sent after it was expired.
    pub(crate) fn answers_count_from(&self) -> Option<Monotonic> {
        Some(self.expired_at? + self.scale?.one_way())
    }

    pub(crate) fn is_slow(&self, now: Monotonic) -> bool {
        self.moves.are_too_many(now)
    }
}
