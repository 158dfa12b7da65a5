//! The pings of one peer, and the verdict on their answers.

use std::{collections::VecDeque, time::Duration};

use crate::{
    base::time::Boottime,
    liveness::{Scale, Sight, Traffic},
    records::Session,
};

/// Least number of unanswered pings of an unresponsive holder.
const LEAST_PINGS: usize = 6;

#[derive(Debug)]
pub(super) struct Pings {
    /// Pings after the last answered one, the newest last.
    waiting: VecDeque<Boottime>,
    /// Time of the last ping, and true if a missing answer to it counts.
    last: Option<(Boottime, bool)>,
    /// Time since which no ping was late. A monitor that was itself late begins anew.
    in_time_since: Boottime,
    /// Time of the newest ping that was answered. None before the first answer to this process: a slot
    /// of the maps may have had another owner.
    answered: Option<Boottime>,
    round_trip: Option<Duration>,
    begun: Boottime,
    sent: u64,
    lost: u64,
}

impl Pings {
    pub(super) fn new(now: Boottime) -> Self {
        Self {
            waiting: VecDeque::new(),
            last: None,
            in_time_since: now,
            answered: None,
            round_trip: None,
            begun: now,
            sent: 0,
            lost: 0,
        }
    }

    /// Records the answers over one of the ways. An answer over any of them counts.
    pub(super) fn update(&mut self, sight: Sight) {
        if sight.answered < self.begun || Some(sight.answered) <= self.answered {
            return;
        }
        self.answered = Some(sight.answered);
        self.round_trip = Some(sight.received.saturating_since(sight.answered));
        while self.waiting.front().is_some_and(|ping| *ping <= sight.answered) {
            self.waiting.pop_front();
        }
    }

    fn counts_since(&self) -> Boottime {
        self.answered.unwrap_or_default().max(self.in_time_since)
    }

    pub(super) fn next(&self, is_watched: bool, scale: Scale) -> Boottime {
        let Some((last, _)) = self.last else { return self.begun };
        if !is_watched {
            return last + scale.contact_ping();
        }
        let since = self.counts_since();
        // A holder that stays unresponsive is pinged as before: each node that can act has acted.
        if last >= since + scale.one_way() {
            return last + scale.ping();
        }
        (last + scale.ping()).min((last + scale.urgent_ping()).max(since + scale.urgent_after()))
    }

    pub(super) fn is_due(&self, is_watched: bool, scale: Scale, now: Boottime) -> bool {
        self.next(is_watched, scale) <= now
    }

    /// Records that a ping leaves. A gap voids all suspicion. Returns true if the ping is late and
    /// so leaves a gap.
    pub(super) fn ping(&mut self, is_watched: bool, scale: Scale, now: Boottime) -> bool {
        let before = self.last.replace((now, is_watched));
        let has_gap = before.is_none_or(|(last, _)| now.saturating_since(last) > scale.own_gap());
        if has_gap {
            self.in_time_since = now;
        }
        self.sent += 1;
        self.waiting.push_back(now);
        while self.waiting.front().is_some_and(|ping| now.saturating_since(*ping) > scale.one_way()) {
            self.waiting.pop_front();
            self.lost += 1;
        }
        has_gap && is_watched && before.is_some_and(|(_, was_watched)| was_watched)
    }

    pub(super) fn lost(&self) -> u64 {
        self.lost
    }

    /// Begins to count missing answers anew: those so far may be this node's own fault.
    pub(super) fn begin_anew(&mut self, now: Boottime) {
        self.in_time_since = now;
    }

    /// Returns true if the peer is unresponsive. A peer that has never answered is not: the reason
    /// may be this node.
    pub(super) fn is_unresponsive(&self, scale: Scale, now: Boottime) -> bool {
        let since = self.counts_since();
        let pings = self.waiting.iter().filter(|ping| **ping > since).count();
        self.answered.is_some()
            && now.saturating_since(since) >= scale.suspect()
            && pings >= LEAST_PINGS
            && self.last.is_some_and(|(last, _)| now.saturating_since(last) < scale.own_gap())
    }

    /// Returns the time from which the peer may count as unresponsive.
    pub(super) fn unresponsive_at(&self, scale: Scale) -> Option<Boottime> {
        self.answered.map(|_| self.counts_since() + scale.suspect())
    }

    pub(super) fn traffic(&self, session: Session, now: Boottime) -> Traffic {
        Traffic {
            session: session.to_string(),
            answered_seconds_ago: self.answered.map(|answered| now.saturating_since(answered).as_secs_f64()),
            round_trip_seconds: self.round_trip.map(|took| took.as_secs_f64()),
            sent: self.sent,
            lost: self.lost,
        }
    }
}
