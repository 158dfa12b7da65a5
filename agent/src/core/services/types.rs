//! What the Services' index is configured with and told, and what it asks for.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, Ipv4Addr},
    sync::Arc,
};

use ipnet::Ipv4Net;

use super::{
    problem::Problem,
    records::{EndpointsRecord, HostNetwork, ServiceRecord},
};
use crate::core::{
    cluster::{NodeName, Selector, ServiceName},
    ownership::Demand,
};

/// The class of Services that is served when none is configured.
pub const DEFAULT_CLASS: &str = "vipward.io/l2";

/// Which Services are served, and which addresses they may have.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// Services of this class are served; never those of another.
    pub class: Arc<str>,
    /// Whether those without a class are not.
    pub class_only: bool,
    /// Only in these namespaces; in all when empty.
    pub namespaces: BTreeSet<Arc<str>>,
    /// Only in namespaces with such labels.
    pub namespace_selector: Option<Selector>,
    /// Only Services with such labels.
    pub service_selector: Option<Selector>,
    /// Whether `spec.externalIPs` are VIPs too.
    pub external_ips: bool,
    /// VIPs may be in these networks only; anywhere when empty.
    pub allow: Vec<Ipv4Net>,
    /// Whether a VIP that has no endpoint at all is withdrawn, also without `externalTrafficPolicy: Local`.
    pub withdraw_without_endpoints: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            class: DEFAULT_CLASS.into(),
            class_only: false,
            namespaces: BTreeSet::new(),
            namespace_selector: None,
            service_selector: None,
            external_ips: false,
            allow: Vec::new(),
            withdraw_without_endpoints: false,
        }
    }
}

/// What happened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// A Service was listed or changed.
    Service(Box<ServiceRecord>),
    /// A Service is gone.
    ServiceGone(ServiceName),
    /// An `EndpointSlice` was listed or changed.
    Slice(EndpointsRecord),
    /// An `EndpointSlice` is gone.
    SliceGone {
        /// Its namespace.
        namespace: Arc<str>,
        /// Its name there.
        slice: Arc<str>,
    },
    /// A Namespace was listed or changed; needed with [`Settings::namespace_selector`] only.
    Namespace {
        /// Its name.
        name: Arc<str>,
        /// Its labels.
        labels: BTreeMap<String, String>,
    },
    /// A Namespace is gone.
    NamespaceGone(Arc<str>),
    /// The addresses of a Node object.
    NodeAddresses {
        /// Its name.
        node: NodeName,
        /// `status.addresses`, those that are addresses.
        addresses: Vec<IpAddr>,
    },
    /// The addresses or subnets of a node's interfaces, as its Lease has them: what one node must not take, no node
    /// may.
    NodeLinks {
        /// Its name.
        node: NodeName,
        /// Addresses with prefix lengths. One without host bits stands for its subnet; one of 32 bits says nothing.
        nets: Vec<Ipv4Net>,
    },
    /// A node is gone, with its addresses and links.
    NodeGone(NodeName),
    /// This host's network, all of it.
    HostNetwork(HostNetwork),
    /// Where the API server is, all of it: the endpoints of `default/kubernetes`, and what the client connects to.
    ApiEndpoints(BTreeSet<IpAddr>),
    /// Whether this node holds a VIP; one that nobody has told of is not held.
    Held {
        /// The VIP.
        vip: Ipv4Addr,
        /// Whether this node does.
        here: bool,
    },
    /// Everything has been listed, and this host looked at. Before the first of these, nothing is commanded; it is told
    /// again after each list that began anew.
    Synced,
}

/// What is to be done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Command {
    /// Services want this of a VIP; none: they do not want it any more. Only told when it changes.
    Demand(Ipv4Addr, Option<Demand>),
    /// Make these the addresses in a Service's status, in this order: try until it is done or refused, or until
    /// another command about the same status comes.
    WriteIngress {
        /// Whose status.
        service: ServiceName,
        /// All its addresses.
        addresses: Vec<Ipv4Addr>,
    },
    /// Remove what [`FIELD_MANAGER`](super::FIELD_MANAGER) has written into a Service's status; tried likewise.
    ClearIngress {
        /// Whose status.
        service: ServiceName,
    },
    /// Nothing is to be done about a Service's status any more: it is as it should be, or another node's task.
    LeaveIngress {
        /// Whose status.
        service: ServiceName,
    },
    /// A Service has this problem now.
    Report {
        /// Whose.
        service: ServiceName,
        /// What.
        problem: Problem,
    },
    /// It has this problem no longer.
    ProblemOver {
        /// Whose.
        service: ServiceName,
        /// What.
        problem: Problem,
    },
}
