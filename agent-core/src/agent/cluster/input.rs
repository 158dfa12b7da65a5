//! Inputs of a cluster's agent.

use std::net::IpAddr;

use ipnet::IpNet;

use crate::{
    delivery::{Answer, Target},
    ownership::{self, Outcome},
    records::{ClaimRecord, Epoch, LeaseRecord, NodeName, NodeRecord, ServiceName},
    reports::claim_findings::Finding,
    services,
};

/// News of the cluster.
#[derive(Debug)]
pub enum Input {
    /// Objects were read. The agent decides once about all of them.
    Seen(Vec<Seen>),
    /// Requests have outcomes.
    Replies {
        replies: Vec<Reply>,
        /// The number of new claims to write at a time, by the API server's load.
        new_claims: usize,
    },
    /// This node's service proxy has answered.
    Proxy(Vec<(Target, Answer)>),
    /// Nodes have begun to write very many claims (true), or do so no longer.
    Crowded(bool),
    /// Events for the engine: the monitor's findings, or the reason to end.
    Owned(Vec<ownership::Event>),
}

/// Something that was read from the API server.
#[derive(Clone, PartialEq, Eq, Debug)]
#[expect(clippy::large_enum_variant, reason = "almost all are objects")]
pub enum Seen {
    /// An object was listed, has changed or is gone: the event for the engine, and that for the index of
    /// Services.
    Object(Option<ownership::Event>, Option<services::Event>),
    /// A type was listed. All objects that do not exist any more were reported.
    Listed {
        /// True if it is the `EndpointSlice`s.
        slices: bool,
        /// True if every type that is read has been listed by now.
        all: bool,
    },
}

impl Seen {
    /// Returns that a Lease was listed or has changed.
    pub fn lease(record: LeaseRecord) -> Self {
        let (node, interfaces) = (record.node.clone(), record.interfaces.clone());
        let session = record.live_session();
        let served = services::Event::NodeInterfaces { node, interfaces, session };
        Self::Object(Some(ownership::Event::Lease(record)), Some(served))
    }

    pub fn lease_gone(node: NodeName) -> Self {
        let served = services::Event::LeaseGone(node.clone());
        Self::Object(Some(ownership::Event::LeaseGone(node)), Some(served))
    }

    /// Returns that a claim was listed or has changed.
    pub fn claim(record: ClaimRecord) -> Self {
        let was_held = record.epoch > Epoch(0) || record.state.holder().is_some();
        let sessions = record.state.sessions();
        let (vip, force, services) = (record.vip, record.force, record.note.services.clone());
        let (reservation, release) = (record.reservation.clone(), record.release);
        let served =
            services::Event::Claim { vip, was_held, sessions, force, services, reservation, release };
        Self::Object(Some(ownership::Event::Claim(record)), Some(served))
    }

    pub fn claim_gone(vip: IpAddr) -> Self {
        Self::Object(Some(ownership::Event::ClaimGone(vip)), Some(services::Event::ClaimGone(vip)))
    }

    /// Returns that a Node was listed or has changed, with its addresses and the networks of its Pods.
    pub fn node(record: NodeRecord, addresses: Vec<IpAddr>, pod_cidrs: Vec<IpNet>) -> Self {
        let (node, labels) = (record.name.clone(), record.labels.clone());
        let served = services::Event::NodeAddresses { node, labels, addresses, pod_cidrs };
        Self::Object(Some(ownership::Event::Node(record)), Some(served))
    }

    pub fn node_gone(node: NodeName) -> Self {
        let served = services::Event::NodeGone(node.clone());
        Self::Object(Some(ownership::Event::NodeGone(node)), Some(served))
    }

    /// Returns the event for the index of Services.
    pub fn into_served(self) -> Option<services::Event> {
        match self {
            Self::Object(_, served) => served,
            Self::Listed { .. } => None,
        }
    }
}

impl From<ownership::Event> for Seen {
    fn from(event: ownership::Event) -> Self {
        Self::Object(Some(event), None)
    }
}

impl From<services::Event> for Seen {
    fn from(event: services::Event) -> Self {
        Self::Object(None, Some(event))
    }
}

/// The outcome of a request.
#[derive(Clone, PartialEq, Debug)]
pub enum Reply {
    /// An event for the engine.
    Owned(ownership::Event),
    /// The outcome of showing a finding on a claim.
    Shown {
        vip: IpAddr,
        finding: Finding,
        outcome: Outcome<ClaimRecord>,
        /// A random number from 0 to 1, for the pause until the next attempt.
        jitter: f64,
    },
    /// The outcome of writing the status of a Service.
    Status {
        service: ServiceName,
        outcome: Outcome<()>,
        /// A random number from 0 to 1, for the pause until the next attempt.
        jitter: f64,
    },
}
