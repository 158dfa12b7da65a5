//! What the Services want of a VIP.

use std::{collections::BTreeSet, net::IpAddr, sync::Arc};

use super::{HealthPort, NodeName, PoolPolicy, Selector, ServiceName};
use crate::base::pattern::InterfacePattern;

/// The nodes that can deliver the traffic of a VIP.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Reach {
    #[default]
    Anywhere,
    /// The nodes of its endpoints (`externalTrafficPolicy: Local`).
    On(Local),
    /// The `EndpointSlice`s are not listed yet. The VIP stays with its holder, unless that leaves or is
    /// cut off from the segment, and no node takes it.
    Unknown,
}

impl Reach {
    /// Returns true if a node can deliver the traffic, as far as is known.
    pub(crate) fn has(&self, node: &NodeName) -> bool {
        match self {
            Self::Anywhere | Self::Unknown => true,
            Self::On(local) => local.nodes().contains(node),
        }
    }

    /// Returns true if no node can deliver the traffic.
    pub(crate) fn is_nowhere(&self) -> bool {
        matches!(self, Self::On(local) if local.nodes().is_empty())
    }

    /// Returns where the proxy of a node says whether it delivers, if the node has a ready endpoint.
    pub(crate) fn health_port(&self, node: &NodeName) -> Option<HealthPort> {
        match self {
            Self::On(local) => local.health_port.filter(|_| local.ready.contains(node)),
            Self::Anywhere | Self::Unknown => None,
        }
    }
}

/// The nodes of a Service's endpoints.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Local {
    /// Those with a ready endpoint.
    pub ready: BTreeSet<NodeName>,
    /// Those with an endpoint that terminates and still serves.
    pub draining: BTreeSet<NodeName>,
    pub health_port: Option<HealthPort>,
}

impl Local {
    /// Returns the nodes that the `EndpointSlice`s name: those that drain only if no endpoint is ready.
    pub(crate) fn nodes(&self) -> &BTreeSet<NodeName> {
        if self.ready.is_empty() { &self.draining } else { &self.ready }
    }
}

impl FromIterator<NodeName> for Local {
    /// Collects nodes with a ready endpoint.
    fn from_iter<I: IntoIterator<Item = NodeName>>(ready: I) -> Self {
        Self { ready: ready.into_iter().collect(), ..Self::default() }
    }
}

/// The wishes of the Services that want a VIP.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Demand {
    /// The Services that have it, its owner first.
    pub services: Vec<ServiceName>,
    pub reach: Reach,
    /// The other Services whose traffic only some nodes can deliver, in the order of their rights. A
    /// node that serves them comes first.
    pub besides: Vec<(ServiceName, Reach)>,
    /// Labels of the nodes that may hold the VIP.
    pub nodes: Option<Selector>,
    /// Labels of the nodes that come first. If none: those that come first in its pool.
    pub preferred: Option<Selector>,
    /// The interfaces that it may be on. If empty: all interfaces.
    pub interfaces: Vec<InterfacePattern>,
    /// Where the pool of its address has it announced. If none: everywhere.
    pub policy: Option<Arc<PoolPolicy>>,
    /// True if the VIP is taken without a probe, although its address may be in use.
    pub force: bool,
    /// All VIPs of the owner, in their order, if they stay on one node; else empty. The first that a
    /// node holds leads: those behind it follow.
    pub together: Vec<IpAddr>,
}

impl Demand {
    pub(crate) fn owner_namespace(&self) -> Option<&Arc<str>> {
        self.services.first().map(|owner| &owner.namespace)
    }

    /// Returns the Services whose traffic a node that may hold the VIP cannot deliver.
    pub(crate) fn unserved_on(&self, node: &NodeName) -> impl Iterator<Item = &ServiceName> {
        let unserved = self.besides.iter().filter(|(_, reach)| !reach.has(node));
        unserved.map(|(service, _)| service)
    }
}
