//! Addresses and networks that no Service may have, and the subnets of the segments.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, Ipv4Addr},
    sync::Arc,
};

use ipnet::{IpNet, Ipv4Net};

use super::{
    Settings,
    records::{HostAddress, HostNetwork},
    refusal::Refusal,
    standing::Standing,
};
use crate::cluster::{NodeInterface, NodeName, ServiceName};

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

/// Source of the reason why a network is taken. If there
/// are several, the first in this order is reported.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Source {
    Node(NodeName),
    Host,
    Api,
    ServiceCidr(Arc<str>),
    Interfaces(NodeName),
}

/// All taken networks, with their reasons. An address is a network of the length /32.
#[derive(Debug, Default)]
pub(super) struct Reserved {
    by_net: BTreeMap<Ipv4Net, BTreeMap<Source, Refusal>>,
    by_source: BTreeMap<Source, BTreeMap<Ipv4Net, Refusal>>,
    /// The Service of each `ClusterIP`, and the `ClusterIP` of each Service.
    cluster_ips: (BTreeMap<Ipv4Addr, ServiceName>, BTreeMap<ServiceName, Ipv4Addr>),
    /// The subnets of the segments, each with the nodes that have it.
    segments: BTreeMap<Ipv4Net, BTreeSet<Source>>,
}

impl Reserved {
    // Each setter returns the networks that it affects.

    pub(super) fn put_node(
        &mut self,
        node: NodeName,
        addresses: &[IpAddr],
        pod_cidrs: &[IpNet],
    ) -> BTreeSet<Ipv4Net> {
        let pods = pod_cidrs.iter().filter_map(v4_net);
        let mut taken: BTreeMap<_, _> =
            pods.map(|net| (net, Refusal::PodNet { node: node.clone(), net })).collect();
        let addresses = addresses.iter().filter_map(v4);
        taken.extend(addresses.map(|address| (address.into(), Refusal::Node { node: node.clone() })));
        self.put(Source::Node(node), taken)
    }

    pub(super) fn put_interfaces(
        &mut self,
        node: NodeName,
        interfaces: &[NodeInterface],
    ) -> BTreeSet<Ipv4Net> {
        let gateways = interfaces.iter().flat_map(|interface| &interface.gateways);
        let gateway = |address: &Ipv4Addr| {
            ((*address).into(), Refusal::NodeGateway { node: node.clone(), address: *address })
        };
        let mut taken: BTreeMap<_, _> = gateways.map(gateway).collect();
        let mut segments = BTreeSet::new();
        for NodeInterface { name, subnets, bound, .. } in interfaces {
            let is_address = |net: &Ipv4Net| net.addr() != net.network() || net.prefix_len() == 31;
            let subnets = subnets.iter().filter(|net| net.prefix_len() < 32);
            let addresses = subnets.clone().copied().filter(is_address);
            for net in bound.iter().map(|address| Ipv4Net::from(*address)).chain(addresses) {
                let (node, interface) = (node.clone(), Arc::clone(name));
                taken.entry(net.addr().into()).or_insert(Refusal::NodeInterface { node, net, interface });
            }
            for net in subnets.map(Ipv4Net::trunc) {
                put_ends(&mut taken, net);
                segments.insert(net);
            }
        }
        let source = Source::Interfaces(node);
        let mut changed = self.put_segments(&source, &segments);
        changed.append(&mut self.put(source, taken));
        changed
    }

    pub(super) fn remove_node(&mut self, node: &NodeName) -> BTreeSet<Ipv4Net> {
        let mut changed = self.put_node(node.clone(), &[], &[]);
        changed.append(&mut self.put_interfaces(node.clone(), &[]));
        changed
    }

    pub(super) fn put_host(&mut self, network: &HostNetwork) -> BTreeSet<Ipv4Net> {
        let mut taken: BTreeMap<Ipv4Net, _> =
            network.name_servers.iter().map(|address| ((*address).into(), Refusal::NameServer)).collect();
        let next_hops = network.next_hops.iter();
        taken.extend(next_hops.map(|address| ((*address).into(), Refusal::NextHop { address: *address })));
        for found in network.addresses.iter().filter(|found| is_in_use(found)) {
            let (node, interface) = (network.node.clone(), Arc::clone(&found.interface));
            // A gateway or name server goes first: force takes no such address.
            let own = Refusal::OwnAddress { node, net: found.net, interface };
            taken.entry(found.net.addr().into()).or_insert(own);
        }
        let on_segments = network.addresses.iter().filter(|found| found.segment);
        let segments: BTreeSet<_> =
            on_segments.map(|found| found.net.trunc()).filter(|net| net.prefix_len() < 32).collect();
        for net in &segments {
            put_ends(&mut taken, *net);
        }
        let mut changed = self.put_segments(&Source::Host, &segments);
        changed.append(&mut self.put(Source::Host, taken));
        changed
    }

    pub(super) fn put_api(&mut self, addresses: &BTreeSet<IpAddr>) -> BTreeSet<Ipv4Net> {
        let taken = addresses.iter().filter_map(v4).map(|address| (address.into(), Refusal::ApiServer));
        self.put(Source::Api, taken.collect())
    }

    pub(super) fn put_service_cidr(&mut self, name: &Arc<str>, nets: &[IpNet]) -> BTreeSet<Ipv4Net> {
        let refusal = |net| (net, Refusal::ServiceNet { name: Arc::clone(name), net });
        let taken = nets.iter().filter_map(v4_net).map(refusal).collect();
        self.put(Source::ServiceCidr(Arc::clone(name)), taken)
    }

    pub(super) fn put_cluster_ip(
        &mut self,
        service: &ServiceName,
        address: Option<Ipv4Addr>,
    ) -> BTreeSet<Ipv4Net> {
        let (services, addresses) = &mut self.cluster_ips;
        let before = addresses.get(service).copied();
        if before == address {
            return BTreeSet::new();
        }
        if let Some(before) = before.filter(|before| services.get(before) == Some(service)) {
            services.remove(&before);
        }
        match address {
            Some(address) => {
                services.insert(address, service.clone());
                addresses.insert(service.clone(), address);
            }
            None => _ = addresses.remove(service),
        }
        before.into_iter().chain(address).map(Ipv4Net::from).collect()
    }

    fn put(&mut self, source: Source, taken: BTreeMap<Ipv4Net, Refusal>) -> BTreeSet<Ipv4Net> {
        let before = self.by_source.remove(&source).unwrap_or_default();
        let nets = before.keys().chain(taken.keys()).copied();
        let changed: BTreeSet<_> = nets.filter(|net| before.get(net) != taken.get(net)).collect();
        for net in &changed {
            let reasons = self.by_net.entry(*net).or_default();
            match taken.get(net) {
                Some(refusal) => _ = reasons.insert(source.clone(), refusal.clone()),
                None => _ = reasons.remove(&source),
            }
            if reasons.is_empty() {
                self.by_net.remove(net);
            }
        }
        if !taken.is_empty() {
            self.by_source.insert(source, taken);
        }
        changed
    }

    /// Returns the subnets that are new, and those that no node has any more.
    fn put_segments(&mut self, source: &Source, now: &BTreeSet<Ipv4Net>) -> BTreeSet<Ipv4Net> {
        let mut changed = BTreeSet::new();
        for net in now {
            let sources = self.segments.entry(*net).or_default();
            if sources.is_empty() {
                changed.insert(*net);
            }
            sources.insert(source.clone());
        }
        self.segments.retain(|net, sources| {
            if !now.contains(net) && sources.remove(source) && sources.is_empty() {
                changed.insert(*net);
            }
            !sources.is_empty()
        });
        changed
    }

    /// Returns true if an address is in the subnet of a segment on which a node announces.
    pub(super) fn is_on_segment(&self, address: Ipv4Addr) -> bool {
        around(address).any(|net| self.segments.contains_key(&net))
    }

    /// Decides if an address may be a VIP. The address itself comes first, then its use, then the
    /// excluded and allowed networks.
    ///
    /// A new use of its address never withdraws a held VIP. Otherwise an address or a route that is
    /// added elsewhere, or a false Lease, would darken the VIP.
    pub(super) fn judge(&self, address: Ipv4Addr, settings: &Settings, standing: &Standing) -> Verdict {
        if let Some(refusal) = never(address) {
            return Verdict::Refused(refusal);
        }
        let reasons: Vec<_> = around(address)
            .filter_map(|net| self.by_net.get(&net))
            .flat_map(BTreeMap::values)
            .cloned()
            .chain(self.cluster_ip(address))
            .collect();
        let all_yield = || reasons.iter().all(Refusal::yields_to_force);
        let is_kept = standing.is_held || standing.is_forced && all_yield();
        match (reasons.into_iter().next(), not_permitted(address, settings)) {
            (Some(refusal), _) if !is_kept => Verdict::Refused(refusal),
            (_, Some(refusal)) => Verdict::Refused(refusal),
            (Some(refusal), None) => Verdict::Disputed(refusal),
            (None, None) => Verdict::Accepted,
        }
    }

    fn cluster_ip(&self, address: Ipv4Addr) -> Option<Refusal> {
        let service = self.cluster_ips.0.get(&address)?.clone();
        Some(Refusal::ClusterIp { service })
    }
}

/// Returns the networks that an address can be in, the longest prefix first.
fn around(address: Ipv4Addr) -> impl Iterator<Item = Ipv4Net> {
    (0..=32).rev().filter_map(move |length| Ipv4Net::new(address, length).ok()).map(|net| net.trunc())
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

/// Returns the reason why the settings exclude an address.
fn not_permitted(address: Ipv4Addr, settings: &Settings) -> Option<Refusal> {
    let has = |net: &&Ipv4Net| net.contains(&address);
    if let Some(net) = settings.refuse.iter().find(has) {
        Some(Refusal::Excluded { net: *net })
    } else if !settings.allow.is_empty() && !settings.allow.iter().any(|net| has(&net)) {
        Some(Refusal::NotAllowed { allow: settings.allow.clone() })
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
fn put_ends(taken: &mut BTreeMap<Ipv4Net, Refusal>, subnet: Ipv4Net) {
    if subnet.prefix_len() < 31 {
        taken.entry(subnet.network().into()).or_insert(Refusal::Network { subnet });
        taken.entry(subnet.broadcast().into()).or_insert(Refusal::Broadcast { subnet });
    }
}

fn v4(address: &IpAddr) -> Option<Ipv4Addr> {
    match address {
        IpAddr::V4(address) => Some(*address),
        IpAddr::V6(_) => None,
    }
}

fn v4_net(net: &IpNet) -> Option<Ipv4Net> {
    match net {
        IpNet::V4(net) => Some(net.trunc()),
        IpNet::V6(_) => None,
    }
}
