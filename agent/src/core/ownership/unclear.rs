//! Claims that are in doubt: blank, missing or edited by hand, being deleted, or not known since the fence lapsed.

use std::net::Ipv4Addr;

use vipward_common::MacAddr;

use super::{
    Engine, Entry, claims,
    handover::ASKED_FOR,
    vip::{Again, Vip},
};
use crate::core::{
    cluster::{ClaimRecord, ClaimState, NodeName, Session},
    time::Monotonic,
};

impl Vip {
    /// Whether somebody who does not know the rules has written this: it names nobody who has had the VIP or was to have it, and
    /// says that nothing has changed.
    pub(super) fn is_edited(&self, record: &ClaimRecord) -> bool {
        let named = claims::sessions(&record.state);
        let is_later = self.claim.as_ref().is_none_or(|known| record.epoch > known.epoch);
        !named.is_empty()
            && !self.owners.is_empty()
            && !is_later
            && !self.attempted
            && !named.iter().any(|session| self.owners.contains(session))
    }

    /// The sessions that the VIP may be answered for in.
    pub(super) fn depends_on(&self) -> Vec<(NodeName, Session)> {
        let claimed = self.claim.iter().flat_map(|claim| claims::sessions(&claim.state));
        claimed.chain(self.owners.iter().cloned()).collect()
    }
}

impl Engine {
    /// Until when a claim that is not as its owner wrote it is the owner's to put right, whoever that is.
    fn grace(&self, since: Monotonic) -> Monotonic {
        // An agent that is restarted has longer; and it needs a moment when it is back.
        let others = self.members.iter().filter(|(name, _)| **name != self.settings.node);
        let away = others.filter_map(|(_, member)| member.away_until(since)).max();
        away.unwrap_or(since).max(since + self.settings.lease) + self.settings.margin
    }

    /// The same when the owner is known: what has ended repairs nothing.
    pub(super) fn unclear_until(&self, vip: &Vip, since: Monotonic, now: Monotonic) -> Monotonic {
        let is_over =
            |owner: &(NodeName, Session)| self.names_us(owner) || self.has_ended(&owner.0, owner.1, now);
        if !vip.owners.is_empty() && vip.owners.iter().all(is_over) {
            vip.changed + self.rest()
        } else {
            self.grace(since)
        }
    }

    /// Whether all sessions but ours that a claim depends on are over.
    pub(super) fn nobody_else_may_answer(&self, state: &ClaimState, now: Monotonic) -> bool {
        let mut others = claims::sessions(state).into_iter().filter(|session| !self.names_us(session));
        others.all(|(node, session)| self.has_ended(&node, session, now))
    }

    /// When what a claim says is believed: as long as this process has not even tried to write that this node holds it, somebody
    /// may have edited it, and its holder puts that right.
    pub(super) fn believed_at(&self, vip: &Vip, claim: &ClaimRecord, now: Monotonic) -> Monotonic {
        let is_news = self.is_ours(&claim.state) && !vip.is_held() && !vip.attempted;
        match vip.unclear {
            Some(since) => self.unclear_until(vip, since, now),
            None if is_news => self.grace(vip.changed),
            None => now,
        }
    }

    /// Somebody has asked to delete the object.
    pub(super) fn deleting(&mut self, address: Ipv4Addr, claim: &ClaimRecord, now: Monotonic) -> Again {
        let vip = &self.vips[&address];
        // Whoever may hold it, if the claim does not say, has as long as ever to put that right.
        let from = self.believed_at(vip, claim, now);
        let is_free = from <= now
            && (self.is_ours(&claim.state)
                || self.nobody_else_may_answer(&claim.state, now) && self.is_reporter(address, now));
        if !(vip.is_held() || is_free) {
            let mac = claim.state.holder().map_or(MacAddr::ZERO, |holder| holder.mac);
            self.set_entry(address, Some(Entry::Foreign { mac }));
            return Some(from.max(now + super::RETRY));
        }
        if vip.demand.is_none() {
            self.set_entry(address, None);
            self.vip(address).held = None;
        }
        // What is still wanted is answered on, and gets a new object when this one has gone.
        self.delete(address, claim);
        None
    }

    /// Puts a claim right that somebody has edited or deleted; its epoch only grows.
    pub(super) fn repair(&mut self, address: Ipv4Addr, cause: &str) {
        let vip = &self.vips[&address];
        let epoch = vip.epoch();
        // Where an operator has moved it, it stays.
        let was_moved = vip.claim.as_ref().is_some_and(|claim| claim.note.cause == ASKED_FOR);
        self.repaired(&address.to_string());
        self.hold(address, epoch, if was_moved { ASKED_FOR } else { cause });
    }

    /// The fence has lapsed, and is about to be valid again. Somebody may have deleted a claim meanwhile, and another node have
    /// made it anew, without ending the session: under `stop`, which has silenced this node, it stays silent until it
    /// has written each claim again.
    pub(super) fn silence_what_was_held(&mut self) {
        let held: Vec<Ipv4Addr> =
            self.vips.iter().filter(|(_, vip)| vip.is_held()).map(|(address, _)| *address).collect();
        for address in held {
            self.set_entry(address, Some(Entry::Foreign { mac: MacAddr::ZERO }));
            let vip = self.vip(address);
            vip.held = None;
            vip.handing = None;
            vip.attempted = true;
            vip.unread = true;
            self.dirty.insert(address);
        }
    }

    /// The same under `hold`: it has answered on, and the claim is believed, whatever it says. Until all have been read, the
    /// program is not told that the fence is valid, so that it still gives way.
    pub(super) fn read_what_was_held(&mut self) {
        for (address, vip) in self.vips.iter_mut().filter(|(_, vip)| vip.is_held()) {
            vip.disputed = true;
            vip.unread = true;
            self.dirty.insert(*address);
            self.doubted.insert(*address);
        }
    }
}
