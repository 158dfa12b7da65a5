//! Evaluation of one Service's status: the addresses that it may name, and this process's task.

use std::net::IpAddr;

use super::{
    super::{
        Command, ServiceRecord, StatusOwner,
        addresses::ClaimSummary,
        reading::Unselected,
        statuses::{Acceptance, Duty, Naming, Standing, Turns, Why, due, is_ours, turn},
    },
    Index, Vip,
    rules::Origin,
};
use crate::records::ServiceName;

impl Vip {
    /// Decides if the status of a Service that wants the VIP may name it.
    pub(super) fn accepts(&self, service: &ServiceName) -> Acceptance {
        if let Some(refusal) = &self.refusal {
            // Other nodes may decide otherwise.
            return if refusal.is_this_nodes_view() { Acceptance::Left } else { Acceptance::Refused };
        }
        let is_admitted = self.demand.as_ref().is_some_and(|demand| demand.services.contains(service));
        if !is_admitted {
            return Acceptance::Refused;
        }
        match self.naming {
            Naming::Named => Acceptance::Accepted,
            Naming::Left | Naming::Unconfirmed => Acceptance::Left,
            Naming::Unnamed => Acceptance::Refused,
        }
    }
}

impl Index {
    pub(super) fn record_turn(&mut self, new: &ServiceRecord) {
        let Some(entry) = self.entries.get(&new.name) else { return };
        if entry.selection.is_err() {
            return;
        }
        let is_kept =
            |address| self.vips.get(address).is_some_and(|vip| vip.accepts(&new.name) != Acceptance::Refused);
        let clears = entry.is_clearing || !entry.for_status.iter().any(is_kept);
        if let Some(turn) = turn(&entry.record, new, clears) {
            let turns = self.turns.entry(new.name.clone()).or_default();
            turns.add(turn);
            let is_contest = turns.is_contest();
            let Some(entry) = self.entries.get(&new.name) else { return };
            let is_overwritten = entry.record.status_owner() == StatusOwner::Vipward;
            if is_overwritten
                && (is_contest || self.standing_of(new, entry) == Standing::Left(Why::Unusable))
                && let Some(entry) = self.entries.get_mut(&new.name)
            {
                entry.rivals.insert(new.status_manager.clone());
            }
        }
    }

    pub(super) fn is_contested(&self, service: &ServiceName) -> bool {
        self.turns.get(service).is_some_and(Turns::is_contest)
    }

    pub(super) fn naming(&self, address: IpAddr, summary: &ClaimSummary, origin: Origin<'_>) -> Naming {
        let vip = &self.vips[&address];
        let is_held = vip.order.is_held || self.holders.left.contains_key(&address);
        let is_near = self.reserved.is_on_segment(address);
        if origin.pool.is_some() || self.is_chosen_by_an_admin(address, vip) {
            return if summary.was_held || is_near { Naming::Named } else { Naming::Unnamed };
        }
        let is_confirmed = self.reserved.is_on_confirmed_segment(address);
        self.role.naming(summary, is_held, is_near, is_confirmed)
    }

    /// Returns true if the address is permitted by its network, or was given by `MetalLB`'s controller.
    fn is_chosen_by_an_admin(&self, address: IpAddr, vip: &Vip) -> bool {
        let is_from_metallb = |service| {
            self.record(service).is_some_and(|it| it.status_from_metallb && it.has_in_status(address))
        };
        self.settings.allow.iter().any(|net| net.contains(&address))
            || vip.services.iter().any(|(service, _)| is_from_metallb(service))
    }

    /// Evaluates this node's task about a Service's status. The
    /// node keeps a task that it has begun until the task is done.
    pub(super) fn settle_one(&mut self, name: &ServiceName, listed: bool, commands: &mut Vec<Command>) {
        let is_contested = self.is_contested(name);
        let Some(entry) = self.entries.get(name) else { return };
        let acceptance =
            |address| self.vips.get(address).map_or(Acceptance::Refused, |vip| vip.accepts(name));
        let for_status = entry.for_status.iter().map(|address| (*address, acceptance(address)));
        let due = due(&entry.record, self.standing(entry), &for_status.collect::<Vec<_>>());
        let due = due.filter(|_| !self.is_insisted_on(entry));
        // Two controllers must not overwrite each other in turns.
        let due = due.filter(|due| !is_contested || *due == Duty::Clear);
        // What is reserved together is written together.
        let is_begun = entry.duty == due;
        let due = due.filter(|due| !entry.given.pending || is_begun || *due == Duty::Clear);
        // A status from MetalLB, of a Service that Vipward has not served, may be MetalLB's still.
        let is_from_metallb = entry.record.status_from_metallb && !entry.was_ours;
        let due = due.filter(|due| !is_from_metallb || *due != Duty::Clear);
        // A Service of another class may belong to another
        // installation, which clears its own statuses.
        let is_of_class = entry.selection != Err(Unselected::Class);
        let orphans = listed && is_of_class;
        let duty = due.filter(|due| {
            let is_this_nodes =
                entry.duty.as_ref() == Some(due) || is_ours(due, &entry.record, &self.held, orphans);
            self.role.does(is_this_nodes, !is_of_class && !entry.was_ours)
        });
        if entry.duty == duty {
            return;
        }
        let service = name.clone();
        commands.push(match &duty {
            Some(Duty::Write(addresses)) => Command::WriteIngress { service, addresses: addresses.clone() },
            Some(Duty::Clear) => Command::ClearIngress { service },
            None => Command::LeaveIngress { service },
        });
        if let Some(entry) = self.entries.get_mut(name) {
            entry.is_clearing |= duty == Some(Duty::Clear);
            entry.duty = duty;
        }
    }
}
