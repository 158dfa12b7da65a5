//! Decision about the addresses of a Service's status, and about the node that writes them.
//!
//! All holders of a Service's VIPs would write the same addresses, so two writes
//! do no harm. An address that only some nodes refuse stays if it is there.
//! Otherwise nodes would undo each other's writes.

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr},
};

use super::records::{ServiceRecord, StatusOwner};

/// Decision about announcing an address.
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
    Write(Vec<Ipv4Addr>),
    Clear,
}

/// Returns the task about a status, for whichever node writes it.
pub(super) fn due(record: &ServiceRecord, wanted: &[(Ipv4Addr, Acceptance)]) -> Option<Duty> {
    let is_anothers = match record.status_owner() {
        StatusOwner::Other(_) => true,
        StatusOwner::Nobody | StatusOwner::Vipward => false,
    };
    if is_anothers || record.deleting {
        return None;
    }
    let present = present(record);
    let belongs = |(address, acceptance): &(Ipv4Addr, Acceptance)| match acceptance {
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
        Some(Duty::Write(target))
    }
}

/// Returns true if the task is this node's. A VIP's holder writes, and a past holder still
/// changes and clears its own writes. `held` has the VIPs that this node holds, or held before.
/// With `orphans`, this node also clears writes that may have no holder left to clear them.
pub(super) fn is_ours(
    due: &Duty,
    record: &ServiceRecord,
    held: &BTreeMap<Ipv4Addr, bool>,
    orphans: bool,
) -> bool {
    let wrote = present(record).iter().any(|address| held.contains_key(address));
    match due {
        Duty::Write(target) => wrote || target.iter().any(|address| held.get(address) == Some(&true)),
        Duty::Clear => wrote || orphans,
    }
}

fn present(record: &ServiceRecord) -> Vec<Ipv4Addr> {
    let v4 = record.ingress.iter().filter_map(|ingress| match ingress.ip {
        Some(IpAddr::V4(address)) => Some(address),
        Some(IpAddr::V6(_)) | None => None,
    });
    v4.collect()
}
