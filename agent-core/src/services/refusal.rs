//! Addresses that no Service may have.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, Ipv4Addr},
    sync::Arc,
};

use ipnet::Ipv4Net;
use thiserror::Error;

use super::{
    records::{HostAddress, HostNetwork},
    standing::Standing,
};
use crate::cluster::{NodeInterface, NodeName};

/// Reason why an address is not announced, with the remedy.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Error)]
pub enum Refusal {
    /// 0.0.0.0/8.
    #[error(
        "it means \"this host\", and addresses are not fetched by DHCP; name the address that the Service is to have"
    )]
    ThisHost,
    /// 127.0.0.0/8.
    #[error("it is a loopback address, which no other host can reach; choose one from the segment's subnet")]
    Loopback,
    /// 224.0.0.0/4.
    #[error("it is a multicast address, which no single host can have; choose one from the segment's subnet")]
    Multicast,
    /// 240.0.0.0/4.
    #[error(
        "it is a broadcast or reserved address, which no host can have; choose one from the segment's subnet"
    )]
    Reserved,
    /// 169.254.0.0/16.
    #[error("it is a link-local address, which hosts give themselves; choose one from the segment's subnet")]
    LinkLocal,
    /// A Node's address.
    #[error(
        "it is an address of Node {node}, and announcing it would cut that node off; give the Service an address of its \
         own. If a controller that lends out the nodes' addresses has written it (k3s's ServiceLB does), switch that off"
    )]
    Node {
        /// The node.
        node: NodeName,
    },
    /// An address on an interface of this host.
    #[error("{}", on_interface(.node, *.net, .interface))]
    OwnAddress {
        /// The node that this host is.
        node: NodeName,
        /// The address with its prefix length.
        net: Ipv4Net,
        /// The interface.
        interface: Arc<str>,
    },
    /// An address on an interface of another node.
    #[error("{}", on_interface(.node, *.net, .interface))]
    NodeInterface {
        /// The node.
        node: NodeName,
        /// The address with its prefix length.
        net: Ipv4Net,
        /// The interface.
        interface: Arc<str>,
    },
    /// A gateway.
    #[error(
        "it is a gateway of this host (ip route show table all via {address}), and announcing it would cut the segment \
         off; choose a free address"
    )]
    NextHop {
        /// The address.
        address: Ipv4Addr,
    },
    /// A gateway of another node.
    #[error(
        "it is a gateway of node {node} (ip route show table all via {address}), and announcing it would cut that node \
         off; choose a free address"
    )]
    NodeGateway {
        /// The node.
        node: NodeName,
        /// The address.
        address: Ipv4Addr,
    },
    /// A DNS server.
    #[error(
        "it is a DNS server of this host (nameserver in /etc/resolv.conf), and announcing it would cut the host off from \
         it; choose a free address"
    )]
    NameServer,
    /// The API server's address.
    #[error(
        "the API server is there, and announcing it would cut the cluster off from it; choose a free address"
    )]
    ApiServer,
    /// The first address of a subnet.
    #[error(
        "it is the network address of {subnet}, which no host can have; choose another one of this subnet"
    )]
    Network {
        /// The subnet.
        subnet: Ipv4Net,
    },
    /// The last address of a subnet.
    #[error(
        "it is the broadcast address of {subnet}, which no host can have; choose another one of this subnet"
    )]
    Broadcast {
        /// The subnet.
        subnet: Ipv4Net,
    },
    /// An address outside the allowed networks.
    #[error(
        "it is in none of the networks that --allow-address permits ({}); choose one of those, or have its network added",
        join(.allow)
    )]
    NotAllowed {
        /// The networks.
        allow: Vec<Ipv4Net>,
    },
}

impl Refusal {
    /// Returns true if the refusal depends on the node's own
    /// network. Other nodes may then not see it.
    pub(super) fn is_this_nodes_view(&self) -> bool {
        match self {
            Self::OwnAddress { .. }
            | Self::NextHop { .. }
            | Self::NameServer
            | Self::ApiServer
            | Self::Network { .. }
            | Self::Broadcast { .. } => true,
            Self::ThisHost
            | Self::Loopback
            | Self::Multicast
            | Self::Reserved
            | Self::LinkLocal
            | Self::Node { .. }
            | Self::NodeInterface { .. }
            | Self::NodeGateway { .. }
            | Self::NotAllowed { .. } => false,
        }
    }

    /// Returns true if an admin may have the address taken all the same. A /32 on a segment's
    /// interface is a VIP of another program. All other addresses are needed where they are.
    fn yields_to_force(&self) -> bool {
        match self {
            Self::OwnAddress { net, .. } | Self::NodeInterface { net, .. } => net.prefix_len() == 32,
            Self::ThisHost
            | Self::Loopback
            | Self::Multicast
            | Self::Reserved
            | Self::LinkLocal
            | Self::Node { .. }
            | Self::NextHop { .. }
            | Self::NodeGateway { .. }
            | Self::NameServer
            | Self::ApiServer
            | Self::Network { .. }
            | Self::Broadcast { .. }
            | Self::NotAllowed { .. } => false,
        }
    }

    /// Describes the reason as a conflict about a held VIP, with the remedy.
    pub(super) fn conflict(&self) -> String {
        const OTHER: &str = "give the Service another address";
        match self {
            Self::OwnAddress { node, net, interface } | Self::NodeInterface { node, net, interface } => {
                format!(
                    "node {node} has it as {net} on {interface} too; remove it there: ip address del {net} dev {interface}"
                )
            }
            Self::Node { node } => format!(
                "Node {node} lists it in status.addresses too; remove it from that node's interfaces, or {OTHER}"
            ),
            Self::NextHop { address } => format!(
                "this host routes through it (ip route show table all via {address}); remove the route, or {OTHER}"
            ),
            Self::NodeGateway { node, address } => format!(
                "node {node} routes through it (ip route show table all via {address}); remove the route, or {OTHER}"
            ),
            Self::NameServer => {
                format!("/etc/resolv.conf of this host names it as a DNS server; remove it there, or {OTHER}")
            }
            Self::ApiServer => format!("the API server is there too; {OTHER}"),
            Self::Network { subnet } | Self::Broadcast { subnet } => format!(
                "it is the first or last address of {subnet} now, which hosts broadcast to; put the prefix length \
                 right, or {OTHER}"
            ),
            Self::ThisHost
            | Self::Loopback
            | Self::Multicast
            | Self::Reserved
            | Self::LinkLocal
            | Self::NotAllowed { .. } => self.to_string(),
        }
    }
}

fn on_interface(node: &NodeName, net: Ipv4Net, interface: &str) -> String {
    let way_out = format!("choose a free address, or remove it there (ip address del {net} dev {interface})");
    let force = if net.prefix_len() == 32 {
        "; an admin can have it taken all the same (vipward.io/force on its VirtualIP)"
    } else {
        ""
    };
    format!("node {node} has it as {net} on {interface}, and vipward has not put it there; {way_out}{force}")
}

fn join(nets: &[Ipv4Net]) -> String {
    nets.iter().map(Ipv4Net::to_string).collect::<Vec<_>>().join(", ")
}

/// Decision about an address.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    /// It may be a VIP.
    Accepted,
    /// It may be a VIP, but something else needs it too.
    Disputed(Refusal),
    /// It may not be a VIP.
    Refused(Refusal),
}

/// Source of the reason why an address is taken. If there
/// are several, the first in this order is reported.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Source {
    Node(NodeName),
    Host,
    Api,
    Interfaces(NodeName),
}

/// All taken addresses, with their reasons.
#[derive(Debug, Default)]
pub(super) struct Reserved {
    by_address: BTreeMap<Ipv4Addr, BTreeMap<Source, Refusal>>,
    by_source: BTreeMap<Source, BTreeMap<Ipv4Addr, Refusal>>,
}

impl Reserved {
    // Each setter returns the addresses that it affects.

    pub(super) fn put_node(&mut self, node: NodeName, addresses: &[IpAddr]) -> BTreeSet<Ipv4Addr> {
        let taken = addresses.iter().filter_map(v4);
        let taken = taken.map(|address| (address, Refusal::Node { node: node.clone() })).collect();
        self.put(Source::Node(node), taken)
    }

    pub(super) fn put_interfaces(
        &mut self,
        node: NodeName,
        interfaces: &[NodeInterface],
    ) -> BTreeSet<Ipv4Addr> {
        let mut taken = BTreeMap::new();
        let gateways = interfaces.iter().flat_map(|interface| &interface.gateways);
        taken.extend(
            gateways
                .map(|address| (*address, Refusal::NodeGateway { node: node.clone(), address: *address })),
        );
        for NodeInterface { name, subnets, bound, .. } in interfaces {
            let is_address = |net: &Ipv4Net| net.addr() != net.network() || net.prefix_len() == 31;
            let subnets = subnets.iter().filter(|net| net.prefix_len() < 32);
            let addresses = subnets.clone().copied().filter(is_address);
            for net in bound.iter().map(|address| Ipv4Net::from(*address)).chain(addresses) {
                let (node, interface) = (node.clone(), Arc::clone(name));
                taken.entry(net.addr()).or_insert(Refusal::NodeInterface { node, net, interface });
            }
            subnets.for_each(|net| put_ends(&mut taken, *net));
        }
        self.put(Source::Interfaces(node), taken)
    }

    pub(super) fn remove_node(&mut self, node: &NodeName) -> BTreeSet<Ipv4Addr> {
        let mut changed = self.put(Source::Node(node.clone()), BTreeMap::new());
        changed.append(&mut self.put(Source::Interfaces(node.clone()), BTreeMap::new()));
        changed
    }

    pub(super) fn put_host(&mut self, network: &HostNetwork) -> BTreeSet<Ipv4Addr> {
        let mut taken: BTreeMap<_, _> =
            network.name_servers.iter().map(|address| (*address, Refusal::NameServer)).collect();
        let next_hops = network.next_hops.iter();
        taken.extend(next_hops.map(|address| (*address, Refusal::NextHop { address: *address })));
        for found in network.addresses.iter().filter(|found| is_in_use(found)) {
            let (node, interface) = (network.node.clone(), Arc::clone(&found.interface));
            // A gateway or name server goes first: force takes no such address.
            let own = Refusal::OwnAddress { node, net: found.net, interface };
            taken.entry(found.net.addr()).or_insert(own);
        }
        for found in network.addresses.iter().filter(|found| found.segment) {
            put_ends(&mut taken, found.net);
        }
        self.put(Source::Host, taken)
    }

    pub(super) fn put_api(&mut self, addresses: &BTreeSet<IpAddr>) -> BTreeSet<Ipv4Addr> {
        let taken = addresses.iter().filter_map(v4).map(|address| (address, Refusal::ApiServer)).collect();
        self.put(Source::Api, taken)
    }

    fn put(&mut self, source: Source, taken: BTreeMap<Ipv4Addr, Refusal>) -> BTreeSet<Ipv4Addr> {
        let before = self.by_source.remove(&source).unwrap_or_default();
        let addresses = before.keys().chain(taken.keys()).copied();
        let changed: BTreeSet<_> =
            addresses.filter(|address| before.get(address) != taken.get(address)).collect();
        for address in &changed {
            let reasons = self.by_address.entry(*address).or_default();
            match taken.get(address) {
                Some(refusal) => _ = reasons.insert(source.clone(), refusal.clone()),
                None => _ = reasons.remove(&source),
            }
            if reasons.is_empty() {
                self.by_address.remove(address);
            }
        }
        if !taken.is_empty() {
            self.by_source.insert(source, taken);
        }
        changed
    }

    /// Decides if an address may be a VIP. The address itself comes first, then its use, then the
    /// allowed networks.
    ///
    /// A new use of its address never withdraws a held VIP. Otherwise an address or a route that is
    /// added elsewhere, or a false Lease, would darken the VIP.
    pub(super) fn judge(&self, address: Ipv4Addr, allow: &[Ipv4Net], standing: Standing) -> Verdict {
        if let Some(refusal) = never(address) {
            return Verdict::Refused(refusal);
        }
        let reasons = self.by_address.get(&address);
        let taken = reasons.and_then(|reasons| reasons.values().next()).cloned();
        let all_yield = || reasons.iter().copied().flatten().all(|(_, reason)| reason.yields_to_force());
        let is_kept = standing.is_held || standing.is_forced && all_yield();
        let is_allowed = allow.is_empty() || allow.iter().any(|net| net.contains(&address));
        match taken {
            Some(refusal) if !is_kept => Verdict::Refused(refusal),
            _ if !is_allowed => Verdict::Refused(Refusal::NotAllowed { allow: allow.to_vec() }),
            Some(refusal) => Verdict::Disputed(refusal),
            None => Verdict::Accepted,
        }
    }
}

/// Returns the reason why an address can never be a VIP.
fn never(address: Ipv4Addr) -> Option<Refusal> {
    let first = address.octets()[0];
    if first == 0 {
        Some(Refusal::ThisHost)
    } else if address.is_loopback() {
        Some(Refusal::Loopback)
    } else if address.is_multicast() {
        Some(Refusal::Multicast)
    } else if first >= 240 {
        Some(Refusal::Reserved)
    } else if address.is_link_local() {
        Some(Refusal::LinkLocal)
    } else {
        None
    }
}

/// Returns true if the kernel uses an address, and does not just have it for local delivery.
///
/// kube-proxy (IPVS) and operators put VIPs as /32 on interfaces that lead to no segment. On one
/// that does, a /32 is the VIP of another program (kube-vip, keepalived), or the host's own.
fn is_in_use(found: &HostAddress) -> bool {
    found.net.prefix_len() < 32 || found.segment
}

/// Adds the first and last address of a subnet. Point-to-point subnets (RFC 3021) have neither.
fn put_ends(taken: &mut BTreeMap<Ipv4Addr, Refusal>, net: Ipv4Net) {
    if net.prefix_len() < 31 {
        let subnet = net.trunc();
        taken.entry(subnet.network()).or_insert(Refusal::Network { subnet });
        taken.entry(subnet.broadcast()).or_insert(Refusal::Broadcast { subnet });
    }
}

fn v4(address: &IpAddr) -> Option<Ipv4Addr> {
    match address {
        IpAddr::V4(address) => Some(*address),
        IpAddr::V6(_) => None,
    }
}
