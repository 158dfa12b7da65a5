//! This node's own Lease: its session, its renewals, and the lease deadline that they move.

use std::{collections::BTreeMap, time::Duration};

use vipward_common::MacAddr;

use super::lease_deadline::LeaseDeadline;
use crate::{
    base::time::Monotonic,
    ownership::{
        command::{Expected, LeaseWrite},
        event::{Found, StopReason},
        settings::Settings,
    },
    records::{LeaseRecord, MOST_ENDED, NodeInterface, Offer, Proxy, Session},
};

#[cfg(test)]
mod tests;

/// The least time between two early renewals for the proxy alone. A train of answers is one change.
const PROXY_PAUSE: Duration = Duration::from_millis(200);

#[derive(Clone, PartialEq, Eq, Debug)]
enum Life {
    /// No object has been read yet.
    Waiting,
    /// This node's Lease carries another session. If the owner of
    /// that session lives, it renews the Lease before this time.
    Doubtful { other: Session, until: Monotonic },
    /// This process renews the session.
    Living,
    /// Another agent runs under this node's name.
    Over,
}

/// A renewal under way.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Renewal {
    sent: Monotonic,
    session: Session,
    duration: Duration,
    interfaces: Vec<NodeInterface>,
    /// The last expiry notice for the session that came before the renewal was sent.
    notified: Option<u64>,
    /// True if the Lease then has an offer of wire failover.
    has_offer: bool,
}

impl Renewal {
    pub(crate) fn session(&self) -> Session {
        self.session
    }

    /// Returns true if the Lease then has an offer of wire failover.
    pub(crate) fn has_offer(&self) -> bool {
        self.has_offer
    }
}

/// First step of a process, after all objects have been listed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Beginning {
    GoesOn,
    /// The process needs a session of its own.
    Fresh,
    /// Another session may be alive. The process waits.
    Waits,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a finding of its own")]
pub(crate) struct Renewed {
    /// True if the lease deadline passed before.
    pub(crate) had_lapsed: bool,
    /// True if the lease deadline lies ahead again.
    pub(crate) is_valid_again: bool,
    /// True if the store may have gone back since the renewal before.
    pub(crate) went_back: bool,
    /// True if an expiry notice for the session was open.
    pub(crate) was_notified_falsely: bool,
}

/// Meaning of this node's Lease, as another writer has left it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    GoesOn,
    /// A user emptied the Lease.
    Blank,
    /// Another node has ended the session.
    Ended,
    /// Another agent runs under this node's name, in this session.
    Shared(Session),
}

/// Knowledge of this node about its own Lease.
#[derive(Debug)]
pub(crate) struct Own {
    life: Life,
    session: Option<Session>,
    ended: Vec<Session>,
    /// The Lease as this process last wrote or read it. Before that, the Lease as it was listed.
    record: Option<LeaseRecord>,
    /// True if the API server's store may have gone back to an older state since the last renewal.
    went_back: bool,
    renewal: Option<Renewal>,
    reading: bool,
    /// Time of the next renewal.
    next: Monotonic,
    /// The statement about the proxy in the last renewal, and the time from which a change may have one go out early.
    stated: (Option<Proxy>, Monotonic),
    pub(crate) lease_deadline: LeaseDeadline,
    /// Time since which each of this node's MACs has stood in the Lease.
    macs: BTreeMap<MacAddr, Monotonic>,
    /// This node's interfaces that VIPs can be on.
    pub(crate) interfaces: Vec<NodeInterface>,
    /// State of this node's service proxy. None: the `EndpointSlice`s alone count.
    pub(crate) proxy: Option<Proxy>,
    /// Reason why the agent is about to end, if it is.
    pub(crate) stop: Option<StopReason>,
    seed: u64,
}

impl Own {
    pub(crate) fn new(settings: &Settings, found: &Found, now: Monotonic) -> Self {
        Self {
            life: Life::Waiting,
            session: found.session,
            ended: Vec::new(),
            record: None,
            went_back: false,
            renewal: None,
            reading: false,
            next: now,
            stated: (None, now),
            lease_deadline: LeaseDeadline::found(found.deadline, found.notices_settled, now),
            macs: BTreeMap::new(),
            interfaces: Vec::new(),
            proxy: None,
            stop: None,
            seed: settings.seed,
        }
    }

    /// Returns true if there is a session in which VIPs can be held.
    pub(crate) fn lives(&self) -> bool {
        self.life == Life::Living
    }

    pub(crate) fn has_begun(&self) -> bool {
        match self.life {
            Life::Waiting | Life::Doubtful { .. } => false,
            Life::Living | Life::Over => true,
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.life == Life::Over
    }

    pub(crate) fn session(&self) -> Option<Session> {
        self.session.filter(|_| self.lives())
    }

    /// Returns the session in which the program may answer.
    /// At first it is the one that was found pinned.
    pub(crate) fn session_of_deadline(&self) -> Option<Session> {
        self.session
    }

    pub(crate) fn ended(&self) -> &[Session] {
        &self.ended
    }

    pub(crate) fn is_valid(&self, now: Monotonic) -> bool {
        self.lease_deadline.is_valid(now)
    }

    /// Returns true if the lease deadline lies ahead for the program too.
    pub(crate) fn has_given_deadline(&self, now: Monotonic) -> bool {
        self.lease_deadline.is_given(now)
    }

    /// Returns true if a renewal sent after `at` has succeeded.
    /// Then the session had not ended by `at`.
    pub(crate) fn is_renewed_since(&self, at: Monotonic) -> bool {
        self.lease_deadline.renewed_at().is_some_and(|renewed| renewed > at)
    }

    pub(crate) fn has_ended(&self, session: Session) -> bool {
        self.ended.contains(&session)
    }

    /// Returns true if other nodes are to take this node's VIPs.
    pub(crate) fn is_leaving(&self) -> bool {
        matches!(self.stop, Some(StopReason::Leave | StopReason::Uninstall))
    }

    /// Returns the time since which a MAC of this node has stood in the Lease.
    pub(super) fn mac_since(&self, mac: MacAddr) -> Option<Monotonic> {
        self.macs.get(&mac).copied()
    }

    pub(crate) fn is_renewing(&self) -> bool {
        self.renewal.is_some() || self.reading
    }

    /// Returns true if a renewal is due.
    pub(crate) fn must_renew(&self, now: Monotonic) -> bool {
        self.lives() && !self.is_renewing() && self.next <= now
    }

    pub(crate) fn renew_now(&mut self, now: Monotonic) {
        self.next = self.next.min(now);
    }

    /// Records the state of this node's service proxy, and has other nodes learn of a change early.
    /// Returns the state before.
    pub(crate) fn set_proxy(&mut self, proxy: Option<Proxy>, now: Monotonic) -> Option<Proxy> {
        let before = std::mem::replace(&mut self.proxy, proxy);
        self.state_proxy(now);
        before
    }

    /// Has other nodes learn of what the last renewal has not stated.
    fn state_proxy(&mut self, now: Monotonic) {
        if self.stated.0 != self.proxy.as_ref().map(Proxy::stated) {
            self.next = self.next.min(now.max(self.stated.1));
        }
    }

    /// Sets the time of the next renewal.
    pub(crate) fn renew_at(&mut self, next: Monotonic) {
        self.next = next;
    }

    /// Returns true if the time is over in which the owner of
    /// another session would have renewed it.
    pub(crate) fn may_succeed_another(&self, now: Monotonic) -> bool {
        matches!(self.life, Life::Doubtful { until, .. } if until <= now)
    }

    pub(crate) fn next_deadline(&self) -> Monotonic {
        let beat = self.lease_deadline.beat();
        match &self.life {
            Life::Over => Monotonic::from_nanos(u64::MAX),
            Life::Waiting => beat,
            Life::Doubtful { until, .. } => beat.min(*until),
            Life::Living if self.is_renewing() => beat,
            Life::Living => beat.min(self.next),
        }
    }

    /// Applies this node's Lease, as it was listed. Does nothing the second time.
    pub(crate) fn begin(
        &mut self,
        record: Option<LeaseRecord>,
        renewal: Duration,
        now: Monotonic,
    ) -> Option<Beginning> {
        if self.life != Life::Waiting {
            return None;
        }
        if let Some(record) = &record {
            self.ended.clone_from(&record.ended);
        }
        let in_lease = record.as_ref().and_then(|record| record.session);
        self.record = record;
        let found = self.session.filter(|session| !self.has_ended(*session));
        Some(match (found, in_lease) {
            // The found session has not ended. If the Lease does not carry it, a user emptied or
            // deleted the Lease.
            (Some(found), in_lease) if in_lease.is_none_or(|session| session == found) => {
                self.life = Life::Living;
                self.next = now;
                Beginning::GoesOn
            }
            (_, Some(other)) if !self.has_ended(other) => {
                self.life = Life::Doubtful { other, until: now + renewal * 2 };
                Beginning::Waits
            }
            (Some(_) | None, Some(_) | None) => Beginning::Fresh,
        })
    }

    /// Ends the session and the one in the Lease, and begins a new one.
    pub(crate) fn begin_session(&mut self, now: Monotonic) {
        let in_lease = self.record.as_ref().and_then(|record| record.session);
        for session in self.session.take().into_iter().chain(in_lease) {
            self.end(session);
        }
        self.session = Some(self.fresh_session());
        self.life = Life::Living;
        self.went_back = false;
        self.lease_deadline.reset();
        self.next = now;
    }

    /// Records that another agent runs under this node's name.
    pub(crate) fn give_up(&mut self) {
        self.life = Life::Over;
    }

    fn end(&mut self, session: Session) {
        if !self.ended.contains(&session) {
            self.ended.push(session);
        }
        let too_many = self.ended.len().saturating_sub(MOST_ENDED);
        self.ended.drain(..too_many);
    }

    /// Returns a new session. The seed makes it random.
    fn fresh_session(&mut self) -> Session {
        loop {
            self.seed = self.seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mixed = crate::base::address::mix(self.seed);
            if let Some(session) = Session::from_number(mixed).filter(|session| !self.has_ended(*session)) {
                return session;
            }
        }
    }

    /// Returns the validity of the next renewal.
    pub(crate) fn duration(&self, settings: &Settings) -> Duration {
        match self.stop {
            Some(StopReason::Restart) => settings.restart_lease,
            Some(StopReason::Leave | StopReason::Uninstall) | None => settings.lease,
        }
    }

    /// Begins a renewal with `wire` as the offer of wire failover. `is_last` ends the session. Returns
    /// none without a session.
    pub(crate) fn renew(
        &mut self,
        settings: &Settings,
        wire: Option<Offer>,
        is_last: bool,
        now: Monotonic,
    ) -> Option<LeaseWrite> {
        let session = self.session?;
        let duration = self.duration(settings);
        if is_last {
            self.end(session);
        }
        let interfaces = self.interfaces.clone();
        self.renewal = Some(Renewal {
            sent: now,
            session,
            duration,
            interfaces: interfaces.clone(),
            notified: self.lease_deadline.notified(),
            has_offer: wire.is_some(),
        });
        self.next = now + settings.renewal;
        let proxy = self.proxy.as_ref().map(Proxy::stated);
        if self.stated.0 != proxy {
            self.stated = (proxy.clone(), now + PROXY_PAUSE);
        }
        Some(LeaseWrite {
            node: settings.node.clone(),
            expected: self
                .record
                .as_ref()
                .map_or(Expected::Absent, |record| Expected::At(record.version.clone())),
            session: (!is_last).then_some(session),
            ended: self.ended.clone(),
            duration,
            interfaces,
            leaving: self.is_leaving(),
            wire,
            proxy,
        })
    }

    /// Returns the renewal whose outcome has come.
    pub(crate) fn end_renewal(&mut self) -> Option<Renewal> {
        self.renewal.take()
    }

    /// Applies a renewal that was written. Returns none if the Lease no longer carries this
    /// process's session.
    pub(crate) fn on_renewed(
        &mut self,
        settings: &Settings,
        renewal: &Renewal,
        record: LeaseRecord,
        now: Monotonic,
    ) -> Option<Renewed> {
        let is_ours = Some(renewal.session) == self.session && record.session == self.session;
        self.record = Some(record);
        if !is_ours {
            return None;
        }
        let (was_valid, had_lapsed) = (self.is_valid(now), self.lease_deadline.has_lapsed(now));
        let deadline = LeaseDeadline::good_until(settings, renewal.sent, renewal.duration);
        self.lease_deadline.renew(renewal.sent, deadline, now);
        // The API server accepted the renewal after it was sent, and so after the notice had come.
        if let Some(word) = renewal.notified {
            self.lease_deadline.settle(word, now);
        }
        self.macs.retain(|mac, _| renewal.interfaces.iter().any(|interface| interface.mac == *mac));
        for interface in &renewal.interfaces {
            self.macs.entry(interface.mac).or_insert(now);
        }
        if renewal.interfaces != self.interfaces {
            self.next = now;
        }
        self.state_proxy(now);
        Some(Renewed {
            had_lapsed,
            is_valid_again: !was_valid && self.is_valid(now),
            went_back: std::mem::take(&mut self.went_back),
            was_notified_falsely: renewal.notified.is_some(),
        })
    }

    /// Returns true if this is the last renewal before a restart.
    pub(crate) fn is_last(&self, settings: &Settings, renewal: &Renewal) -> bool {
        self.stop == Some(StopReason::Restart) && renewal.duration == settings.restart_lease
    }

    /// Records that the Lease is gone. Returns false if it was not there before either.
    pub(crate) fn lose(&mut self) -> bool {
        self.record.take().is_some()
    }

    /// Records that the store may have gone back to an older state.
    pub(crate) fn doubt_store(&mut self) {
        self.went_back = true;
    }

    /// Records that the Lease is being read.
    pub(crate) fn begin_read(&mut self) {
        self.reading = true;
    }

    /// Records that a read of the Lease is over. A renewal follows at once.
    pub(crate) fn end_read(&mut self, now: Monotonic) {
        self.reading = false;
        self.next = now;
    }

    /// Applies this node's Lease, as another writer has left it. Returns true if the store went
    /// back to an older one, and the verdict on the session. Returns none without a session.
    pub(crate) fn judge(&mut self, record: &LeaseRecord) -> Option<(bool, Verdict)> {
        let session = self.session()?;
        // Only the last ones are remembered.
        let is_ended = record.ended.contains(&session);
        self.note_ended(record);
        let mut carried = record.live_session();
        let known = self.record.replace(record.clone());
        let went_back = known.is_some_and(|known| record.version.is_older_than(&known.version));
        // In an older state, a session other than this one belongs to an earlier life.
        if went_back && let Some(earlier) = carried.take_if(|carried| *carried != session) {
            self.end(earlier);
        }
        let verdict = if is_ended || self.has_ended(session) {
            Verdict::Ended
        } else {
            match carried {
                // The other agent lives, even if this process was about to end it.
                Some(other) if other != session => Verdict::Shared(other),
                None if record.session.is_none() => Verdict::Blank,
                Some(_) | None => Verdict::GoesOn,
            }
        };
        Some((went_back, verdict))
    }

    /// Applies this node's Lease, as a watch shows it. Returns the session of another agent that
    /// renews it.
    pub(crate) fn meet(&mut self, record: &LeaseRecord) -> Option<Session> {
        let Life::Doubtful { other, .. } = self.life else { return None };
        // An older state is no sign of life: a list may come from a cache.
        let is_renewed =
            self.record.as_ref().is_none_or(|known| known.version.is_older_than(&record.version));
        if record.session == Some(other) && is_renewed {
            return Some(other);
        }
        self.record = Some(record.clone());
        None
    }

    /// Records the ended sessions that a watch shows. They stay ended, even if the Lease is gone
    /// before it is read.
    pub(crate) fn note_ended(&mut self, record: &LeaseRecord) {
        for ended in &record.ended {
            self.end(*ended);
        }
    }

    /// Returns true if the Lease must be read. A watch shows `record`, or none, and may be behind.
    pub(crate) fn must_read(&self, record: Option<&LeaseRecord>) -> bool {
        if !self.lives() || self.is_renewing() || self.lease_deadline.renewed_at().is_none() {
            return false;
        }
        let Some(record) = record else { return true };
        let is_known = self.record.as_ref().is_some_and(|known| known.version == record.version);
        !is_known && (record.session != self.session || record.ended != self.ended)
    }
}
