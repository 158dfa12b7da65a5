//! Types of objects that are listed and watched.

use std::fmt;

use k8s_openapi::api::{
    coordination::v1::Lease,
    core::v1::{Namespace, Node, Secret, Service},
    discovery::v1::EndpointSlice,
    networking::v1::ServiceCIDR,
};

use super::{metallb::MetalLb, secret, vip_pool::VIPPool, virtual_ip::VirtualIP};
use crate::shell::kube::link::call::Collection;

/// A type of object that is listed and watched.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Resource {
    /// `services`, in all namespaces.
    Services,
    /// `endpointslices.discovery.k8s.io`, in all namespaces.
    EndpointSlices,
    /// The same in the namespace `default`. Those of the Service `kubernetes` have the addresses of the
    /// API servers.
    ApiServers,
    Nodes,
    Namespaces,
    /// `servicecidrs.networking.k8s.io`, which Kubernetes has from 1.33 on.
    ServiceCidrs,
    /// `virtualips.vipward.io`.
    VirtualIps,
    /// `leases.coordination.k8s.io`, in the agents' namespace.
    Leases,
    /// `vippools.vipward.io`.
    VipPools,
    /// A type of `MetalLB`'s, in its namespace. The API server may not know it.
    MetalLb(MetalLb),
    /// The Secret with the keys of the failure detector, in the agents' namespace.
    WireSecret,
}

impl Resource {
    /// The types that the controller reads from the beginning.
    pub const OF_CONTROLLER: &[Self] = &[
        Self::VipPools,
        Self::VirtualIps,
        Self::Leases,
        Self::Nodes,
        Self::Namespaces,
        Self::ServiceCidrs,
        Self::ApiServers,
        Self::Services,
    ];
    /// The types that agents and controller also read when Vipward replaces `MetalLB`.
    pub const OF_METALLB: &[Self] =
        &[Self::MetalLb(MetalLb::IpAddressPools), Self::MetalLb(MetalLb::L2Advertisements)];
    /// The types that the controller also reads then, to report that they are not served.
    pub const UNSERVED: &[Self] = &[
        Self::MetalLb(MetalLb::BgpAdvertisements),
        Self::MetalLb(MetalLb::BgpPeers),
        Self::MetalLb(MetalLb::BfdProfiles),
        Self::MetalLb(MetalLb::Communities),
    ];
    /// The types that the agents read from the beginning.
    pub const OF_AGENT: &[Self] = &[
        Self::Leases,
        Self::VirtualIps,
        Self::Nodes,
        Self::Namespaces,
        Self::ServiceCidrs,
        Self::VipPools,
        Self::ApiServers,
        Self::Services,
    ];

    /// Returns true if the agents can do without the type: the API server may not know it, or may not
    /// let them read it.
    pub fn is_optional(self) -> bool {
        matches!(self, Self::ServiceCidrs | Self::VipPools | Self::MetalLb(_) | Self::WireSecret)
    }

    /// Returns the selector of the objects that are read. None: all of them.
    pub(crate) fn selector(self) -> Option<&'static str> {
        (self == Self::WireSecret).then_some(secret::SELECTOR)
    }

    /// Returns all objects of the type; of Leases, Secrets and
    /// `MetalLB`'s types, those in `namespace`.
    pub(crate) fn collection(self, namespace: &str) -> Collection {
        match self {
            Self::Services => Collection::of::<Service>(None),
            Self::EndpointSlices => Collection::of::<EndpointSlice>(None),
            Self::ApiServers => Collection::of::<EndpointSlice>(Some("default")),
            Self::Nodes => Collection::of::<Node>(None),
            Self::Namespaces => Collection::of::<Namespace>(None),
            Self::ServiceCidrs => Collection::of::<ServiceCIDR>(None),
            Self::VirtualIps => Collection::of::<VirtualIP>(None),
            Self::Leases => Collection::of::<Lease>(Some(namespace)),
            Self::VipPools => Collection::of::<VIPPool>(None),
            Self::MetalLb(of) => of.collection(namespace),
            Self::WireSecret => Collection::of::<Secret>(Some(namespace)),
        }
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::MetalLb(of) => return write!(f, "{}.metallb.io", of.plural()),
            Self::Services => "services",
            Self::EndpointSlices => "endpointslices.discovery.k8s.io",
            Self::ApiServers => "endpointslices.discovery.k8s.io in default",
            Self::Nodes => "nodes",
            Self::Namespaces => "namespaces",
            Self::ServiceCidrs => "servicecidrs.networking.k8s.io",
            Self::VirtualIps => "virtualips.vipward.io",
            Self::Leases => "leases.coordination.k8s.io",
            Self::VipPools => "vippools.vipward.io",
            Self::WireSecret => "secrets",
        })
    }
}
