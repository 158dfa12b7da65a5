//! Input about claims: their records, the outcomes of requests
//! about them, and the program's events.

use std::time::Duration;

use super::subject::Subject;
use crate::{
    base::time::Monotonic,
    host::placement::Entry,
    ownership::{
        command::{ClaimWrite, Command, Expected, Notice},
        event::{Outcome, Wire},
        nodes::Former,
        times::{REFUSED_RETRY, RETRY},
        vip::{Busy, Commanded, Handover, News, Tenure, Vip, Waiting},
    },
    records::{ClaimRecord, ClaimState, Holder},
};

impl Subject<'_> {
    /// Applies a claim from a list or a watch. It may be older than the claim that this process has
    /// read or written: a watch lags, and a list may come from the API server's cache. Where this
    /// node answers, it is only a reason to read the claim. Elsewhere it is believed, because every
    /// write is a compare-and-swap.
    pub(crate) fn on_claim(&mut self, record: ClaimRecord) {
        let known = self.vip.claim.record.as_mut().filter(|known| known.says_the_same(&record));
        if self.vip.requests.busy.is_some() {
            if let Some(known) = known {
                (known.uid, known.shows) = (record.uid.clone(), record.shows.clone());
            }
            return self.vip.requests.keep_news(News::Claim(record.into()));
        }
        if let Some(known) = known {
            *known = record;
            return;
        }
        // A watch may show the state before this node's own offer.
        let is_behind = self.vip.claim.epoch().is_some_and(|known| known > record.epoch);
        if self.vip.has_a_stake() || self.vip.tenure.handover().is_some() && is_behind {
            self.must_be_read();
        } else {
            self.take_claim(record);
        }
    }

    /// Records that a list or a watch no longer shows a claim. The same applies as in `on_claim`.
    pub(crate) fn on_claim_gone(&mut self) {
        if self.vip.requests.busy.is_some() {
            self.vip.requests.keep_news(News::Gone);
        } else if self.vip.claim.record.is_some() && self.vip.is_at_stake() {
            self.must_be_read();
        } else {
            self.lose_claim();
        }
    }

    fn must_be_read(&mut self) {
        self.vip.requests.unread = true;
        self.evaluate_again();
    }

    fn take_claim(&mut self, record: ClaimRecord) {
        self.vip.claim.accepted |= self.ends_handover(&record);
        if self.vip.tenure.is_held() {
            self.vip.claim.keep_cause(Some(&record));
        }
        let before = self.vip.claim.depends_on();
        let holder = match &record.state {
            ClaimState::Held(holder) => Some(holder.node.clone()),
            ClaimState::Offered { .. } | ClaimState::Released | ClaimState::Blank => None,
        };
        if self.vip.claim.update(record, self.now) {
            self.vip.waiting.free = None;
            self.disputes.forget(self.address);
            if let Some(member) = holder.and_then(|holder| self.nodes.member_mut(&holder)) {
                member.took = Some(self.now);
            }
        }
        self.evaluate_again();
        self.nodes.index_claim(self.address, &before, self.vip.claim.depends_on(), self.now);
        self.lead();
    }

    /// Has the VIPs that follow this one evaluated, if its holder has changed.
    pub(crate) fn lead(&mut self) {
        let together = self.vip.demand.as_ref().map_or(&[][..], |demand| &demand.together);
        let followers = together.iter().skip_while(|vip| **vip != self.address).skip(1);
        let claim = self.vip.claim.record.as_ref().filter(|_| followers.clone().next().is_some());
        let holder = claim.and_then(|claim| claim.state.holder()).map(|holder| &holder.node);
        if self.nodes.lead(self.address, holder) {
            self.queue.add_all(followers.copied());
        }
    }

    /// Returns true if a claim ends a handover from or to this node, even one whose offer this node
    /// has not seen.
    fn ends_handover(&self, record: &ClaimRecord) -> bool {
        let is_ours = matches!(record.state, ClaimState::Held(_)) && self.nodes.is_ours(&record.state);
        is_ours
            && self.vip.claim.record.as_ref().is_some_and(|known| {
                let is_party = matches!(known.state, ClaimState::Offered { .. })
                    && known.state.sessions().iter().any(|session| self.nodes.names_us(session));
                known.epoch < record.epoch || known.epoch == record.epoch && is_party
            })
    }

    fn lose_claim(&mut self) {
        if self.vip.tenure.is_held() {
            self.vip.claim.keep_cause(None);
        }
        let before = self.vip.claim.depends_on();
        if self.vip.claim.lose(self.vip.demand.is_some(), self.now) {
            self.disputes.forget(self.address);
            self.vip.waiting.free = None;
            self.evaluate_again();
            self.nodes.index_claim(self.address, &before, self.vip.claim.owners.clone(), self.now);
            self.lead();
        }
    }

    pub(crate) fn on_claim_read(&mut self, outcome: Outcome<ClaimRecord>) {
        self.vip.requests.end(&Busy::Read);
        self.evaluate_again();
        if matches!(outcome, Outcome::Done(_) | Outcome::Missing) {
            self.pacing.end_offer(self.address);
        }
        match outcome {
            Outcome::Done(record) => {
                if self.nodes.is_ours(&record.state) {
                    self.disputes.confirm(self.address);
                } else {
                    self.disputes.forget(self.address);
                }
                self.take_claim(record);
            }
            Outcome::Missing => self.lose_claim(),
            Outcome::Unknown | Outcome::Conflict => self.read_again(RETRY),
            Outcome::Refused(_) => self.read_again(REFUSED_RETRY),
        }
        self.look_at_news();
    }

    /// Schedules another read, because the last one has failed. A disputed read waits for its turn.
    fn read_again(&mut self, pause: Duration) {
        self.vip.requests.retry = self.now + pause;
        if self.disputes.fail(self.address, self.now) {
            self.vip.disputed = false;
        } else {
            self.vip.requests.unread = true;
        }
    }

    fn look_at_news(&mut self) {
        for news in self.vip.requests.take_news() {
            match news {
                News::Claim(record) => self.on_claim(*record),
                News::Gone => self.on_claim_gone(),
            }
        }
    }

    /// Applies the answer to a write.
    pub(crate) fn on_claim_written(&mut self, outcome: Outcome<ClaimRecord>) {
        let Some(busy) = self.vip.requests.busy.take() else { return };
        self.pacing.end_creating(self.address);
        self.evaluate_again();
        if outcome != Outcome::Unknown {
            self.pacing.end_offer(self.address);
        }
        match outcome {
            Outcome::Done(record) => {
                self.vip.claim.attempted |= matches!(busy, Busy::Hold(..));
                self.take_claim(record);
                match busy {
                    Busy::Hold(write, from) => self.on_held(&write, from),
                    Busy::Offer => self.vip.tenure.stop_holding(),
                    Busy::Update | Busy::Free | Busy::Delete | Busy::Read => {}
                }
            }
            Outcome::Conflict | Outcome::Missing | Outcome::Refused(_) => {
                // The offer was not written. This node goes on holding the VIP, unless a watch has shown
                // meanwhile that another node does.
                let is_anothers = busy == Busy::Offer && self.is_news_of_another_holder();
                if busy == Busy::Offer && self.vip.tenure.is_held() && self.is_valid() && !is_anothers {
                    self.vip.tenure.stop_handover();
                    self.set_entry(Some(Entry::Held));
                }
                let requests = &mut self.vip.requests;
                let is_refused = matches!(outcome, Outcome::Refused(_)) && !is_anothers;
                // Objects of this kind cannot be created at all.
                let is_unknown_kind =
                    outcome == Outcome::Missing && requests.rested_on == Some(Expected::Absent);
                requests.unread |= !is_refused;
                if is_refused || is_unknown_kind {
                    requests.retry = self.now + REFUSED_RETRY;
                }
            }
            Outcome::Unknown => {
                self.vip.requests.unread = true;
                self.vip.claim.attempted |= matches!(busy, Busy::Hold(..));
            }
        }
        self.look_at_news();
    }

    /// Returns true if the newest that a watch has shown since the request was sent is a later claim of
    /// another node.
    fn is_news_of_another_holder(&self) -> bool {
        let Some(News::Claim(record)) = self.vip.requests.last_news() else { return false };
        let is_later = self.vip.claim.epoch().is_none_or(|known| known < record.epoch);
        is_later && record.state.holder().is_some() && !self.nodes.is_ours(&record.state)
    }

    /// Makes this node the holder: this process has written a claim that names it.
    fn on_held(&mut self, write: &ClaimWrite, from: Option<Former>) {
        let session = write.state.holder().map(|holder| holder.session);
        if !self.is_valid() || session != self.nodes.own.session() {
            // The write counts only while the lease deadline lies ahead. It is repeated once that
            // is so again.
            self.vip.claim.attempted = true;
            return;
        }
        let is_news = self.vip.tenure == Tenure::Elsewhere;
        self.vip.tenure.hold(write.epoch);
        (self.vip.claim.attempted, self.vip.claim.accepted) = (false, false);
        self.vip.claim.cause = None;
        self.vip.waiting = Waiting::default();
        let is_disputed = std::mem::take(&mut self.vip.disputed);
        if is_disputed {
            // The program may have given the VIP away.
            self.vip.commanded = Commanded::Nothing;
        }
        if let Some((session, mac)) = from.as_ref().and_then(|former| former.to_notify).filter(|_| is_news) {
            self.command(Command::NotifyFormer { vip: self.address, session, mac });
        }
        self.set_entry(Some(Entry::Held));
        if is_disputed {
            self.announce();
        }
        if is_news {
            self.command(Command::Notify(Notice::Holds {
                vip: self.address,
                services: write.note.services.clone(),
                from: from.map(|former| former.node).filter(|from| *from != self.nodes.settings.node),
                cause: write.note.cause.clone(),
            }));
        }
    }

    /// Applies the answer to a deletion.
    pub(crate) fn on_claim_deleted(&mut self, outcome: &Outcome<()>) {
        let requests = &mut self.vip.requests;
        requests.end(&Busy::Delete);
        self.queue.add(self.address);
        match outcome {
            Outcome::Done(()) | Outcome::Missing => self.on_gone(),
            Outcome::Conflict | Outcome::Unknown => requests.unread = true,
            Outcome::Refused(_) => requests.retry = self.now + REFUSED_RETRY,
        }
        self.look_at_news();
    }

    /// Records that this node has deleted the claim. No other node answers for its VIP.
    fn on_gone(&mut self) {
        let Vip { claim: known, requests, .. } = &mut *self.vip;
        requests.forget_news_of(known.record.as_ref());
        self.lose_claim();
        let Vip { claim: known, requests, .. } = &mut *self.vip;
        known.unclear = None;
        // The last deletion was a moment ago. A foreign finalizer may
        // keep the object, so that a new one cannot be created yet.
        if known.deleted.is_some_and(|deleted| self.now < deleted + REFUSED_RETRY * 2) {
            // The retry comes before others may take the VIP for abandoned.
            requests.retry = self.now + RETRY * 4;
        }
        known.deleted = Some(self.now);
        let owners = std::mem::take(&mut known.owners);
        self.nodes.index_claim(self.address, &owners, Vec::new(), self.now);
    }

    /// Applies an event of the program.
    pub(crate) fn on_wire(&mut self, received: Wire) {
        let (Wire::Moved { mac } | Wire::Contested { mac } | Wire::Yielded { mac }) = received;
        self.vip.tenure.receive(mac, self.now);
        if self.vip.tenure == Tenure::Elsewhere {
            return;
        }
        match received {
            Wire::Moved { .. } if self.vip.tenure.handover().is_none() => return,
            Wire::Moved { .. } => {}
            // The program drops the frame, and this node goes on answering.
            Wire::Contested { .. } => return self.disputes.receive(self.address, self.now),
            Wire::Yielded { .. } => {
                self.disputes.forget(self.address);
                self.vip.disputed = self.vip.tenure.is_held();
                self.vip.requests.unread = true;
            }
        }
        self.evaluate_again();
    }

    /// Reads the claim of a contested VIP, to believe it.
    pub(crate) fn read_contested(&mut self) {
        if self.vip.tenure == Tenure::Elsewhere {
            return self.disputes.forget(self.address);
        }
        // A read for another reason serves as well, and is repeated in its own time.
        if !self.vip.requests.unread {
            self.disputes.begin(self.address);
            self.vip.requests.read_at_once();
        }
        self.vip.disputed |= self.vip.tenure.is_held();
        self.evaluate_again();
    }

    /// Adopts an entry that was found pinned, in its session. `deadline` is the lease deadline
    /// found.
    ///
    /// A silent entry at one of this node's own MACs is from a write of a claim: the process before
    /// this one ended before it got the answer.
    pub(crate) fn adopt(&mut self, entry: Entry, deadline: Monotonic) {
        let is_us = |holder: &Holder| self.nodes.is_us(&holder.node, holder.session);
        let claim = self.vip.claim.record.as_ref();
        match entry {
            Entry::Held => {
                // While the found lease deadline lies ahead, no other node can have taken the VIP.
                // If the claim names another holder, a user edited it while no agent ran here. The
                // VIP can be offered, though, by a write whose entry was lost.
                let is_good = self.now < deadline;
                let is_held = claim.is_none_or(|claim| match &claim.state {
                    ClaimState::Held(holder) => is_us(holder) || is_good,
                    ClaimState::Blank => true,
                    ClaimState::Released => is_good,
                    ClaimState::Offered { .. } => false,
                });
                if is_held {
                    self.vip.tenure.hold(self.vip.epoch());
                    self.set_entry(Some(Entry::Held));
                }
            }
            Entry::Foreign { mac } if self.is_own(mac) => return self.adopt_own_claim(),
            Entry::Foreign { .. } => return,
            Entry::Handover { mac, until } => {
                let named = claim.and_then(|claim| claim.state.holder());
                // If the claim still names this node, the offer was never written.
                let attempted = named.is_some_and(is_us);
                if let Some(to) = named.filter(|holder| holder.mac == mac).cloned() {
                    let offered = until.saturating_sub(self.nodes.handover_lasts()).min(self.now);
                    self.vip.tenure.offer(Handover::new(to, offered, until));
                    self.set_entry(Some(Entry::Handover { mac, until }));
                }
                self.vip.claim.attempted = attempted;
            }
        }
        self.evaluate_again();
    }

    /// Adopts a VIP for which the process before this one may have written a claim: the program has yielded
    /// it, or the answer did not come. If the claim names this node, that is no edit by hand.
    pub(crate) fn adopt_own_claim(&mut self) {
        let claim = self.vip.claim.record.as_ref();
        self.vip.claim.attempted = claim.is_some_and(|claim| {
            matches!(&claim.state, ClaimState::Held(holder)
                if self.nodes.is_us(&holder.node, holder.session))
        });
    }
}
