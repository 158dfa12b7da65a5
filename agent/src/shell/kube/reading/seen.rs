//! News from the API server.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::Arc,
};

use ipnet::IpNet;
use vipward_core::{
    pools::{L2AdvertisementRecord, PoolRecord},
    records::{ClaimRecord, LeaseRecord, NodeName, NodeRecord, ServiceName, Version},
    reports::outbox::{ApiObject, ObjectFault},
    services::{EndpointsRecord, ServiceRecord},
};

use super::read_error::ReadError;
use crate::shell::{
    kernel::liveness::{Fault, Keys},
    kube::kinds::{metallb::MetalLb, resource::Resource},
};

#[derive(Clone, Debug)]
pub enum Seen {
    Lease(LeaseRecord),
    LeaseGone(NodeName),
    /// The Lease of the controllers was listed, changed or deleted. It has a version if one leads.
    Leader(Option<Version>),
    Claim(ClaimRecord),
    ClaimGone(IpAddr),
    Node {
        record: NodeRecord,
        /// The IP addresses in its `status.addresses`.
        addresses: Vec<IpAddr>,
        /// The networks of its Pods.
        pod_cidrs: Vec<IpNet>,
    },
    NodeGone(NodeName),
    Namespace {
        name: Arc<str>,
        labels: BTreeMap<String, String>,
        /// The namespaces with which its Services may share their VIPs.
        share_with: BTreeSet<Arc<str>>,
    },
    NamespaceGone(Arc<str>),
    /// A `ServiceCIDR` was listed, changed or deleted. A deleted one has no networks.
    ServiceCidr {
        name: Arc<str>,
        nets: Vec<IpNet>,
    },
    Service(Box<ServiceRecord>),
    ServiceGone(ServiceName),
    /// An `EndpointSlice` of a Service was listed, or it changed. Only those of an IP
    /// family are reported.
    Slice(EndpointsRecord),
    SliceGone {
        namespace: Arc<str>,
        slice: Arc<str>,
    },
    /// A pool was listed, or it changed.
    Pool(Box<PoolRecord>),
    PoolGone(Arc<str>),
    /// An `L2Advertisement` was listed, or it changed.
    L2Advertisement(Box<L2AdvertisementRecord>, ApiObject),
    L2AdvertisementGone(Arc<str>),
    /// True if all `L2Advertisement` objects were listed: false if the API server does not know the
    /// type. It comes before the end of the list.
    Advertised(bool),
    /// An object was listed that Vipward does not serve, or it changed.
    Unserved(ApiObject),
    /// Such an object is gone.
    UnservedGone {
        of: MetalLb,
        name: Arc<str>,
    },
    /// An object has annotations without effect, or has them no longer.
    Fault(ApiObject, Option<ObjectFault>),
    /// An `EndpointSlice` of `default/kubernetes` was listed, changed or deleted. A deleted one has no
    /// addresses.
    ApiServers {
        slice: Arc<str>,
        /// The addresses of its endpoints.
        addresses: Vec<IpAddr>,
    },
    /// The Secret with the keys of the failure detector was listed, changed or deleted. Without it
    /// there are none.
    WireKeys {
        keys: Keys,
        /// What is no key in it.
        faults: Vec<Fault>,
    },
    /// The end of a list: all objects of the type were reported, and all that are gone.
    Synced(Resource),
    /// Objects of the type cannot be read now; the reader tries again. Sent
    /// at the beginning, and when the error changes. A 429 is sent when it repeats.
    Unreadable {
        resource: Resource,
        error: Arc<ReadError>,
    },
    /// Objects of the type can be read again.
    Readable {
        resource: Resource,
    },
}
