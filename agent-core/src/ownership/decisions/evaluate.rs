//! Decision about the next step for one VIP, from its claim, its Services and the time.

use vipward_common::MacAddr;

use super::subject::{Again, Subject};
use crate::{
    base::time::Monotonic,
    host::placement::Entry,
    ownership::{
        command::{Command, Fault},
        event::StopReason,
        times::RETRY,
        vip::Commanded,
    },
    records::{ClaimRecord, ClaimState, Epoch, Holder},
};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Next {
    /// The VIP is evaluated again at this time, or when something changes.
    Wait(Again),
    /// The VIP has neither a Service nor a claim.
    Forget,
}

impl Subject<'_> {
    /// Takes the next step for the VIP, from everything that is known about it.
    pub(crate) fn evaluate(&mut self) -> Next {
        self.record_occupancy();
        let next = self.decide();
        self.record_occupancy();
        let is_successor = next != Next::Forget && self.is_successor();
        if std::mem::replace(&mut self.vip.is_successor, is_successor) != is_successor {
            self.command(Command::SetSuccessor { vip: self.address, receives: is_successor });
        }
        next
    }

    /// Returns true if another node holds the VIP, and this one comes first without it.
    fn is_successor(&self) -> bool {
        let (Some(claim), Some(demand)) = (&self.vip.claim.record, &self.vip.demand) else { return false };
        let us = &self.nodes.settings.node;
        let holder = claim.state.holder().map(|holder| &holder.node).filter(|holder| *holder != us);
        let Some(holder) = holder.filter(|_| self.address.is_ipv6()) else { return false };
        let candidates = self.nodes.candidates(self.address, demand, self.now);
        let first = candidates.iter().find(|candidate| candidate.holder.node != *holder);
        first.is_some_and(|first| first.holder.node == *us)
    }

    fn decide(&mut self) -> Next {
        if self.nodes.own.stop == Some(StopReason::Uninstall) {
            self.withdraw();
        }
        if self.vip.demand.is_none() && !self.vip.is_at_stake() && self.vip.is_guarded() {
            // The address may be this host's own. No answer of the API server matters to that.
            self.set_entry(None);
        }
        if let Err(again) = self.may_decide() {
            return Next::Wait(again);
        }
        if self.nodes.own.stop == Some(StopReason::Uninstall) {
            return Next::Wait(self.uninstall());
        }
        match self.vip.claim.record.clone() {
            Some(claim) => Next::Wait(self.with_claim(&claim)),
            None if self.vip.demand.is_some() => Next::Wait(self.without_claim()),
            None => {
                self.set_entry(None);
                Next::Forget
            }
        }
    }

    /// Succeeds if a decision is possible now. Otherwise fails with the time of the next
    /// evaluation: a request is under way or must wait, or the claim must be read first.
    fn may_decide(&mut self) -> Result<(), Again> {
        if self.vip.requests.busy.is_some() {
            return Err(self.keep_handover());
        }
        let from = self.vip.requests.next();
        if from > self.now {
            return Err(Some(from).into_iter().chain(self.keep_handover()).min());
        }
        if self.vip.requests.unread {
            self.read_claim();
            return Err(None);
        }
        Ok(())
    }

    fn with_claim(&mut self, claim: &ClaimRecord) -> Again {
        let is_ours = self.nodes.is_ours(&claim.state);
        let held_in = self.vip.tenure.held_in();
        // If a peer's frame arrived, the claim is believed, whatever its content.
        let is_settled = held_in.is_some() && self.vip.tenure.handover().is_none() && !self.vip.disputed;
        // A host whose clock stood still may have missed changes. So a
        // claim of a later epoch is in doubt until a renewal has succeeded.
        let is_ahead = claim.state.holder().is_some() && held_in < Some(claim.epoch);
        let is_doubtful = is_ahead && !self.nodes.own.is_renewed_since(self.vip.claim.changed);
        let is_outdone = is_ahead && !is_doubtful;
        let is_older = is_settled && held_in > Some(claim.epoch);
        // A handover of this node goes on until a node holds the VIP.
        let is_in_handover = matches!(&claim.state, ClaimState::Offered { to, from }
            if self.nodes.is_us(&to.node, to.session) || self.nodes.names_us(from));
        if claim.deleting && !(is_in_handover && self.vip.demand.is_some()) {
            return self.deleting(claim);
        }
        match &claim.state {
            ClaimState::Held(_) if is_ours => self.claimed_here(claim),
            ClaimState::Offered { to, from } if is_ours && !is_settled => self.accept(claim, to, from),
            ClaimState::Offered { to, from } if self.nodes.names_us(from) && !is_older => {
                self.offered(claim, to)
            }
            ClaimState::Held(_) | ClaimState::Offered { .. } | ClaimState::Released | ClaimState::Blank
                if is_settled && !is_outdone =>
            {
                // While the lease deadline lies ahead, no other node can have taken the VIP, so a
                // user has edited the claim. After the deadline, the next renewal shows if the
                // session has ended.
                if !self.is_valid() {
                    return None;
                }
                if is_doubtful {
                    self.nodes.own.renew_now(self.now);
                    return Some(self.now + RETRY / 5);
                }
                self.repair(if is_older { Fault::Older } else { Fault::Edited });
                None
            }
            ClaimState::Held(holder) | ClaimState::Offered { to: holder, .. } => {
                self.claimed_elsewhere(claim, holder)
            }
            ClaimState::Released => {
                self.guard_unheld();
                self.unheld(claim)
            }
            ClaimState::Blank => {
                self.guard_unheld();
                self.vip.claim.unclear.get_or_insert(self.now);
                self.unheld(claim)
            }
        }
    }

    /// Takes the next step for a wanted VIP without an object.
    fn without_claim(&mut self) -> Again {
        if self.vip.tenure.is_held() {
            // After the lease deadline, the next renewal shows if the session has ended.
            if self.is_valid() {
                self.repair(Fault::Missing);
            }
            return None;
        }
        self.guard_unheld();
        let known = &self.vip.claim;
        let from = known.unclear.map_or(self.now, |since| self.unclear_until(since));
        // The node that handed the VIP over may answer until the claim has rested, even if the claim was deleted.
        let rested = if known.is_lost { known.changed + self.nodes.rest() } else { self.now };
        self.take(None, from.max(rested))
    }

    /// Takes the next step for a VIP whose claim names this node.
    fn claimed_here(&mut self, claim: &ClaimRecord) -> Again {
        let believed = self.believed_at(claim);
        let Some(demand) = self.vip.demand.clone() else {
            return self.give_up(claim, believed);
        };
        if self.vip.asking.late.is_some() {
            // The address stays in use as far as is known: the prober goes on.
            self.vip.asking.matters = true;
            self.give_back(claim, &demand);
            return None;
        }
        if let Some(held_in) = self.vip.tenure.held_in() {
            if held_in > claim.epoch && self.vip.tenure.handover().is_none() && self.is_valid() {
                self.repair(Fault::Older);
                return None;
            }
            self.settle_dispute();
            return self.keep_or_leave(claim, &demand);
        }
        // This node becomes the holder only by a write that this process knows to have succeeded.
        if !self.is_valid() {
            return None;
        }
        if believed > self.now {
            return Some(believed);
        }
        match self.nodes.own_candidate(self.address, &demand, self.now) {
            Ok(_) => {
                // Whoever has written this, this node has not held the VIP.
                if self.must_be_probed(&demand) {
                    // The program reports answers for a VIP with an entry alone.
                    self.set_foreign(MacAddr::ZERO);
                    if let Err(again) = self.is_free(0, demand.owner_namespace()) {
                        self.report_in_use(Some(claim), &demand);
                        return again;
                    }
                }
                // A claim in doubt gets a new epoch.
                let is_new = self.vip.claim.unclear.is_some();
                self.hold(if is_new { claim.epoch.next() } else { claim.epoch }, &claim.note.cause);
            }
            Err(disqualified) => self.release(claim, &disqualified),
        }
        None
    }

    /// Stops answering for a VIP that no Service wants, and deletes its claim.
    fn give_up(&mut self, claim: &ClaimRecord, believed: Monotonic) -> Again {
        if believed > self.now {
            return Some(believed);
        }
        self.set_entry(None);
        self.vip.let_go();
        // The node that handed the VIP to this one may answer until the claim
        // has rested. Without a claim, other nodes would not wait for that.
        let rested = self.vip.claim.changed + self.nodes.rest();
        if rested > self.now {
            return Some(rested);
        }
        self.delete(claim);
        None
    }

    /// Makes the entry of a held VIP answer, because the claim names this node.
    /// Takes the VIP back and announces it if the program or a peer disputed it.
    fn settle_dispute(&mut self) {
        if self.vip.disputed && !self.is_valid() {
            return;
        }
        if std::mem::take(&mut self.vip.disputed) {
            self.vip.commanded = Commanded::Nothing;
            self.set_entry(Some(Entry::Held));
            self.announce();
        } else if self.vip.tenure.handover().is_none()
            && self.nodes.home(self.address, self.vip.demand.as_ref()).is_some()
        {
            self.set_entry(Some(Entry::Held));
        }
    }

    /// Takes the next step for a VIP whose claim names
    /// another node, or another session of this one.
    fn claimed_elsewhere(&mut self, claim: &ClaimRecord, holder: &Holder) -> Again {
        self.vip.disown();
        self.vip.asking.late = None;
        if let Some(again) = self.finish_handover(holder) {
            return Some(again);
        }
        self.set_foreign(holder.mac);
        if self.nodes.has_ended(&holder.node, holder.session, self.now) {
            return self.unheld(claim);
        }
        self.vip.waiting.free = None;
        None
    }

    fn guard_unheld(&mut self) {
        self.vip.disown();
        self.vip.tenure.stop_handover();
        self.set_foreign(MacAddr::ZERO);
    }

    /// Takes the next step for a VIP without a holder. The
    /// owner of a claim in doubt has time to repair it first.
    fn unheld(&mut self, claim: &ClaimRecord) -> Again {
        let known = &self.vip.claim;
        let from = known.unclear.map_or(self.now, |since| self.unclear_until(since));
        let rested = known.changed + self.nodes.rest();
        if self.vip.demand.is_none() {
            let from = from.max(rested);
            if from <= self.now && self.nodes.is_reporter(self.address, self.now) {
                self.delete(claim);
            }
            return Some(from.max(self.now + self.nodes.rest()));
        }
        let was_ours = claim.state.holder().is_some_and(|holder| holder.node == self.nodes.settings.node);
        let rests = claim.epoch > Epoch(0) && !was_ours;
        self.take(Some(claim), if rests { from.max(rested) } else { from })
    }
}
