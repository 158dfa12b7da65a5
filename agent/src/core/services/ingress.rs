//! What a Service's status should say, and which node sees to it.
//!
//! Every holder of one of a Service's VIPs would write the same, so two that do write disturb nobody. What only some
//! nodes refuse is left in if it is there, or they would undo each other's work.

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr},
};

use super::records::{ServiceRecord, StatusOwner};

/// Whether an address is announced.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Acceptance {
    Accepted,
    /// Not by this node; others may see it otherwise.
    RefusedHere,
    Refused,
}

/// What is to be done about a status.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Duty {
    Write(Vec<Ipv4Addr>),
    Clear,
}

/// What is to be done about a status, by whichever node.
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

/// Whether it is for this node to do: a VIP's holder writes, and what a holder of the past has written, it also
/// changes and clears. `held` has the VIPs that this node holds, or held before. `orphans`: what nobody may be left to
/// clear is cleared too.
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
