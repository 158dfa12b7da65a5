//! News from the API server.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::Arc,
};

use ipnet::IpNet;
use vipward_core::{
    pools::{L2AdvertisementRecord, PoolRecord},
    records::{ClaimRecord, LeaseRecord, NodeName, NodeRecord, ServiceName},
    reports::outbox::ForeignObject,
    services::{EndpointsRecord, ServiceRecord},
};

use super::read_error::ReadError;
use crate::shell::{
    kernel::wire::{Fault, Keys},
    kube::kinds::{metallb::MetalLb, resource::Resource},
};

/// A piece of news.
#[derive(Clone, Debug)]
pub enum Seen {
    /// A node's Lease was listed, or it changed.
    Lease(LeaseRecord),
    /// A node's Lease is gone.
    LeaseGone(NodeName),
    /// A claim was listed, or it changed.
    Claim(ClaimRecord),
    /// A claim is gone.
    ClaimGone(IpAddr),
    /// A Node was listed, or it changed.
    Node {
        /// The fields that are used.
        record: NodeRecord,
        /// The IP addresses in its `status.addresses`.
        addresses: Vec<IpAddr>,
        /// The networks of its Pods.
        pod_cidrs: Vec<IpNet>,
    },
    /// A Node is gone.
    NodeGone(NodeName),
    /// A Namespace was listed, or it changed.
    Namespace {
        /// Its name.
        name: Arc<str>,
        /// Its labels.
        labels: BTreeMap<String, String>,
        /// The namespaces with which its Services may share their VIPs.
        share_with: BTreeSet<Arc<str>>,
    },
    /// A Namespace is gone.
    NamespaceGone(Arc<str>),
    /// A `ServiceCIDR` was listed, it changed, or it is gone and has no networks any more.
    ServiceCidr {
        /// Its name.
        name: Arc<str>,
        /// Its networks.
        nets: Vec<IpNet>,
    },
    /// A Service was listed, or it changed.
    Service(Box<ServiceRecord>),
    /// A Service is gone.
    ServiceGone(ServiceName),
    /// An `EndpointSlice` of a Service was listed, or it changed. Only those of an IP
    /// family are reported.
    Slice(EndpointsRecord),
    /// An `EndpointSlice` is gone.
    SliceGone {
        /// Its namespace.
        namespace: Arc<str>,
        /// Its name there.
        slice: Arc<str>,
    },
    /// A pool was listed, or it changed.
    Pool(Box<PoolRecord>),
    /// A pool is gone.
    PoolGone(Arc<str>),
    /// An `L2Advertisement` was listed, or it changed.
    L2Advertisement(Box<L2AdvertisementRecord>, ForeignObject),
    /// An `L2Advertisement` is gone.
    L2AdvertisementGone(Arc<str>),
    /// Whether all `L2Advertisement` objects were listed: false if the API server does not know the
    /// type. It comes before the end of the list.
    Advertised(bool),
    /// An object was listed that Vipward does not serve, or it changed.
    Unserved(ForeignObject),
    /// Such an object is gone.
    UnservedGone {
        /// Its type.
        of: MetalLb,
        /// Its name.
        name: Arc<str>,
    },
    /// An `EndpointSlice` of `default/kubernetes` was listed, it changed, or it is gone and has no
    /// addresses any more.
    ApiServers {
        /// Its name.
        slice: Arc<str>,
        /// The addresses of its endpoints.
        addresses: Vec<IpAddr>,
    },
    /// The Secret with the keys of wire failover was listed, it changed, or it is gone and has none any
    /// more.
    WireKeys {
        /// The keys.
        keys: Keys,
        /// What is no key in it.
        faults: Vec<Fault>,
    },
    /// The end of a list: all objects of the type were reported, and all that had vanished.
    Synced(Resource),
    /// Objects of the type cannot be read now; the reader tries again. Sent
    /// at the beginning, and when the error changes. A 429 is sent when it repeats.
    Unreadable {
        /// The type.
        resource: Resource,
        /// The error.
        error: Arc<ReadError>,
    },
    /// Objects of the type can be read again.
    Readable {
        /// The type.
        resource: Resource,
    },
}
