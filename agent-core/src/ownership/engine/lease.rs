//! Effects of this node's own Lease on its VIPs: the session begins, is renewed, or is over.

use std::{net::IpAddr, sync::Arc};

use vipward_common::{MacAddr, Policy};

use super::Engine;
use crate::{
    host::placement::Entry,
    ownership::{
        command::{Command, Fault, Notice},
        event::Outcome,
        limits::Doubt,
        nodes::{Beginning, LeaseDeadline, Verdict},
        times::{REFUSED_RETRY, RETRY},
        vip::{Tenure, Vip},
    },
    records::{LeaseRecord, Session},
};

impl Engine {
    /// Goes on with the pinned session, or begins another one. All objects have been listed.
    pub(super) fn begin(&mut self) {
        let record = self.nodes.lease(&self.nodes.settings.node).cloned();
        let renewal = self.nodes.settings.renewal;
        match self.nodes.own.begin(record, renewal, self.now) {
            Some(Beginning::GoesOn) => {
                self.update_peers();
                self.adopt_found();
            }
            Some(Beginning::Fresh) => self.begin_session(),
            Some(Beginning::Waits) | None => {}
        }
    }

    /// Adopts the pinned entries, in their session.
    fn adopt_found(&mut self) {
        for address in std::mem::take(&mut self.found.yielded) {
            if let Some(mut subject) = self.subject(address) {
                subject.adopt_own_claim();
            }
        }
        let deadline = self.found.deadline;
        for (address, entry) in std::mem::take(&mut self.found.entries) {
            match (self.subject(address), entry) {
                (Some(mut subject), entry) => subject.adopt(entry, deadline),
                (None, Entry::Foreign { .. }) => {}
                (None, Entry::Held | Entry::Handover { .. }) => self.set_entry_of_unknown(address, None),
            }
        }
    }

    /// Begins a new session. Entries that were pinned in another session are no longer held.
    fn begin_session(&mut self) {
        self.forsake_found();
        self.nodes.own.begin_session(self.now);
        self.doubt = Doubt::default();
        self.update_peers();
        self.evaluate_all();
    }

    /// Makes the pinned entries that answer foreign: they belong to another session.
    fn forsake_found(&mut self) {
        let answers_until = self.found.answers_until;
        let found = std::mem::take(&mut self.found.entries).into_iter();
        for (address, _) in found.filter(|(_, entry)| !matches!(entry, Entry::Foreign { .. })) {
            match self.subject(address) {
                Some(mut subject) => {
                    subject.record_answered(answers_until);
                    subject.set_foreign(MacAddr::ZERO);
                }
                None => self.set_entry_of_unknown(address, Some(Entry::Foreign { mac: MacAddr::ZERO })),
            }
        }
    }

    /// Commands the entry of an address that is no VIP as far as this node knows.
    fn set_entry_of_unknown(&mut self, vip: IpAddr, entry: Option<Entry>) {
        let home = self.nodes.home(vip, None).map(|home| Arc::clone(&home.name));
        self.command(Command::SetEntry { vip, entry, home });
    }

    /// Gives all VIPs up: another node has ended this node's session and may take them.
    fn end_session(&mut self) {
        if let Some(session) = self.nodes.own.session() {
            self.command(Command::Notify(Notice::SessionEnded { session }));
        }
        self.nodes.on_expired_here(self.now);
        self.let_go_of_all();
        self.begin_session();
    }

    fn addresses(&self, wanted: impl Fn(&Vip) -> bool) -> Vec<IpAddr> {
        self.vips.iter().filter(|(_, vip)| wanted(vip)).map(|(address, _)| *address).collect()
    }

    /// Stops answering for all VIPs. The session is over, and other nodes may take them.
    fn let_go_of_all(&mut self) {
        for address in self.addresses(Vip::is_answered) {
            let Some(mut subject) = self.subject(address) else { continue };
            subject.record_occupancy();
            subject.vip.tenure.stop_handover();
            let claim = subject.vip.claim.record.as_ref();
            let holder = claim.and_then(|claim| claim.state.holder());
            subject.set_foreign(holder.map_or(MacAddr::ZERO, |holder| holder.mac));
        }
        self.pacing.forget_offers();
        for vip in self.vips.values_mut() {
            vip.disown();
            vip.waiting.free = None;
        }
    }

    /// Gives everything up: another agent runs under this node's name.
    fn give_up(&mut self, session: Session) {
        self.forsake_found();
        self.let_go_of_all();
        self.nodes.own.give_up();
        self.command(Command::Notify(Notice::NotAlone { session }));
    }

    /// Renews the Lease and moves the lease deadline, if they are due.
    pub(super) fn tick_lease(&mut self) {
        if self.nodes.own.is_over() {
            return;
        }
        if self.nodes.own.may_succeed_another(self.now) {
            self.begin_session();
        }
        if self.nodes.own.must_renew(self.now) {
            self.renew();
        }
        if self.nodes.own.lease_deadline.beat() <= self.now {
            self.set_deadline();
        }
    }

    fn renew(&mut self) {
        let settings = &self.nodes.settings;
        // Other nodes count from a shorter lease as soon as it is written,
        // even if this node does not know that yet.
        let deadline = LeaseDeadline::good_until(settings, self.now, self.nodes.own.duration(settings));
        if self.nodes.own.lease_deadline.shorten(deadline) {
            self.set_deadline();
        }
        let is_last = self.gives_up_session();
        let holds = self.answers_for_any();
        let wire = self.nodes.offer(holds, is_last, self.now);
        if wire.is_some() && self.nodes.wire.set_heeding(true) {
            self.command(Command::SetHeeding(true));
        }
        let write = self.nodes.own.renew(&self.nodes.settings, wire, is_last, self.now);
        self.commands.extend(write.map(Command::WriteLease));
    }

    /// Returns true if this node holds a VIP, or hands one over.
    pub(super) fn answers_for_any(&self) -> bool {
        self.vips.values().any(|vip| vip.tenure != Tenure::Elsewhere)
    }

    fn set_deadline(&mut self) {
        let settings = &self.nodes.settings;
        // Before the first renewal, the pinned deadline stays, and only the grace period is extended.
        self.nodes.own.lease_deadline.put_off(self.now + settings.renewal);
        // Without a session there is no lease deadline to write.
        if let Some(session) = self.nodes.own.session_of_deadline() {
            let new_deadline =
                self.nodes.own.lease_deadline.command(settings, session, self.doubt.is_over(), self.now);
            self.command(Command::SetDeadline(new_deadline));
        }
    }

    /// Settles a VIP that was held through the grace period, if its claim names this node or this
    /// node has given it up. After the last one, moves the lease deadline and announces the VIPs
    /// that are still held.
    pub(super) fn clear_doubt(&mut self, address: IpAddr) {
        let vip = self.vips.get(&address);
        let is_in_doubt = vip.is_some_and(|vip| vip.is_in_doubt());
        let is_held = vip.is_some_and(|vip| vip.tenure.is_held());
        if is_in_doubt || !self.doubt.end(address, is_held) {
            return;
        }
        self.set_deadline();
        for vip in self.doubt.take_cleared() {
            self.command(Command::Announce { vip });
        }
        self.evaluate_all();
    }

    pub(super) fn on_own_lease_written(&mut self, outcome: Outcome<LeaseRecord>) {
        let Some(renewal) = self.nodes.own.end_renewal() else { return };
        let (now, is_over) = (self.now, self.was_ended());
        let own = &mut self.nodes.own;
        match outcome {
            Outcome::Done(record) if is_over => self.judge_own_lease(&record),
            Outcome::Done(record) => {
                let Some(renewed) = own.on_renewed(&self.nodes.settings, &renewal, record, now) else {
                    // The last write before the agent ends carries no session.
                    return self.on_last_lease();
                };
                if own.is_last(&self.nodes.settings, &renewal) {
                    self.on_last_lease();
                }
                if renewed.was_notified_falsely {
                    self.on_false_end(renewal.session());
                }
                if !renewal.has_offer() {
                    self.heed_none();
                }
                if renewed.had_lapsed {
                    self.distrust_what_was_held(renewed.went_back);
                }
                self.set_deadline();
                if renewed.is_valid_again {
                    self.evaluate_all();
                }
            }
            Outcome::Conflict => self.read_own_lease(),
            Outcome::Missing if own.lose() => self.on_own_lease_missing(),
            // Leases cannot be created at all: the namespace is missing.
            Outcome::Missing | Outcome::Refused(_) => own.renew_at(now + self.nodes.settings.renewal),
            Outcome::Unknown => own.renew_at(now + RETRY),
        }
    }

    /// Doubts the VIPs that this node held when its lease deadline passed. A renewal is about to
    /// move the deadline.
    fn distrust_what_was_held(&mut self, went_back: bool) {
        let policy = self.nodes.settings.policy;
        for address in self.addresses(|vip| vip.tenure.is_held()) {
            match policy {
                // The claims are believed, whatever their content, except if the store may have
                // gone back to older ones. Until all of them have been read, the program does not
                // get the new lease deadline, so it still gives way.
                Policy::Hold => {
                    let Some(vip) = self.vips.get_mut(&address) else { continue };
                    vip.disputed |= !went_back;
                    vip.requests.read_at_once();
                    self.disputes.forget(address);
                    self.doubt.begin(address);
                }
                // This node stays silent until it has written each claim again. After the lease
                // deadline, a user may have deleted a claim, and another node may have created it
                // anew without ending this node's session.
                Policy::Stop => {
                    let Some(mut subject) = self.subject(address) else { continue };
                    subject.set_foreign(MacAddr::ZERO);
                    subject.vip.let_go();
                    subject.vip.tenure.stop_handover();
                    subject.vip.requests.unread = true;
                }
            }
            self.queue.add(address);
        }
    }

    /// Writes the Lease again, because it is missing or blank. If another node
    /// had ended the session, the Lease would list it.
    fn restore_own_lease(&mut self, fault: Fault) {
        let what = self.nodes.settings.node.to_string();
        self.command(Command::Notify(Notice::Repaired { what, fault }));
        self.nodes.own.renew_at(self.now);
    }

    /// Creates the Lease again. It was deleted by hand, or is absent from the state to which the
    /// store went back. The watches do not show which.
    fn on_own_lease_missing(&mut self) {
        if self.was_ended() {
            return self.end_session();
        }
        self.restore_own_lease(Fault::Missing);
        self.doubt_what_is_known();
    }

    /// Returns true if another node has ended the session. The Lease may be gone since.
    fn was_ended(&self) -> bool {
        let own = &self.nodes.own;
        own.session().is_some_and(|session| own.has_ended(session)) && !self.gives_up_session()
    }

    /// Requests a new list of everything, and a read of the claim
    /// of each VIP that this node answers for or hands over.
    fn doubt_what_is_known(&mut self) {
        self.nodes.own.doubt_store();
        self.command(Command::ListAnew);
        for (address, vip) in self.vips.iter_mut().filter(|(_, vip)| vip.is_at_stake()) {
            vip.requests.read_at_once();
            self.queue.add(*address);
        }
    }

    pub(super) fn read_own_lease(&mut self) {
        self.nodes.own.begin_read();
        self.command(Command::ReadLease(self.nodes.settings.node.clone()));
    }

    pub(super) fn on_own_lease_read(&mut self, outcome: Outcome<LeaseRecord>) {
        self.nodes.own.end_read(self.now);
        match outcome {
            Outcome::Done(record) => self.judge_own_lease(&record),
            Outcome::Missing => {
                self.nodes.own.lose();
                self.on_own_lease_missing();
            }
            // The next renewal shows what happened.
            Outcome::Unknown | Outcome::Conflict => self.nodes.own.renew_at(self.now + RETRY),
            Outcome::Refused(_) => {
                let pause = REFUSED_RETRY.min(self.nodes.settings.renewal);
                self.nodes.own.renew_at(self.now + pause);
            }
        }
    }

    /// Applies this node's Lease, as another writer has left it.
    fn judge_own_lease(&mut self, record: &LeaseRecord) {
        let Some((went_back, verdict)) = self.nodes.own.judge(record) else { return };
        if went_back {
            // The Lease is older than an acknowledged one.
            self.command(Command::Notify(Notice::WentBack));
            self.doubt_what_is_known();
        }
        match verdict {
            Verdict::GoesOn => {}
            Verdict::Blank => self.restore_own_lease(Fault::Edited),
            Verdict::Ended if self.gives_up_session() => self.on_last_lease(),
            Verdict::Ended => self.end_session(),
            Verdict::Shared(session) => self.give_up(session),
        }
    }

    /// Applies this node's Lease from a watch, or its deletion. The watch may be behind, so it is
    /// only a reason to read the Lease.
    pub(super) fn on_own_lease_seen(&mut self, record: Option<&LeaseRecord>) {
        if let Some(other) = record.and_then(|record| self.nodes.own.meet(record)) {
            return self.give_up(other);
        }
        if self.nodes.own.must_read(record) {
            self.read_own_lease();
        }
        if let Some(record) = record {
            self.nodes.own.note_ended(record);
        }
    }
}
