//! The API server: its store, regardless of the engine's knowledge, and the results of requests.

use std::{collections::BTreeMap, net::IpAddr};

use crate::{
    ownership::{ClaimWrite, Command, Event, Expected, LeaseWrite, Outcome},
    records::{ClaimRecord, LeaseRecord, NodeName, Version},
};

#[derive(Clone, Default)]
pub(super) struct Api {
    pub(super) leases: BTreeMap<NodeName, LeaseRecord>,
    pub(super) claims: BTreeMap<IpAddr, ClaimRecord>,
    version: u64,
}

impl Api {
    fn next_version(&mut self) -> Version {
        self.version += 1;
        self.version.to_string().as_str().into()
    }

    /// Stores a Lease as given, except for its version.
    pub(super) fn store_lease(&mut self, record: LeaseRecord) {
        let version = self.next_version();
        self.leases.insert(record.node.clone(), LeaseRecord { version, ..record });
    }

    /// Stores a claim as given, except for its version.
    pub(super) fn store_claim(&mut self, record: ClaimRecord) {
        let version = self.next_version();
        self.claims.insert(record.vip, ClaimRecord { version, ..record });
    }

    /// Carries out a request, if its compare-and-swap allows it.
    pub(super) fn serve(&mut self, request: Command) -> Event {
        match request {
            Command::WriteLease(write) => {
                let node = write.node.clone();
                Event::LeaseWritten { node, outcome: self.put_lease(write) }
            }
            Command::ReadLease(node) => {
                let outcome = self.leases.get(&node).cloned().map_or(Outcome::Missing, Outcome::Done);
                Event::LeaseRead { node, outcome }
            }
            Command::WriteClaim(write) => {
                Event::ClaimWritten { vip: write.vip, outcome: self.put_claim(write) }
            }
            Command::DeleteClaim { vip, expected } => {
                let known = self.claims.get(&vip).map(|record| record.version.clone());
                let outcome = match compare(&Expected::At(expected), known.as_ref()) {
                    Ok(()) => {
                        self.claims.remove(&vip);
                        Outcome::Done(())
                    }
                    Err(outcome) => outcome,
                };
                Event::ClaimDeleted { vip, outcome }
            }
            Command::ReadClaim(vip) => {
                let outcome = self.claims.get(&vip).cloned().map_or(Outcome::Missing, Outcome::Done);
                Event::ClaimRead { vip, outcome }
            }
            other @ (Command::SetDeadline(_)
            | Command::SetEntry { .. }
            | Command::SetPeers(_)
            | Command::SetSuccessor { .. }
            | Command::SetUnreached(_)
            | Command::Announce { .. }
            | Command::SetWire(_)
            | Command::SetHeeding(_)
            | Command::NotifyFormer { .. }
            | Command::ListAnew
            | Command::AvoidServer(_)
            | Command::Probe { .. }
            | Command::StopProbing { .. }
            | Command::Notify(_)
            | Command::Stopped) => unreachable!("{other:?} is no request"),
        }
    }

    fn put_lease(&mut self, write: LeaseWrite) -> Outcome<LeaseRecord> {
        let known = self.leases.get(&write.node).map(|record| &record.version);
        if let Err(outcome) = compare(&write.expected, known) {
            return outcome;
        }
        let LeaseWrite { node, expected: _, session, ended, duration, interfaces, leaving, wire, proxy } =
            write;
        let record = LeaseRecord {
            node,
            version: self.next_version(),
            session,
            ended,
            duration,
            interfaces,
            leaving,
            wire,
            proxy,
        };
        self.leases.insert(record.node.clone(), record.clone());
        Outcome::Done(record)
    }

    fn put_claim(&mut self, write: ClaimWrite) -> Outcome<ClaimRecord> {
        let known = self.claims.get(&write.vip);
        if let Err(outcome) = compare(&write.expected, known.map(|record| &record.version)) {
            return outcome;
        }
        let deleting = known.is_some_and(|known| known.deleting);
        let ClaimWrite { vip, expected: _, epoch, state, note, can_wait: _ } = write;
        let version = self.next_version();
        let record = ClaimRecord { epoch, state, deleting, note, ..ClaimRecord::blank(vip, version) };
        self.claims.insert(vip, record.clone());
        Outcome::Done(record)
    }
}

/// Failure of a request other than by compare-and-swap.
#[derive(Clone, Copy)]
pub(super) enum Failed {
    Unknown,
    Missing,
    Refused,
}

/// Returns the result of a request that was not carried out.
pub(super) fn outcome_for(request: &Command, failed: Failed) -> Event {
    fn outcome<T>(failed: Failed) -> Outcome<T> {
        match failed {
            Failed::Unknown => Outcome::Unknown,
            Failed::Missing => Outcome::Missing,
            Failed::Refused => Outcome::Refused("forbidden".into()),
        }
    }
    match request {
        Command::WriteLease(write) => {
            Event::LeaseWritten { node: write.node.clone(), outcome: outcome(failed) }
        }
        Command::ReadLease(node) => Event::LeaseRead { node: node.clone(), outcome: outcome(failed) },
        Command::WriteClaim(write) => Event::ClaimWritten { vip: write.vip, outcome: outcome(failed) },
        Command::DeleteClaim { vip, expected: _ } => {
            Event::ClaimDeleted { vip: *vip, outcome: outcome(failed) }
        }
        Command::ReadClaim(vip) => Event::ClaimRead { vip: *vip, outcome: outcome(failed) },
        Command::SetDeadline(_)
        | Command::SetEntry { .. }
        | Command::SetPeers(_)
        | Command::SetSuccessor { .. }
        | Command::SetUnreached(_)
        | Command::Announce { .. }
        | Command::SetWire(_)
        | Command::SetHeeding(_)
        | Command::NotifyFormer { .. }
        | Command::ListAnew
        | Command::AvoidServer(_)
        | Command::Probe { .. }
        | Command::StopProbing { .. }
        | Command::Notify(_)
        | Command::Stopped => unreachable!("{request:?} is no request"),
    }
}

fn compare<T>(expected: &Expected, known: Option<&Version>) -> Result<(), Outcome<T>> {
    match (expected, known) {
        (Expected::Absent, None) => Ok(()),
        (Expected::At(expected), Some(known)) if expected == known => Ok(()),
        (Expected::Absent | Expected::At(_), Some(_)) => Err(Outcome::Conflict),
        (Expected::At(_), None) => Err(Outcome::Missing),
    }
}

/// Returns the subject of a request. There is one request about a subject at a time.
pub(super) fn subject(request: &Command) -> Option<String> {
    match request {
        Command::WriteLease(write) => Some(write.node.to_string()),
        Command::ReadLease(node) => Some(node.to_string()),
        Command::WriteClaim(write) => Some(write.vip.to_string()),
        Command::DeleteClaim { vip, expected: _ } | Command::ReadClaim(vip) => Some(vip.to_string()),
        Command::SetDeadline(_)
        | Command::SetEntry { .. }
        | Command::SetPeers(_)
        | Command::SetSuccessor { .. }
        | Command::SetUnreached(_)
        | Command::Announce { .. }
        | Command::SetWire(_)
        | Command::SetHeeding(_)
        | Command::NotifyFormer { .. }
        | Command::ListAnew
        | Command::AvoidServer(_)
        | Command::Probe { .. }
        | Command::StopProbing { .. }
        | Command::Notify(_)
        | Command::Stopped => None,
    }
}
