//! Treatment of claims in doubt: blank, missing, edited by hand, of an earlier
//! epoch, being deleted, or unknown since the fence lapsed.

use std::net::Ipv4Addr;

use vipward_common::MacAddr;

use super::{
    Engine, Entry, Fault,
    vip::{Again, Vip},
};
use crate::{
    cluster::{ClaimRecord, ClaimState, NodeName, Session},
    time::Monotonic,
};

impl Engine {
    /// Returns the end of the time in which an owner may repair a claim that is not as the owner
    /// wrote it. The owner is any of `owners`, or any node if none is known.
    fn grace(&self, since: Monotonic, owners: &[(NodeName, Session)]) -> Monotonic {
        // An agent that is restarting has longer, and needs a moment when it is back.
        let may_own = |name: &NodeName| owners.is_empty() || owners.iter().any(|(owner, _)| owner == name);
        let others = self.members.iter().filter(|(name, _)| **name != self.settings.node && may_own(name));
        let away = others.filter_map(|(_, member)| member.away_until(since)).max();
        away.unwrap_or(since).max(since + self.settings.lease) + self.settings.margin
    }

    /// Returns the same time for a VIP. An owner whose session has ended repairs nothing.
    pub(super) fn unclear_until(&self, vip: &Vip, since: Monotonic, now: Monotonic) -> Monotonic {
        let is_over =
            |owner: &(NodeName, Session)| self.names_us(owner) || self.has_ended(&owner.0, owner.1, now);
        if !vip.owners.is_empty() && vip.owners.iter().all(is_over) {
            vip.changed + self.rest()
        } else {
            self.grace(since, &vip.owners)
        }
    }

    /// Returns true if all other sessions that a claim names are over.
    pub(super) fn nobody_else_may_answer(&self, state: &ClaimState, now: Monotonic) -> bool {
        let mut others = state.sessions().into_iter().filter(|session| !self.names_us(session));
        others.all(|(node, session)| self.has_ended(&node, session, now))
    }

    /// Returns the time at which a claim is believed. A claim may have been edited if it names this
    /// node, but this process has not tried to write it. Its holder has time to repair it.
    pub(super) fn believed_at(&self, vip: &Vip, claim: &ClaimRecord, now: Monotonic) -> Monotonic {
        let is_news = self.is_ours(&claim.state) && !vip.is_held() && !vip.attempted;
        match vip.unclear {
            Some(since) => self.unclear_until(vip, since, now),
            None if is_news => self.grace(vip.changed, &[]),
            None => now,
        }
    }

    /// Takes the next step for a VIP whose object somebody has asked to delete.
    pub(super) fn deleting(&mut self, address: Ipv4Addr, claim: &ClaimRecord, now: Monotonic) -> Again {
        let vip = &self.vips[&address];
        // If the claim does not name the holder, the holder has the usual time to repair it.
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
        // If the VIP is still wanted, this node goes on answering, and
        // creates a new object when this one is gone.
        self.delete(address, claim);
        None
    }

    /// Writes the claim of a held VIP again, because the API server has another one. The epoch only
    /// grows. The cause is still the one for which the VIP is here.
    pub(super) fn repair(&mut self, address: Ipv4Addr, fault: Fault) {
        let epoch = self.vips[&address].epoch();
        let epoch = if fault == Fault::Older { epoch.next() } else { epoch };
        let vip = &self.vips[&address];
        let stated = || vip.claim.as_ref().map(|claim| claim.note.cause.clone());
        let cause = vip.cause.as_deref().map(str::to_owned).or_else(stated);
        self.repaired(&address.to_string(), fault);
        self.hold(address, epoch, &cause.unwrap_or_else(|| "its holder kept it".to_owned()));
    }

    /// Keeps this node silent under `stop` until it has written each claim again. The fence has
    /// lapsed, and is about to be valid. Meanwhile somebody may have deleted a claim, and another
    /// node may have created it anew, without ending this node's session.
    pub(super) fn silence_what_was_held(&mut self) {
        let held: Vec<Ipv4Addr> =
            self.vips.iter().filter(|(_, vip)| vip.is_held()).map(|(address, _)| *address).collect();
        for address in held {
            self.set_entry(address, Some(Entry::Foreign { mac: MacAddr::ZERO }));
            let vip = self.vip(address);
            vip.let_go();
            vip.handing = None;
            vip.unread = true;
            self.dirty.insert(address);
        }
    }

    /// Requests a read of the claims of all VIPs for which this node went on answering, under
    /// `hold`. The claims are believed, whatever they say. The exception is a store that may have
    /// gone back, because its claims are old. Until all of them have been read, the program does
    /// not learn that the fence is valid, so that it still gives way.
    pub(super) fn read_what_was_held(&mut self, went_back: bool) {
        for (address, vip) in self.vips.iter_mut().filter(|(_, vip)| vip.is_held()) {
            vip.disputed |= !went_back;
            vip.read_at_once();
            self.dirty.insert(*address);
            self.doubt.begin(*address);
        }
    }

    /// Requests a read of the claims of all VIPs for which this node answers.
    pub(super) fn read_what_is_at_stake(&mut self) {
        for (address, vip) in
            self.vips.iter_mut().filter(|(_, vip)| vip.has_a_stake() || vip.handing.is_some())
        {
            vip.read_at_once();
            self.dirty.insert(*address);
        }
    }
}
