//! This node's own Lease: its session, its renewals, and the fence that they move.

use std::{collections::BTreeMap, time::Duration};

use vipward_common::{MacAddr, Policy};

use super::{
    CLOCKS_DIFFER, Command, Engine, Entry, Expected, Fenced, Found, LeaseWrite, Notice, Outcome,
    REFUSED_RETRY, RETRY, Settings, StopReason,
};
use crate::core::{
    cluster::{LeaseRecord, MOST_ENDED, NodeLink, Session},
    time::Monotonic,
};

/// How far this process is with its session.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Life {
    /// Nothing has been read yet.
    Waiting,
    /// Our Lease carries a session that is not ours: whoever has it renews before this, or is dead.
    Doubtful { other: Session, until: Monotonic },
    /// The session is ours to renew.
    Living,
    /// Another agent has our name.
    Over,
}

/// A renewal under way.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Renewal {
    sent: Monotonic,
    session: Session,
    duration: Duration,
    links: Vec<NodeLink>,
}

/// What this node knows about its own Lease.
#[derive(Debug)]
pub(super) struct Own {
    life: Life,
    session: Option<Session>,
    /// Sessions of this node that are over.
    ended: Vec<Session>,
    /// As last written or read by us, or as listed before that.
    record: Option<LeaseRecord>,
    /// Whether the session has been renewed in this life.
    renewed: bool,
    /// When the last renewal that succeeded was sent.
    last_sent: Monotonic,
    renewal: Option<Renewal>,
    reading: bool,
    next: Monotonic,
    /// The next beat that tells the program that we live, whatever the API server does.
    beat: Monotonic,
    deadline: Monotonic,
    /// The deadline that the program is told: an older one while it is in doubt what was held when the fence lapsed.
    told: Monotonic,
    /// Since when the fence has been valid without a break.
    valid_since: Option<Monotonic>,
    /// Since when our MACs have stood in the Lease.
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

    /// Whether there is a session that VIPs can be held in.
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

    /// When the last renewal of this life that succeeded was sent.
    pub(super) fn renewed_at(&self) -> Option<Monotonic> {
        self.renewed.then_some(self.last_sent)
    }

    /// Since when the fence has been valid without a break; none when it is not.
    pub(super) fn valid_since(&self, now: Monotonic) -> Option<Monotonic> {
        self.valid_since.filter(|_| self.renewed && now < self.deadline)
    }

    pub(super) fn is_valid(&self, now: Monotonic) -> bool {
        self.valid_since(now).is_some()
    }

    /// Whether a renewal that was sent after `at` has succeeded: the session had not been ended by then.
    pub(super) fn is_renewed_since(&self, at: Monotonic) -> bool {
        self.last_sent > at
    }

    pub(super) fn has_ended(&self, session: Session) -> bool {
        self.ended.contains(&session)
    }

    /// Since when a MAC of ours has stood in the Lease.
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

    /// A session that no other life has: random by its seed.
    fn fresh_session(&mut self) -> Session {
        loop {
            self.seed = self.seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mixed = crate::core::pace::mix(self.seed);
            if let Some(session) = Session::from_number(mixed).filter(|session| !self.has_ended(*session)) {
                return session;
            }
        }
    }
}

impl Engine {
    /// Everything has been listed: goes on with the session that was found, or begins another.
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
            // What was found has not been ended: a blank or missing Lease was edited by hand.
            (Some(found), in_lease) if in_lease.is_none_or(|session| session == found) => self.go_on(now),
            (_, Some(other)) if !self.own.has_ended(other) => {
                self.own.life = Life::Doubtful { other, until: now + self.settings.renewal * 2 };
            }
            (Some(_) | None, Some(_) | None) => self.begin_session(now),
        }
    }

    /// The session that was found is good.
    fn go_on(&mut self, now: Monotonic) {
        self.own.life = Life::Living;
        self.own.next = now;
        self.adopt_found(now);
    }

    /// A new life: what was pinned in another is nobody's.
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
        self.own.renewed = false;
        self.own.valid_since = None;
        self.own.deadline = Monotonic::default();
        self.doubted.clear();
        self.cleared.clear();
        self.own.next = now;
        self.all_dirty();
    }

    /// What is pinned goes on only in the session that it is of.
    fn forsake_found(&mut self) {
        for vip in std::mem::take(&mut self.found.entries).into_keys() {
            self.set_entry(vip, Some(Entry::Foreign { mac: MacAddr::ZERO }));
        }
    }

    /// Our session has been ended by another: what we held is theirs to take.
    pub(super) fn end_session(&mut self, now: Monotonic) {
        if let Some(session) = self.own.session {
            self.command(Command::Notify(Notice::SessionEnded { session }));
        }
        self.let_go_of_all();
        self.begin_session(now);
    }

    /// Renews, and tells the program that we live.
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
        // Others count from a shorter lease as soon as it is written, whether that is known here or not.
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

    /// Until when a renewal that was sent then is good.
    fn fence_deadline(&self, sent: Monotonic, duration: Duration) -> Monotonic {
        let margin = self.settings.margin.max(duration / CLOCKS_DIFFER);
        sent + duration.saturating_sub(margin + self.settings.clock_late)
    }

    fn set_fence(&mut self, now: Monotonic) {
        self.own.beat = now + self.settings.renewal;
        // Before anything is known, what is pinned is kept as it is, and kept alive.
        let session = self.own.session;
        if session.is_none() {
            return;
        }
        if self.doubted.is_empty() {
            self.own.told = self.own.deadline;
        }
        let deadline = self.own.told.min(self.own.deadline);
        self.command(Command::SetFence(Fenced {
            session,
            deadline,
            hold_until: self.own.deadline.max(now) + self.settings.hold_for,
        }));
    }

    /// What was held when the fence lapsed is known again: the fence is valid, and clients are told so.
    pub(super) fn doubt_no_more(&mut self, now: Monotonic) {
        self.set_fence(now);
        for vip in std::mem::take(&mut self.cleared) {
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
            // Leases cannot be made at all: the namespace is missing.
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
        // Found at the start, it may have lapsed long ago.
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
        if had_lapsed && self.settings.policy == Policy::Hold {
            self.read_what_was_held();
        }
        self.set_fence(now);
        if renewal.links != self.links {
            self.own.next = now;
        }
        if !was_valid && self.own.is_valid(now) {
            self.all_dirty();
        }
    }

    /// Somebody has deleted or blanked our Lease. While the fence is valid, nobody can have ended the session before that.
    fn on_own_lease_missing(&mut self, now: Monotonic) {
        if now < self.own.deadline {
            self.repaired(&self.settings.node.to_string());
            self.own.next = now;
        } else {
            self.end_session(now);
        }
    }

    fn read_own_lease(&mut self) {
        self.own.reading = true;
        self.command(Command::ReadLease(self.settings.node.clone()));
    }

    pub(super) fn on_own_lease_read(&mut self, outcome: Outcome<LeaseRecord>, now: Monotonic) {
        self.own.reading = false;
        self.own.next = now;
        match outcome {
            Outcome::Done(record) => self.judge_own_lease(record, now),
            Outcome::Missing => {
                self.own.record = None;
                self.on_own_lease_missing(now);
            }
            // The next renewal finds out.
            Outcome::Unknown | Outcome::Conflict => self.own.next = now + RETRY,
            Outcome::Refused(_) => self.own.next = now + REFUSED_RETRY.min(self.settings.renewal),
        }
    }

    /// Somebody else has written our Lease.
    fn judge_own_lease(&mut self, record: LeaseRecord, now: Monotonic) {
        let Some(session) = self.own.session.filter(|_| self.own.lives()) else { return };
        let carries = record.session.filter(|session| !record.ended.contains(session));
        let is_blank = record.session.is_none();
        for ended in &record.ended {
            self.own.end(*ended);
        }
        self.own.record = Some(record);
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
            // It lives, even if this process was about to end it.
            Some(other) => self.not_alone(other),
            None if is_blank => self.on_own_lease_missing(now),
            None => {}
        }
    }

    /// What the watch says about our own Lease may be old: it is only a reason to read it.
    pub(super) fn on_own_lease_seen(&mut self, record: &LeaseRecord) {
        match self.own.life {
            Life::Doubtful { other, .. } => {
                let known = self.own.record.as_ref().map(|record| &record.version);
                if record.session == Some(other) && known != Some(&record.version) {
                    self.not_alone(other);
                } else {
                    self.own.record = Some(record.clone());
                }
            }
            Life::Living if !self.own.is_renewing() && self.own.renewed => {
                let known = self.own.record.as_ref();
                let is_old = known.is_some_and(|known| {
                    known.version == record.version || record.version.is_older_than(&known.version)
                });
                if !is_old && (record.session != self.own.session || record.ended != self.own.ended) {
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

    pub(super) fn repaired(&mut self, what: &str) {
        self.command(Command::Notify(Notice::Repaired { what: what.to_owned() }));
    }
}
