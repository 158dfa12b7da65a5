//! Effects of the failure detector: the findings of this node's monitor, and its next plan.

use std::sync::Arc;

use super::Engine;
use crate::{
    liveness::{Answers, ExpiryNotice, Finding},
    ownership::command::{Command, Notice},
    records::Session,
};

impl Engine {
    /// Applies the monitor's findings.
    pub(super) fn on_detected(&mut self, finding: Finding) {
        match finding {
            Finding::Unresponsive { session, round } => {
                let node = self.nodes.on_unresponsive(session, round, self.now);
                self.commands.extend(node.map(Command::AvoidServer));
            }
            Finding::Answers { session } => self.nodes.wire.suspects.answers(session),
            Finding::Pinged { by, lately } => {
                if self.nodes.wire.on_pinged(by, lately, self.now) {
                    self.nodes.own.renew_now(self.now);
                }
            }
            Finding::Contact { interface, received, answers } => {
                self.on_contact(&interface, received, answers);
            }
            Finding::Ended(word) => self.on_notified_end(word),
            Finding::Expired { session } => {
                let node = self.nodes.on_notified_of(session, self.now);
                self.commands.extend(node.map(Command::ReadLease));
            }
        }
    }

    /// Applies the monitor's finding about an interface.
    fn on_contact(&mut self, interface: &Arc<str>, received: bool, answers: Answers) {
        if self.nodes.wire.contacts.update(interface, received, answers, self.now) {
            self.set_one_way(Arc::clone(interface), false);
        }
        self.evaluate_all();
    }

    /// Records an expiry notice that the program has received. The Lease shows if it is true: until
    /// a renewal that is sent from now on has succeeded, the program counts the session as ended.
    fn on_notified_end(&mut self, ExpiryNotice { session, number }: ExpiryNotice) {
        let own = &mut self.nodes.own;
        if own.session_of_deadline() != Some(session) {
            return;
        }
        let reads = own.lease_deadline.on_notified(number, self.nodes.settings.renewal, self.now);
        if reads && own.lives() && !own.is_renewing() {
            self.read_own_lease();
        }
    }

    /// Records a false expiry notice. After several, this node leaves the failure detector for a
    /// while.
    pub(super) fn on_false_end(&mut self, session: Session) {
        let mute_for = self.nodes.wire.on_false_end(self.now);
        if mute_for.is_some() {
            self.nodes.own.renew_now(self.now);
        }
        self.command(Command::Notify(Notice::FalseEnd { session, mute_for }));
    }

    /// Lets the program refuse all frames if this node takes no part. Its Lease has no offer: from
    /// now on, no node expires its session as unresponsive.
    pub(super) fn heed_none(&mut self) {
        if !self.nodes.wire.may_offer(self.now) && self.nodes.wire.set_heeding(false) {
            self.command(Command::SetHeeding(false));
        }
    }

    /// Takes the steps of wire failover that are due.
    pub(super) fn tick_wire(&mut self) {
        if self.nodes.wire.scale.is_none() {
            return;
        }
        self.nodes.forget_deleted(self.now);
        for (interface, is_one_way) in self.nodes.judge_contacts(self.now) {
            self.set_one_way(interface, is_one_way);
        }
        self.commands.extend(self.nodes.suspects_to_read(self.now).into_iter().map(Command::ReadLease));
        if let Some((moves, lasts)) = self.nodes.judge_end(self.now) {
            self.command(Command::Notify(Notice::WireSlow { moves, lasts }));
        }
    }

    /// Gives the monitor another plan, if the plan has changed. Until all Leases have been listed,
    /// the program still accepts the peers of the former process, and answers their pings.
    pub(super) fn tick_wire_plan(&mut self) {
        if !self.synced || !std::mem::take(&mut self.nodes.wire.is_stale) {
            return;
        }
        let plan = self.nodes.wire_plan();
        if plan == self.nodes.wire.plan {
            return;
        }
        let forgotten = self.nodes.wire.contacts.keep(&plan);
        if self.nodes.wire.set_plan(&plan, self.now) {
            self.nodes.own.renew_now(self.now);
        }
        self.command(Command::SetWire(plan));
        // Where no peer is pinged any longer, missing answers are no fault of this node.
        for interface in forgotten {
            self.set_one_way(interface, false);
        }
    }

    /// Reports that an interface's link has become one-way or two-way, and records what counts now.
    fn set_one_way(&mut self, interface: Arc<str>, is_one_way: bool) {
        self.command(Command::Notify(Notice::WireContact { interface, is_one_way }));
        self.apply_interfaces();
    }

    /// Records the interfaces that count, if they have changed.
    pub(super) fn apply_interfaces(&mut self) {
        let interfaces = self.nodes.wire.contacts.that_count();
        if self.nodes.own.interfaces != interfaces {
            self.nodes.own.interfaces = interfaces;
            self.nodes.own.renew_now(self.now);
            self.nodes.wire.is_stale = true;
            self.evaluate_all();
        }
    }
}
