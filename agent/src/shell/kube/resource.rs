//! The types of objects that are read, and where they are.

use std::fmt;

/// A type of object that is listed and watched.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Resource {
    /// `services`, in all namespaces.
    Services,
    /// `endpointslices.discovery.k8s.io`, in all namespaces.
    EndpointSlices,
    /// `nodes`.
    Nodes,
    /// `namespaces`.
    Namespaces,
    /// `virtualips.vipward.io`.
    VirtualIps,
    /// `leases.coordination.k8s.io`, in the agents' namespace.
    Leases,
}

impl Resource {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Leases, Self::VirtualIps, Self::Nodes, Self::Namespaces, Self::Services, Self::EndpointSlices];

    /// The path of their list; Leases are those of `namespace`.
    pub(super) fn path(self, namespace: &str) -> String {
        match self {
            Self::Services => "/api/v1/services".to_owned(),
            Self::EndpointSlices => "/apis/discovery.k8s.io/v1/endpointslices".to_owned(),
            Self::Nodes => "/api/v1/nodes".to_owned(),
            Self::Namespaces => "/api/v1/namespaces".to_owned(),
            Self::VirtualIps => "/apis/vipward.io/v1alpha1/virtualips".to_owned(),
            Self::Leases => format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"),
        }
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Services => "services",
            Self::EndpointSlices => "endpointslices.discovery.k8s.io",
            Self::Nodes => "nodes",
            Self::Namespaces => "namespaces",
            Self::VirtualIps => "virtualips.vipward.io",
            Self::Leases => "leases.coordination.k8s.io",
        })
    }
}
