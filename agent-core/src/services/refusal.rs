//! Addresses that no Service may have.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, Ipv4Addr},
    sync::Arc,
};

use ipnet::Ipv4Net;
use thiserror::Error;

use super::records::{HostAddress, HostNetwork};
use crate::cluster::NodeName;

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
    #[error(
        "this host has it as {net} on {interface}, and vipward has not put it there; choose a free address, or remove it \
         there (ip address del {net} dev {interface})"
    )]
    OwnAddress {
        /// The address with its prefix length.
        net: Ipv4Net,
        /// The interface.
        interface: Arc<str>,
    },
    /// An address on an interface of another node.
    #[error(
        "node {node} has it as {net} on one of its interfaces; choose a free address, or remove it there"
    )]
    NodeInterface {
        /// The node.
        node: NodeName,
        /// The address with its prefix length.
        net: Ipv4Net,
    },
    /// A gateway.
    #[error(
        "it is a gateway of this host (ip route show via {address}), and announcing it would cut the segment off; choose \
         a free address"
    )]
    NextHop {
        /// The address.
        address: Ipv4Addr,
    },
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
            | Self::NotAllowed { .. } => false,
        }
    }
}

fn join(nets: &[Ipv4Net]) -> String {
    nets.iter().map(Ipv4Net::to_string).collect::<Vec<_>>().join(", ")
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

    pub(super) fn put_interfaces(&mut self, node: NodeName, nets: &[Ipv4Net]) -> BTreeSet<Ipv4Addr> {
        let mut taken = BTreeMap::new();
        for net in nets.iter().filter(|net| net.prefix_len() < 32) {
            if net.addr() != net.network() || net.prefix_len() == 31 {
                taken.insert(net.addr(), Refusal::NodeInterface { node: node.clone(), net: *net });
            }
            put_ends(&mut taken, *net);
        }
        self.put(Source::Interfaces(node), taken)
    }

    pub(super) fn remove_node(&mut self, node: &NodeName) -> BTreeSet<Ipv4Addr> {
        let mut changed = self.put(Source::Node(node.clone()), BTreeMap::new());
        changed.append(&mut self.put(Source::Interfaces(node.clone()), BTreeMap::new()));
        changed
    }

    pub(super) fn put_host(&mut self, network: &HostNetwork) -> BTreeSet<Ipv4Addr> {
        let mut taken: BTreeMap<_, _> = network
            .next_hops
            .iter()
            .map(|address| (*address, Refusal::NextHop { address: *address }))
            .collect();
        for found in network.addresses.iter().filter(|found| found.segment) {
            put_ends(&mut taken, found.net);
        }
        for found in network.addresses.iter().filter(|found| !found.ours && is_a_hosts_own(network, found)) {
            let own = Refusal::OwnAddress { net: found.net, interface: Arc::clone(&found.interface) };
            taken.insert(found.net.addr(), own);
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

    /// Returns the first reason why an address may not be a VIP. The
    /// address itself comes first, then its use, then the allowed networks.
    pub(super) fn refusal(&self, address: Ipv4Addr, allow: &[Ipv4Net]) -> Option<Refusal> {
        let taken = || self.by_address.get(&address).and_then(|reasons| reasons.values().next()).cloned();
        let allowed = || allow.is_empty() || allow.iter().any(|net| net.contains(&address));
        never(address)
            .or_else(taken)
            .or_else(|| (!allowed()).then(|| Refusal::NotAllowed { allow: allow.to_vec() }))
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

/// Returns true if an address is the host's own, and not a VIP that is bound for local delivery.
///
/// kube-proxy (IPVS) and operators bind VIPs as /32. Some clouds number hosts with /32 too: such an
/// address is the host's own if its interface leads to a segment and has no other kind of address.
fn is_a_hosts_own(network: &HostNetwork, found: &HostAddress) -> bool {
    let mut beside = network.addresses.iter().filter(|other| other.interface == found.interface);
    found.net.prefix_len() < 32 || found.segment && beside.all(|other| other.net.prefix_len() == 32)
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
