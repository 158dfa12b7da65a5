//! One VIP: what its claim, its Services and the time call for on this node.

use std::{net::Ipv4Addr, sync::Arc, time::Duration};

use vipward_common::MacAddr;

use super::{
    ClaimWrite, Command, Demand, Disqualified, Engine, Entry, Expected, StopReason, asking::Asking, claims,
    handover::Handing,
};
use crate::core::{
    cluster::{ClaimNote, ClaimRecord, ClaimState, Epoch, Holder, NodeName, ServiceName, Session, Version},
    time::Monotonic,
};

/// A request about a claim that is under way.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Busy {
    /// It makes us hold the VIP: a take, an acceptance, a take-back, a repair. With who has answered for it until then.
    Hold(ClaimWrite, Option<NodeName>),
    /// It names a successor.
    Offer,
    /// It changes neither holder nor epoch of a claim of ours.
    Update,
    /// It says that nobody has it, and why.
    Free,
    Delete,
    Read,
}

/// A VIP, as this node sees it.
#[derive(Debug)]
pub(super) struct Vip {
    pub(super) demand: Option<Demand>,
    pub(super) claim: Option<ClaimRecord>,
    /// When this node has deleted the object the last time.
    pub(super) deleted: Option<Monotonic>,
    /// The version that the claim had when it vanished.
    pub(super) gone: Option<Version>,
    /// When the holder was first seen to have changed.
    pub(super) changed: Monotonic,
    /// Since when the claim is blank, missing, or names somebody, without anybody of ours having written so.
    pub(super) unclear: Option<Monotonic>,
    /// The sessions that the VIP was answered for in, by the last claim that is believed.
    pub(super) owners: Vec<(NodeName, Session)>,
    /// The epoch in which this node holds it, by its own write or by what it found.
    pub(super) held: Option<Epoch>,
    /// What its entry was last said to be; none before anything was said.
    #[expect(clippy::option_option, reason = "nothing said, no entry, and an entry are three things")]
    pub(super) entry: Option<Option<Entry>>,
    /// What was last said to be our interface on its segment.
    pub(super) home: Option<Arc<str>>,
    pub(super) busy: Option<Busy>,
    /// What the write that is under way, or was last, rests on.
    pub(super) rested_on: Option<Expected>,
    /// The claim must be read before anything is decided.
    pub(super) unread: bool,
    /// Nothing is asked for before this.
    pub(super) retry: Monotonic,
    pub(super) handing: Option<Handing>,
    /// Since when this node could take it.
    pub(super) free: Option<Monotonic>,
    /// Since when nobody has it and nobody can.
    pub(super) nobody: Option<Monotonic>,
    /// The better candidate, and since when it is one.
    pub(super) better: Option<(NodeName, Monotonic)>,
    /// A write of this process may have made it the holder, without its knowing so.
    pub(super) attempted: bool,
    /// The program gave way, or a peer claims it: the claim says who is right.
    pub(super) disputed: bool,
    /// Whether its address is free, as far as this node has asked.
    pub(super) asking: Asking,
    pub(super) due: Option<Monotonic>,
}

impl Vip {
    pub(super) fn new(now: Monotonic) -> Self {
        Self {
            demand: None,
            claim: None,
            deleted: None,
            gone: None,
            changed: now,
            unclear: None,
            owners: Vec::new(),
            held: None,
            entry: None,
            home: None,
            busy: None,
            rested_on: None,
            unread: false,
            retry: now,
            handing: None,
            free: None,
            nobody: None,
            better: None,
            attempted: false,
            disputed: false,
            asking: Asking::default(),
            due: None,
        }
    }

    pub(super) fn is_held(&self) -> bool {
        self.held.is_some()
    }

    /// Whatever this node had of it or tried to have, it is another's or nobody's now.
    fn disown(&mut self) {
        self.held = None;
        self.attempted = false;
        self.disputed = false;
    }

    /// Whether it is held, and its claim must be read or repaired first.
    pub(super) fn is_in_doubt(&self) -> bool {
        self.is_held() && (self.unread || self.disputed || self.busy.is_some())
    }

    pub(super) fn epoch(&self) -> Epoch {
        let claimed = self.claim.as_ref().map(|claim| claim.epoch);
        claimed.max(self.held).unwrap_or_default()
    }

    pub(super) fn expected(&self) -> Expected {
        self.claim.as_ref().map_or(Expected::Absent, |claim| Expected::At(claim.version.clone()))
    }

    fn services(&self) -> Vec<ServiceName> {
        self.demand.as_ref().map(|demand| demand.services.clone()).unwrap_or_default()
    }
}

/// When a VIP is to be looked at again.
pub(super) type Again = Option<Monotonic>;

impl Engine {
    /// How long a claim rests after a change of holder, and how long the owner has to put something right.
    pub(super) fn rest(&self) -> Duration {
        self.settings.lease + self.settings.margin
    }

    pub(super) fn vip(&mut self, address: Ipv4Addr) -> &mut Vip {
        self.vips.get_mut(&address).expect("invariant: a VIP that is looked at is known")
    }

    /// Looks at everything that is known about a VIP, and takes the next step; says when to look again.
    pub(super) fn evaluate(&mut self, address: Ipv4Addr, now: Monotonic) -> Again {
        if self.stop_reason() == Some(StopReason::Uninstall) {
            self.withdraw(address);
        }
        let vip = self.vips.get(&address)?;
        if vip.busy.is_some() {
            return self.keep_handing(address, now);
        }
        if vip.retry > now {
            return Some(vip.retry).into_iter().chain(self.keep_handing(address, now)).min();
        }
        if vip.unread {
            self.read_claim(address);
            return None;
        }
        if self.stop_reason() == Some(StopReason::Uninstall) {
            return self.uninstall(address, now);
        }
        let Some(claim) = vip.claim.clone() else { return self.without_claim(address, now) };
        let is_ours = self.is_ours(&claim.state);
        // When the wire says otherwise, the claim is believed, whatever it says.
        let is_settled = vip.is_held() && vip.handing.is_none() && !vip.disputed;
        // A host whose clock has stood still does not know what it has missed.
        let is_ahead = claim.state.holder().is_some() && vip.held < Some(claim.epoch);
        let is_doubtful = is_ahead && !self.own.is_renewed_since(vip.changed);
        let is_outdone = is_ahead && !is_doubtful;
        // A handover of ours goes on until somebody holds it.
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
            ClaimState::Offered { to, from } if self.names_us(from) => self.offered(address, &claim, to, now),
            ClaimState::Held(_) | ClaimState::Offered { .. } | ClaimState::Released | ClaimState::Blank
                if is_settled && !is_outdone =>
            {
                // While the fence is valid nobody can have taken it: somebody has edited the claim. If it has lapsed, the
                // next renewal tells whether the session has been ended.
                if !self.own.is_valid(now) {
                    return None;
                }
                if is_doubtful {
                    self.own.renew_now(now);
                    return Some(now + super::RETRY / 5);
                }
                self.repair(address, "the claim was edited by hand");
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

    fn is_us(&self, name: &NodeName, session: Session) -> bool {
        *name == self.settings.node && self.own.session() == Some(session)
    }

    /// The same for a pair that a claim names.
    pub(super) fn names_us(&self, (node, session): &(NodeName, Session)) -> bool {
        self.is_us(node, *session)
    }

    pub(super) fn is_ours(&self, state: &ClaimState) -> bool {
        state.holder().is_some_and(|holder| self.is_us(&holder.node, holder.session))
    }

    /// There is no object for it.
    fn without_claim(&mut self, address: Ipv4Addr, now: Monotonic) -> Again {
        let vip = &self.vips[&address];
        if vip.demand.is_none() {
            self.set_entry(address, None);
            self.forget(address);
            return None;
        }
        if vip.is_held() {
            // If the fence has lapsed, the next renewal tells whether the session has been ended.
            if !self.own.is_valid(now) {
                return None;
            }
            self.repair(address, "the claim was deleted by hand");
            return None;
        }
        self.is_nowhere(address);
        let vip = &self.vips[&address];
        let may_take = vip.unclear.map_or(now, |since| self.unclear_until(vip, since, now));
        self.take(address, None, may_take, now)
    }

    /// The claim says that this node holds it.
    fn ours(&mut self, address: Ipv4Addr, claim: &ClaimRecord, now: Monotonic) -> Again {
        let vip = &self.vips[&address];
        let believed = self.believed_at(vip, claim, now);
        let is_believed = believed <= now;
        let Some(demand) = vip.demand.clone() else {
            if !is_believed {
                return Some(believed);
            }
            self.set_entry(address, None);
            self.vip(address).held = None;
            // Who has handed it to this node may answer for it until it has rested: without a claim, others would not wait.
            let rested = self.vips[&address].changed + self.rest();
            if rested > now {
                self.vip(address).attempted = true;
                return Some(rested);
            }
            self.delete(address, claim);
            return None;
        };
        if vip.is_held() {
            if vip.held > Some(claim.epoch) && vip.handing.is_none() && self.own.is_valid(now) {
                self.repair(address, "the claim was edited by hand");
                return None;
            }
            self.settle_dispute(address, now);
            return self.keep_or_leave(address, claim, &demand, now);
        }
        // Said to be ours, but not by a write that this process knows to have succeeded: only such a one will do.
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
                // Of a claim that another was the last to write it is told that this node has taken it.
                let is_new = self.vips[&address].unclear.is_some();
                self.hold(address, if is_new { claim.epoch.next() } else { claim.epoch }, &cause);
            }
            Err(disqualified) => self.release(address, claim, &disqualified),
        }
        None
    }

    /// What the program gave away is ours after all.
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

    /// Clients are told again; while the program has not been told that the fence is valid, that comes later.
    pub(super) fn announce(&mut self, address: Ipv4Addr) {
        if !self.doubted.contains(&address) {
            self.command(Command::Announce { vip: address });
        }
    }

    /// Another node has it.
    fn others(&mut self, address: Ipv4Addr, claim: &ClaimRecord, holder: &Holder, now: Monotonic) -> Again {
        self.vip(address).disown();
        if let Some(again) = self.finish_handing(address, holder, now) {
            return Some(again);
        }
        self.set_entry(address, Some(Entry::Foreign { mac: holder.mac }));
        let vip = &self.vips[&address];
        let was_ours = vip.unclear.is_some()
            && !vip.owners.is_empty()
            && vip.owners.iter().all(|owner| self.names_us(owner));
        if was_ours && vip.demand.is_some() && self.own.is_valid(now) {
            let epoch = self.vips[&address].epoch().next();
            self.repaired(&address.to_string());
            self.hold(address, epoch, "the claim was edited by hand");
            return None;
        }
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

    /// Nobody has it, unless the claim is not as its owner wrote it.
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

    /// Writes a claim that makes this node the holder of a VIP that it, or who hands it over, answers for.
    pub(super) fn hold(&mut self, address: Ipv4Addr, epoch: Epoch, cause: &str) {
        self.make_ours(address, epoch, cause, false);
    }

    /// Writes a claim that makes this node the holder; it is one when the write has succeeded.
    pub(super) fn make_ours(&mut self, address: Ipv4Addr, epoch: Epoch, cause: &str, can_wait: bool) {
        let vip = &self.vips[&address];
        let demand = vip.demand.clone().unwrap_or_default();
        let Some(session) = self.own.session() else { return };
        let Some(link) = self.home(address, Some(&demand)) else {
            // It was held here, and its interface is gone: nobody else would free it.
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
        let from = vip.claim.as_ref().and_then(|claim| claims::answering(&claim.state));
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

    /// Stops answering, then says so.
    pub(super) fn release(&mut self, address: Ipv4Addr, claim: &ClaimRecord, why: &Disqualified) {
        self.set_entry(address, Some(Entry::Foreign { mac: MacAddr::ZERO }));
        let vip = self.vip(address);
        vip.held = None;
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
        let vip = self.vip(address);
        vip.busy = Some(Busy::Read);
        vip.unread = false;
        self.command(Command::ReadClaim(address));
    }

    /// Makes the entry so, if it is not.
    pub(super) fn set_entry(&mut self, address: Ipv4Addr, mut entry: Option<Entry>) {
        let demand = self.vips.get(&address).and_then(|vip| vip.demand.as_ref());
        let home = self.home(address, demand).map(|link| Arc::clone(&link.name));
        if let Some(vip) = self.vips.get_mut(&address) {
            // Without a Service that wants it, an address is not guarded either: it may be anybody's.
            if vip.demand.is_none() && matches!(entry, Some(Entry::Foreign { .. })) {
                entry = None;
            }
            if vip.entry == Some(entry) && vip.home == home {
                return;
            }
            vip.entry = Some(entry);
            if vip.home != home {
                vip.home.clone_from(&home);
                // What is known is of another segment.
                self.stop_asking(address);
            }
        }
        self.command(Command::SetEntry { vip: address, entry, home });
    }

    /// Whether anything new may be held now.
    pub(super) fn may_begin(&self) -> bool {
        self.doubted.is_empty() && self.stop_reason() != Some(StopReason::Restart)
    }

    /// The session is over: what this node answered for is others' to take.
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
        self.offering.clear();
        for vip in self.vips.values_mut() {
            vip.disown();
            vip.free = None;
        }
    }

    fn forget(&mut self, address: Ipv4Addr) {
        self.stop_asking(address);
        let Some(vip) = self.vips.remove(&address) else { return };
        self.offering.remove(&address);
        if let Some(due) = vip.due {
            self.due.remove(&(due, address));
        }
        self.index_claim(address, &vip.owners, Vec::new(), self.now);
    }
}
