//! This node's own Lease: its session, its renewals, and the fence that they move.

use std::{collections::BTreeMap, time::Duration};

use vipward_common::{MacAddr, Policy};

use super::{
    CLOCKS_DIFFER, Command, Engine, Entry, Expected, Fault, Fenced, Found, LeaseWrite, Notice, Outcome,
    REFUSED_RETRY, RETRY, Settings, StopReason, doubt::Doubt,
};
use crate::{
    cluster::{LeaseRecord, MOST_ENDED, NodeInterface, Session},
    time::Monotonic,
};

/// The state of this process's session.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Life {
    /// No object has been read yet.
    Waiting,
    /// This node's Lease carries another session. The owner of that
    /// session renews it before this time, or is dead.
    Doubtful { other: Session, until: Monotonic },
    /// This process renews the session.
    Living,
    /// Another agent runs under this node's name.
    Over,
}

/// A renewal under way.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Renewal {
    sent: Monotonic,
    session: Session,
    duration: Duration,
    links: Vec<NodeInterface>,
}

/// Knowledge of this node about its own Lease.
#[derive(Debug)]
pub(super) struct Own {
    life: Life,
    session: Option<Session>,
    /// Sessions of this node that have ended.
    ended: Vec<Session>,
    /// The Lease as this process last wrote or read it. Before that, the Lease as it was listed.
    record: Option<LeaseRecord>,
    /// True if the API server's store may have gone back to an older state since the last renewal.
    went_back: bool,
    /// True if this process has renewed the session.
    renewed: bool,
    /// Time at which the last successful renewal was sent.
    last_sent: Monotonic,
    renewal: Option<Renewal>,
    reading: bool,
    next: Monotonic,
    /// Time of the next sign of life to the program, whatever the API server does.
    beat: Monotonic,
    deadline: Monotonic,
    /// The deadline that the program knows. It lags behind while the node reads the
    /// claims of VIPs that it held when the fence lapsed.
    told: Monotonic,
    /// Time since which the fence has been valid without a break.
    valid_since: Option<Monotonic>,
    /// Time since which each of this node's MACs has stood in the Lease.
    macs: BTreeMap<MacAddr, Monotonic>,
    seed: u64,
}

impl Own {
    pub(super) fn new(settings: &Settings, found: &Found, now: Monotonic) -> Self {
        Self {
            life: Life::Waiting,
            session: found.session,
            ended: Vec::new(),
            record: None,
            went_back: false,
            renewed: false,
            last_sent: Monotonic::default(),
            renewal: None,
            reading: false,
            next: now,
            beat: now,
            deadline: found.deadline,
            told: found.deadline,
            valid_since: None,
            macs: BTreeMap::new(),
            seed: settings.seed,
        }
    }

    /// Returns true if there is a session in which VIPs can be held.
    pub(super) fn lives(&self) -> bool {
        self.life == Life::Living
    }

    pub(super) fn has_begun(&self) -> bool {
        match self.life {
            Life::Waiting | Life::Doubtful { .. } => false,
            Life::Living | Life::Over => true,
        }
    }

    pub(super) fn session(&self) -> Option<Session> {
        self.session.filter(|_| self.lives())
    }

    pub(super) fn ended(&self) -> &[Session] {
        &self.ended
    }

    pub(super) fn deadline(&self) -> Monotonic {
        self.deadline
    }

    /// Returns the time at which this process sent its last successful renewal.
    pub(super) fn renewed_at(&self) -> Option<Monotonic> {
        self.renewed.then_some(self.last_sent)
    }

    /// Returns the time since which the fence has been valid without a
    /// break. Returns none if it is not valid.
    pub(super) fn valid_since(&self, now: Monotonic) -> Option<Monotonic> {
        self.valid_since.filter(|_| self.renewed && now < self.deadline)
    }

    pub(super) fn is_valid(&self, now: Monotonic) -> bool {
        self.valid_since(now).is_some()
    }

    /// Returns true if a renewal sent after `at` has succeeded.
    /// Then the session had not ended by `at`.
    pub(super) fn is_renewed_since(&self, at: Monotonic) -> bool {
        self.last_sent > at
    }

    pub(super) fn has_ended(&self, session: Session) -> bool {
        self.ended.contains(&session)
    }

    /// Returns the time since which a MAC of this node has stood in the Lease.
    pub(super) fn mac_since(&self, mac: MacAddr) -> Option<Monotonic> {
        self.macs.get(&mac).copied()
    }

    pub(super) fn is_renewing(&self) -> bool {
        self.renewal.is_some() || self.reading
    }

    pub(super) fn renew_now(&mut self, now: Monotonic) {
        self.next = self.next.min(now);
    }

    pub(super) fn next_deadline(&self) -> Monotonic {
        match &self.life {
            Life::Over => Monotonic::from_nanos(u64::MAX),
            Life::Waiting => self.beat,
            Life::Doubtful { until, .. } => self.beat.min(*until),
            Life::Living if self.is_renewing() => self.beat,
            Life::Living => self.beat.min(self.next),
        }
    }

    fn end(&mut self, session: Session) {
        if !self.ended.contains(&session) {
            self.ended.push(session);
        }
        let too_many = self.ended.len().saturating_sub(MOST_ENDED);
        self.ended.drain(..too_many);
    }

    /// Returns a new session. It is random by its seed.
    fn fresh_session(&mut self) -> Session {
        loop {
            self.seed = self.seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mixed = crate::pace::mix(self.seed);
            if let Some(session) = Session::from_number(mixed).filter(|session| !self.has_ended(*session)) {
                return session;
            }
        }
    }
}

impl Engine {
    /// Goes on with the pinned session, or begins another one. All objects have been listed.
    pub(super) fn begin(&mut self, now: Monotonic) {
        if self.own.life != Life::Waiting {
            return;
        }
        let record = self.members.get(&self.settings.node).and_then(|member| member.lease.clone());
        if let Some(record) = &record {
            self.own.ended.clone_from(&record.ended);
        }
        self.own.record.clone_from(&record);
        let in_lease = record.as_ref().and_then(|record| record.session);
        let found = self.own.session.filter(|session| !self.own.has_ended(*session));
        match (found, in_lease) {
            // The found session has not ended: somebody emptied or deleted the Lease by hand.
            (Some(found), in_lease) if in_lease.is_none_or(|session| session == found) => self.go_on(now),
            (_, Some(other)) if !self.own.has_ended(other) => {
                self.own.life = Life::Doubtful { other, until: now + self.settings.renewal * 2 };
            }
            (Some(_) | None, Some(_) | None) => self.begin_session(now),
        }
    }

    /// Goes on with the pinned session.
    fn go_on(&mut self, now: Monotonic) {
        self.own.life = Life::Living;
        self.own.next = now;
        self.peers_may_have_changed();
        self.adopt_found(now);
    }

    /// Begins a new session. Entries that were pinned in another session are no longer held.
    fn begin_session(&mut self, now: Monotonic) {
        self.forsake_found();
        if let Some(session) = self.own.session.take() {
            self.own.end(session);
        }
        if let Some(session) = self.own.record.as_ref().and_then(|record| record.session) {
            self.own.end(session);
        }
        let session = self.own.fresh_session();
        self.own.session = Some(session);
        self.own.life = Life::Living;
        self.own.went_back = false;
        self.own.renewed = false;
        self.own.valid_since = None;
        self.own.deadline = Monotonic::default();
        self.doubt = Doubt::default();
        self.own.next = now;
        self.peers_may_have_changed();
        self.all_dirty();
    }

    /// Makes the pinned entries foreign: they belong to another session.
    fn forsake_found(&mut self) {
        for vip in std::mem::take(&mut self.found.entries).into_keys() {
            self.set_entry(vip, Some(Entry::Foreign { mac: MacAddr::ZERO }));
        }
    }

    /// Gives all VIPs up: another node has ended this node's session and may take them.
    pub(super) fn end_session(&mut self, now: Monotonic) {
        if let Some(session) = self.own.session {
            self.command(Command::Notify(Notice::SessionEnded { session }));
        }
        self.let_go_of_all();
        self.begin_session(now);
    }

    /// Renews the Lease and moves the fence, if they are due.
    pub(super) fn tick_lease(&mut self, now: Monotonic) {
        if self.own.life == Life::Over {
            return;
        }
        if let Life::Doubtful { until, .. } = self.own.life
            && until <= now
        {
            self.begin_session(now);
        }
        if self.own.lives() && !self.own.is_renewing() && self.own.next <= now {
            self.renew(now);
        }
        if self.own.beat <= now {
            self.set_fence(now);
        }
    }

    fn renew(&mut self, now: Monotonic) {
        let Some(session) = self.own.session else { return };
        let duration = match self.stop_reason() {
            Some(StopReason::Restart) => self.settings.restart_lease,
            Some(StopReason::Leave | StopReason::Uninstall) | None => self.settings.lease,
        };
        // Other nodes count from a shorter lease as soon as it is written,
        // even if this node does not know that yet.
        let deadline = self.fence_deadline(now, duration);
        if deadline < self.own.deadline {
            self.own.deadline = deadline;
            self.set_fence(now);
        }
        let is_last = self.gives_up_session();
        let write = LeaseWrite {
            node: self.settings.node.clone(),
            expected: self
                .own
                .record
                .as_ref()
                .map_or(Expected::Absent, |record| Expected::At(record.version.clone())),
            session: (!is_last).then_some(session),
            ended: {
                if is_last {
                    self.own.end(session);
                }
                self.own.ended.clone()
            },
            duration,
            links: self.links.clone(),
            leaving: self.is_leaving(),
        };
        self.own.renewal = Some(Renewal { sent: now, session, duration, links: self.links.clone() });
        self.own.next = now + self.settings.renewal;
        self.command(Command::WriteLease(write));
    }

    /// Returns the time until which a renewal is good. It was sent at `sent`.
    fn fence_deadline(&self, sent: Monotonic, duration: Duration) -> Monotonic {
        let margin = self.settings.margin.max(duration / CLOCKS_DIFFER);
        sent + duration.saturating_sub(margin + self.settings.clock_late)
    }

    fn set_fence(&mut self, now: Monotonic) {
        self.own.beat = now + self.settings.renewal;
        // Before the first renewal, the pinned deadline stays, and only holding over is extended.
        // Without a session there is no fence to write.
        let session = self.own.session;
        if session.is_none() {
            return;
        }
        if self.doubt.is_over() {
            self.own.told = self.own.deadline;
        }
        let deadline = self.own.told.min(self.own.deadline);
        self.command(Command::SetFence(Fenced {
            session,
            deadline,
            hold_until: self.own.deadline.max(now) + self.settings.hold_for,
        }));
    }

    /// Moves the fence and announces. All claims of VIPs that were
    /// held when the fence lapsed have been read.
    pub(super) fn doubt_no_more(&mut self, now: Monotonic) {
        self.set_fence(now);
        for vip in self.doubt.take_cleared() {
            self.command(Command::Announce { vip });
        }
        self.all_dirty();
    }

    pub(super) fn on_own_lease_written(&mut self, outcome: Outcome<LeaseRecord>, now: Monotonic) {
        let Some(renewal) = self.own.renewal.take() else { return };
        match outcome {
            Outcome::Done(record) => self.on_renewed(&renewal, record, now),
            Outcome::Conflict => self.read_own_lease(),
            Outcome::Missing if self.own.record.take().is_some() => self.on_own_lease_missing(now),
            // Leases cannot be created at all: the namespace is missing.
            Outcome::Missing | Outcome::Refused(_) => self.own.next = now + self.settings.renewal,
            Outcome::Unknown => self.own.next = now + RETRY,
        }
    }

    fn on_renewed(&mut self, renewal: &Renewal, record: LeaseRecord, now: Monotonic) {
        let is_ours = Some(renewal.session) == self.own.session && record.session == self.own.session;
        self.own.record = Some(record);
        let reason = self.stop_reason();
        if !is_ours {
            if reason.is_some() {
                self.on_last_lease();
            }
            return;
        }
        if reason == Some(StopReason::Restart) && renewal.duration == self.settings.restart_lease {
            self.on_last_lease();
        }
        let was_valid = self.own.is_valid(now);
        // A fence that was found at the start may have lapsed long ago.
        let had_lapsed = self.own.deadline <= now;
        if had_lapsed && self.settings.policy == Policy::Stop {
            self.silence_what_was_held();
        }
        self.own.deadline = self.fence_deadline(renewal.sent, renewal.duration);
        self.own.renewed = true;
        self.own.last_sent = renewal.sent;
        if !was_valid {
            self.own.valid_since = Some(now);
        }
        self.own.macs.retain(|mac, _| renewal.links.iter().any(|link| link.mac == *mac));
        for link in &renewal.links {
            self.own.macs.entry(link.mac).or_insert(now);
        }
        let went_back = std::mem::take(&mut self.own.went_back);
        if had_lapsed && self.settings.policy == Policy::Hold {
            self.read_what_was_held(went_back);
        }
        self.set_fence(now);
        if renewal.links != self.links {
            self.own.next = now;
        }
        if !was_valid && self.own.is_valid(now) {
            self.all_dirty();
        }
    }

    /// Writes the Lease again, because it is missing or blank. If another node
    /// had ended the session, the Lease would list it.
    fn restore_own_lease(&mut self, fault: Fault, now: Monotonic) {
        self.repaired(&self.settings.node.to_string(), fault);
        self.own.next = now;
    }

    /// Creates the Lease again. It was deleted by hand, or is absent from the state to which the
    /// store went back. The watches do not show which.
    fn on_own_lease_missing(&mut self, now: Monotonic) {
        self.restore_own_lease(Fault::Missing, now);
        self.doubt_what_is_known();
    }

    /// Takes in that the store went back: this node's Lease is older than an acknowledged one.
    fn on_went_back(&mut self) {
        self.command(Command::Notify(Notice::WentBack));
        self.doubt_what_is_known();
    }

    /// Requests that everything is listed anew, and that the claims of all
    /// VIPs are read for which this node answers.
    fn doubt_what_is_known(&mut self) {
        self.own.went_back = true;
        self.command(Command::ListAnew);
        self.read_what_is_at_stake();
    }

    fn read_own_lease(&mut self) {
        self.own.reading = true;
        self.command(Command::ReadLease(self.settings.node.clone()));
    }

    pub(super) fn on_own_lease_read(&mut self, outcome: Outcome<LeaseRecord>, now: Monotonic) {
        self.own.reading = false;
        self.own.next = now;
        match outcome {
            Outcome::Done(record) => self.judge_own_lease(&record, now),
            Outcome::Missing => {
                self.own.record = None;
                self.on_own_lease_missing(now);
            }
            // The next renewal shows what happened.
            Outcome::Unknown | Outcome::Conflict => self.own.next = now + RETRY,
            Outcome::Refused(_) => self.own.next = now + REFUSED_RETRY.min(self.settings.renewal),
        }
    }

    /// Takes in this node's Lease, as another writer has left it.
    fn judge_own_lease(&mut self, record: &LeaseRecord, now: Monotonic) {
        let Some(session) = self.own.session.filter(|_| self.own.lives()) else { return };
        let is_blank = record.session.is_none();
        for ended in &record.ended {
            self.own.end(*ended);
        }
        let mut carries = record.session.filter(|session| !record.ended.contains(session));
        let known = self.own.record.replace(record.clone());
        if known.is_some_and(|known| record.version.is_older_than(&known.version)) {
            // A session other than this one belongs to an earlier life.
            if let Some(earlier) = carries.take_if(|carried| *carried != session) {
                self.own.end(earlier);
            }
            self.on_went_back();
        }
        if self.own.has_ended(session) {
            if self.gives_up_session() {
                self.on_last_lease();
            } else {
                self.end_session(now);
            }
            return;
        }
        match carries {
            Some(carried) if carried == session => {}
            // The other agent lives, even if this process was about to end it.
            Some(other) => self.not_alone(other),
            None if is_blank => self.restore_own_lease(Fault::Edited, now),
            None => {}
        }
    }

    /// Takes in this node's Lease, as a watch shows it. It may be old,
    /// so it is only a reason to read the Lease.
    pub(super) fn on_own_lease_seen(&mut self, record: &LeaseRecord) {
        match self.own.life {
            Life::Doubtful { other, .. } => {
                // An older state is no sign of life: a list may come from a cache.
                let known = self.own.record.as_ref();
                let is_renewed = known.is_none_or(|known| known.version.is_older_than(&record.version));
                if record.session == Some(other) && is_renewed {
                    self.not_alone(other);
                } else {
                    self.own.record = Some(record.clone());
                }
            }
            Life::Living if !self.own.is_renewing() && self.own.renewed => {
                let known = self.own.record.as_ref();
                let is_known = known.is_some_and(|known| known.version == record.version);
                if !is_known && (record.session != self.own.session || record.ended != self.own.ended) {
                    self.read_own_lease();
                }
            }
            Life::Waiting | Life::Living | Life::Over => {}
        }
    }

    pub(super) fn on_own_lease_gone(&mut self) {
        if self.own.lives() && !self.own.is_renewing() && self.own.renewed {
            self.read_own_lease();
        }
    }

    fn not_alone(&mut self, session: Session) {
        self.forsake_found();
        self.let_go_of_all();
        self.own.life = Life::Over;
        self.command(Command::Notify(Notice::NotAlone { session }));
    }

    pub(super) fn repaired(&mut self, what: &str, fault: Fault) {
        self.command(Command::Notify(Notice::Repaired { what: what.to_owned(), fault }));
    }
}
