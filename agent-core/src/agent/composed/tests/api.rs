//! The API server of a cluster's agent: its store, the requests, and what a watch shows.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    net::IpAddr,
    time::Duration,
};

use vipward_common::MacAddr;

use super::{
    world::{PEER, vip},
    *,
};
use crate::{
    agent::cluster::{Input as News, Reply, Seen},
    base::samples::HOLDER,
    ownership::{Event, Expected, Outcome as Answer},
    records::{
        ClaimRecord, ClaimState, Epoch, Holder, LeaseRecord, NodeInterface, NodeName, NodeRecord, Offer,
        ServiceName, Version,
    },
    reports::claim_findings::Finding,
    services::{self, Port, Protocol, ServiceRecord},
};

pub(super) const LEASE: Duration = Duration::from_secs(4);
pub(super) const RENEWAL: Duration = Duration::from_secs(1);
pub(super) const MARGIN: Duration = Duration::from_millis(500);
/// Time for which a claim rests.
pub(super) const REST: Duration = Duration::from_millis(4_500);
pub(super) const HOLD_FOR: Duration = Duration::from_hours(1);

/// The store, and the open requests.
#[derive(Default)]
pub(super) struct Api {
    pub(super) leases: BTreeMap<NodeName, LeaseRecord>,
    pub(super) claims: BTreeMap<IpAddr, ClaimRecord>,
    pub(super) services: Vec<ServiceRecord>,
    version: u64,
    asked: VecDeque<Request>,
    /// Other nodes, which renew each second.
    pub(super) renewing: BTreeSet<NodeName>,
    pub(super) next_renewals: Option<Monotonic>,
    /// True if no request is answered.
    pub(super) is_away: bool,
    /// True if each write of a claim is refused.
    pub(super) refuses: bool,
    /// True if each write of a status is refused.
    pub(super) refuses_statuses: bool,
}

impl Api {
    fn version(&mut self) -> Version {
        self.version += 1;
        self.version.to_string().as_str().into()
    }

    pub(super) fn ask(&mut self, request: Request) {
        self.asked.push_back(request);
    }

    pub(super) fn put_lease(&mut self, record: LeaseRecord) {
        let version = self.version();
        self.leases.insert(record.node.clone(), LeaseRecord { version, ..record });
    }

    pub(super) fn put_claim(&mut self, record: ClaimRecord) {
        let version = self.version();
        self.claims.insert(record.vip, ClaimRecord { version, ..record });
    }

    /// Answers the oldest open request.
    pub(super) fn serve(&mut self) -> Option<News> {
        if self.is_away {
            return None;
        }
        let reply = match self.asked.pop_front()? {
            Request::WriteLease(write) => {
                let node = write.node.clone();
                Reply::Owned(Event::LeaseWritten { node, outcome: self.write_lease(write) })
            }
            Request::ReadLease(node) => {
                let outcome = self.leases.get(&node).cloned().map_or(Answer::Missing, Answer::Done);
                Reply::Owned(Event::LeaseRead { node, outcome })
            }
            Request::WriteClaim(write) if self.refuses => {
                let outcome = Answer::Refused("forbidden".into());
                Reply::Owned(Event::ClaimWritten { vip: write.vip, outcome })
            }
            Request::WriteClaim(write) => {
                Reply::Owned(Event::ClaimWritten { vip: write.vip, outcome: self.write_claim(write) })
            }
            Request::DeleteClaim(vip, _) => {
                self.claims.remove(&vip);
                Reply::Owned(Event::ClaimDeleted { vip, outcome: Answer::Done(()) })
            }
            Request::ReadClaim(vip) => {
                let outcome = self.claims.get(&vip).cloned().map_or(Answer::Missing, Answer::Done);
                Reply::Owned(Event::ClaimRead { vip, outcome })
            }
            Request::Show(vip, finding) => {
                Reply::Shown { vip, outcome: self.show(vip, &finding), finding, jitter: 0.0 }
            }
            Request::WriteStatus { service, .. } => {
                let refused = self.refuses_statuses.then(|| Answer::Refused("forbidden".into()));
                let outcome = refused.unwrap_or(Answer::Done(()));
                Reply::Status { service, outcome, jitter: 0.0 }
            }
        };
        Some(News::Replies { replies: vec![reply], new_claims: 32 })
    }

    fn show(&mut self, vip: IpAddr, finding: &Finding) -> Answer<ClaimRecord> {
        let Some(record) = self.claims.get_mut(&vip) else { return Answer::Missing };
        let shows = record.shows.get_or_insert_default();
        match finding {
            Finding::Conflict(conflict) => {
                shows.conflict = conflict.as_deref().map(crate::base::legible::message);
            }
            Finding::Answers(_, why) => shows.unanswered = why.as_ref().map(Into::into),
        }
        Answer::Done(record.clone())
    }

    fn write_lease(&mut self, write: ownership::LeaseWrite) -> Answer<LeaseRecord> {
        let known = self.leases.get(&write.node).map(|record| &record.version);
        if let Err(answer) = compare(&write.expected, known) {
            return answer;
        }
        let node = write.node.clone();
        self.put_lease(LeaseRecord {
            node: write.node,
            version: "0".into(),
            session: write.session,
            ended: write.ended,
            duration: write.duration,
            interfaces: write.interfaces,
            leaving: write.leaving,
            wire: write.wire,
            proxy: write.proxy,
        });
        Answer::Done(self.leases[&node].clone())
    }

    fn write_claim(&mut self, write: ownership::ClaimWrite) -> Answer<ClaimRecord> {
        let known = self.claims.get(&write.vip).map(|record| &record.version);
        if let Err(answer) = compare(&write.expected, known) {
            return answer;
        }
        let (vip, epoch) = (write.vip, write.epoch);
        let shows = self.claims.get(&vip).and_then(|known| known.shows.clone());
        self.put_claim(ClaimRecord { epoch, note: write.note, shows, ..claim(vip, write.state, 0) });
        Answer::Done(self.claims[&vip].clone())
    }

    pub(super) fn next_renewal(&self) -> Option<Monotonic> {
        self.next_renewals.filter(|_| !self.renewing.is_empty())
    }

    /// Renews the Leases of the other nodes, if that is due, and shows them.
    pub(super) fn renew(&mut self, now: Monotonic) -> Option<News> {
        self.next_renewal().filter(|next| *next <= now)?;
        self.next_renewals = Some(now + RENEWAL);
        let renewing: Vec<_> =
            self.renewing.iter().filter_map(|node| self.leases.get(node).cloned()).collect();
        let renew = |lease: LeaseRecord| {
            let node = lease.node.clone();
            self.put_lease(lease);
            seen_lease(&self.leases[&node])
        };
        Some(News::Seen(renewing.into_iter().map(renew).collect()))
    }
}

fn compare<T>(expected: &Expected, known: Option<&Version>) -> Result<(), Answer<T>> {
    match (expected, known) {
        (Expected::Absent, None) => Ok(()),
        (Expected::At(expected), Some(known)) if expected == known => Ok(()),
        (Expected::Absent | Expected::At(_), Some(_)) => Err(Answer::Conflict),
        (Expected::At(_), None) => Err(Answer::Missing),
    }
}

pub(super) fn mac_of(node: &str) -> MacAddr {
    if node == "a" { HOLDER } else { PEER }
}

pub(super) fn session(node: &str, life: u64) -> Session {
    Session::from_number(u64::from(node.as_bytes()[0]) << 8 | life).expect("a number that is not zero")
}

pub(super) fn held(node: &str) -> ClaimState {
    let (session, mac) = (session(node, 1), mac_of(node));
    ClaimState::Held(Holder { node: node.into(), session, mac, interface: "eth0".into() })
}

pub(super) fn claim(vip: IpAddr, state: ClaimState, epoch: u64) -> ClaimRecord {
    ClaimRecord { epoch: Epoch(epoch), state, ..ClaimRecord::blank(vip, "0".into()) }
}

pub(super) fn lease(node: &str, wire: Option<Offer>) -> LeaseRecord {
    let interface = NodeInterface {
        name: "eth0".into(),
        altnames: Vec::new(),
        mac: mac_of(node),
        subnets: ["10.0.0.0/16", "2001:db8::/64"].map(|net| net.parse().expect("a subnet")).into(),
        bound: Vec::new(),
        gateways: Vec::new(),
        carrier: true,
        last_for: Vec::new(),
        unreached: Vec::new(),
    };
    LeaseRecord {
        node: node.into(),
        version: "0".into(),
        session: Some(session(node, 1)),
        ended: Vec::new(),
        duration: LEASE,
        interfaces: vec![interface],
        leaving: false,
        wire,
        proxy: None,
    }
}

pub(super) fn node(name: &str) -> Seen {
    let record = NodeRecord {
        name: name.into(),
        labels: BTreeMap::new(),
        cordoned: false,
        ready: true,
        network_unavailable: false,
        out_of_service: false,
    };
    let served = services::Event::NodeAddresses {
        node: name.into(),
        labels: BTreeMap::new(),
        addresses: Vec::new(),
        pod_cidrs: Vec::new(),
    };
    Seen::Object(Some(Event::Node(record)), Some(served))
}

pub(super) fn seen_lease(record: &LeaseRecord) -> Seen {
    let served = services::Event::NodeInterfaces {
        node: record.node.clone(),
        interfaces: record.interfaces.clone(),
        session: record.live_session(),
    };
    Seen::Object(Some(Event::Lease(record.clone())), Some(served))
}

pub(super) fn seen_claim(record: &ClaimRecord) -> Seen {
    let served = services::Event::Claim {
        vip: record.vip,
        was_held: record.epoch > Epoch(0) || record.state.holder().is_some(),
        sessions: record.state.sessions(),
        force: record.force,
        services: record.note.services.clone(),
        reservation: None,
        release: false,
    };
    Seen::Object(Some(Event::Claim(record.clone())), Some(served))
}

pub(super) fn service(host: u8) -> ServiceRecord {
    let name = ServiceName { namespace: "default".into(), name: format!("web-{host}").as_str().into() };
    let ports = vec![Port { port: 80, protocol: Protocol::Tcp }];
    let mut service = ServiceRecord::new(name, format!("uid-{host}").as_str().into(), ports);
    service.load_balancer_ip = Some(vip(host).to_string().into());
    if vip(host).is_ipv6() {
        service.families = vec![crate::pools::Family::V6];
    }
    service
}

pub(super) fn seen_service(record: ServiceRecord) -> Seen {
    Seen::Object(None, Some(services::Event::Service(Box::new(record))))
}
