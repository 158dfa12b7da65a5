//! The rules of docs/kubernetes/services.md about addresses and the sharing of VIPs, from the objects alone.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::Arc,
};

use ipnet::IpNet;
use vipward_core::{
    records::{Demand, NodeInterface, NodeName, ServiceName},
    services::{Command, Event, HostNetwork, IpMode, ServiceRecord, Settings},
};

use super::input;

/// Addresses and networks that no Service may have.
#[derive(Clone, Debug, Default)]
struct Taken {
    nets: Vec<IpNet>,
    /// Addresses of interfaces, and the ends of subnets. An admin may force a /32 among them.
    on_interfaces: Vec<IpAddr>,
    segments: Vec<IpNet>,
}

impl Taken {
    fn of_interfaces(interfaces: &[NodeInterface]) -> Self {
        let mut taken = Self::default();
        for interface in interfaces {
            taken.nets.extend(interface.gateways.iter().map(|address| IpNet::from(*address)));
            taken.on_interfaces.extend(&interface.bound);
            for net in interface.subnets.iter().filter(|net| !is_host(net)) {
                // Without an address there, the subnet itself is listed.
                if *net != net.trunc() || net.prefix_len() == 31 {
                    taken.on_interfaces.push(net.addr());
                }
                taken.add_segment(*net);
            }
        }
        taken
    }

    fn of_host(network: &HostNetwork) -> Self {
        let mut taken = Self::default();
        let single = network.next_hops.iter().chain(&network.name_servers);
        taken.nets.extend(single.map(|address| IpNet::from(*address)));
        for found in &network.addresses {
            if found.segment || !is_host(&found.net) {
                taken.on_interfaces.push(found.net.addr());
            }
            if found.segment && !is_host(&found.net) {
                taken.add_segment(found.net);
            }
        }
        taken
    }

    fn add_segment(&mut self, net: IpNet) {
        self.segments.push(net.trunc());
        if net.prefix_len() + 1 < net.max_prefix_len() {
            self.on_interfaces.push(net.network());
            self.on_interfaces.extend(net.addr().is_ipv4().then(|| net.broadcast()));
        }
    }

    fn has(&self, address: IpAddr, is_forced: bool) -> bool {
        self.nets.iter().any(|net| net.contains(&address))
            || !is_forced && self.on_interfaces.contains(&address)
    }
}

/// Source of taken addresses.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Source {
    Node(NodeName),
    Interfaces(NodeName),
    ServiceCidr(Arc<str>),
    Service(ServiceName),
    Host,
    Api,
}

impl Source {
    /// Returns true if other nodes may not know it.
    fn is_this_nodes(&self) -> bool {
        matches!(self, Self::Host | Self::Api)
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Claim {
    is_forced: bool,
}

/// The cluster's objects, and what was decided about them.
#[derive(Debug)]
pub(crate) struct Oracle {
    settings: Settings,
    synced: bool,
    services: BTreeMap<ServiceName, ServiceRecord>,
    /// Each address that a Service has ever named anywhere. A bad value leaves the last one in
    /// effect.
    named: BTreeMap<ServiceName, BTreeSet<IpAddr>>,
    consents: BTreeMap<Arc<str>, BTreeSet<Arc<str>>>,
    taken: BTreeMap<Source, Taken>,
    claims: BTreeMap<IpAddr, Claim>,
    /// Addresses that have ever had a holder.
    held: BTreeSet<IpAddr>,
    /// Addresses that this node holds.
    here: BTreeSet<IpAddr>,
    /// Addresses whose claims name a node, and the nodes with a session.
    claimed: BTreeSet<IpAddr>,
    living: BTreeSet<NodeName>,
    /// Addresses that a node holds or held lately, with the number of times that time has passed since.
    kept: BTreeMap<IpAddr, u8>,
    demands: BTreeMap<IpAddr, Demand>,
    written: BTreeMap<ServiceName, Vec<IpAddr>>,
}

impl Oracle {
    pub(crate) fn new(settings: Settings) -> Self {
        Self {
            settings,
            synced: false,
            services: BTreeMap::new(),
            named: BTreeMap::new(),
            consents: BTreeMap::new(),
            taken: BTreeMap::new(),
            claims: BTreeMap::new(),
            held: BTreeSet::new(),
            here: BTreeSet::new(),
            claimed: BTreeSet::new(),
            living: BTreeSet::new(),
            kept: BTreeMap::new(),
            demands: BTreeMap::new(),
            written: BTreeMap::new(),
        }
    }

    pub(crate) fn is_synced(&self) -> bool {
        self.synced
    }

    pub(crate) fn demand(&self, vip: IpAddr) -> Option<&Demand> {
        self.demands.get(&vip)
    }

    pub(crate) fn apply(&mut self, event: &Event) {
        let single = |addresses: &mut dyn Iterator<Item = &IpAddr>| Taken {
            nets: addresses.copied().map(IpNet::from).collect(),
            ..Taken::default()
        };
        match event {
            Event::Service(record) => {
                self.named.entry(record.name.clone()).or_default().extend(named(record));
                self.put(Source::Service(record.name.clone()), single(&mut record.cluster_ips.iter()));
                self.services.insert(record.name.clone(), (**record).clone());
            }
            Event::ServiceGone(name) => {
                self.put(Source::Service(name.clone()), Taken::default());
                self.services.remove(name);
                self.named.remove(name);
            }
            Event::Namespace { name, share_with, .. } => {
                self.consents.insert(Arc::clone(name), share_with.clone());
            }
            Event::NamespaceGone(name) => _ = self.consents.remove(name),
            Event::NodeAddresses { node, addresses, pod_cidrs, .. } => {
                let mut taken = single(&mut addresses.iter());
                taken.nets.extend(pod_cidrs.iter().map(IpNet::trunc));
                self.put(Source::Node(node.clone()), taken);
            }
            Event::ServiceCidr { name, nets } => {
                let nets = nets.iter().map(IpNet::trunc).collect();
                self.put(Source::ServiceCidr(Arc::clone(name)), Taken { nets, ..Taken::default() });
            }
            Event::NodeInterfaces { node, interfaces, session } => {
                if session.is_some() {
                    self.living.insert(node.clone());
                }
                self.put(Source::Interfaces(node.clone()), Taken::of_interfaces(interfaces));
            }
            Event::NodeGone(node) => {
                self.put(Source::Node(node.clone()), Taken::default());
                self.put(Source::Interfaces(node.clone()), Taken::default());
                self.living.remove(node);
            }
            Event::HostNetwork(network) => self.put(Source::Host, Taken::of_host(network)),
            Event::ApiServers { addresses, .. } => self.put(Source::Api, single(&mut addresses.iter())),
            Event::Claim { vip, was_held, sessions, force, .. } => {
                self.claimed.remove(vip);
                self.claimed.extend((!sessions.is_empty()).then_some(*vip));
                self.claims.insert(*vip, Claim { is_forced: *force });
                if *was_held {
                    self.held.insert(*vip);
                }
            }
            Event::ClaimGone(vip) => {
                self.claims.remove(vip);
                self.claimed.remove(vip);
            }
            Event::Held { vip, here: true } => {
                self.held.insert(*vip);
                self.here.insert(*vip);
            }
            Event::Held { vip, here: false } => _ = self.here.remove(vip),
            Event::Synced => self.synced = true,
            Event::SlicesListed
            | Event::Slice(_)
            | Event::SliceGone { .. }
            | Event::Found(_)
            | Event::Leader(_)
            | Event::LeaseGone(_)
            | Event::Behind(_)
            | Event::Pool(_) => {}
        }
        self.keep();
    }

    /// Lets much time pass. Kept VIPs are forgotten the second time.
    pub(crate) fn pass(&mut self) {
        self.kept.values_mut().for_each(|times| *times += 1);
        self.keep();
        self.kept.retain(|_, times| *times < 2);
    }

    fn keep(&mut self) {
        let claimed = self.claimed.iter().filter(|_| self.living.contains(&input::holder()));
        self.kept.extend(claimed.chain(&self.here).map(|vip| (*vip, 0)));
    }

    fn put(&mut self, source: Source, taken: Taken) {
        self.taken.insert(source, taken);
    }

    pub(crate) fn carry_out(&mut self, command: Command) {
        match command {
            Command::Demand(vip, Some(demand)) => _ = self.demands.insert(vip, demand),
            Command::Demand(vip, None) => _ = self.demands.remove(&vip),
            Command::WriteIngress { service, addresses } => _ = self.written.insert(service, addresses),
            Command::ClearIngress { service } | Command::LeaveIngress { service } => {
                self.written.remove(&service);
            }
            Command::ListSlices { .. } => panic!("the slices are known"),
            Command::Report { .. } | Command::ProblemOver { .. } => {}
        }
    }

    pub(crate) fn check(&self) {
        let mut numbers = BTreeMap::new();
        for (vip, demand) in &self.demands {
            self.check_demand(*vip, demand);
            for service in &demand.services {
                *numbers.entry(service).or_insert(0) += 1;
            }
        }
        let most = self.settings.most_addresses;
        assert!(numbers.values().all(|number| *number <= most), "more than {most} VIPs: {numbers:?}");
        for (service, addresses) in &self.written {
            self.check_status(service, addresses);
        }
    }

    fn check_demand(&self, vip: IpAddr, demand: &Demand) {
        assert!(self.is_permitted(vip), "{vip} can be no VIP");
        let by = self.needed_by(vip, self.is_forced(vip));
        // Holding counts, not having been held.
        assert!(by.is_empty() || self.kept.contains_key(&vip), "{vip} is needed by {by:?}");
        let is_vital = by.iter().any(|source| **source == Source::Api);
        assert!(!is_vital || self.here.contains(&vip), "{vip} is the API server's");
        let [owner, others @ ..] = &demand.services[..] else { panic!("no Service wants {vip}") };
        let mut ports = BTreeSet::new();
        for name in &demand.services {
            let record = &self.services[name];
            assert!(record.load_balancer && !record.deleting, "{name} is served");
            assert!(self.named[name].contains(&vip), "{name} has never asked for {vip}");
            let is_users = !is_anothers(record, vip);
            assert!(!is_users || self.is_open(vip), "{vip} is outside of the segments, and {name} has it");
            let own: BTreeSet<_> = record.ports.iter().collect();
            assert!(own.iter().all(|port| ports.insert(*port)), "two Services have {own:?} on {vip}");
        }
        for other in others {
            assert!(self.may_share(owner, other), "{other} shares {vip} with {owner}");
        }
        assert_eq!(demand.services.iter().collect::<BTreeSet<_>>().len(), demand.services.len());
    }

    fn check_status(&self, service: &ServiceName, addresses: &[IpAddr]) {
        let record = &self.services[service];
        assert!(addresses.len() <= self.settings.most_addresses, "{addresses:?} of {service}");
        for address in addresses {
            assert!(self.is_permitted(*address), "{address} in the status of {service} can be no VIP");
            // An address that this node alone refuses stays if it is there.
            if self.needed_by(*address, false).iter().any(|source| source.is_this_nodes())
                && record.ingress.iter().any(|ingress| ingress.ip == Some(*address))
            {
                continue;
            }
            // Where an admin has permitted the address, it is enough that it was held once.
            let was_held = !self.settings.allow.is_empty() && self.held.contains(address);
            let is_known = was_held || self.kept.contains_key(address) || self.is_on_segment(*address);
            assert!(is_known, "{address} in the status of {service} is elsewhere");
            let demand = self.demands.get(address);
            let is_had = demand.is_some_and(|demand| demand.services.contains(service));
            assert!(is_had, "{address} in the status of {service} is not its own");
        }
    }

    /// Returns true if an address can be a VIP, by the settings and the address itself.
    fn is_permitted(&self, address: IpAddr) -> bool {
        let is_special = match address {
            IpAddr::V4(v4) => matches!(v4.octets(), [0 | 127 | 224.., ..] | [169, 254, ..]),
            IpAddr::V6(v6) => {
                let [first, second, ..] = v6.octets();
                let is_of_one_link = first == 0xfe && second >> 6 == 0b10;
                first == 0xff
                    || is_of_one_link
                    || v6.is_unspecified()
                    || v6.is_loopback()
                    || v6.to_ipv4_mapped().is_some()
            }
        };
        let is_in = |nets: &[IpNet]| nets.iter().any(|net| net.contains(&address));
        let allow = &self.settings.allow;
        !is_special && !is_in(&self.settings.refuse) && (allow.is_empty() || is_in(allow))
    }

    fn needed_by(&self, address: IpAddr, is_forced: bool) -> Vec<&Source> {
        let has = |(source, taken): (_, &Taken)| taken.has(address, is_forced).then_some(source);
        self.taken.iter().filter_map(has).collect()
    }

    /// Returns true if a user may request an address.
    fn is_open(&self, address: IpAddr) -> bool {
        !self.settings.allow.is_empty() || self.held.contains(&address) || self.is_on_segment(address)
    }

    fn is_on_segment(&self, address: IpAddr) -> bool {
        self.taken.values().flat_map(|taken| &taken.segments).any(|net| net.contains(&address))
    }

    fn is_forced(&self, vip: IpAddr) -> bool {
        self.claims.get(&vip).is_some_and(|claim| claim.is_forced)
    }

    fn may_share(&self, owner: &ServiceName, other: &ServiceName) -> bool {
        let key = |name: &ServiceName| {
            let key = self.services[name].annotations.share.as_deref().map(str::trim);
            key.filter(|key| !key.is_empty())
        };
        let (home, away) = (&owner.namespace, &other.namespace);
        let is_listed = self.consents.get(home).is_some_and(|listed| listed.contains(away));
        home == away || is_listed && key(owner).is_some() && key(owner) == key(other)
    }
}

/// Returns true if another controller wrote the address into the status as a VIP.
fn is_anothers(record: &ServiceRecord, vip: IpAddr) -> bool {
    let has = record.ingress.iter().any(|entry| entry.mode == IpMode::Vip && entry.ip == Some(vip));
    has && record.status_manager.as_deref() != Some("vipward")
}

/// Returns all addresses that a Service names anywhere.
fn named(record: &ServiceRecord) -> impl Iterator<Item = IpAddr> {
    let annotations = &record.annotations;
    let texts = [
        &annotations.addresses,
        &annotations.kube_vip_addresses,
        &annotations.metallb_addresses,
        &record.load_balancer_ip,
    ];
    let parts = texts.into_iter().flatten().flat_map(|text| text.split(','));
    let asked = parts.filter_map(|part| part.trim().parse::<IpAddr>().ok());
    let status = record.ingress.iter().filter_map(|entry| entry.ip);
    asked.chain(status).chain(record.external_ips.iter().copied())
}

/// Returns true if the network is one address.
fn is_host(net: &IpNet) -> bool {
    net.prefix_len() == net.max_prefix_len()
}
