//! The model API server: objects with versions, compare-and-swap, and the changes for the watches.

mod admission;
mod desired;
mod events;
mod reserving;
mod service;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::Arc,
    time::Duration,
};

use vipward_core::{
    agent::{
        Request,
        cluster::{Reply, Seen},
    },
    base::legible,
    ownership::{ClaimWrite, Event, Expected, LeaseWrite, Outcome},
    pools::{self, PoolRecord, election::Ballot},
    records::{
        ClaimRecord, Epoch, LeaseRecord, Mode, NodeName, NodeRecord, Offer, ServiceName, Session, Shows,
        Version,
    },
    reports::claim_findings::Finding,
    services,
};

pub(crate) use self::{
    desired::{DesiredState, Stranger},
    reserving::Reserved,
    service::Service,
};
use crate::schedule::{Kind, MOST_KINDS, Sabotage, Times, names};

/// The random number of a reply, which spreads the attempts of very many agents.
const JITTER: f64 = 0.5;

/// The name of an object of any kind.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Key {
    Node(NodeName),
    Vip(IpAddr),
    Service(ServiceName),
    /// A pool or a namespace.
    Name(Arc<str>),
}

/// Returns the reply to a request without a response in time.
pub(crate) fn unknown(request: &Request) -> Reply {
    match request {
        Request::WriteLease(write) => {
            Reply::Owned(Event::LeaseWritten { node: write.node.clone(), outcome: Outcome::Unknown })
        }
        Request::ReadLease(node) => {
            Reply::Owned(Event::LeaseRead { node: node.clone(), outcome: Outcome::Unknown })
        }
        Request::WriteClaim(write) => {
            Reply::Owned(Event::ClaimWritten { vip: write.vip, outcome: Outcome::Unknown })
        }
        Request::DeleteClaim(vip, _) => {
            Reply::Owned(Event::ClaimDeleted { vip: *vip, outcome: Outcome::Unknown })
        }
        Request::ReadClaim(vip) => Reply::Owned(Event::ClaimRead { vip: *vip, outcome: Outcome::Unknown }),
        Request::Show(vip, finding) => {
            Reply::Shown { vip: *vip, finding: finding.clone(), outcome: Outcome::Unknown, jitter: JITTER }
        }
        Request::WriteStatus { service, .. } => {
            Reply::Status { service: service.clone(), outcome: Outcome::Unknown, jitter: JITTER }
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) key: Key,
    /// False if the object is gone.
    pub(crate) exists: bool,
    pub(crate) seen: Vec<Seen>,
}

/// A backup of the Leases and the claims.
#[derive(Clone, Debug)]
pub(crate) struct Saved {
    revision: u64,
    leases: BTreeMap<NodeName, LeaseRecord>,
    claims: BTreeMap<IpAddr, ClaimRecord>,
}

impl Saved {
    /// Returns the epoch of a VIP's claim.
    pub(crate) fn epoch(&self, vip: IpAddr) -> Option<Epoch> {
        self.claims.get(&vip).map(|claim| claim.epoch)
    }
}

/// The contents of etcd, and every change of it.
#[derive(Debug, Default)]
pub(crate) struct Api {
    revision: u64,
    /// The number of restored backups.
    restored: u64,
    pub(crate) leases: BTreeMap<NodeName, LeaseRecord>,
    /// The duration of each node's last renewal, even if its Lease is gone.
    pub(crate) renewed_for: BTreeMap<NodeName, Duration>,
    /// The Leases that were deleted and that their nodes have not written since.
    pub(crate) deleted: BTreeMap<NodeName, LeaseRecord>,
    /// Each node's last offer in mode notice, with its session.
    last_notice: BTreeMap<NodeName, (Session, Offer)>,
    pub(crate) claims: BTreeMap<IpAddr, ClaimRecord>,
    pub(crate) nodes: BTreeMap<NodeName, NodeRecord>,
    pub(crate) services: BTreeMap<ServiceName, Service>,
    pub(crate) pools: BTreeMap<Arc<str>, PoolRecord>,
    /// The namespaces, each with what a process reads of it.
    namespaces: BTreeMap<Arc<str>, Seen>,
    /// True if the endpoints of Services are a kind of their own.
    has_slices: bool,
    /// The changes of each kind, in order.
    changes: [Vec<Change>; MOST_KINDS],
    /// True while no node reaches it, and while it refuses connections meanwhile.
    pub(crate) down: Times,
    pub(crate) refuses: Times,
    /// The disturbances that make requests slow, each with the longest delay in milliseconds.
    pub(crate) slow: Vec<(usize, u32)>,
    /// The backups, each with the disturbance that restores it.
    pub(crate) saved: Vec<(usize, Saved)>,
    /// The Lease by which one controller leads.
    pub(crate) election: Option<Ballot>,
    /// The kinds of writes that it refuses.
    pub(crate) refused: [Times; 3],
    pub(crate) events: events::Events,
    sabotage: Option<Sabotage>,
}

impl Api {
    /// Starts empty. With `has_slices`, the endpoints of Services are a kind of their own.
    pub(crate) fn new(sabotage: Option<Sabotage>, has_slices: bool) -> Self {
        Self { has_slices, sabotage, ..Self::default() }
    }

    /// Returns a version that no object has had, even before a restore: between two writes of these
    /// nodes, a real cluster makes very many others.
    fn version(&mut self) -> Version {
        self.revision += 1 + self.restored;
        Version::from(format!("{}{:04}", self.revision, self.restored).as_str())
    }

    pub(crate) fn save(&self) -> Saved {
        Saved { revision: self.revision, leases: self.leases.clone(), claims: self.claims.clone() }
    }

    /// Restores a backup. No watch shows that.
    pub(crate) fn restore(&mut self, saved: Saved) {
        Saved { revision: self.revision, leases: self.leases, claims: self.claims } = saved;
        self.restored += 1;
    }

    pub(crate) fn changes(&self, kind: Kind) -> &[Change] {
        &self.changes[kind as usize]
    }

    fn changed(&mut self, kind: Kind, key: Key, seen: Vec<Seen>) {
        self.changes[kind as usize].push(Change { key, exists: true, seen });
    }

    fn removed(&mut self, kind: Kind, key: Key) {
        let seen = self.gone(kind, key.clone());
        self.changes[kind as usize].push(Change { key, exists: false, seen });
    }

    pub(crate) fn put_lease(&mut self, mut record: LeaseRecord) -> LeaseRecord {
        record.version = self.version();
        self.leases.insert(record.node.clone(), record.clone());
        self.changed(Kind::Lease, Key::Node(record.node.clone()), vec![Seen::lease(record.clone())]);
        record
    }

    pub(crate) fn remove_lease(&mut self, node: &NodeName) {
        if let Some(lease) = self.leases.remove(node) {
            if lease.live_session().is_some() {
                self.deleted.insert(node.clone(), lease);
            }
            self.removed(Kind::Lease, Key::Node(node.clone()));
        }
    }

    pub(crate) fn put_claim(&mut self, mut record: ClaimRecord) -> ClaimRecord {
        record.version = self.version();
        self.claims.insert(record.vip, record.clone());
        self.changed(Kind::Claim, Key::Vip(record.vip), vec![Seen::claim(record.clone())]);
        record
    }

    pub(crate) fn remove_claim(&mut self, vip: IpAddr) {
        if self.claims.remove(&vip).is_some() {
            self.removed(Kind::Claim, Key::Vip(vip));
        }
    }

    pub(crate) fn put_node(&mut self, record: NodeRecord) {
        if self.nodes.insert(record.name.clone(), record.clone()).as_ref() != Some(&record) {
            self.changed(Kind::Node, Key::Node(record.name.clone()), vec![node(record)]);
        }
    }

    pub(crate) fn remove_node(&mut self, node: &NodeName) {
        if self.nodes.remove(node).is_some() {
            self.removed(Kind::Node, Key::Node(node.clone()));
        }
    }

    /// Adds, changes or removes a Service, with its endpoints.
    pub(crate) fn put_service(&mut self, name: &ServiceName, service: Option<Service>) {
        let before = match &service {
            Some(service) => self.services.insert(name.clone(), service.clone()),
            None => self.services.remove(name),
        };
        if before == service {
            return;
        }
        let key = Key::Service(name.clone());
        match service {
            Some(service) if self.has_slices => {
                self.changed(Kind::Slice, key, vec![service.slice()]);
                self.store_service(service);
            }
            Some(service) => self.changed(Kind::Demand, key, service.seen_with_slice()),
            None => {
                self.removed(Kind::Demand, key.clone());
                if self.has_slices {
                    self.removed(Kind::Slice, key);
                }
            }
        }
    }

    /// Stores a Service at a new version.
    fn store_service(&mut self, mut service: Service) {
        service.at(self.version());
        let name = service.record().name.clone();
        self.changed(Kind::Demand, Key::Service(name.clone()), vec![service.seen()]);
        self.services.insert(name, service);
    }

    /// Adds, changes or removes a pool.
    pub(crate) fn put_pool(&mut self, name: &Arc<str>, record: Option<PoolRecord>) {
        let key = Key::Name(Arc::clone(name));
        match record {
            Some(record) => {
                self.changed(Kind::Pool, key, vec![pool(&record)]);
                self.pools.insert(Arc::clone(name), record);
            }
            None => {
                if self.pools.remove(name).is_some() {
                    self.removed(Kind::Pool, key);
                }
            }
        }
    }

    pub(crate) fn put_namespace(
        &mut self,
        name: &Arc<str>,
        labels: BTreeMap<String, String>,
        share_with: BTreeSet<Arc<str>>,
    ) {
        let seen = Seen::from(services::Event::Namespace { name: Arc::clone(name), labels, share_with });
        self.changed(Kind::Namespace, Key::Name(Arc::clone(name)), vec![seen.clone()]);
        self.namespaces.insert(Arc::clone(name), seen);
    }

    /// Returns whether a list of this kind has the endpoints of Services.
    pub(crate) fn has_slices(&self, kind: Kind) -> bool {
        kind == if self.has_slices { Kind::Slice } else { Kind::Demand }
    }

    /// Returns what a process gets about an object that is gone.
    pub(crate) fn gone(&self, kind: Kind, key: Key) -> Vec<Seen> {
        vec![match (kind, key) {
            (Kind::Slice, Key::Service(name)) => Service::slice_gone(&name),
            (_, Key::Service(name)) if self.has_slices => services::Event::ServiceGone(name).into(),
            (_, Key::Service(name)) => {
                let slice = Service::slice_gone(&name);
                return vec![services::Event::ServiceGone(name).into(), slice];
            }
            (Kind::Lease, Key::Node(node)) => Seen::lease_gone(node),
            (_, Key::Node(node)) => Seen::node_gone(node),
            (_, Key::Vip(vip)) => Seen::claim_gone(vip),
            (Kind::Namespace, Key::Name(name)) => services::Event::NamespaceGone(name).into(),
            (_, Key::Name(name)) => services::Event::Pool(pools::Change::PoolGone(name)).into(),
        }]
    }

    /// Returns a list's keys and objects.
    pub(crate) fn list(&self, kind: Kind) -> Vec<(Key, Vec<Seen>)> {
        let lease =
            |record: &LeaseRecord| (Key::Node(record.node.clone()), vec![Seen::lease(record.clone())]);
        let claim = |record: &ClaimRecord| (Key::Vip(record.vip), vec![Seen::claim(record.clone())]);
        let of_node = |record: &NodeRecord| (Key::Node(record.name.clone()), vec![node(record.clone())]);
        match kind {
            Kind::Lease => self.leases.values().map(lease).collect(),
            Kind::Claim => self.claims.values().map(claim).collect(),
            Kind::Node => self.nodes.values().map(of_node).collect(),
            Kind::Demand | Kind::Slice => {
                let seen = |service: &Service| match kind {
                    Kind::Slice => vec![service.slice()],
                    _ if self.has_slices => vec![service.seen()],
                    _ => service.seen_with_slice(),
                };
                let services = self.services.iter();
                services.map(|(name, service)| (Key::Service(name.clone()), seen(service))).collect()
            }
            Kind::Pool => {
                let of = |(name, record): (&Arc<str>, &PoolRecord)| {
                    (Key::Name(Arc::clone(name)), vec![pool(record)])
                };
                self.pools.iter().map(of).collect()
            }
            Kind::Namespace => {
                let of = |(name, seen): (&Arc<str>, &Seen)| (Key::Name(Arc::clone(name)), vec![seen.clone()]);
                self.namespaces.iter().map(of).collect()
            }
        }
    }

    /// Carries out a request of a node. Returns the response.
    pub(crate) fn carry_out(&mut self, from: usize, request: &Request) -> Reply {
        Reply::Owned(match request {
            Request::WriteLease(write) => {
                Event::LeaseWritten { node: write.node.clone(), outcome: self.write_lease(from, write) }
            }
            Request::ReadLease(node) => {
                let outcome = self.read_lease(from, node).map_or(Outcome::Missing, Outcome::Done);
                Event::LeaseRead { node: node.clone(), outcome }
            }
            Request::WriteClaim(write) => {
                Event::ClaimWritten { vip: write.vip, outcome: self.write_claim(write) }
            }
            Request::DeleteClaim(vip, expected) => {
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
            Request::Show(vip, finding) => {
                let (finding, outcome) = (finding.clone(), self.show(*vip, finding));
                return Reply::Shown { vip: *vip, finding, outcome, jitter: JITTER };
            }
            Request::WriteStatus { service, .. } => {
                return Reply::Status {
                    service: service.clone(),
                    outcome: Outcome::Done(()),
                    jitter: JITTER,
                };
            }
        })
    }

    /// Shows a finding on a claim, which changes its version.
    fn show(&mut self, vip: IpAddr, finding: &Finding) -> Outcome<ClaimRecord> {
        let Some(mut record) = self.claims.get(&vip).cloned() else { return Outcome::Missing };
        if !finding.concerns(&record.state) {
            return Outcome::Done(record);
        }
        let shows = record.shows.get_or_insert_default();
        match finding {
            Finding::Conflict(words) => shows.conflict = words.as_deref().map(legible::message),
            Finding::Answers(_, why) => shows.unanswered = why.as_ref().map(Into::into),
        }
        Outcome::Done(self.put_claim(record))
    }

    fn read_lease(&self, from: usize, node: &NodeName) -> Option<LeaseRecord> {
        let lease = self.leases.get(node)?.clone();
        let last = self.last_notice.get(node).filter(|(session, _)| Some(*session) == lease.session);
        let is_own = names::node_index(node) == Some(from);
        let wire = last.filter(|_| !is_own && self.sabotage == Some(Sabotage::NoReading));
        Some(LeaseRecord {
            wire: wire.map_or_else(|| lease.wire.clone(), |(_, offer)| Some(offer.clone())),
            ..lease
        })
    }

    fn write_lease(&mut self, from: usize, write: &LeaseWrite) -> Outcome<LeaseRecord> {
        let mut record = LeaseRecord {
            node: write.node.clone(),
            version: Version::from("0"),
            session: write.session,
            ended: write.ended.clone(),
            duration: write.duration,
            interfaces: write.interfaces.clone(),
            leaving: write.leaving,
            wire: write.wire.clone(),
            proxy: write.proxy.clone(),
        };
        if self.sabotage == Some(Sabotage::NoRests) {
            record.interfaces.iter_mut().for_each(|interface| interface.last_for.clear());
        }
        let is_own = names::node_index(&write.node) == Some(from);
        let current = self.leases.get(&write.node).map(|record| &record.version);
        let takes_any = !is_own && self.sabotage == Some(Sabotage::NoVersion);
        let expected = current.filter(|_| takes_any).cloned().map(Expected::At);
        match allowed(expected.as_ref().unwrap_or(&write.expected), current) {
            Ok(()) if !is_own && self.sabotage == Some(Sabotage::NoExpiring) => {
                Outcome::Done(LeaseRecord { version: self.version(), ..record })
            }
            Ok(()) => {
                if is_own {
                    self.deleted.remove(&record.node);
                    self.renewed_for.insert(record.node.clone(), record.duration);
                    let offer = record.wire.as_ref().filter(|offer| offer.mode == Mode::Notice);
                    if let (Some(session), Some(offer)) = (record.session, offer) {
                        self.last_notice.insert(record.node.clone(), (session, offer.clone()));
                    }
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
                // The agents' patches leave what they do not name.
                let reservation = current.and_then(|record| record.reservation.clone());
                let release = current.is_some_and(|record| record.release);
                // The writer answers, as far as it knows.
                let shows = current.and_then(|record| record.shows.clone());
                let shows = shows.map(|shows| Box::new(Shows { unanswered: None, ..*shows }));
                Outcome::Done(self.put_claim(ClaimRecord {
                    epoch: write.epoch,
                    state: write.state.clone(),
                    deleting,
                    release,
                    reservation,
                    note: write.note.clone(),
                    shows,
                    ..ClaimRecord::blank(write.vip, "0".into())
                }))
            }
            Err(Refusal::Conflict) => Outcome::Conflict,
            Err(Refusal::Missing) => Outcome::Missing,
        }
    }
}

/// Returns what an agent reads of a Node.
fn node(record: NodeRecord) -> Seen {
    Seen::node(record, Vec::new(), Vec::new())
}

/// Returns what a process reads of a pool.
fn pool(record: &PoolRecord) -> Seen {
    services::Event::Pool(pools::Change::Pool(Box::new(record.clone()))).into()
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
