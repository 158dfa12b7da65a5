//! Reasons why an address is not announced, with the remedies.

use std::{net::IpAddr, sync::Arc};

use ipnet::IpNet;
use thiserror::Error;

use crate::{
    base::address::NeverAVip,
    host::owner::Owner,
    pools::Family,
    records::{NodeName, ServiceName},
};

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Error)]
pub enum Refusal {
    #[error("{}", never(*.0))]
    Never(NeverAVip),
    #[error(
        "it is an address of Node {node}, and announcing it would cut that node off; give the Service an \
         address of its own. If a controller that lends out the nodes' addresses has written it (k3s's \
         ServiceLB does), switch that off: an address of a VIPPool then replaces it"
    )]
    Node { node: NodeName },
    #[error("{}", on_interface(.node, *.net, .interface, *.owner))]
    OwnAddress {
        /// The node that this host is.
        node: NodeName,
        net: IpNet,
        interface: Arc<str>,
        owner: Owner,
    },
    #[error("{}", on_interface(.node, *.net, .interface, *.owner))]
    NodeInterface { node: NodeName, net: IpNet, interface: Arc<str>, owner: Owner },
    #[error(
        "it is a gateway of this host (ip route show table all via {address}), and announcing it would cut the segment \
         off; choose a free address"
    )]
    NextHop { address: IpAddr },
    #[error(
        "it is a gateway of node {node} (ip route show table all via {address}), and announcing it would cut that node \
         off; choose a free address"
    )]
    NodeGateway { node: NodeName, address: IpAddr },
    #[error(
        "it is a DNS server of this host (nameserver in /etc/resolv.conf), and announcing it would cut the \
         host off from it; choose a free address"
    )]
    NameServer,
    #[error(
        "the API server is there, and announcing it would cut the cluster off from it; choose a free address"
    )]
    ApiServer,
    #[error(
        "it is the ClusterIP of Service {service}, and announcing it would take the cluster's own traffic; \
         choose one from the segment's subnet"
    )]
    ClusterIp { service: ServiceName },
    #[error(
        "it is in {net}, the network of the Pods on node {node} (spec.podCIDRs); choose one from the segment's subnet"
    )]
    PodNet { node: NodeName, net: IpNet },
    #[error(
        "it is in {net}, where the ClusterIPs are (ServiceCIDR {name}); choose one from the segment's subnet"
    )]
    ServiceNet { name: Arc<str>, net: IpNet },
    #[error(
        "it is the network address of {subnet}, which no host can have; choose another one of this subnet"
    )]
    Network { subnet: IpNet },
    #[error(
        "it is the broadcast address of {subnet}, which no host can have; choose another one of this subnet"
    )]
    Broadcast { subnet: IpNet },
    /// The first address of an IPv6 subnet (RFC 4291, 2.6.1).
    #[error(
        "it is the address of all routers of {subnet}, which no host can have; choose another one of this subnet"
    )]
    Routers { subnet: IpNet },
    /// An address in a network of [`Settings::refuse`](crate::services::Settings::refuse).
    #[error(
        "it is in {net}, which --refuse-address excludes; choose another one, or have that option changed"
    )]
    Excluded { net: IpNet },
    #[error(
        "it is in no subnet of an interface on which a node announces; choose one from there, or have an \
         admin permit its network (--allow-address)"
    )]
    NoSegment,
    #[error(
        "the Service has no {} address (spec.ipFamilies), so kube-proxy delivers nothing for it; name an \
         address of a family that it has, or change spec.ipFamilies and spec.ipFamilyPolicy",
        family.name()
    )]
    WrongFamily { family: Family },
    #[error(
        "it is in none of the networks that --allow-address permits ({}); choose one of those, or have its \
         network added",
        join(.allow)
    )]
    NotAllowed { allow: Vec<IpNet> },
}

impl Refusal {
    /// Returns true if the refusal depends on the node's own
    /// network. Other nodes may then not see it.
    pub(crate) fn is_this_nodes_view(&self) -> bool {
        match self {
            Self::OwnAddress { .. }
            | Self::NextHop { .. }
            | Self::NameServer
            | Self::ApiServer => true,
            Self::Never(_)
            // Its subnet is in a Lease.
            | Self::Network { .. }
            | Self::Broadcast { .. }
            | Self::Routers { .. }
            | Self::Node { .. }
            | Self::NodeInterface { .. }
            | Self::NodeGateway { .. }
            | Self::ClusterIp { .. }
            | Self::PodNet { .. }
            | Self::ServiceNet { .. }
            | Self::Excluded { .. }
            | Self::NoSegment
            | Self::WrongFamily { .. }
            | Self::NotAllowed { .. } => false,
        }
    }

    /// Returns true if the cluster's objects show the reason to all, without a Lease or a setting.
    pub(crate) fn is_of_the_cluster(&self) -> bool {
        matches!(
            self,
            Self::Node { .. } | Self::ClusterIp { .. } | Self::PodNet { .. } | Self::ServiceNet { .. }
        )
    }

    /// Returns true if the reason comes from a Lease, which the token of its node writes.
    pub(crate) fn is_by_lease(&self) -> bool {
        matches!(
            self,
            Self::NodeInterface { .. }
                | Self::NodeGateway { .. }
                | Self::Network { .. }
                | Self::Broadcast { .. }
                | Self::Routers { .. }
        )
    }

    /// Returns true if an admin may have the address taken all the same: it is a VIP of another program. All
    /// other addresses are needed where they are.
    pub(crate) fn yields_to_force(&self) -> bool {
        match self {
            Self::OwnAddress { owner, .. } | Self::NodeInterface { owner, .. } => *owner != Owner::Host,
            Self::Never(_)
            | Self::Node { .. }
            | Self::NextHop { .. }
            | Self::NodeGateway { .. }
            | Self::NameServer
            | Self::ApiServer
            | Self::ClusterIp { .. }
            | Self::PodNet { .. }
            | Self::ServiceNet { .. }
            | Self::Network { .. }
            | Self::Broadcast { .. }
            | Self::Routers { .. }
            | Self::Excluded { .. }
            | Self::NoSegment
            | Self::WrongFamily { .. }
            | Self::NotAllowed { .. } => false,
        }
    }

    /// Describes the reason as a conflict about a held VIP, with the remedy.
    pub(crate) fn conflict(&self) -> String {
        const OTHER: &str = "give the Service another address";
        match self {
            Self::OwnAddress { node, net, interface, owner }
            | Self::NodeInterface { node, net, interface, owner } => {
                let remedy = owner.remedy(&format!("node {node}"), net, interface);
                format!("node {node} has it as {net} on {interface} too; {remedy}")
            }
            Self::Node { node } => format!("Node {node} lists it in status.addresses too; {OTHER}"),
            Self::NextHop { address } => {
                format!("this host routes through it (ip route show table all via {address}); {OTHER}")
            }
            Self::NodeGateway { node, address } => {
                format!("node {node} routes through it (ip route show table all via {address}); {OTHER}")
            }
            Self::NameServer => {
                format!("/etc/resolv.conf of this host names it as a DNS server; remove it there, or {OTHER}")
            }
            Self::ApiServer => format!("the API server is there too; {OTHER}"),
            Self::Network { subnet } | Self::Broadcast { subnet } => format!(
                "it is the first or last address of {subnet} now, which hosts broadcast to; put the prefix length \
                 right, or {OTHER}"
            ),
            Self::Routers { subnet } => format!(
                "it is the address of all routers of {subnet} now; put the prefix length right, or {OTHER}"
            ),
            Self::Never(_)
            | Self::ClusterIp { .. }
            | Self::PodNet { .. }
            | Self::ServiceNet { .. }
            | Self::Excluded { .. }
            | Self::NoSegment
            | Self::WrongFamily { .. }
            | Self::NotAllowed { .. } => self.to_string(),
        }
    }
}

fn never(never: NeverAVip) -> &'static str {
    match never {
        NeverAVip::ThisHost => {
            "it means \"this host\", and addresses are not fetched by DHCP; name the address that the Service \
             is to have"
        }
        NeverAVip::Loopback => {
            "it is a loopback address, which no other host can reach; choose one from the segment's subnet"
        }
        NeverAVip::Multicast => {
            "it is a multicast address, which no single host can have; choose one from the segment's subnet"
        }
        NeverAVip::Reserved => {
            "it is a broadcast or reserved address, which no host can have; choose one from the segment's subnet"
        }
        NeverAVip::Mapped => {
            "it is an IPv4 address in an IPv6 address, which no frame carries; write the IPv4 address"
        }
        NeverAVip::LinkLocal => {
            "it is a link-local address, which hosts give themselves; choose one from the segment's subnet"
        }
    }
}

fn on_interface(node: &NodeName, net: IpNet, interface: &str, owner: Owner) -> String {
    let remedy = owner.remedy(&format!("node {node}"), &net, interface);
    let force = match owner {
        Owner::Host => "",
        Owner::Agent | Owner::Program | Owner::Unclear => {
            "; an admin can have it taken all the same (vipward.io/force on its VirtualIP)"
        }
    };
    format!("node {node} has it as {net} on {interface}, and vipward has not put it there; {remedy}{force}")
}

fn join(nets: &[IpNet]) -> String {
    nets.iter().map(IpNet::to_string).collect::<Vec<_>>().join(", ")
}
