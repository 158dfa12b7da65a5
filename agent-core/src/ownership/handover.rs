//! Handover of a VIP, make before break: the choice of the successor and of the time.

use std::{net::Ipv4Addr, time::Duration};

use super::{
    CLOCKS_DIFFER, Command, Demand, Disqualified, Engine, Entry, Notice,
    handing::Handing,
    pacing::Urgency,
    standing::Candidate,
    vip::{Again, Busy},
};
use crate::{
    cluster::{ClaimNote, ClaimRecord, ClaimState, Holder, NodeName, Session},
    time::Monotonic,
};

/// The cause of a handover to the node that an operator named.
pub(super) const ASKED_FOR: &str = "an operator asked for it";
/// The candidates for a VIP that this node holds.
struct Choice<'a> {
    ours: &'a Candidate,
    /// All candidates, this node among them, the best first.
    candidates: &'a [Candidate],
    /// The candidates to which this node could offer the VIP.
    others: &'a [&'a Candidate],
}

impl Engine {
    /// Returns the duration of a handover entry, which holds even if this process
    /// dies. It is shorter than the rest of the claim after the offer, on any
    /// node's clock. So the next holder answers alone.
    pub(super) fn handover_lasts(&self) -> Duration {
        self.rest().saturating_sub(self.rest() / CLOCKS_DIFFER)
    }

    /// Returns the time that a successor has to accept. Then this node
    /// takes the VIP back, before the entry ends.
    pub(super) fn take_back(&self) -> Duration {
        self.settings.lease / 2
    }

    /// Takes the next step for a VIP that this node holds by its claim: keeps it, or hands it over.
    pub(super) fn keep_or_leave(
        &mut self,
        address: Ipv4Addr,
        claim: &ClaimRecord,
        demand: &Demand,
        now: Monotonic,
    ) -> Again {
        if self.vips[&address].handing.is_some() {
            // The offer was not written. It still could be, unless another write comes before it.
            // That write is repeated only while the fence is valid: before that it does not count.
            if self.own.is_valid(now) || !self.vips[&address].attempted {
                let cause = claim.note.cause.clone();
                self.hold(address, claim.epoch, &cause);
            }
            return self.keep_handing(address, now);
        }
        let us = self.settings.node.clone();
        let standing = self.standing(&us, address, demand, now);
        let candidates = self.candidates(address, demand, now);
        let others = self.others_that_renew(&candidates, now);
        let rested = self.vips[&address].changed + self.rest();
        match standing {
            // The fence has lapsed. There is no decision until it is valid again.
            Err(Disqualified::Silent | Disqualified::NoAgent) => None,
            Err(why @ (Disqualified::NoInterface | Disqualified::NoCarrier { .. })) => {
                // No other node could take the VIP. To let go of it would only cost
                // two more writes when the carrier returns.
                if others.is_empty() {
                    return (!candidates.is_empty()).then(|| now + self.settings.renewal);
                }
                self.release(address, claim, &why);
                None
            }
            Err(why) => match others.iter().min_by_key(|candidate| candidate.known_at.max(now)) {
                None => {
                    self.release(address, claim, &why);
                    None
                }
                Some(soonest) => {
                    let from = soonest.known_at.max(rested);
                    let best = others.iter().copied().find(|candidate| candidate.known_at <= now);
                    self.offer_urgently(address, claim, best, from, &format!("{us}: {why}"), now)
                }
            },
            Ok(ours) => {
                let choice = Choice { ours: &ours, candidates: &candidates, others: &others };
                self.keep(address, claim, demand, &choice, now)
            }
        }
    }

    /// Returns the nodes to which this node could offer a VIP, the best first.
    fn others_that_renew<'a>(&self, candidates: &'a [Candidate], now: Monotonic) -> Vec<&'a Candidate> {
        let is_one = |candidate: &&Candidate| {
            candidate.holder.node != self.settings.node && self.renews(&candidate.holder.node, now)
        };
        candidates.iter().filter(is_one).collect()
    }

    /// Looks for a reason to move a VIP that this node can hold.
    fn keep(
        &mut self,
        address: Ipv4Addr,
        claim: &ClaimRecord,
        demand: &Demand,
        choice: &Choice<'_>,
        now: Monotonic,
    ) -> Again {
        let Choice { ours, candidates, others } = *choice;
        let us = self.settings.node.clone();
        let rested = self.vips[&address].changed + self.rest();
        if let Some(wanted) = claim.move_to.clone().filter(|wanted| *wanted != us) {
            let why = match self.standing(&wanted, address, demand, now) {
                Ok(candidate) => {
                    let from = rested.max(candidate.known_at);
                    return self.offer_urgently(address, claim, Some(&candidate), from, ASKED_FOR, now);
                }
                Err(why) => why,
            };
            return self.refuse_to_move(address, claim, demand, wanted, &why);
        }
        let best =
            others.iter().copied().find(|candidate| candidate.known_at <= now && candidate.soft.is_none());
        if let (Some(soft), Some(best)) = (&ours.soft, best) {
            return self.offer_urgently(address, claim, Some(best), rested, &format!("{us}: {soft}"), now);
        }
        if claim.move_to.is_some() {
            let note = ClaimNote {
                services: demand.services.clone(),
                cause: ASKED_FOR.to_owned(),
                trouble: claim.note.trouble.clone(),
            };
            self.write(address, Busy::Update, claim.epoch, ClaimState::Held(ours.holder.clone()), note);
            return None;
        }
        if claim.note.services != demand.services || claim.state != ClaimState::Held(ours.holder.clone()) {
            self.update(address, claim, demand, ours, claim.note.trouble.clone());
            return None;
        }
        // A VIP that an operator has moved stays there.
        let is_better = |first: &&Candidate| first.holder.node != us && claim.note.cause != ASKED_FOR;
        let Some(better) = candidates.first().filter(is_better) else {
            self.vip(address).better = None;
            return others.iter().map(|candidate| candidate.known_at).filter(|at| *at > now).min();
        };
        if ours.soft.is_some() && better.soft.is_none() {
            // Not all nodes know the better one yet.
            return Some(better.known_at.max(now + super::RETRY));
        }
        let name = better.holder.node.clone();
        let vip = self.vip(address);
        if vip.better.as_ref().is_none_or(|(known, _)| *known != name) {
            vip.better = Some((name.clone(), now));
        }
        let since = vip.better.as_ref().map_or(now, |(_, since)| *since);
        let from = (since + self.settings.stable_for).max(rested).max(better.known_at);
        if from > now {
            return Some(from);
        }
        if let Err(slot) = self.pacing.begin_handover(Urgency::Calm, now) {
            return Some(slot);
        }
        self.offer(address, claim, &better.holder, &format!("{name} comes first for it"), now);
        None
    }

    fn refuse_to_move(
        &mut self,
        address: Ipv4Addr,
        claim: &ClaimRecord,
        demand: &Demand,
        to: NodeName,
        why: &Disqualified,
    ) -> Again {
        let why = why.to_string();
        let trouble = Some(format!("cannot be moved to {to}: {why}"));
        let note = ClaimNote { services: demand.services.clone(), cause: claim.note.cause.clone(), trouble };
        let services = demand.services.clone();
        self.command(Command::Notify(Notice::CannotMove { vip: address, services, to, why }));
        self.write(address, Busy::Update, claim.epoch, claim.state.clone(), note);
        None
    }

    fn update(
        &mut self,
        address: Ipv4Addr,
        claim: &ClaimRecord,
        demand: &Demand,
        ours: &Candidate,
        trouble: Option<String>,
    ) {
        let note = ClaimNote { services: demand.services.clone(), cause: claim.note.cause.clone(), trouble };
        self.write(address, Busy::Update, claim.epoch, ClaimState::Held(ours.holder.clone()), note);
    }

    fn offer_urgently(
        &mut self,
        address: Ipv4Addr,
        claim: &ClaimRecord,
        to: Option<&Candidate>,
        from: Monotonic,
        cause: &str,
        now: Monotonic,
    ) -> Again {
        let Some(to) = to.filter(|_| from <= now) else { return Some(from.max(now + super::RETRY)) };
        if let Err(slot) = self.pacing.begin_handover(Urgency::Urgent, now) {
            return Some(slot);
        }
        self.offer(address, claim, &to.holder, cause, now);
        None
    }

    /// Answers with the successor's MAC, then names the successor.
    fn offer(&mut self, address: Ipv4Addr, claim: &ClaimRecord, to: &Holder, cause: &str, now: Monotonic) {
        let Some(session) = self.own.session().filter(|_| self.own.is_valid(now)) else { return };
        let handing = Handing::new(to.clone(), now, now + self.handover_lasts());
        let entry = handing.entry();
        self.pacing.begin_offer(address);
        let vip = self.vip(address);
        vip.handing = Some(handing);
        vip.better = None;
        let note =
            ClaimNote { services: claim.note.services.clone(), cause: cause.to_owned(), trouble: None };
        self.set_entry(address, Some(entry));
        let state = ClaimState::Offered { to: to.clone(), from: (self.settings.node.clone(), session) };
        self.write(address, Busy::Offer, claim.epoch.next(), state, note);
    }

    /// Takes the next step for a VIP that this node has offered to another.
    pub(super) fn offered(
        &mut self,
        address: Ipv4Addr,
        claim: &ClaimRecord,
        to: &Holder,
        now: Monotonic,
    ) -> Again {
        let vip = self.vip(address);
        vip.held = None;
        if vip.handing.as_ref().is_none_or(|handing| handing.to != *to) {
            // This process has not made the offer and does not know
            // its time. The node stops answering.
            vip.handing = Some(Handing::new(to.clone(), now, now));
        }
        let handing = vip.handing.clone()?;
        let entry = if handing.until > now { handing.entry() } else { Entry::Foreign { mac: to.mac } };
        self.set_entry(address, Some(entry));
        if let Some(moved) = handing.moved {
            // The successor answers already. So its claim is written, but not seen here yet. If a
            // read does not show it, the announcement was another's.
            if moved + self.take_back() <= now {
                self.vip(address).handing.iter_mut().for_each(|handing| handing.moved = None);
                self.read_claim(address);
                return self.keep_handing(address, now);
            }
            return Some(moved + self.take_back());
        }
        let limit = handing.offered + self.take_back();
        if limit > now {
            return Some(limit).into_iter().chain(self.keep_handing(address, now)).min();
        }
        if let Some(believed) = self.doubted_until(address, claim, now) {
            return Some(believed).into_iter().chain(self.keep_handing(address, now)).min();
        }
        if self.own.is_valid(now) {
            self.hold(address, claim.epoch.next(), &format!("{} did not take it", to.node));
        }
        self.keep_handing(address, now)
    }

    /// Returns the end of the time in which an offer is in doubt: it
    /// may come from a store that went back.
    fn doubted_until(&self, address: Ipv4Addr, claim: &ClaimRecord, now: Monotonic) -> Again {
        let vip = &self.vips[&address];
        let believed = vip.unclear.map(|_| self.believed_at(vip, claim, now));
        believed.filter(|believed| *believed > now)
    }

    /// Takes the next step for a VIP that another node offers to this one.
    pub(super) fn accept(
        &mut self,
        address: Ipv4Addr,
        claim: &ClaimRecord,
        to: &Holder,
        from: &(NodeName, Session),
        now: Monotonic,
    ) -> Again {
        self.set_entry(address, Some(Entry::Foreign { mac: to.mac }));
        let vip = self.vip(address);
        vip.held = None;
        vip.disputed = false;
        let demand = vip.demand.clone();
        if !self.may_begin() {
            return None;
        }
        if let Some(believed) = self.doubted_until(address, claim, now) {
            return Some(believed);
        }
        let why = match demand.map(|demand| self.standing(&to.node, address, &demand, now)) {
            Some(Ok(ours)) if ours.holder == *to => {
                let cause = claim.note.cause.clone();
                self.hold(address, claim.epoch, &cause);
                return None;
            }
            Some(Ok(_)) => Some(Disqualified::NewMac),
            Some(Err(why)) => Some(why),
            None => None,
        };
        // The node that offers the VIP takes it back. If its session is
        // over, no other node would free the VIP.
        if self.has_ended(&from.0, from.1, now) && self.own.is_valid(now) {
            match why {
                Some(why) => self.release(address, claim, &why),
                None => self.delete(address, claim),
            }
        }
        None
    }

    /// Ends a handover: another node has the VIP. This node answers with its MAC for a while.
    pub(super) fn finish_handing(&mut self, address: Ipv4Addr, holder: &Holder, now: Monotonic) -> Again {
        let has_ended = self.has_ended(&holder.node, holder.session, now);
        let vip = self.vip(address);
        let handing = vip.handing.as_mut()?;
        if has_ended || handing.to.node != holder.node || handing.to.mac != holder.mac {
            vip.handing = None;
            return None;
        }
        handing.accepted = true;
        if handing.until <= now {
            vip.handing = None;
            return None;
        }
        let (end, entry) = (handing.until, handing.entry());
        self.set_entry(address, Some(entry));
        Some(end)
    }

    /// Answers with the successor's MAC while the outcome of an offer is unknown. The successor is
    /// a node that forwards. The entry ends by itself before another node can have the VIP.
    pub(super) fn keep_handing(&mut self, address: Ipv4Addr, now: Monotonic) -> Again {
        let handing = self.vips[&address].handing.as_ref().filter(|handing| handing.is_open())?;
        if handing.until > now {
            return Some(handing.until);
        }
        self.set_entry(address, Some(Entry::Foreign { mac: handing.to.mac }));
        // If the offer turns out not to have been written, only another
        // write makes this node the holder again.
        let vip = self.vip(address);
        vip.attempted |= vip.held.take().is_some();
        None
    }
}
