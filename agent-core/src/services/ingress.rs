//! Decision about the addresses of a Service's status, and about the node that writes them.
//!
//! A status names only addresses that have been held, or that lie on a segment: kube-proxy sends the
//! cluster's own traffic for them to the Service.
//!
//! All holders of a Service's VIPs would write the same addresses, so two writes
//! do no harm. An address that only some nodes refuse stays if it is there.
//! Otherwise nodes would undo each other's writes.

use std::{collections::BTreeMap, net::IpAddr};

use super::{
    Command, Role, Services, Unselected, Vip,
    records::{ServiceRecord, StatusOwner},
};
use crate::{cluster::ServiceName, ownership::Demand};

/// Decision about naming an address in a status.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Acceptance {
    Accepted,
    /// Refused by this node. Other nodes may decide otherwise.
    RefusedHere,
    Refused,
}

/// Task about a status.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Duty {
    Write(Vec<IpAddr>),
    Clear,
}

impl Vip {
    /// Decides if the status of a Service that wants the VIP may name it.
    pub(super) fn accepts(&self, service: &ServiceName) -> Acceptance {
        let is_admitted = |demand: &Demand| demand.services.contains(service);
        match (&self.refusal, &self.demand) {
            (Some(refusal), _) if refusal.is_this_nodes_view() => Acceptance::RefusedHere,
            (None, Some(demand)) if !is_admitted(demand) => Acceptance::Refused,
            // Another node may know of a segment that this one does not know yet.
            (None, _) if !self.is_for_status => Acceptance::RefusedHere,
            (None, Some(_)) => Acceptance::Accepted,
            (Some(_), _) | (None, None) => Acceptance::Refused,
        }
    }
}

impl Services {
    /// Evaluates this node's task about a Service's status. The
    /// node keeps a task that it has begun until the task is done.
    pub(super) fn settle(&mut self, name: &ServiceName, listed: bool, commands: &mut Vec<Command>) {
        let is_contested = self.is_contested(name);
        let Some(entry) = self.entries.get_mut(name) else { return };
        let acceptance =
            |address| self.vips.get(address).map_or(Acceptance::Refused, |vip| vip.accepts(name));
        let for_status = entry.for_status.iter().map(|address| (*address, acceptance(address)));
        let due = due(&entry.record, &for_status.collect::<Vec<_>>());
        // Two controllers must not overwrite each other in turns.
        let due = due.filter(|due| !is_contested || *due == Duty::Clear);
        // What is reserved together is written together.
        let is_begun = entry.duty == due;
        let due = due.filter(|due| !entry.pending || is_begun || *due == Duty::Clear);
        // A status from MetalLB, of a Service that Vipward has not served, may be MetalLB's still.
        let is_from_metallb = entry.record.status_from_metallb && !entry.was_ours;
        let due = due.filter(|due| !is_from_metallb || *due != Duty::Clear);
        // A Service of another class may belong to another
        // installation, which clears its own statuses.
        let orphans = listed && entry.selection != Err(Unselected::Class);
        let duty = due.filter(|due| match self.settings.role {
            Role::Alone => {
                entry.duty.as_ref() == Some(due) || is_ours(due, &entry.record, &self.held, orphans)
            }
            Role::Announcer => false,
            // A Service that has left for another class has given its addresses back.
            Role::Controller => entry.selection != Err(Unselected::Class) || entry.was_ours,
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
        entry.duty = duty;
    }
}

/// Returns the task about a status, for whichever node writes it.
fn due(record: &ServiceRecord, wanted: &[(IpAddr, Acceptance)]) -> Option<Duty> {
    match record.status_owner() {
        StatusOwner::Other(_) => return None,
        StatusOwner::Nobody | StatusOwner::Vipward => {}
    }
    let present = present(record);
    let belongs = |(address, acceptance): &(IpAddr, Acceptance)| match acceptance {
        Acceptance::Accepted => true,
        Acceptance::RefusedHere => present.contains(address),
        Acceptance::Refused => false,
    };
    let target: Vec<_> =
        wanted.iter().filter(|wanted| belongs(wanted)).map(|(address, _)| *address).collect();
    let is_right =
        target.len() == record.ingress.len() && target.iter().all(|address| present.contains(address));
    if is_right {
        None
    } else if target.is_empty() {
        Some(Duty::Clear)
    } else {
        // A Service that is being deleted gets no address.
        (!record.deleting).then_some(Duty::Write(target))
    }
}

/// Returns true if the task is this node's. A VIP's holder writes, and a past holder still
/// changes and clears its own writes. `held` has the VIPs that this node holds, or held before.
/// With `orphans`, this node also clears writes that may have no holder left to clear them.
fn is_ours(due: &Duty, record: &ServiceRecord, held: &BTreeMap<IpAddr, bool>, orphans: bool) -> bool {
    let wrote = present(record).iter().any(|address| held.contains_key(address));
    match due {
        Duty::Write(target) => wrote || target.iter().any(|address| held.get(address) == Some(&true)),
        Duty::Clear => wrote || orphans,
    }
}

fn present(record: &ServiceRecord) -> Vec<IpAddr> {
    record.ingress.iter().filter_map(|ingress| ingress.ip).collect()
}
