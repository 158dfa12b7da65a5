//! Kubernetes: what is read from the API server, and what is written there.
//!
//! A [`Kube`] is the way there. From it, [`Reader`] lists and watches, [`Requests`] writes Leases, claims and the
//! status of Services, [`Recorder`] tells people through Events, and [`Termination`] finds out why the agent is to
//! end. Each has tasks and connections of its own, which end when it is dropped, and answers through one bounded
//! channel. Nothing here decides anything.

mod alarm;
mod claims;
mod connect;
mod events;
mod http;
mod ingress;
mod lane;
mod leases;
mod meta;
mod mover;
mod objects;
mod overview;
mod problem;
mod reader;
mod recorder;
mod requests;
mod resource;
mod termination;
#[cfg(test)]
mod testing;
mod text;
mod virtual_ip;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    net::{IpAddr, Ipv4Addr},
    sync::Arc,
};

use self::{alarm::Alarm, claims::KnownClaims, leases::KnownLeases};
pub use self::{
    claims::ClaimError,
    connect::{Access, ConnectError, Limits, Server},
    http::RequestError,
    ingress::IngressError,
    mover::{MoveError, Moved, Mover},
    overview::{OverviewError, read_overview},
    problem::{Problem, Verb},
    reader::{Reader, Reading},
    recorder::{Kind, Message, Recorder, Regarding},
    requests::{Reply, Requests},
    resource::Resource,
    termination::{DaemonSetState, NodeState, PodState, Termination},
    virtual_ip::{
        Condition, FINALIZER, MOVE_TO, OfferedBy, Truth, VirtualIP, VirtualIpSpec, VirtualIpStatus, crd_yaml,
        definition,
    },
};
use crate::core::{
    cluster::{ClaimRecord, LeaseRecord, NodeName, NodeRecord, ServiceName},
    services::{EndpointsRecord, ServiceRecord},
};

/// What we call ourselves where objects say who manages them or their fields.
pub const MANAGER: &str = crate::core::services::FIELD_MANAGER;
/// The label that says so.
const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
/// Where the definition of `VirtualIP` is.
const CRD_MANIFEST: &str = "deploy/kubernetes/base/crd.yaml";
/// Where the permissions are.
const RBAC_MANIFEST: &str = "deploy/kubernetes/base/rbac.yaml";

/// The way to the API server, and who we are.
#[derive(Clone)]
pub struct Kube {
    server: Server,
    node: NodeName,
    namespace: Arc<str>,
    claims: Arc<KnownClaims>,
    leases: Arc<KnownLeases>,
    alarm: Alarm,
}

impl Kube {
    /// For the agent of `node`, whose Leases are in `namespace`.
    pub fn new(server: Server, node: NodeName, namespace: &str) -> Self {
        Self {
            server,
            node,
            namespace: namespace.into(),
            claims: Arc::default(),
            leases: Arc::default(),
            alarm: Alarm::new(),
        }
    }

    /// Whether the VIP's claim, as it was seen last, shows just this conflict; none: that there is none.
    pub fn shows_conflict(&self, vip: Ipv4Addr, conflict: Option<&str>) -> bool {
        self.claims.conflict(vip).as_deref() == conflict.map(text::message)
    }

    fn path(&self, resource: Resource) -> String {
        resource.path(&escaped(&self.namespace))
    }
}

/// What was read.
#[derive(Clone, Debug)]
pub enum Seen {
    /// A node's Lease was listed or changed.
    Lease(LeaseRecord),
    /// A node's Lease is gone.
    LeaseGone(NodeName),
    /// A claim was listed or changed.
    Claim(ClaimRecord),
    /// A claim is gone.
    ClaimGone(Ipv4Addr),
    /// A Node was listed or changed.
    Node {
        /// What matters of it.
        record: NodeRecord,
        /// Its `status.addresses`, those that are addresses.
        addresses: Vec<IpAddr>,
    },
    /// A Node is gone.
    NodeGone(NodeName),
    /// A Namespace was listed or changed.
    Namespace {
        /// Its name.
        name: Arc<str>,
        /// Its labels.
        labels: BTreeMap<String, String>,
    },
    /// A Namespace is gone.
    NamespaceGone(Arc<str>),
    /// A Service was listed or changed.
    Service(Box<ServiceRecord>),
    /// A Service is gone.
    ServiceGone(ServiceName),
    /// An `EndpointSlice` of a Service was listed or changed; only those with IPv4 addresses are told.
    Slice(EndpointsRecord),
    /// An `EndpointSlice` is gone.
    SliceGone {
        /// Its namespace.
        namespace: Arc<str>,
        /// Its name there.
        slice: Arc<str>,
    },
    /// Where the API servers are, all of them: the endpoints of `default/kubernetes`.
    ApiEndpoints(BTreeSet<IpAddr>),
    /// All objects of this type have been told, and all that had vanished. Told again after each new list.
    Synced(Resource),
    /// These objects cannot be read now, and are what they were; it is tried on. Told when it begins and when it
    /// becomes another problem.
    Trouble {
        /// Which.
        resource: Resource,
        /// Why.
        problem: Arc<Problem>,
    },
    /// They can be read again.
    TroubleOver {
        /// Which.
        resource: Resource,
    },
}

/// `text` as a part of a path or a query.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            escaped.push(char::from(byte));
        } else {
            write!(escaped, "%{byte:02X}").expect("invariant: a String takes everything");
        }
    }
    escaped
}
