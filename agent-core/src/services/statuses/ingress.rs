//! Task about a Service's status: the addresses that belong there, and the node that writes them.
//!
//! kube-proxy sends the cluster's own traffic for an address in a status to the Service, whoever
//! has the address. [`Naming`] decides which addresses a status may name.
//!
//! All holders of a Service's VIPs would write the same addresses, so two writes
//! do no harm. An address that only some nodes refuse stays if it is there.
//! Otherwise nodes would undo each other's writes.

use std::{collections::BTreeMap, net::IpAddr};

use super::{super::ServiceRecord, standing::Standing};

/// Decision about an address in the statuses of the Services that have it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Naming {
    Named,
    /// A status that names it keeps it. It is added to no other.
    Left,
    /// The same, although a node holds the VIP: only Leases state that the address is on a segment.
    Unconfirmed,
    #[default]
    Unnamed,
}

/// Decision about naming an address in a Service's status.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Acceptance {
    Accepted,
    /// It stays if it is there.
    Left,
    Refused,
}

/// Task about a status.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Duty {
    Write(Vec<IpAddr>),
    Clear,
}

/// Returns the task about a status, for whichever node writes it.
///
/// What another controller has left is replaced. Without an address in its place, it stays.
pub(crate) fn due(
    record: &ServiceRecord,
    standing: Standing,
    wanted: &[(IpAddr, Acceptance)],
) -> Option<Duty> {
    let is_left = match standing {
        Standing::Own => false,
        Standing::Left(_) => true,
        Standing::Bound => return None,
    };
    let present = present(record);
    let belongs = |(address, acceptance): &(IpAddr, Acceptance)| match acceptance {
        Acceptance::Accepted => true,
        Acceptance::Left => !is_left && present.contains(address),
        Acceptance::Refused => false,
    };
    let target: Vec<_> =
        wanted.iter().filter(|wanted| belongs(wanted)).map(|(address, _)| *address).collect();
    let is_right =
        target.len() == record.ingress.len() && target.iter().all(|address| present.contains(address));
    if is_right {
        None
    } else if target.is_empty() {
        (!is_left).then_some(Duty::Clear)
    } else {
        // A Service that is being deleted gets no address.
        (!record.deleting).then_some(Duty::Write(target))
    }
}

/// Returns true if the task is this node's. A VIP's holder writes, and a past holder still
/// changes and clears its own writes. `held` has the VIPs that this node holds, or held before.
/// With `orphans`, this node also clears writes that may have no holder left to clear them.
pub(crate) fn is_ours(
    due: &Duty,
    record: &ServiceRecord,
    held: &BTreeMap<IpAddr, bool>,
    orphans: bool,
) -> bool {
    let wrote = present(record).iter().any(|address| held.contains_key(address));
    match due {
        Duty::Write(target) => wrote || target.iter().any(|address| held.get(address) == Some(&true)),
        Duty::Clear => wrote || orphans,
    }
}

fn present(record: &ServiceRecord) -> Vec<IpAddr> {
    record.ingress.iter().filter_map(|ingress| ingress.ip).collect()
}
