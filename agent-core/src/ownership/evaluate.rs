//! Decision about the next step for one VIP, from its claim, its Services and the time.

use std::{net::Ipv4Addr, sync::Arc, time::Duration};

use vipward_common::MacAddr;

use super::{
    ClaimWrite, Command, Disqualified, Engine, Entry, Fault, RETRY, StopReason,
    vip::{Again, Busy, Vip},
};
use crate::{
    cluster::{ClaimNote, ClaimRecord, ClaimState, Epoch, Holder, NodeName, Session},
    time::Monotonic,
};

impl Engine {
    /// Returns the time for which a claim rests after a change of
    /// holder. An owner has as long to repair it.
    pub(super) fn rest(&self) -> Duration {
        self.settings.lease + self.settings.margin
    }

    pub(super) fn vip(&mut self, address: Ipv4Addr) -> &mut Vip {
        self.vips.get_mut(&address).expect("invariant: a VIP that is looked at is known")
    }

    /// Takes the next step for a VIP from everything that is known about
    /// it. Returns the time of the next evaluation.
    pub(super) fn evaluate(&mut self, address: Ipv4Addr, now: Monotonic) -> Again {
        if self.stop_reason() == Some(StopReason::Uninstall) {
            self.withdraw(address);
        }
        if let Err(again) = self.may_decide(address, now) {
            return again;
        }
        let vip = self.vips.get(&address)?;
        if self.stop_reason() == Some(StopReason::Uninstall) {
            return self.uninstall(address, now);
        }
        let Some(claim) = vip.claim.clone() else { return self.without_claim(address, now) };
        let is_ours = self.is_ours(&claim.state);
        // If a peer was heard on the wire, the claim is believed, whatever it says.
        let is_settled = vip.is_held() && vip.handing.is_none() && !vip.disputed;
        // A host whose clock stood still does not know which changes it has missed.
        let is_ahead = claim.state.holder().is_some() && vip.held < Some(claim.epoch);
        let is_doubtful = is_ahead && !self.own.is_renewed_since(vip.changed);
        let is_outdone = is_ahead && !is_doubtful;
        let is_older = is_settled && vip.held > Some(claim.epoch);
        // A handover of this node goes on until a node holds the VIP.
        let is_in_handover = matches!(&claim.state, ClaimState::Offered { to, from }
            if self.is_us(&to.node, to.session) || self.names_us(from));
        if claim.deleting && !(is_in_handover && vip.demand.is_some()) {
            return self.deleting(address, &claim, now);
        }
        match &claim.state {
            ClaimState::Held(_) if is_ours => self.ours(address, &claim, now),
            ClaimState::Offered { to, from } if is_ours && !is_settled => {
                self.accept(address, &claim, to, from, now)
            }
            ClaimState::Offered { to, from } if self.names_us(from) && !is_older => {
                self.offered(address, &claim, to, now)
            }
            ClaimState::Held(_) | ClaimState::Offered { .. } | ClaimState::Released | ClaimState::Blank
                if is_settled && !is_outdone =>
            {
                // While the fence is valid, no other node can have taken the VIP:
                // somebody has edited the claim. If the fence has lapsed, the next
                // renewal shows if the session has ended.
                if !self.own.is_valid(now) {
                    return None;
                }
                if is_doubtful {
                    self.own.renew_now(now);
                    return Some(now + RETRY / 5);
                }
                self.repair(address, if is_older { Fault::Older } else { Fault::Edited });
                None
            }
            ClaimState::Held(holder) | ClaimState::Offered { to: holder, .. } => {
                self.others(address, &claim, holder, now)
            }
            ClaimState::Released => {
                self.is_nowhere(address);
                self.free(address, &claim, now)
            }
            ClaimState::Blank => {
                self.is_nowhere(address);
                self.vip(address).unclear.get_or_insert(now);
                self.free(address, &claim, now)
            }
        }
    }

    /// Succeeds if a decision is possible. Otherwise fails with the time of the next evaluation: a
    /// request is under way, it is too early for one, or the claim must be read first.
    fn may_decide(&mut self, address: Ipv4Addr, now: Monotonic) -> Result<(), Again> {
        let vip = self.vips.get(&address).ok_or(None)?;
        if vip.busy.is_some() {
            return Err(self.keep_handing(address, now));
        }
        let from = if vip.unread { vip.retry.max(vip.next_read()) } else { vip.retry };
        if from > now {
            return Err(Some(from).into_iter().chain(self.keep_handing(address, now)).min());
        }
        if vip.unread {
            self.read_claim(address);
            return Err(None);
        }
        Ok(())
    }

    fn is_us(&self, name: &NodeName, session: Session) -> bool {
        *name == self.settings.node && self.own.session() == Some(session)
    }

    /// Returns true if a claim's pair of node and session is this node's own.
    pub(super) fn names_us(&self, (node, session): &(NodeName, Session)) -> bool {
        self.is_us(node, *session)
    }

    pub(super) fn is_ours(&self, state: &ClaimState) -> bool {
        state.holder().is_some_and(|holder| self.is_us(&holder.node, holder.session))
    }

    /// Takes the next step for a VIP without an object.
    fn without_claim(&mut self, address: Ipv4Addr, now: Monotonic) -> Again {
        let vip = &self.vips[&address];
        if vip.demand.is_none() {
            self.set_entry(address, None);
            self.forget(address);
            return None;
        }
        if vip.is_held() {
            // If the fence has lapsed, the next renewal shows if the session has ended.
            if !self.own.is_valid(now) {
                return None;
            }
            self.repair(address, Fault::Missing);
            return None;
        }
        self.is_nowhere(address);
        let vip = &self.vips[&address];
        let may_take = vip.unclear.map_or(now, |since| self.unclear_until(vip, since, now));
        self.take(address, None, may_take, now)
    }

    /// Takes the next step for a VIP whose claim names this node.
    fn ours(&mut self, address: Ipv4Addr, claim: &ClaimRecord, now: Monotonic) -> Again {
        let vip = &self.vips[&address];
        let believed = self.believed_at(vip, claim, now);
        let is_believed = believed <= now;
        let Some(demand) = vip.demand.clone() else {
            if !is_believed {
                return Some(believed);
            }
            self.set_entry(address, None);
            self.vip(address).let_go();
            // The node that has handed the VIP to this one may answer for it until the claim has
            // rested. Without a claim, others would not wait.
            let rested = self.vips[&address].changed + self.rest();
            if rested > now {
                return Some(rested);
            }
            self.delete(address, claim);
            return None;
        };
        if vip.is_held() {
            if vip.held > Some(claim.epoch) && vip.handing.is_none() && self.own.is_valid(now) {
                self.repair(address, Fault::Older);
                return None;
            }
            self.settle_dispute(address, now);
            return self.keep_or_leave(address, claim, &demand, now);
        }
        // This node becomes the holder only by a write that this process knows to have succeeded.
        if !self.own.is_valid(now) {
            return None;
        }
        if !is_believed {
            return Some(believed);
        }
        let us = self.settings.node.clone();
        match self.standing(&us, address, &demand, now) {
            Ok(_) => {
                let cause = claim.note.cause.clone();
                // A claim from another writer gets a new epoch.
                let is_new = self.vips[&address].unclear.is_some();
                self.hold(address, if is_new { claim.epoch.next() } else { claim.epoch }, &cause);
            }
            Err(disqualified) => self.release(address, claim, &disqualified),
        }
        None
    }

    /// Takes back a VIP that the program gave away: the claim names this node.
    fn settle_dispute(&mut self, address: Ipv4Addr, now: Monotonic) {
        let is_valid = self.own.is_valid(now);
        let has_home = self.home(address, self.vips[&address].demand.as_ref()).is_some();
        let vip = self.vip(address);
        if vip.disputed && !is_valid {
            return;
        }
        if std::mem::take(&mut vip.disputed) {
            vip.entry = None;
            self.set_entry(address, Some(Entry::Held));
            self.announce(address);
        } else if vip.handing.is_none() && has_home {
            self.set_entry(address, Some(Entry::Held));
        }
    }

    /// Announces the VIP again. Waits while the program does not know that the fence is valid.
    pub(super) fn announce(&mut self, address: Ipv4Addr) {
        if !self.doubt.is_about(address) {
            self.command(Command::Announce { vip: address });
        }
    }

    /// Takes the next step for a VIP that another node holds.
    fn others(&mut self, address: Ipv4Addr, claim: &ClaimRecord, holder: &Holder, now: Monotonic) -> Again {
        self.vip(address).disown();
        if let Some(again) = self.finish_handing(address, holder, now) {
            return Some(again);
        }
        self.set_entry(address, Some(Entry::Foreign { mac: holder.mac }));
        if self.has_ended(&holder.node, holder.session, now) {
            return self.free(address, claim, now);
        }
        self.vip(address).free = None;
        None
    }

    fn is_nowhere(&mut self, address: Ipv4Addr) {
        let vip = self.vip(address);
        vip.disown();
        vip.handing = None;
        self.set_entry(address, Some(Entry::Foreign { mac: MacAddr::ZERO }));
    }

    /// Takes the next step for a VIP without a holder. The owner of a claim in doubt comes first.
    fn free(&mut self, address: Ipv4Addr, claim: &ClaimRecord, now: Monotonic) -> Again {
        let vip = &self.vips[&address];
        let from = vip.unclear.map_or(now, |since| self.unclear_until(vip, since, now));
        if vip.demand.is_none() {
            let from = from.max(vip.changed + self.rest());
            if from <= now && self.is_reporter(address, now) {
                self.delete(address, claim);
            }
            return Some(from.max(now + self.rest()));
        }
        let was_ours = claim.state.holder().is_some_and(|holder| holder.node == self.settings.node);
        let rests = claim.epoch > Epoch(0) && !was_ours;
        let rested = if rests { vip.changed + self.rest() } else { now };
        self.take(address, Some(claim), from.max(rested), now)
    }

    /// Writes a claim that makes this node the holder. This node, or the one
    /// that hands the VIP over, already answers for it.
    pub(super) fn hold(&mut self, address: Ipv4Addr, epoch: Epoch, cause: &str) {
        self.make_ours(address, epoch, cause, false);
    }

    /// Writes a claim that makes this node the holder, as soon as the write has succeeded.
    pub(super) fn make_ours(&mut self, address: Ipv4Addr, epoch: Epoch, cause: &str, can_wait: bool) {
        let vip = &self.vips[&address];
        let demand = vip.demand.clone().unwrap_or_default();
        let Some(session) = self.own.session() else { return };
        let Some(link) = self.home(address, Some(&demand)) else {
            // The VIP was held here, and its interface is gone. No other node would free it.
            if let Some(claim) = vip.claim.clone() {
                self.release(address, &claim, &Disqualified::NoInterface);
            } else {
                self.set_entry(address, Some(Entry::Foreign { mac: MacAddr::ZERO }));
                self.vip(address).held = None;
            }
            return;
        };
        let holder = Holder {
            node: self.settings.node.clone(),
            session,
            mac: link.mac,
            interface: Arc::clone(&link.name),
        };
        let note = ClaimNote { services: demand.services.clone(), cause: cause.to_owned(), trouble: None };
        let write = ClaimWrite {
            vip: address,
            expected: vip.expected(),
            epoch,
            state: ClaimState::Held(holder),
            note,
            can_wait,
        };
        let from = vip.claim.as_ref().and_then(|claim| claim.state.answering().cloned());
        self.send(Busy::Hold(write.clone(), from), write);
    }

    pub(super) fn send(&mut self, busy: Busy, write: ClaimWrite) {
        let vip = self.vip(write.vip);
        vip.rested_on = Some(write.expected.clone());
        vip.busy = Some(busy);
        self.command(Command::WriteClaim(write));
    }

    pub(super) fn write(
        &mut self,
        address: Ipv4Addr,
        busy: Busy,
        epoch: Epoch,
        state: ClaimState,
        note: ClaimNote,
    ) {
        let expected = self.vips[&address].expected();
        self.send(busy, ClaimWrite { vip: address, expected, epoch, state, note, can_wait: false });
    }

    /// Stops answering, then releases the claim.
    pub(super) fn release(&mut self, address: Ipv4Addr, claim: &ClaimRecord, why: &Disqualified) {
        self.set_entry(address, Some(Entry::Foreign { mac: MacAddr::ZERO }));
        let vip = self.vip(address);
        vip.let_go();
        vip.handing = None;
        let note = ClaimNote {
            services: vip.services(),
            cause: format!("{} has let go of it: {why}", self.settings.node),
            trouble: None,
        };
        self.write(address, Busy::Free, claim.epoch, ClaimState::Released, note);
    }

    pub(super) fn delete(&mut self, address: Ipv4Addr, claim: &ClaimRecord) {
        self.vip(address).busy = Some(Busy::Delete);
        self.command(Command::DeleteClaim { vip: address, expected: claim.version.clone() });
    }

    pub(super) fn read_claim(&mut self, address: Ipv4Addr) {
        let now = self.now;
        let vip = self.vip(address);
        vip.busy = Some(Busy::Read);
        vip.unread = false;
        vip.count_read(now);
        self.command(Command::ReadClaim(address));
    }

    /// Commands an entry, unless the last command was the same.
    pub(super) fn set_entry(&mut self, address: Ipv4Addr, mut entry: Option<Entry>) {
        let demand = self.vips.get(&address).and_then(|vip| vip.demand.as_ref());
        let home = self.home(address, demand).map(|link| Arc::clone(&link.name));
        if let Some(vip) = self.vips.get_mut(&address) {
            // Without a Service, the address is not guarded either: any host may have it.
            if vip.demand.is_none() && matches!(entry, Some(Entry::Foreign { .. })) {
                entry = None;
            }
            if vip.entry == Some(entry) && vip.home == home {
                return;
            }
            vip.entry = Some(entry);
            if vip.home != home {
                vip.home.clone_from(&home);
                // A probe's result belongs to another segment now.
                self.stop_asking(address);
            }
        }
        self.command(Command::SetEntry { vip: address, entry, home });
    }

    /// Returns true if this node may take VIPs now.
    pub(super) fn may_begin(&self) -> bool {
        self.doubt.is_over() && self.stop_reason() != Some(StopReason::Restart)
    }

    /// Stops answering for all VIPs. The session is over, and other nodes may take them.
    pub(super) fn let_go_of_all(&mut self) {
        let answered: Vec<Ipv4Addr> = self
            .vips
            .iter()
            .filter(|(_, vip)| matches!(vip.entry, Some(Some(Entry::Held | Entry::Handover { .. }))))
            .map(|(address, _)| *address)
            .collect();
        for address in answered {
            self.vip(address).handing = None;
            let claim = self.vips[&address].claim.as_ref();
            let holder = claim.and_then(|claim| claim.state.holder());
            let mac = holder.map_or(MacAddr::ZERO, |holder| holder.mac);
            self.set_entry(address, Some(Entry::Foreign { mac }));
        }
        self.pacing.forget_offers();
        for vip in self.vips.values_mut() {
            vip.disown();
            vip.free = None;
        }
    }

    fn forget(&mut self, address: Ipv4Addr) {
        self.stop_asking(address);
        let Some(vip) = self.vips.remove(&address) else { return };
        self.pacing.end_offer(address);
        if let Some(due) = vip.due {
            self.due.remove(&(due, address));
        }
        self.index_claim(address, &vip.owners, Vec::new(), self.now);
    }
}
