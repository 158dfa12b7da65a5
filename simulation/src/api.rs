//! The model API server: objects with versions, compare-and-swap, and what each watch has yet to be told.

use std::{collections::BTreeMap, net::Ipv4Addr, time::Duration};

use vipward::core::{
    cluster::{ClaimRecord, LeaseRecord, NodeName, NodeRecord, Version},
    ownership::{ClaimWrite, Demand, Event, Expected, LeaseWrite, Outcome},
};

use crate::{names, sabotage::Sabotage, schedule::Kind};

#[cfg(test)]
mod tests;

/// What a node asks for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Request {
    WriteLease(LeaseWrite),
    ReadLease(NodeName),
    WriteClaim(ClaimWrite),
    DeleteClaim { vip: Ipv4Addr, expected: Version },
    ReadClaim(Ipv4Addr),
}

impl Request {
    /// What the engine hears when there was no answer in time.
    pub(crate) fn unknown(&self) -> Event {
        match self {
            Self::WriteLease(write) => {
                Event::LeaseWritten { node: write.node.clone(), outcome: Outcome::Unknown }
            }
            Self::ReadLease(node) => Event::LeaseRead { node: node.clone(), outcome: Outcome::Unknown },
            Self::WriteClaim(write) => Event::ClaimWritten { vip: write.vip, outcome: Outcome::Unknown },
            Self::DeleteClaim { vip, .. } => Event::ClaimDeleted { vip: *vip, outcome: Outcome::Unknown },
            Self::ReadClaim(vip) => Event::ClaimRead { vip: *vip, outcome: Outcome::Unknown },
        }
    }
}

/// An object's name, whatever its kind.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Key {
    Node(NodeName),
    Vip(Ipv4Addr),
}

/// What etcd has, and all that ever changed in it.
#[derive(Debug, Default)]
pub(crate) struct Api {
    revision: u64,
    pub(crate) leases: BTreeMap<NodeName, LeaseRecord>,
    /// How long each node last said that its renewal is good for, whatever has become of its Lease.
    pub(crate) renewed_for: BTreeMap<NodeName, Duration>,
    pub(crate) claims: BTreeMap<Ipv4Addr, ClaimRecord>,
    pub(crate) nodes: BTreeMap<NodeName, NodeRecord>,
    pub(crate) demands: BTreeMap<Ipv4Addr, Demand>,
    /// Per kind, in the order in which it happened.
    changes: [Vec<Event>; 4],
    sabotage: Option<Sabotage>,
}

impl Api {
    pub(crate) fn new(sabotage: Option<Sabotage>) -> Self {
        Self { sabotage, ..Self::default() }
    }

    fn version(&mut self) -> Version {
        self.revision += 1;
        Version::from(self.revision.to_string().as_str())
    }

    pub(crate) fn changes(&self, kind: Kind) -> &[Event] {
        &self.changes[kind as usize]
    }

    fn changed(&mut self, kind: Kind, event: Event) {
        self.changes[kind as usize].push(event);
    }

    pub(crate) fn put_lease(&mut self, mut record: LeaseRecord) -> LeaseRecord {
        record.version = self.version();
        self.leases.insert(record.node.clone(), record.clone());
        self.changed(Kind::Lease, Event::Lease(record.clone()));
        record
    }

    pub(crate) fn remove_lease(&mut self, node: &NodeName) {
        if self.leases.remove(node).is_some() {
            self.changed(Kind::Lease, Event::LeaseGone(node.clone()));
        }
    }

    pub(crate) fn put_claim(&mut self, mut record: ClaimRecord) -> ClaimRecord {
        record.version = self.version();
        self.claims.insert(record.vip, record.clone());
        self.changed(Kind::Claim, Event::Claim(record.clone()));
        record
    }

    pub(crate) fn remove_claim(&mut self, vip: Ipv4Addr) {
        if self.claims.remove(&vip).is_some() {
            self.changed(Kind::Claim, Event::ClaimGone(vip));
        }
    }

    pub(crate) fn put_node(&mut self, record: NodeRecord) {
        if self.nodes.insert(record.name.clone(), record.clone()).as_ref() != Some(&record) {
            self.changed(Kind::Node, Event::Node(record));
        }
    }

    pub(crate) fn remove_node(&mut self, node: &NodeName) {
        if self.nodes.remove(node).is_some() {
            self.changed(Kind::Node, Event::NodeGone(node.clone()));
        }
    }

    pub(crate) fn put_demand(&mut self, vip: Ipv4Addr, demand: Option<Demand>) {
        let before = match &demand {
            Some(demand) => self.demands.insert(vip, demand.clone()),
            None => self.demands.remove(&vip),
        };
        if before != demand {
            self.changed(Kind::Demand, Event::Demand(vip, demand));
        }
    }

    /// What a list says, and the keys in it.
    pub(crate) fn list(&self, kind: Kind) -> Vec<(Key, Event)> {
        let by_node = |node: &NodeName| Key::Node(node.clone());
        match kind {
            Kind::Lease => self
                .leases
                .values()
                .map(|record| (by_node(&record.node), Event::Lease(record.clone())))
                .collect(),
            Kind::Claim => self
                .claims
                .values()
                .map(|record| (Key::Vip(record.vip), Event::Claim(record.clone())))
                .collect(),
            Kind::Node => self
                .nodes
                .values()
                .map(|record| (by_node(&record.name), Event::Node(record.clone())))
                .collect(),
            Kind::Demand => self
                .demands
                .iter()
                .map(|(vip, demand)| (Key::Vip(*vip), Event::Demand(*vip, Some(demand.clone()))))
                .collect(),
        }
    }

    /// Carries out a request of the node of this number, and says what the answer is.
    pub(crate) fn carry_out(&mut self, from: usize, request: &Request) -> Event {
        match request {
            Request::WriteLease(write) => {
                Event::LeaseWritten { node: write.node.clone(), outcome: self.write_lease(from, write) }
            }
            Request::ReadLease(node) => {
                let outcome = self.leases.get(node).cloned().map_or(Outcome::Missing, Outcome::Done);
                Event::LeaseRead { node: node.clone(), outcome }
            }
            Request::WriteClaim(write) => {
                Event::ClaimWritten { vip: write.vip, outcome: self.write_claim(write) }
            }
            Request::DeleteClaim { vip, expected } => {
                let outcome = match self.claims.get(vip) {
                    None => Outcome::Missing,
                    Some(record) if record.version != *expected => Outcome::Conflict,
                    Some(_) => {
                        self.remove_claim(*vip);
                        Outcome::Done(())
                    }
                };
                Event::ClaimDeleted { vip: *vip, outcome }
            }
            Request::ReadClaim(vip) => {
                let outcome = self.claims.get(vip).cloned().map_or(Outcome::Missing, Outcome::Done);
                Event::ClaimRead { vip: *vip, outcome }
            }
        }
    }

    fn write_lease(&mut self, from: usize, write: &LeaseWrite) -> Outcome<LeaseRecord> {
        let record = LeaseRecord {
            node: write.node.clone(),
            version: Version::from("0"),
            session: write.session,
            ended: write.ended.clone(),
            duration: write.duration,
            links: write.links.clone(),
            leaving: write.leaving,
        };
        let is_own = names::node_index(&write.node) == Some(from);
        let current = self.leases.get(&write.node).map(|record| &record.version);
        match allowed(&write.expected, current) {
            Ok(()) if !is_own && self.sabotage == Some(Sabotage::NoDeposing) => {
                Outcome::Done(LeaseRecord { version: self.version(), ..record })
            }
            Ok(()) => {
                if is_own {
                    self.renewed_for.insert(record.node.clone(), record.duration);
                }
                Outcome::Done(self.put_lease(record))
            }
            Err(Refusal::Conflict) if is_own && self.sabotage == Some(Sabotage::NoSessionCheck) => {
                Outcome::Done(self.put_lease(record))
            }
            Err(Refusal::Conflict) => Outcome::Conflict,
            Err(Refusal::Missing) => Outcome::Missing,
        }
    }

    fn write_claim(&mut self, write: &ClaimWrite) -> Outcome<ClaimRecord> {
        let current = self.claims.get(&write.vip);
        match allowed(&write.expected, current.map(|record| &record.version)) {
            Ok(()) => {
                let deleting = current.is_some_and(|record| record.deleting);
                Outcome::Done(self.put_claim(ClaimRecord {
                    vip: write.vip,
                    version: Version::from("0"),
                    epoch: write.epoch,
                    state: write.state.clone(),
                    deleting,
                    move_to: None,
                    note: write.note.clone(),
                }))
            }
            Err(Refusal::Conflict) => Outcome::Conflict,
            Err(Refusal::Missing) => Outcome::Missing,
        }
    }
}

enum Refusal {
    Conflict,
    Missing,
}

fn allowed(expected: &Expected, current: Option<&Version>) -> Result<(), Refusal> {
    match (expected, current) {
        (Expected::At(_), None) => Err(Refusal::Missing),
        (Expected::Absent, None) => Ok(()),
        (Expected::At(expected), Some(current)) if expected == current => Ok(()),
        (Expected::Absent | Expected::At(_), Some(_)) => Err(Refusal::Conflict),
    }
}
