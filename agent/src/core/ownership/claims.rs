//! What is read of claims, what became of the requests about them, and what the wire says.

use std::net::Ipv4Addr;

use super::{
    ClaimWrite, Command, Engine, Entry, Expected, FoundEntry, Notice, Outcome, REFUSED_RETRY, RETRY, Wire,
    handover::Handing,
    vip::{Busy, Vip},
};
use crate::core::{
    cluster::{ClaimRecord, ClaimState, Holder, NodeName, Session},
    time::Monotonic,
};

fn named(state: &ClaimState) -> Option<(NodeName, Session)> {
    state.holder().map(|holder| (holder.node.clone(), holder.session))
}

/// The sessions that a claim depends on: while one of them may live, the VIP may be answered for by it.
pub(super) fn sessions(state: &ClaimState) -> Vec<(NodeName, Session)> {
    let from = match state {
        ClaimState::Offered { to: _, from } => Some(from.clone()),
        ClaimState::Held(_) | ClaimState::Released | ClaimState::Blank => None,
    };
    named(state).into_iter().chain(from).collect()
}

/// Who has answered for it until now, as the claim says.
pub(super) fn answering(state: &ClaimState) -> Option<NodeName> {
    match state {
        ClaimState::Held(holder) => Some(holder.node.clone()),
        ClaimState::Offered { to: _, from: (node, _) } => Some(node.clone()),
        ClaimState::Released | ClaimState::Blank => None,
    }
}

/// Whether the claim that is known is another than the one that a write expected.
fn is_explained(busy: &Busy, vip: &Vip) -> bool {
    match busy {
        Busy::Hold(write, _) => write.expected != vip.expected(),
        Busy::Offer | Busy::Update | Busy::Free | Busy::Delete | Busy::Read => false,
    }
}

impl Engine {
    /// A watch may be behind what this process has read or written itself.
    pub(super) fn on_claim(&mut self, record: ClaimRecord, now: Monotonic) {
        let known = self.vips.get(&record.vip).and_then(|vip| vip.claim.as_ref());
        if known.is_some_and(|known| {
            record.version == known.version || record.version.is_older_than(&known.version)
        }) {
            return;
        }
        self.take_claim(record, now);
    }

    fn take_claim(&mut self, record: ClaimRecord, now: Monotonic) {
        let address = record.vip;
        let is_ours = matches!(record.state, ClaimState::Held(_)) && self.is_ours(&record.state);
        // Whoever writes such a thing, it ends a handover that this node is a party to, whether it has seen the offer or not.
        let ends_handover = is_ours
            && self.vips.get(&address).and_then(|vip| vip.claim.as_ref()).is_some_and(|claim| {
                let is_offer = matches!(claim.state, ClaimState::Offered { .. });
                claim.epoch < record.epoch
                    || is_offer && sessions(&claim.state).iter().any(|session| self.names_us(session))
            });
        let vip = self.vips.entry(address).or_insert_with(|| Vip::new(now).into());
        vip.attempted |= ends_handover;
        let before = vip.claim.as_ref().and_then(|claim| named(&claim.state));
        let after = named(&record.state);
        let is_offered = |claim: &ClaimRecord| matches!(claim.state, ClaimState::Offered { .. });
        let is_changed = after.is_some()
            && (after != before
                || vip.claim.as_ref().is_some_and(|claim| {
                    claim.epoch != record.epoch || is_offered(claim) != is_offered(&record)
                }));
        if is_changed || vip.claim.is_none() {
            vip.changed = now;
            vip.free = None;
        }
        if let (true, ClaimState::Held(holder)) = (is_changed, &record.state)
            && let Some(member) = self.members.get_mut(&holder.node)
        {
            member.took = Some(now);
        }
        let is_unclear = record.state == ClaimState::Blank || vip.is_edited(&record);
        vip.unclear = is_unclear.then(|| vip.unclear.unwrap_or(now));
        let before = vip.depends_on();
        if !is_unclear {
            vip.owners = sessions(&record.state);
        }
        vip.claim = Some(record);
        let after = vip.depends_on();
        self.dirty.insert(address);
        self.index_claim(address, &before, after, now);
    }

    pub(super) fn on_claim_gone(&mut self, address: Ipv4Addr, now: Monotonic) {
        let Some(vip) = self.vips.get_mut(&address) else { return };
        let before = vip.depends_on();
        let Some(claim) = vip.claim.take() else { return };
        vip.gone = Some(claim.version.clone());
        // Properly deleted objects are seen to be deleted first, since a finalizer keeps them.
        // But anybody can delete one that is still wanted, and its holder answers on.
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
            self.offering.remove(&address);
        }
        match outcome {
            Outcome::Done(record) => self.take_claim(record, now),
            Outcome::Missing => self.on_claim_gone(address, now),
            Outcome::Unknown | Outcome::Conflict => {
                vip.unread = true;
                vip.retry = now + RETRY;
            }
            Outcome::Refused(_) => {
                vip.unread = true;
                vip.retry = now + REFUSED_RETRY;
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
        self.creating.remove(&address);
        self.dirty.insert(address);
        if outcome != Outcome::Unknown {
            self.offering.remove(&address);
        }
        match outcome {
            Outcome::Done(record) => {
                vip.attempted |= matches!(busy, Busy::Hold(..));
                // The watch may have shown already what came after it.
                let (known, gone) = (vip.claim.as_ref().map(|claim| &claim.version), vip.gone.as_ref());
                let is_old = known.is_some_and(|known| record.version.is_older_than(known))
                    || gone.is_some_and(|gone| record.version == *gone || record.version.is_older_than(gone));
                if !is_old {
                    self.take_claim(record, now);
                }
                match busy {
                    Busy::Hold(write, from) => self.on_held(&write, from, now),
                    Busy::Offer => self.vip(address).held = None,
                    Busy::Update | Busy::Free | Busy::Delete | Busy::Read => {}
                }
            }
            Outcome::Conflict | Outcome::Missing | Outcome::Refused(_) => {
                // An offer that was not written: it is held on.
                if busy == Busy::Offer && vip.is_held() && self.own.is_valid(now) {
                    vip.handing = None;
                    self.set_entry(address, Some(Entry::Held));
                }
                let vip = self.vip(address);
                match outcome {
                    Outcome::Refused(_) => vip.retry = now + REFUSED_RETRY,
                    // Objects of this kind cannot be made at all.
                    Outcome::Missing if vip.rested_on == Some(Expected::Absent) => {
                        vip.unread = true;
                        vip.retry = now + REFUSED_RETRY;
                    }
                    // What it met is known by now: somebody else's write has been seen meanwhile.
                    Outcome::Conflict if is_explained(&busy, vip) => {}
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
    }

    /// A claim that makes this node the holder has been written by this process.
    fn on_held(&mut self, write: &ClaimWrite, from: Option<NodeName>, now: Monotonic) {
        let session = write.state.holder().map(|holder| holder.session);
        if !self.own.is_valid(now) || session != self.own.session() {
            // It counts only if the fence is valid: it is written again when that is so.
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
        let is_disputed = std::mem::take(&mut vip.disputed);
        if is_disputed {
            // The program may have given it away.
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
                self.on_claim_gone(address, now);
                // Nobody answers for what this node deletes, unless it does itself.
                let vip = self.vip(address);
                vip.unclear = None;
                // Once more so soon: somebody else's finalizer may keep it, and there cannot be a new one yet.
                let is_again = vip.deleted.is_some_and(|deleted| now < deleted + REFUSED_RETRY * 2);
                if is_again {
                    // Sooner than others may take it for abandoned.
                    vip.retry = now + RETRY * 4;
                }
                vip.deleted = Some(now);
                let owners = std::mem::take(&mut vip.owners);
                self.index_claim(address, &owners, Vec::new(), now);
            }
            Outcome::Conflict | Outcome::Unknown => vip.unread = true,
            Outcome::Refused(_) => vip.retry = now + REFUSED_RETRY,
        }
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

    /// Goes on with what is pinned, in the session that it is of.
    pub(super) fn adopt_found(&mut self, now: Monotonic) {
        let lasts = self.handover_lasts();
        let us = (self.settings.node.clone(), self.own.session());
        let is_us = |holder: &Holder| holder.node == us.0 && Some(holder.session) == us.1;
        let is_good = now < self.found.deadline;
        // A claim that the process before this one was about to write, and did not live to hear of.
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
                    // While the fence that was found is valid, nobody can have taken it: what the claim says else was
                    // edited by hand while nobody was here to see it. Offered it can be, by a write whose entry was lost.
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
                    // Held until an offer was begun that was never written.
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
