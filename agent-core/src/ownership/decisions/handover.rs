//! Handover of a VIP, make before break: the choice of the successor and of the time.

use std::time::Duration;

use super::subject::{Again, Subject};
use crate::{
    base::{legible::Legible, time::Monotonic},
    host::placement::Entry,
    ownership::{
        command::{Command, Notice},
        limits::Urgency,
        nodes::{Candidate, Disqualified},
        times::RETRY,
        vip::{Busy, Handover, Tenure},
    },
    records::{ClaimNote, ClaimRecord, ClaimState, Demand, Holder, NodeName, Reach, Session},
};

/// The cause of a handover to the node that an operator named.
const ASKED_FOR: &str = "an operator requested it";

/// Longest time for which a node keeps a VIP that it should let go of, until another node's proxy follows.
const PROXIES_FOLLOW: Duration = Duration::from_secs(10);

/// The candidates for a VIP that this node holds.
struct Choice<'a> {
    own: &'a Candidate,
    /// All candidates, this node among them, the best first.
    candidates: &'a [Candidate],
    /// The candidates to which this node could offer the VIP.
    others: &'a [&'a Candidate],
}

impl Subject<'_> {
    /// Takes the next step for a VIP that this node holds by its claim: keeps it, or hands it over.
    pub(super) fn keep_or_leave(&mut self, claim: &ClaimRecord, demand: &Demand) -> Again {
        if self.vip.tenure.handover().is_some() {
            // The offer is not written yet. It could still arrive, unless another write comes
            // before it. That write is repeated only while the lease deadline lies ahead, because
            // otherwise it does not count.
            if self.is_valid() || !self.vip.claim.is_own() {
                self.hold(claim.epoch, &claim.note.cause);
            }
            return self.keep_handover();
        }
        let own = self.nodes.own_candidate(self.address, demand, self.now);
        let candidates = self.nodes.candidates(self.address, demand, self.now);
        let others = self.others_that_renew(&candidates);
        match own {
            // The lease deadline has passed. There is no decision until the next renewal.
            Err(Disqualified::NotRenewed | Disqualified::NoAgent) => None,
            Err(why @ (Disqualified::NoInterface | Disqualified::NoCarrier { .. })) => {
                // No other node can take the VIP. A release would only cost
                // two more writes when the interface or its carrier returns.
                if others.is_empty() {
                    return (!candidates.is_empty()).then(|| self.now + self.nodes.settings.renewal);
                }
                self.release(claim, &why);
                None
            }
            // Another node may have no endpoint.
            _ if demand.reach == Reach::Unknown && !self.nodes.own.is_leaving() => {
                self.vip.waiting.better = None;
                None
            }
            Err(why) => match others.iter().min_by_key(|candidate| candidate.known_at.max(self.now)) {
                None => self.release_unless_proxies_follow(claim, demand, &why),
                Some(soonest) => {
                    let from = soonest.known_at.max(self.rested());
                    let best = others.iter().copied().find(|candidate| candidate.known_at <= self.now);
                    self.offer_urgently(claim, best, from, &self.cause_here(&why))
                }
            },
            Ok(own) => {
                self.vip.waiting.proxies = None;
                let choice = Choice { own: &own, candidates: &candidates, others: &others };
                self.keep(claim, demand, &choice)
            }
        }
    }

    /// Releases a VIP that no other node can have, unless the proxy of one is about to deliver. Its Lease
    /// changes then, and the VIP is handed over.
    fn release_unless_proxies_follow(
        &mut self,
        claim: &ClaimRecord,
        demand: &Demand,
        why: &Disqualified,
    ) -> Again {
        if self.nodes.awaits_proxy(self.address, demand, self.now) {
            let until = *self.vip.waiting.proxies.get_or_insert(self.now) + PROXIES_FOLLOW;
            if until > self.now {
                return Some(until);
            }
        }
        self.release(claim, why);
        None
    }

    fn cause_here(&self, why: &Disqualified) -> String {
        format!("{}: {why}", self.nodes.settings.node)
    }

    /// Returns the time at which the claim has rested since the last change of holder.
    fn rested(&self) -> Monotonic {
        self.vip.claim.changed + self.nodes.rest()
    }

    /// Returns the nodes to which this node could offer a VIP, the best first.
    fn others_that_renew<'a>(&self, candidates: &'a [Candidate]) -> Vec<&'a Candidate> {
        let is_one = |candidate: &&Candidate| {
            let name = &candidate.holder.node;
            *name != self.nodes.settings.node && self.nodes.renews(name, self.now)
        };
        candidates.iter().filter(is_one).collect()
    }

    /// Looks for a reason to move a VIP that this node can hold.
    fn keep(&mut self, claim: &ClaimRecord, demand: &Demand, choice: &Choice<'_>) -> Again {
        let Choice { own, candidates, others } = *choice;
        let us = self.nodes.settings.node.clone();
        if let Some(wanted) = claim.move_to.as_ref().filter(|wanted| **wanted != us) {
            return match self.nodes.candidate(wanted, self.address, demand, self.now) {
                Ok(candidate) => {
                    let from = self.rested().max(candidate.known_at);
                    self.offer_urgently(claim, Some(&candidate), from, ASKED_FOR)
                }
                Err(why) => {
                    self.refuse_to_move(claim, wanted, &why);
                    None
                }
            };
        }
        let is_best =
            |candidate: &&&Candidate| candidate.known_at <= self.now && candidate.is_sounder_than(own);
        if let (Some(soft), Some(best)) = (&own.soft, others.iter().find(is_best)) {
            return self.offer_urgently(claim, Some(best), self.rested(), &self.cause_here(soft));
        }
        let held = ClaimState::Held(own.holder.clone());
        let is_up_to_date = claim.note.services == demand.services && claim.state == held;
        if claim.move_to.is_some() || !is_up_to_date {
            let cause = if claim.move_to.is_some() { ASKED_FOR } else { claim.note.cause.as_str() };
            let note = self.note(cause, claim.note.trouble.clone());
            self.write(Busy::Update, claim.epoch, held, note);
            return None;
        }
        // A VIP that an operator has moved stays there.
        let is_better = |first: &&Candidate| first.holder.node != us && claim.note.cause != ASKED_FOR;
        // Of some Services, the endpoints may not be listed yet.
        let is_known = demand.besides.iter().all(|(_, reach)| *reach != Reach::Unknown);
        let Some(better) = candidates.first().filter(|first| is_known && is_better(first)) else {
            self.vip.waiting.better = None;
            return others.iter().map(|candidate| candidate.known_at).filter(|at| *at > self.now).min();
        };
        if better.is_sounder_than(own) {
            // Not all nodes know the better one's MAC yet.
            return Some(better.known_at.max(self.now + RETRY));
        }
        self.leave_for(claim, better)
    }

    /// Hands a VIP over to a node that has been the better place for it for long enough.
    fn leave_for(&mut self, claim: &ClaimRecord, better: &Candidate) -> Again {
        let name = &better.holder.node;
        let known = self.vip.waiting.better.take().filter(|(known, _)| known == name);
        let (_, since) = known.unwrap_or_else(|| (name.clone(), self.now));
        self.vip.waiting.better = Some((name.clone(), since));
        let from = (since + self.nodes.settings.stable_for).max(self.rested()).max(better.known_at);
        if from > self.now {
            return Some(from);
        }
        if let Err(slot) = self.pacing.begin_handover(Urgency::Calm, self.now) {
            return Some(slot);
        }
        self.offer(claim, &better.holder, &format!("{name} comes first for it"));
        None
    }

    /// Writes in the claim why the VIP cannot be moved to the node that an operator named.
    fn refuse_to_move(&mut self, claim: &ClaimRecord, to: &NodeName, why: &Disqualified) {
        let why = why.to_string();
        let note = self.note(&claim.note.cause, Some(format!("cannot be moved to {}: {why}", Legible(to))));
        let services = self.vip.services().to_vec();
        self.command(Command::Notify(Notice::CannotMove {
            vip: self.address,
            services,
            to: to.clone(),
            why,
        }));
        self.write(Busy::Update, claim.epoch, claim.state.clone(), note);
    }

    fn offer_urgently(
        &mut self,
        claim: &ClaimRecord,
        to: Option<&Candidate>,
        from: Monotonic,
        cause: &str,
    ) -> Again {
        let Some(to) = to.filter(|_| from <= self.now) else { return Some(from.max(self.now + RETRY)) };
        if let Err(slot) = self.pacing.begin_handover(Urgency::Urgent, self.now) {
            return Some(slot);
        }
        self.offer(claim, &to.holder, cause);
        None
    }

    /// Answers with the successor's MAC, then writes the claim that offers it the VIP.
    fn offer(&mut self, claim: &ClaimRecord, to: &Holder, cause: &str) {
        let Some(session) = self.nodes.own.session().filter(|_| self.is_valid()) else { return };
        let handover = Handover::new(to.clone(), self.now, self.now + self.nodes.handover_lasts());
        let entry = handover.entry();
        self.pacing.begin_offer(self.address);
        self.vip.tenure.offer(handover);
        self.vip.waiting.better = None;
        self.set_entry(Some(entry));
        let note =
            ClaimNote { services: claim.note.services.clone(), cause: cause.to_owned(), trouble: None };
        let from = (self.nodes.settings.node.clone(), session);
        let state = ClaimState::Offered { to: to.clone(), from };
        self.write(Busy::Offer, claim.epoch.next(), state, note);
    }

    /// Takes the next step for a VIP that this node has offered to another.
    pub(crate) fn offered(&mut self, claim: &ClaimRecord, to: &Holder) -> Again {
        self.vip.tenure.stop_holding();
        let known = self.vip.tenure.handover().filter(|handover| handover.to == *to).cloned();
        let handover = known.unwrap_or_else(|| {
            // This process has not made the offer and does not know
            // its time. The node stops answering.
            let handover = Handover::new(to.clone(), self.now, self.now);
            self.vip.tenure = Tenure::HandingOver(handover.clone());
            handover
        });
        let entry = if handover.until > self.now { handover.entry() } else { Entry::Foreign { mac: to.mac } };
        self.set_entry(Some(entry));
        if let Some(moved) = handover.moved {
            // The successor seems to answer, so its claim is written and not seen here yet.
            // If a read does not show the claim, the announcement came from another host.
            let limit = moved + self.nodes.take_back();
            if limit > self.now {
                return Some(limit);
            }
            if let Some(handover) = self.vip.tenure.handover_mut() {
                handover.moved = None;
            }
            self.read_claim();
            return self.keep_handover();
        }
        let limit = handover.offered + self.nodes.take_back();
        let waits = if limit > self.now { Some(limit) } else { self.doubted_until(claim) };
        if waits.is_some() {
            return waits.into_iter().chain(self.keep_handover()).min();
        }
        if self.is_valid() {
            self.hold(claim.epoch.next(), &format!("{} did not take it", to.node));
        }
        self.keep_handover()
    }

    /// Returns the end of the time in which an offer is in doubt: it
    /// may come from a store that went back.
    fn doubted_until(&self, claim: &ClaimRecord) -> Again {
        let believed = self.vip.claim.unclear.map(|_| self.believed_at(claim));
        believed.filter(|believed| *believed > self.now)
    }

    /// Takes the next step for a VIP that another node offers to this one.
    pub(super) fn accept(&mut self, claim: &ClaimRecord, to: &Holder, from: &(NodeName, Session)) -> Again {
        self.set_foreign(to.mac);
        self.vip.tenure.stop_holding();
        self.vip.disputed = false;
        if !self.may_begin() {
            return None;
        }
        if let Some(believed) = self.doubted_until(claim) {
            return Some(believed);
        }
        let demand = self.vip.demand.as_ref();
        let own = demand.map(|demand| self.nodes.own_candidate(self.address, demand, self.now));
        let why = match own {
            Some(Ok(own)) if own.holder == *to => {
                self.hold(claim.epoch, &claim.note.cause);
                return None;
            }
            Some(Ok(_)) => Some(Disqualified::NewMac),
            Some(Err(why)) => Some(why),
            None => None,
        };
        // The node that offers the VIP takes it back. If its session is
        // over, no other node would free the VIP.
        if self.nodes.has_ended(&from.0, from.1, self.now) && self.is_valid() {
            match why {
                Some(why) => self.release(claim, &why),
                None => self.delete(claim),
            }
        }
        None
    }

    /// Finishes a handover, because the claim names another node. If that
    /// is the successor, this node answers with its MAC for a while.
    pub(super) fn finish_handover(&mut self, holder: &Holder) -> Again {
        let has_ended = self.nodes.has_ended(&holder.node, holder.session, self.now);
        let handover = self.vip.tenure.handover_mut()?;
        let is_to_another = handover.to.node != holder.node || handover.to.mac != holder.mac;
        if has_ended || is_to_another || handover.until <= self.now {
            self.vip.tenure.stop_handover();
            return None;
        }
        handover.accepted = true;
        let (end, entry) = (handover.until, handover.entry());
        self.set_entry(Some(entry));
        Some(end)
    }

    /// Answers with the successor's MAC while the outcome of an offer is unknown. The successor
    /// can forward the traffic. The entry ends by itself before a third node can have the VIP.
    pub(super) fn keep_handover(&mut self) -> Again {
        let handover = self.vip.tenure.handover().filter(|handover| handover.is_open())?;
        let (until, mac) = (handover.until, handover.to.mac);
        if until > self.now {
            return Some(until);
        }
        self.set_foreign(mac);
        // If the offer turns out not to have been written, only another
        // write makes this node the holder again.
        self.vip.claim.attempted |= self.vip.tenure.is_held();
        self.vip.tenure.stop_holding();
        None
    }
}
