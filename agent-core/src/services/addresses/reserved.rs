//! Addresses and networks that no Service may have, and the subnets of the segments.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::Arc,
};

use ipnet::IpNet;

use super::{
    super::{HostAddress, HostNetwork, Settings},
    refusal::Refusal,
};
use crate::{
    base::address::{End, NeverAVip, ends, is_host, is_point_to_point},
    host::owner::Owner,
    records::{NodeInterface, NodeName, ServiceName},
};

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    Accepted,
    /// It may be a VIP, but something else needs it too.
    Disputed(Refusal),
    Refused(Refusal),
}

/// Source of the reason why a network is taken. If there
/// are several, the first in this order is reported.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Source {
    Node(NodeName),
    Host,
    Api(Option<Arc<str>>),
    ServiceCidr(Arc<str>),
    Interfaces(NodeName),
}

#[derive(Debug, Default)]
pub(crate) struct Reserved {
    by_net: BTreeMap<IpNet, BTreeMap<Source, Refusal>>,
    by_source: BTreeMap<Source, BTreeMap<IpNet, Refusal>>,
    /// The Service of each `ClusterIP`, and the `ClusterIP`s of each Service.
    cluster_ips: (BTreeMap<IpAddr, ServiceName>, BTreeMap<ServiceName, Vec<IpAddr>>),
    segments: Segments,
    /// Those in which a node has an address by its Node object, which no token of a node writes.
    confirmed: Segments,
}

type Segments = BTreeMap<IpNet, BTreeSet<Source>>;

impl Reserved {
    // Each setter returns the networks that it affects.

    pub(crate) fn put_node(
        &mut self,
        node: NodeName,
        addresses: &[IpAddr],
        pod_cidrs: &[IpNet],
    ) -> BTreeSet<IpNet> {
        let pods = pod_cidrs.iter().map(IpNet::trunc);
        let mut taken: BTreeMap<_, _> =
            pods.map(|net| (net, Refusal::PodNet { node: node.clone(), net })).collect();
        taken.extend(
            addresses.iter().map(|address| ((*address).into(), Refusal::Node { node: node.clone() })),
        );
        let mut changed = self.put(Source::Node(node.clone()), taken);
        changed.append(&mut self.confirm(node));
        changed
    }

    pub(crate) fn put_interfaces(&mut self, node: NodeName, interfaces: &[NodeInterface]) -> BTreeSet<IpNet> {
        let gateways = interfaces.iter().flat_map(|interface| &interface.gateways);
        let gateway = |address: &IpAddr| {
            ((*address).into(), Refusal::NodeGateway { node: node.clone(), address: *address })
        };
        let mut taken: BTreeMap<_, _> = gateways.map(gateway).collect();
        let mut segments = BTreeSet::new();
        for interface in interfaces {
            let NodeInterface { name, subnets, bound, .. } = interface;
            let is_address = |net: &IpNet| net.addr() != net.network() || is_point_to_point(net);
            let subnets = subnets.iter().filter(|net| !is_host(net));
            let addresses = subnets.clone().copied().filter(is_address);
            for net in bound.iter().map(|address| IpNet::from(*address)).chain(addresses) {
                let (node, interface_name) = (node.clone(), Arc::clone(name));
                let owner = Owner::at_node(&net, interface.addresses());
                let refusal = Refusal::NodeInterface { node, net, interface: interface_name, owner };
                taken.entry(net.addr().into()).or_insert(refusal);
            }
            for net in interface.segments() {
                put_ends(&mut taken, net);
                segments.insert(net);
            }
        }
        let source = Source::Interfaces(node.clone());
        let mut changed = put_segments(&mut self.segments, &source, &segments);
        changed.append(&mut self.put(source, taken));
        changed.append(&mut self.confirm(node));
        changed
    }

    fn confirm(&mut self, node: NodeName) -> BTreeSet<IpNet> {
        let taken = self.by_source.get(&Source::Node(node.clone())).into_iter().flatten();
        let addresses = taken.filter(|(_, why)| matches!(why, Refusal::Node { .. }));
        let addresses: Vec<_> = addresses.map(|(net, _)| net.addr()).collect();
        let source = Source::Interfaces(node);
        let own = self.segments.iter().filter(|(_, sources)| sources.contains(&source));
        let has_one = |net: &&IpNet| addresses.iter().any(|address| net.contains(address));
        let now = own.map(|(net, _)| net).filter(has_one).copied().collect();
        put_segments(&mut self.confirmed, &source, &now)
    }

    /// Returns true if the Node object of a node is known, with an address.
    pub(crate) fn has_node(&self, node: &NodeName) -> bool {
        self.by_source.contains_key(&Source::Node(node.clone()))
    }

    pub(crate) fn remove_node(&mut self, node: &NodeName) -> BTreeSet<IpNet> {
        let mut changed = self.put_node(node.clone(), &[], &[]);
        changed.append(&mut self.put_interfaces(node.clone(), &[]));
        changed
    }

    pub(crate) fn put_host(&mut self, network: &HostNetwork) -> BTreeSet<IpNet> {
        let mut taken: BTreeMap<IpNet, _> =
            network.name_servers.iter().map(|address| ((*address).into(), Refusal::NameServer)).collect();
        let next_hops = network.next_hops.iter();
        taken.extend(next_hops.map(|address| ((*address).into(), Refusal::NextHop { address: *address })));
        for found in network.addresses.iter().filter(|found| is_in_use(found)) {
            let (node, interface) = (network.node.clone(), Arc::clone(&found.interface));
            // A gateway or name server goes first: force takes no such address.
            let own = Refusal::OwnAddress { node, net: found.net, interface, owner: found.owner };
            taken.entry(found.net.addr().into()).or_insert(own);
        }
        let on_segments = network.addresses.iter().filter(|found| found.segment);
        let segments: BTreeSet<_> =
            on_segments.map(|found| found.net.trunc()).filter(|net| !is_host(net)).collect();
        for net in &segments {
            put_ends(&mut taken, *net);
        }
        let mut changed = put_segments(&mut self.segments, &Source::Host, &segments);
        changed.append(&mut self.put(Source::Host, taken));
        changed
    }

    pub(crate) fn put_api_servers(
        &mut self,
        slice: Option<Arc<str>>,
        addresses: &[IpAddr],
    ) -> BTreeSet<IpNet> {
        let taken = addresses.iter().map(|address| ((*address).into(), Refusal::ApiServer));
        self.put(Source::Api(slice), taken.collect())
    }

    pub(crate) fn put_service_cidr(&mut self, name: &Arc<str>, nets: &[IpNet]) -> BTreeSet<IpNet> {
        let refusal = |net| (net, Refusal::ServiceNet { name: Arc::clone(name), net });
        let taken = nets.iter().map(IpNet::trunc).map(refusal).collect();
        self.put(Source::ServiceCidr(Arc::clone(name)), taken)
    }

    pub(crate) fn put_cluster_ips(&mut self, service: &ServiceName, now: &[IpAddr]) -> BTreeSet<IpNet> {
        let (services, addresses) = &mut self.cluster_ips;
        let before = addresses.remove(service).unwrap_or_default();
        let (gone, new) =
            (before.iter().filter(|it| !now.contains(it)), now.iter().filter(|it| !before.contains(it)));
        let changed = gone.clone().chain(new.clone()).copied().map(IpNet::from).collect();
        for address in gone {
            if services.get(address) == Some(service) {
                services.remove(address);
            }
        }
        services.extend(new.map(|address| (*address, service.clone())));
        if !now.is_empty() {
            addresses.insert(service.clone(), now.to_vec());
        }
        changed
    }

    fn put(&mut self, source: Source, taken: BTreeMap<IpNet, Refusal>) -> BTreeSet<IpNet> {
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

    pub(crate) fn has_segments(&self) -> bool {
        !self.segments.is_empty()
    }

    /// Returns true if an address is in the subnet of a segment on which a node announces.
    pub(crate) fn is_on_segment(&self, address: IpAddr) -> bool {
        around(address).any(|net| self.segments.contains_key(&net))
    }

    /// Returns true if a user's request for an address outside of the segments is in vain: the
    /// admin has named no networks, and no node has held the VIP.
    pub(crate) fn is_elsewhere(&self, address: IpAddr, settings: &Settings, was_held: bool) -> bool {
        settings.allow.is_empty() && !was_held && !self.is_on_segment(address)
    }

    /// Returns true if an address is in such a subnet, and the Node object of its node lists another one
    /// there. A Lease alone proves nothing to others than its node: the node's token writes it.
    pub(crate) fn is_on_confirmed_segment(&self, address: IpAddr) -> bool {
        around(address).any(|net| self.confirmed.contains_key(&net))
    }

    pub(crate) fn others(&self, address: IpAddr) -> Vec<Refusal> {
        let reserved = around(address).filter_map(|net| self.by_net.get(&net)).flat_map(BTreeMap::values);
        reserved.cloned().chain(self.cluster_ip(address)).collect()
    }

    pub(crate) fn api_servers(&self) -> impl Iterator<Item = IpAddr> {
        let servers = self.by_source.iter().filter(|(source, _)| matches!(source, Source::Api(_)));
        servers.flat_map(|(_, taken)| taken.keys()).map(IpNet::addr)
    }

    pub(crate) fn next_hops(&self) -> impl Iterator<Item = IpAddr> {
        let taken = self.by_source.get(&Source::Host).into_iter().flatten();
        taken.filter(|(_, refusal)| matches!(refusal, Refusal::NextHop { .. })).map(|(net, _)| net.addr())
    }

    fn cluster_ip(&self, address: IpAddr) -> Option<Refusal> {
        let service = self.cluster_ips.0.get(&address)?.clone();
        Some(Refusal::ClusterIp { service })
    }
}

/// Decides if an address may be a VIP. The address itself comes first, then the `others` that need
/// it, then the excluded and allowed networks, and last what this node alone sees. `is_kept` returns
/// true if the VIP goes before one of the others.
pub(crate) fn judge(
    address: IpAddr,
    settings: &Settings,
    others: Vec<Refusal>,
    is_kept: impl Fn(&Refusal) -> bool,
) -> Verdict {
    let refused = others.iter().find(|other| !is_kept(other));
    let (here, everywhere) = (refused.filter(|it| it.is_this_nodes_view()), refused.cloned());
    let of_all = everywhere.filter(|_| here.is_none()).or_else(|| not_permitted(address, settings));
    match NeverAVip::of(address).map(Refusal::Never).or(of_all).or_else(|| here.cloned()) {
        Some(refusal) => Verdict::Refused(refusal),
        None => others.into_iter().next().map_or(Verdict::Accepted, Verdict::Disputed),
    }
}

/// Returns the networks that an address can be in, the longest prefix first.
fn around(address: IpAddr) -> impl Iterator<Item = IpNet> {
    let lengths = 0..=IpNet::from(address).max_prefix_len();
    lengths.rev().filter_map(move |length| IpNet::new(address, length).ok()).map(|net| net.trunc())
}

fn not_permitted(address: IpAddr, settings: &Settings) -> Option<Refusal> {
    let has = |net: &&IpNet| net.contains(&address);
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
    !is_host(&found.net) || found.segment
}

/// Puts a source's subnets. Returns those that are new, and those that have no source any more.
fn put_segments(segments: &mut Segments, source: &Source, now: &BTreeSet<IpNet>) -> BTreeSet<IpNet> {
    let mut changed = BTreeSet::new();
    for net in now {
        let sources = segments.entry(*net).or_default();
        if sources.is_empty() {
            changed.insert(*net);
        }
        sources.insert(source.clone());
    }
    segments.retain(|net, sources| {
        if !now.contains(net) && sources.remove(source) && sources.is_empty() {
            changed.insert(*net);
        }
        !sources.is_empty()
    });
    changed
}

fn put_ends(taken: &mut BTreeMap<IpNet, Refusal>, subnet: IpNet) {
    for (address, end) in ends(&subnet) {
        taken.entry(address.into()).or_insert(match end {
            End::Network => Refusal::Network { subnet },
            End::Broadcast => Refusal::Broadcast { subnet },
            End::Routers => Refusal::Routers { subnet },
        });
    }
}
