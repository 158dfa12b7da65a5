//! Decision about the addresses of a Service's status, and about the node that writes them.
//!
//! kube-proxy sends the cluster's own traffic for an address in a status to the Service, whoever has
//! the address. [`Naming`] says which addresses a status may name.
//!
//! All holders of a Service's VIPs would write the same addresses, so two writes
//! do no harm. An address that only some nodes refuse stays if it is there.
//! Otherwise nodes would undo each other's writes.

use std::{collections::BTreeMap, net::IpAddr};

use super::{
    Command, Role, Services, Unselected, Vip,
    records::{ServiceRecord, StatusOwner},
    standing::Standing,
};
use crate::records::ServiceName;

/// Decision about an address in the statuses of the Services that have it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Naming {
    /// They name it.
    Named,
    /// A status that names it keeps it. It is added to no other.
    Left,
    /// The same, although a node holds the VIP: only Leases say that the address is on a segment.
    Unconfirmed,
    /// No status names it.
    #[default]
    Unnamed,
}

/// Decision about naming an address in a Service's status.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Acceptance {
    Accepted,
    /// It stays if it is there.
    Left,
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

impl Services {
    /// Decides if statuses may name an address that is not refused.
    ///
    /// A user who names an address must not have the cluster's traffic for a host sent to a Service. So
    /// the controller names an address that no admin has chosen once its VIP is held: then no other host
    /// has answered for it. Claims and Leases are written with the tokens of nodes, so the address must
    /// be on a segment that a Node object confirms, too.
    pub(super) fn naming(&self, address: IpAddr, standing: &Standing) -> Naming {
        let vip = &self.vips[&address];
        let is_held = vip.order.is_held || self.holders.left.contains_key(&address);
        let is_near = self.reserved.is_on_segment(address);
        if self.is_chosen_by_an_admin(address, vip) {
            return if standing.was_held || is_near { Naming::Named } else { Naming::Unnamed };
        }
        let is_confirmed = self.reserved.is_on_confirmed_segment(address);
        match self.settings.role {
            Role::Alone | Role::Announcer if is_held || is_near => Naming::Named,
            Role::Controller if is_held && is_confirmed => Naming::Named,
            Role::Controller if is_held => Naming::Unconfirmed,
            Role::Controller if standing.was_held && is_confirmed => Naming::Left,
            Role::Alone | Role::Announcer | Role::Controller => Naming::Unnamed,
        }
    }

    /// Returns true if the address is in a pool or came from one, is permitted by its network, or was
    /// given by `MetalLB`'s controller.
    fn is_chosen_by_an_admin(&self, address: IpAddr, vip: &Vip) -> bool {
        let is_from_metallb = |service| {
            self.entries
                .get(service)
                .is_some_and(|entry| entry.record.status_from_metallb && entry.record.has_in_status(address))
        };
        self.settings.allow.iter().any(|net| net.contains(&address))
            || self.allocator.kind_of(address).is_some()
            || vip.services.iter().any(|(service, _)| is_from_metallb(service))
    }

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
        Acceptance::Left => present.contains(address),
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
