//! What can be wrong with a Service, in words that name the value, the place and the way out.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    sync::Arc,
};

use thiserror::Error;

use super::{records::Port, refusal::Refusal};
use crate::core::{
    cluster::{NodeName, SelectorError, ServiceName},
    config::FaultKind,
};

/// Where in a Service something stands.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[expect(missing_docs, reason = "the texts below say it")]
pub enum Place {
    Status,
    Addresses,
    KubeVipAddresses,
    MetallbAddresses,
    LoadBalancerIp,
    ExternalIps,
    PreferredNodes,
    Nodes,
    Interface,
    Ignore,
    KubeVipIgnore,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Status => "status.loadBalancer.ingress",
            Self::Addresses => "annotation vipward.io/addresses",
            Self::KubeVipAddresses => "annotation kube-vip.io/loadbalancerIPs",
            Self::MetallbAddresses => "annotation metallb.io/loadBalancerIPs",
            Self::LoadBalancerIp => "spec.loadBalancerIP",
            Self::ExternalIps => "spec.externalIPs",
            Self::PreferredNodes => "annotation vipward.io/preferred-nodes",
            Self::Nodes => "annotation vipward.io/nodes",
            Self::Interface => "annotation vipward.io/interface",
            Self::Ignore => "annotation vipward.io/ignore",
            Self::KubeVipIgnore => "annotation kube-vip.io/ignore",
        })
    }
}

/// What is wrong with a Service.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum Problem {
    /// A value cannot be read.
    #[error(
        "{place} is {value:?}: {why}. Until it is put right, what was last read there, if anything, stays in effect"
    )]
    Malformed {
        /// Where.
        place: Place,
        /// What stands there.
        value: Box<str>,
        /// What is wrong with it.
        why: Malformed,
    },
    /// An address that may not be taken.
    #[error("{address} ({place}) is not announced: {why}")]
    Refused {
        /// The address.
        address: Ipv4Addr,
        /// Where it stands.
        place: Place,
        /// Why, and what to do.
        why: Refusal,
    },
    /// An IPv6 address.
    #[error(
        "{address} ({place}) is not announced yet: only IPv4 addresses are; give the Service one of those too"
    )]
    Ipv6 {
        /// The address.
        address: Ipv6Addr,
        /// Where it stands.
        place: Place,
    },
    /// The status was written by another controller, and names other addresses than the Service asks for.
    #[error(
        "{place} asks for {}, but {} has written {} into the status, which is left alone and goes first; let only one \
         controller serve this Service (spec.loadBalancerClass), or make both name the same addresses",
        join(.wanted), writer(.manager.as_deref()), join(.status)
    )]
    OtherManager {
        /// Its field manager.
        manager: Option<Arc<str>>,
        /// What it has written; empty when none of it is a VIP.
        status: Vec<IpAddr>,
        /// Where other addresses stand.
        place: Place,
        /// Those.
        wanted: Vec<IpAddr>,
    },
    /// Two Services have the same port of one VIP.
    #[error(
        "port {port} of VIP {vip} is also that of Service {with}: only one of them gets its traffic; change the port, or \
         give one of them another address"
    )]
    Clash {
        /// The VIP.
        vip: Ipv4Addr,
        /// The port.
        port: Port,
        /// The Service that was first, by name.
        with: ServiceName,
    },
    /// No node can serve all Services on a VIP.
    #[error(
        "VIP {vip} cannot be announced: {} share it with externalTrafficPolicy Local, and no node has endpoints of all \
         of them; run their pods on the same nodes, or give each its own address",
        join(.services)
    )]
    Impossible {
        /// The VIP.
        vip: Ipv4Addr,
        /// The Services that ask for different nodes.
        services: Vec<ServiceName>,
    },
    /// Services on one VIP ask for different things.
    #[error(
        "{place} is {value:?} for VIP {vip}, but Service {with}, which shares it and comes first by name, has {used:?}, \
         which is in effect; make them the same, or give one of them another address"
    )]
    Disagrees {
        /// The VIP.
        vip: Ipv4Addr,
        /// The annotation.
        place: Place,
        /// Its value here.
        value: Box<str>,
        /// The other Service.
        with: ServiceName,
        /// Its value there.
        used: Box<str>,
    },
}

/// Which nodes see a problem.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SeenBy<'a> {
    /// All of them see the same.
    All,
    /// All of them, and this one can tell best.
    AllBest(&'a NodeName),
    /// Perhaps this one alone, since it is its own network that says so.
    This,
}

impl Problem {
    /// Which nodes see it.
    pub fn seen_by(&self) -> SeenBy<'_> {
        match self {
            Self::Refused { why: Refusal::NodeInterface { node, .. }, .. } => SeenBy::AllBest(node),
            Self::Refused { why, .. } if why.is_this_nodes_view() => SeenBy::This,
            Self::Refused { .. }
            | Self::Malformed { .. }
            | Self::Ipv6 { .. }
            | Self::OtherManager { .. }
            | Self::Clash { .. }
            | Self::Impossible { .. }
            | Self::Disagrees { .. } => SeenBy::All,
        }
    }
}

/// Why a value cannot be read.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum Malformed {
    /// Not an address.
    #[error("{part:?} is no IP address; write addresses as 192.0.2.10, with commas between them")]
    Address {
        /// The part.
        part: Box<str>,
    },
    /// A prefix length where there should be none.
    #[error("{part:?} has a prefix length; a VIP is one address: leave `/…` out")]
    Prefix {
        /// The part.
        part: Box<str>,
    },
    /// Not a label selector.
    #[error(transparent)]
    Selector(#[from] SelectorError),
    /// Not a glob.
    #[error("{0}; write names or globs as eth0 or ens*, with commas between them")]
    Pattern(FaultKind),
    /// Neither yes nor no.
    #[error("it must be \"true\" or \"false\"")]
    Flag,
}

fn writer(name: Option<&str>) -> String {
    name.map_or_else(|| "an unknown field manager".to_owned(), |name| format!("field manager {name:?}"))
}

fn join<T: fmt::Display>(values: &[T]) -> String {
    if values.is_empty() {
        return "no such address".to_owned();
    }
    values.iter().map(T::to_string).collect::<Vec<_>>().join(", ")
}
