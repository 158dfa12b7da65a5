//! Events and commands of the Services' index.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::Arc,
};

use ipnet::IpNet;

use super::{EndpointsRecord, HostNetwork, Problem, ServiceRecord};
use crate::{
    pools,
    records::{Demand, NodeInterface, NodeName, Reservation, ServiceName, Session, Version},
};

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// A Service was listed or changed.
    Service(Box<ServiceRecord>),
    ServiceGone(ServiceName),
    /// All `EndpointSlice`s have been listed. They have no effect before.
    SlicesListed,
    /// An `EndpointSlice` was listed or changed.
    Slice(EndpointsRecord),
    SliceGone {
        namespace: Arc<str>,
        slice: Arc<str>,
    },
    /// A Namespace was listed or changed.
    Namespace {
        name: Arc<str>,
        labels: BTreeMap<String, String>,
        /// The namespaces with which its Services may share their VIPs.
        share_with: BTreeSet<Arc<str>>,
    },
    NamespaceGone(Arc<str>),
    NodeAddresses {
        node: NodeName,
        labels: BTreeMap<String, String>,
        /// The entries of `status.addresses` that are addresses.
        addresses: Vec<IpAddr>,
        /// `spec.podCIDRs`.
        pod_cidrs: Vec<IpNet>,
    },
    /// The networks of a `ServiceCIDR` object. None of them any more: the object is gone.
    ServiceCidr {
        name: Arc<str>,
        /// `spec.cidrs`.
        nets: Vec<IpNet>,
    },
    /// A node's interfaces, by its Lease. No node may take another node's address or gateway.
    NodeInterfaces {
        node: NodeName,
        interfaces: Vec<NodeInterface>,
        /// The session that the Lease carries, unless it has ended.
        session: Option<Session>,
    },
    /// The Lease of the controller that leads was listed or written, with its version. None: no
    /// controller leads.
    Leader(Option<Version>),
    /// A node's Lease is gone. Its interfaces stay reserved as long as its Node is there.
    LeaseGone(NodeName),
    /// This process was cut off, and may see late what happened long ago (true), or no longer.
    Behind(bool),
    /// The VIPs that the process before this one held (true), or guarded for another node, by the
    /// pins.
    Found(BTreeMap<IpAddr, bool>),
    /// A node is gone, with its addresses and interfaces.
    NodeGone(NodeName),
    HostNetwork(HostNetwork),
    ApiServers {
        /// The `EndpointSlice` of `default/kubernetes` that has them. If none: this process reaches the
        /// API server there.
        slice: Option<Arc<str>>,
        /// The addresses. Empty if the slice is gone.
        addresses: Vec<IpAddr>,
    },
    /// The claim of a VIP was listed or changed.
    Claim {
        vip: IpAddr,
        /// True if the VIP has had a holder, so that its address belongs to the cluster.
        was_held: bool,
        /// The sessions that it names: its holder's, or of the two nodes of a handover.
        sessions: Vec<(NodeName, Session)>,
        /// True if an admin has it taken even if its address is in use.
        force: bool,
        /// The Services that have it, the longest first.
        services: Vec<ServiceName>,
        /// The Service that its address is reserved for.
        reservation: Option<Box<Reservation>>,
        /// True if an admin wants that reservation given up.
        release: bool,
    },
    ClaimGone(IpAddr),
    /// This node has taken a VIP, or has lost it. Without this event it holds no VIP.
    Held {
        vip: IpAddr,
        here: bool,
    },
    /// A pool has changed, or where pools have their addresses announced.
    Pool(pools::Change),
    /// Everything has been listed, and this host observed. No command but [`Command::ListSlices`]
    /// comes before the first of these events. Each new list is followed by another one.
    Synced,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Command {
    /// List the `EndpointSlice`s, and then watch them. [`Event::SlicesListed`] follows. This comes once
    /// at most.
    ListSlices {
        /// The Service that needs them.
        service: ServiceName,
    },
    /// The demand for a VIP has changed. None if no Service wants it any more.
    Demand(IpAddr, Option<Demand>),
    /// Write these addresses to a Service's status, in this order. Retry until that is done or
    /// refused, or until another command about the same status comes.
    WriteIngress {
        service: ServiceName,
        addresses: Vec<IpAddr>,
    },
    /// Remove the fields of [`FIELD_MANAGER`](super::FIELD_MANAGER) from a Service's
    /// status. Retry as for [`Command::WriteIngress`].
    ClearIngress {
        service: ServiceName,
    },
    /// Leave a Service's status alone. It is right, or the task of another node or controller.
    LeaveIngress {
        service: ServiceName,
    },
    /// A problem of a Service begins.
    Report {
        service: ServiceName,
        problem: Problem,
    },
    ProblemOver {
        service: ServiceName,
        problem: Problem,
    },
}
