//! The lease deadline of this node, as the renewals of its Lease have moved it.

use std::time::Duration;

use vipward_common::WireState;

use crate::{
    base::time::Monotonic,
    ownership::{command::NewDeadline, settings::Settings, times::CLOCKS_DIFFER},
    records::Session,
};

#[cfg(test)]
mod tests;

/// The lease deadline: the time until which this node may rely on its session.
#[derive(Debug)]
pub(crate) struct LeaseDeadline {
    deadline: Monotonic,
    /// The deadline that the program knows. It lags behind while the node reads the claims of the
    /// VIPs that it held through a grace period.
    commanded: Monotonic,
    /// Time since which the lease deadline has always been ahead.
    valid_since: Option<Monotonic>,
    /// Time at which this process sent its last successful renewal of the session.
    renewed: Option<Monotonic>,
    /// Time of the next sign of life to the program, whatever the API server does.
    beat: Monotonic,
    /// The number of the last expiry notice for this session. None if it is settled.
    notified: Option<u64>,
    /// One more than the number of the last settled notice; 0 for none.
    notices_settled: u64,
    /// Time at which a notice for this session was settled last.
    settled_at: Option<Monotonic>,
}

impl LeaseDeadline {
    /// Goes on with the pinned deadline, and the notices that it settles.
    pub(crate) fn found(deadline: Monotonic, notices_settled: u64, now: Monotonic) -> Self {
        Self {
            deadline,
            commanded: deadline,
            valid_since: None,
            renewed: None,
            beat: now,
            notified: None,
            notices_settled,
            settled_at: None,
        }
    }

    /// Returns the time until which a renewal is good. It was sent at `sent`.
    pub(crate) fn good_until(settings: &Settings, sent: Monotonic, duration: Duration) -> Monotonic {
        let margin = settings.margin.max(duration / CLOCKS_DIFFER);
        sent + duration.saturating_sub(margin + settings.clock_late)
    }

    /// Records the begin of a session, in which no renewal has succeeded.
    pub(super) fn reset(&mut self) {
        self.renewed = None;
        self.valid_since = None;
        self.deadline = Monotonic::default();
        self.notified = None;
        self.settled_at = None;
    }

    /// Records an expiry notice for the session. Returns true if the Lease is to be read at once.
    /// Otherwise the next renewal shows if the notice is true: an earlier one is not settled yet,
    /// or has just been found false.
    pub(crate) fn on_notified(&mut self, notice: u64, renewal: Duration, now: Monotonic) -> bool {
        if self.notices_settled == WireState::settled_by(notice) {
            return false;
        }
        let is_first = self.notified.replace(notice).is_none();
        is_first && self.settled_at.is_none_or(|at| at + renewal <= now)
    }

    /// Returns the number of the last expiry notice for the session, unless it is settled.
    pub(crate) fn notified(&self) -> Option<u64> {
        self.notified
    }

    /// Records that the session lived after this notice came. Later notices stand.
    pub(crate) fn settle(&mut self, notice: u64, now: Monotonic) {
        self.notices_settled = WireState::settled_by(notice);
        self.notified.take_if(|notified| *notified == notice);
        self.settled_at = Some(now);
    }

    /// Moves the deadline to an earlier time, because other nodes may
    /// count from a shorter lease. Returns true if that changed it.
    pub(crate) fn shorten(&mut self, deadline: Monotonic) -> bool {
        let is_shorter = deadline < self.deadline;
        if is_shorter {
            self.deadline = deadline;
        }
        is_shorter
    }

    /// Records a renewal, which was sent at `sent` and is good until `deadline`.
    pub(crate) fn renew(&mut self, sent: Monotonic, deadline: Monotonic, now: Monotonic) {
        let was_valid = self.is_valid(now);
        self.deadline = deadline;
        self.renewed = Some(sent);
        if !was_valid {
            self.valid_since = Some(now);
        }
    }

    /// Returns the lease deadline to be written. `may_move` is false if the program must not get a
    /// new deadline yet.
    pub(crate) fn command(
        &mut self,
        settings: &Settings,
        session: Session,
        may_move: bool,
        now: Monotonic,
    ) -> NewDeadline {
        if may_move {
            self.commanded = self.deadline;
        }
        NewDeadline {
            session: Some(session),
            deadline: self.commanded.min(self.deadline),
            grace_until: self.deadline.max(now) + settings.hold_for,
            notices_settled: self.notices_settled,
        }
    }

    pub(crate) fn deadline(&self) -> Monotonic {
        self.deadline
    }

    /// Returns the time at which this process sent its last successful renewal.
    pub(crate) fn renewed_at(&self) -> Option<Monotonic> {
        self.renewed
    }

    /// Returns the time since which the lease deadline has always been ahead. Returns none if it
    /// has passed.
    pub(super) fn valid_since(&self, now: Monotonic) -> Option<Monotonic> {
        self.valid_since.filter(|_| self.renewed.is_some() && now < self.deadline)
    }

    pub(crate) fn is_valid(&self, now: Monotonic) -> bool {
        self.valid_since(now).is_some()
    }

    /// Returns true if the lease deadline lies ahead, and was commanded. After an expiry notice,
    /// the program counts it as passed.
    pub(crate) fn is_given(&self, now: Monotonic) -> bool {
        self.is_valid(now) && now < self.commanded && self.notified.is_none()
    }

    /// Returns true if the deadline has passed. A pinned deadline may have passed long ago.
    pub(super) fn has_lapsed(&self, now: Monotonic) -> bool {
        self.deadline <= now
    }

    /// Returns the time of the next sign of life.
    pub(crate) fn beat(&self) -> Monotonic {
        self.beat
    }

    /// Puts the next sign of life off.
    pub(crate) fn put_off(&mut self, beat: Monotonic) {
        self.beat = beat;
    }
}
