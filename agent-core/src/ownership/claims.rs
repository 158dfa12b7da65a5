//! Input about claims: their records, the outcomes of requests
//! about them, and the program's events.

use std::net::Ipv4Addr;

use super::{
    ClaimWrite, Command, Engine, Entry, Expected, FoundEntry, Notice, Outcome, REFUSED_RETRY, RETRY, Wire,
    handing::Handing,
    vip::{Busy, News, Vip},
};
use crate::{
    cluster::{ClaimRecord, ClaimState, Holder, NodeName},
    time::Monotonic,
};

impl Engine {
    /// Takes in a claim from a list or a watch. It may be older than the claim that this
    /// process has read or written itself: a watch lags, and a list may come from the API
    /// server's cache. So where this node answers, it is only a reason to read the claim.
    /// Elsewhere it is believed, because every write is a compare-and-swap.
    pub(super) fn on_claim(&mut self, record: ClaimRecord, now: Monotonic) {
        if let Some(vip) = self.vips.get_mut(&record.vip) {
            if vip.busy.is_some() {
                return vip.keep_news(News::Claim(record));
            }
            if let Some(known) = vip.claim.as_mut().filter(|known| known.says_the_same(&record)) {
                known.version = record.version;
                return;
            }
            // A watch may show the state before this node's own offer.
            let is_behind = vip.claim.as_ref().is_some_and(|known| known.epoch > record.epoch);
            if vip.has_a_stake() || vip.handing.is_some() && is_behind {
                return self.must_be_read(record.vip);
            }
        }
        self.take_claim(record, now);
    }

    /// Takes in that a list or a watch no longer shows a claim. The same applies as in `on_claim`.
    pub(super) fn on_claim_gone(&mut self, address: Ipv4Addr, now: Monotonic) {
        let Some(vip) = self.vips.get_mut(&address) else { return };
        if vip.busy.is_some() {
            vip.keep_news(News::Gone);
        } else if vip.claim.is_some() && (vip.has_a_stake() || vip.handing.is_some()) {
            self.must_be_read(address);
        } else {
            self.lose_claim(address, now);
        }
    }

    fn must_be_read(&mut self, address: Ipv4Addr) {
        self.vip(address).unread = true;
        self.dirty.insert(address);
    }

    fn take_claim(&mut self, record: ClaimRecord, now: Monotonic) {
        let address = record.vip;
        let is_ours = matches!(record.state, ClaimState::Held(_)) && self.is_ours(&record.state);
        // Such a claim ends a handover of this node, even if this node has not seen the offer.
        let ends_handover = is_ours
            && self.vips.get(&address).and_then(|vip| vip.claim.as_ref()).is_some_and(|claim| {
                let is_offer = matches!(claim.state, ClaimState::Offered { .. });
                let is_party =
                    is_offer && claim.state.sessions().iter().any(|session| self.names_us(session));
                claim.epoch < record.epoch || claim.epoch == record.epoch && is_party
            });
        let vip = self.vips.entry(address).or_insert_with(|| Vip::new(now).into());
        vip.attempted |= ends_handover;
        vip.keep_cause(Some(&record));
        let before = vip.claim.as_ref().and_then(|claim| claim.state.named());
        let after = record.state.named();
        let is_offered = |claim: &ClaimRecord| matches!(claim.state, ClaimState::Offered { .. });
        let is_changed = vip.claim.as_ref().is_some_and(|claim| {
            let is_other = claim.epoch != record.epoch || is_offered(claim) != is_offered(&record);
            after.is_some() && (after != before || is_other)
        });
        if is_changed || vip.claim.is_none() {
            vip.changed = now;
            vip.free = None;
        }
        if let (true, ClaimState::Held(holder)) = (is_changed || vip.claim.is_none(), &record.state)
            && let Some(member) = self.members.get_mut(&holder.node)
        {
            member.took = Some(now);
        }
        let is_unclear =
            record.state == ClaimState::Blank || vip.is_edited(&record) || vip.is_of_the_past(&record);
        vip.unclear = is_unclear.then(|| vip.unclear.unwrap_or(now));
        let before = vip.depends_on();
        if !is_unclear {
            vip.owners = record.state.sessions();
        }
        vip.claim = Some(record);
        let after = vip.depends_on();
        self.dirty.insert(address);
        self.index_claim(address, &before, after, now);
    }

    /// Takes in that the claim is gone.
    fn lose_claim(&mut self, address: Ipv4Addr, now: Monotonic) {
        let Some(vip) = self.vips.get_mut(&address) else { return };
        vip.keep_cause(None);
        let before = vip.depends_on();
        let Some(claim) = vip.claim.take() else { return };
        // Properly deleted objects are seen to be deleted first, because a finalizer keeps them.
        // But anybody can delete an object that is still wanted, and its holder goes on answering.
        let is_clear = claim.state == ClaimState::Released || claim.deleting && vip.demand.is_none();
        vip.unclear = (!is_clear).then_some(now);
        vip.free = None;
        if is_clear {
            vip.owners.clear();
        }
        let after = vip.owners.clone();
        self.dirty.insert(address);
        self.index_claim(address, &before, after, now);
    }

    pub(super) fn on_claim_read(&mut self, address: Ipv4Addr, outcome: Outcome<ClaimRecord>, now: Monotonic) {
        let Some(vip) = self.vips.get_mut(&address) else { return };
        if vip.busy == Some(Busy::Read) {
            vip.busy = None;
        }
        self.dirty.insert(address);
        if matches!(outcome, Outcome::Done(_) | Outcome::Missing) {
            self.pacing.end_offer(address);
        }
        match outcome {
            Outcome::Done(record) => self.take_claim(record, now),
            Outcome::Missing => self.lose_claim(address, now),
            Outcome::Unknown | Outcome::Conflict => {
                vip.unread = true;
                vip.retry = now + RETRY;
            }
            Outcome::Refused(_) => {
                vip.unread = true;
                vip.retry = now + REFUSED_RETRY;
            }
        }
        self.look_at_news(address, now);
    }

    fn look_at_news(&mut self, address: Ipv4Addr, now: Monotonic) {
        let Some(vip) = self.vips.get_mut(&address) else { return };
        for news in std::mem::take(&mut vip.news) {
            match news {
                News::Claim(record) => self.on_claim(record, now),
                News::Gone => self.on_claim_gone(address, now),
            }
        }
    }

    pub(super) fn on_claim_written(
        &mut self,
        address: Ipv4Addr,
        outcome: Outcome<ClaimRecord>,
        now: Monotonic,
    ) {
        let Some(vip) = self.vips.get_mut(&address) else { return };
        let Some(busy) = vip.busy.take() else { return };
        self.pacing.end_creating(address);
        self.dirty.insert(address);
        if outcome != Outcome::Unknown {
            self.pacing.end_offer(address);
        }
        match outcome {
            Outcome::Done(record) => {
                vip.attempted |= matches!(busy, Busy::Hold(..));
                self.take_claim(record, now);
                match busy {
                    Busy::Hold(write, from) => self.on_held(&write, from, now),
                    Busy::Offer => self.vip(address).held = None,
                    Busy::Update | Busy::Free | Busy::Delete | Busy::Read => {}
                }
            }
            Outcome::Conflict | Outcome::Missing | Outcome::Refused(_) => {
                // The offer was not written. This node goes on holding the VIP.
                if busy == Busy::Offer && vip.is_held() && self.own.is_valid(now) {
                    vip.handing = None;
                    self.set_entry(address, Some(Entry::Held));
                }
                let vip = self.vip(address);
                match outcome {
                    Outcome::Refused(_) => vip.retry = now + REFUSED_RETRY,
                    // Objects of this kind cannot be created at all.
                    Outcome::Missing if vip.rested_on == Some(Expected::Absent) => {
                        vip.unread = true;
                        vip.retry = now + REFUSED_RETRY;
                    }
                    Outcome::Done(_) | Outcome::Conflict | Outcome::Missing | Outcome::Unknown => {
                        vip.unread = true;
                    }
                }
            }
            Outcome::Unknown => {
                vip.unread = true;
                vip.attempted |= matches!(busy, Busy::Hold(..));
            }
        }
        self.look_at_news(address, now);
    }

    /// Makes this node the holder: this process has written a claim that names it.
    fn on_held(&mut self, write: &ClaimWrite, from: Option<NodeName>, now: Monotonic) {
        let session = write.state.holder().map(|holder| holder.session);
        if !self.own.is_valid(now) || session != self.own.session() {
            // The write counts only if the fence is valid. It is repeated as soon as that is so.
            self.vip(write.vip).attempted = true;
            return;
        }
        let vip = self.vip(write.vip);
        let was_held = vip.held.replace(write.epoch).is_some() || vip.handing.take().is_some();
        vip.handing = None;
        vip.attempted = false;
        vip.free = None;
        vip.nobody = None;
        vip.better = None;
        vip.cause = None;
        let is_disputed = std::mem::take(&mut vip.disputed);
        if is_disputed {
            // The program may have given the VIP away.
            vip.entry = None;
        }
        self.set_entry(write.vip, Some(Entry::Held));
        if is_disputed {
            self.announce(write.vip);
        }
        if !was_held {
            self.command(Command::Notify(Notice::Holds {
                vip: write.vip,
                services: write.note.services.clone(),
                from: from.filter(|from| *from != self.settings.node),
                cause: write.note.cause.clone(),
            }));
        }
    }

    pub(super) fn on_claim_deleted(&mut self, address: Ipv4Addr, outcome: &Outcome<()>, now: Monotonic) {
        let Some(vip) = self.vips.get_mut(&address) else { return };
        if vip.busy == Some(Busy::Delete) {
            vip.busy = None;
        }
        self.dirty.insert(address);
        match outcome {
            Outcome::Done(()) | Outcome::Missing => {
                vip.forget_news_of_the_deleted();
                self.lose_claim(address, now);
                // No other node answers for a VIP whose claim this node deletes.
                let vip = self.vip(address);
                vip.unclear = None;
                // This is another deletion so soon. A foreign finalizer may keep the
                // object, and there cannot be a new one yet.
                let is_again = vip.deleted.is_some_and(|deleted| now < deleted + REFUSED_RETRY * 2);
                if is_again {
                    // The retry comes before others may take the VIP for abandoned.
                    vip.retry = now + RETRY * 4;
                }
                vip.deleted = Some(now);
                let owners = std::mem::take(&mut vip.owners);
                self.index_claim(address, &owners, Vec::new(), now);
            }
            Outcome::Conflict | Outcome::Unknown => vip.unread = true,
            Outcome::Refused(_) => vip.retry = now + REFUSED_RETRY,
        }
        self.look_at_news(address, now);
    }

    pub(super) fn on_wire(&mut self, address: Ipv4Addr, heard: Wire, now: Monotonic) {
        let Some(vip) = self.vips.get_mut(&address) else { return };
        match heard {
            Wire::Moved { mac } => {
                if let Some(handing) = &mut vip.handing {
                    handing.hear(mac, now);
                    self.dirty.insert(address);
                }
            }
            Wire::Contested { mac } | Wire::Yielded { mac } => {
                if let Some(handing) = &mut vip.handing {
                    handing.hear(mac, now);
                }
                if vip.is_held() || vip.handing.is_some() {
                    vip.disputed = vip.is_held();
                    vip.unread = true;
                    self.dirty.insert(address);
                }
            }
        }
    }

    /// Adopts the pinned entries, in their session.
    pub(super) fn adopt_found(&mut self, now: Monotonic) {
        let lasts = self.handover_lasts();
        let us = (self.settings.node.clone(), self.own.session());
        let is_us = |holder: &Holder| holder.node == us.0 && Some(holder.session) == us.1;
        let is_good = now < self.found.deadline;
        // The process before this one wrote a claim, and ended before it got the answer.
        for (address, mac) in std::mem::take(&mut self.found.foreign) {
            let is_own_mac = self.links.iter().any(|link| link.mac == mac);
            let vip = self.vips.get_mut(&address).filter(|_| is_own_mac);
            if let Some(vip) = vip {
                let claim = vip.claim.as_ref();
                vip.attempted = claim
                    .is_some_and(|claim| matches!(&claim.state, ClaimState::Held(holder) if is_us(holder)));
            }
        }
        for (address, entry) in std::mem::take(&mut self.found.entries) {
            let Some(vip) = self.vips.get_mut(&address) else {
                self.set_entry(address, None);
                continue;
            };
            let claim = vip.claim.as_ref();
            match entry {
                FoundEntry::Held => {
                    // While the found fence is valid, no other node can have taken the VIP. If the
                    // claim says otherwise, somebody edited it by hand while no agent ran here. The
                    // VIP can be offered, though, by a write whose entry was lost.
                    let is_ours = claim.is_none_or(|claim| match &claim.state {
                        ClaimState::Held(holder) => is_us(holder) || is_good,
                        ClaimState::Blank => true,
                        ClaimState::Released => is_good,
                        ClaimState::Offered { .. } => false,
                    });
                    if is_ours {
                        vip.held = Some(vip.epoch());
                        self.set_entry(address, Some(Entry::Held));
                    }
                }
                FoundEntry::Handover { mac, until } => {
                    let named = claim.and_then(|claim| claim.state.holder());
                    // The VIP was held until an offer began that was never written.
                    vip.attempted = named.is_some_and(is_us);
                    if let Some(to) = named.filter(|holder| holder.mac == mac) {
                        let offered = until.saturating_sub(lasts).min(now);
                        vip.handing = Some(Handing::new(to.clone(), offered, until));
                        self.set_entry(address, Some(Entry::Handover { mac, until }));
                    }
                }
            }
            self.dirty.insert(address);
        }
    }
}
