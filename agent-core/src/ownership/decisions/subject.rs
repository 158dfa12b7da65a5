//! The VIP that a decision is about, with all that the decision may read and change.

use std::{net::IpAddr, sync::Arc};

use vipward_common::MacAddr;

use crate::{
    base::time::Monotonic,
    host::placement::Entry,
    ownership::{
        command::{ClaimWrite, Command, Fault, Notice},
        event::StopReason,
        limits::{Disputes, Doubt, Pacing, Queue},
        nodes::{Disqualified, Nodes},
        vip::{Busy, Commanded, Vip},
    },
    records::{ClaimNote, ClaimRecord, ClaimState, Epoch, Holder},
};

/// The former holder that a release names. With it, other nodes take the VIP at once.
pub(super) const LET_GO: &str = "has let go of it";

/// Time of a VIP's next evaluation.
pub(crate) type Again = Option<Monotonic>;

/// The VIP that a decision is about. Its methods give the commands that carry the decision out.
pub(crate) struct Subject<'a> {
    pub(crate) address: IpAddr,
    pub(crate) vip: &'a mut Vip,
    pub(crate) nodes: &'a mut Nodes,
    pub(crate) queue: &'a mut Queue,
    pub(crate) pacing: &'a mut Pacing,
    pub(crate) doubt: &'a Doubt,
    pub(crate) disputes: &'a mut Disputes,
    pub(crate) now: Monotonic,
    pub(crate) commands: &'a mut Vec<Command>,
}

impl Subject<'_> {
    pub(crate) fn command(&mut self, command: Command) {
        self.commands.push(command);
    }

    pub(super) fn evaluate_again(&mut self) {
        self.queue.add(self.address);
    }

    /// Returns true if this node's lease deadline lies ahead.
    pub(crate) fn is_valid(&self) -> bool {
        self.nodes.own.is_valid(self.now)
    }

    /// Returns true if this node may take VIPs now.
    pub(super) fn may_begin(&self) -> bool {
        self.doubt.is_over() && self.nodes.own.stop != Some(StopReason::Restart)
    }

    /// Commands an entry, unless the last command was the same.
    pub(super) fn set_entry(&mut self, mut entry: Option<Entry>) {
        let home = self.nodes.home(self.address, self.vip.demand.as_ref()).map(|home| Arc::clone(&home.name));
        // An address that no Service wants is not guarded: any host may have it.
        if self.vip.demand.is_none() && matches!(entry, Some(Entry::Foreign { .. })) {
            entry = None;
        }
        let commanded = Commanded::from(entry);
        if self.vip.commanded == commanded && self.vip.home == home {
            return;
        }
        self.vip.commanded = commanded;
        if self.vip.home != home {
            self.vip.home.clone_from(&home);
            // The results of probes are about another segment now.
            self.stop_probing();
        }
        self.command(Command::SetEntry { vip: self.address, entry, home });
    }

    /// Commands an entry that guards the VIP. A zero MAC stands for an unknown holder.
    pub(crate) fn set_foreign(&mut self, mac: MacAddr) {
        self.set_entry(Some(Entry::Foreign { mac }));
    }

    /// Stops probing the address, if it is being probed. Forgets what is known about it.
    pub(crate) fn stop_probing(&mut self) {
        self.pacing.end_asking(self.address);
        self.vip.asking.late = None;
        if std::mem::take(&mut self.vip.asking.known).is_being_probed() {
            self.command(Command::StopProbing { vip: self.address });
        }
    }

    /// Announces the VIP again. A VIP in doubt is announced when no doubt is left.
    pub(super) fn announce(&mut self) {
        if !self.doubt.is_about(self.address) {
            self.command(Command::Announce { vip: self.address });
        }
    }

    /// Writes a claim that makes this node the holder. The write goes before others,
    /// because this node or the one that hands the VIP over already answers for it.
    pub(crate) fn hold(&mut self, epoch: Epoch, cause: &str) {
        self.make_holder(epoch, cause, false);
    }

    /// Writes a claim that makes this node the holder once the write has succeeded. `can_wait` is
    /// as in [`ClaimWrite`].
    pub(super) fn make_holder(&mut self, epoch: Epoch, cause: &str, can_wait: bool) {
        let Some(session) = self.nodes.own.session() else { return };
        let Some(home) = self.nodes.home(self.address, self.vip.demand.as_ref()) else {
            // The VIP was held here, and its interface is gone. No other node would free it.
            if let Some(claim) = self.vip.claim.record.clone() {
                self.release(&claim, &Disqualified::NoInterface);
            } else {
                self.set_foreign(MacAddr::ZERO);
                self.vip.tenure.stop_holding();
            }
            return;
        };
        let holder = Holder {
            node: self.nodes.settings.node.clone(),
            session,
            mac: home.mac,
            interface: Arc::clone(&home.name),
        };
        let claim = self.vip.claim.record.as_ref();
        let from = claim.and_then(|claim| self.nodes.former(&claim.state, self.now));
        let write = ClaimWrite {
            vip: self.address,
            expected: self.vip.claim.expected(),
            epoch,
            state: ClaimState::Held(holder),
            note: self.note(cause, None),
            can_wait,
        };
        self.send(Busy::Hold(write.clone().into(), from), write);
    }

    /// Stops answering, then releases the claim.
    pub(crate) fn release(&mut self, claim: &ClaimRecord, why: &Disqualified) {
        let did =
            if self.vip.tenure.is_held() || self.vip.claim.attempted { LET_GO } else { "did not hold it" };
        self.set_foreign(MacAddr::ZERO);
        self.vip.let_go();
        self.vip.tenure.stop_handover();
        let cause = format!("{} {did}: {why}", self.nodes.settings.node);
        let note = self.note(&cause, None);
        self.write(Busy::Free, claim.epoch, ClaimState::Released, note);
    }

    /// Returns the remarks for a claim of this VIP, with its Services.
    pub(crate) fn note(&self, cause: &str, trouble: Option<String>) -> ClaimNote {
        ClaimNote { services: self.vip.services().to_vec(), cause: cause.to_owned(), trouble }
    }

    /// Writes a claim. The write goes before those that can wait.
    pub(crate) fn write(&mut self, busy: Busy, epoch: Epoch, state: ClaimState, note: ClaimNote) {
        let expected = self.vip.claim.expected();
        self.send(busy, ClaimWrite { vip: self.address, expected, epoch, state, note, can_wait: false });
    }

    pub(super) fn send(&mut self, busy: Busy, write: ClaimWrite) {
        self.vip.requests.rested_on = Some(write.expected.clone());
        self.vip.requests.busy = Some(busy);
        self.command(Command::WriteClaim(write));
    }

    /// Deletes a claim that no Service wants. A claim with a reserved address is released instead,
    /// unless a user has deleted it.
    pub(super) fn delete(&mut self, claim: &ClaimRecord) {
        if claim.reservation.is_some() && !claim.deleting {
            if claim.state != ClaimState::Released {
                let note = self.note("no Service wants it", None);
                self.write(Busy::Free, claim.epoch, ClaimState::Released, note);
            }
            return;
        }
        self.vip.requests.busy = Some(Busy::Delete);
        self.command(Command::DeleteClaim { vip: self.address, expected: claim.version.clone() });
    }

    pub(super) fn read_claim(&mut self) {
        self.vip.requests.begin_read(self.now);
        self.command(Command::ReadClaim(self.address));
    }

    /// Writes the claim of a held VIP again, because the API server has another one or none. The
    /// epoch of an object only grows. A new object's epoch begins anew, as when another node takes
    /// the VIP then: the admission policies would refuse a later epoch as a false record of earlier
    /// holders. The stated cause is still the one for which this node got the VIP.
    pub(super) fn repair(&mut self, fault: Fault) {
        let epoch = match fault {
            Fault::Missing => Epoch::default().next(),
            Fault::Edited => self.vip.epoch(),
            Fault::Older => self.vip.epoch().next(),
        };
        let known = &self.vip.claim;
        let stated = || known.record.as_ref().map(|claim| claim.note.cause.clone());
        let cause = known.cause.as_deref().map(str::to_owned).or_else(stated);
        self.command(Command::Notify(Notice::Repaired { what: self.address.to_string(), fault }));
        self.hold(epoch, &cause.unwrap_or_else(|| "its holder kept it".to_owned()));
    }
}
