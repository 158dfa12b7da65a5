//! Bytes as a series of events. Small numbers choose from small pools, so that the objects meet.

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv6Addr},
    sync::Arc,
};

use arbitrary::{Arbitrary, Unstructured};
use ipnet::IpNet;
use vipward_common::MacAddr;
use vipward_core::{
    host::owner::Owner,
    pools::Family,
    records::{NodeInterface, NodeName, ServiceLabels, ServiceName, Session, Version},
    services::{
        AnnotationValues, EndpointsRecord, Event, FamilyPolicy, HostAddress, HostNetwork, Ingress, IpMode,
        OtherController, Port, Protocol, ServiceRecord, Settings,
    },
};

/// Addresses of all kinds. Most are in 10.0.0.0/24.
const POOL: [[u8; 4]; 20] = [
    [10, 0, 0, 0],
    [10, 0, 0, 1],
    [10, 0, 0, 2],
    [10, 0, 0, 3],
    [10, 0, 0, 4],
    [10, 0, 0, 5],
    [10, 0, 0, 6],
    [10, 0, 0, 7],
    [10, 0, 0, 255],
    [10, 1, 0, 5],
    [10, 96, 0, 1],
    [192, 0, 2, 7],
    [192, 0, 2, 8],
    [0, 0, 0, 0],
    [127, 0, 0, 1],
    [169, 254, 1, 1],
    [224, 0, 0, 5],
    [239, 255, 255, 250],
    [240, 0, 0, 1],
    [255, 255, 255, 255],
];
/// Longest series of events. Later ones meet hardly anything new.
const MOST_STEPS: usize = 48;
const NAMESPACES: [&str; 3] = ["a", "b", "c"];
const LENGTHS: [u8; 8] = [8, 16, 24, 28, 29, 30, 31, 32];

#[derive(Debug)]
pub(crate) struct Input {
    settings: u8,
    /// True if the agent reads everything before it begins.
    pub(crate) listing: bool,
    pub(crate) steps: Vec<Step>,
}

impl<'a> Arbitrary<'a> for Input {
    /// Makes events of all the bytes. A derived list would mostly end after one or two.
    fn arbitrary(bytes: &mut Unstructured<'a>) -> arbitrary::Result<Self> {
        let (settings, listing) = (bytes.arbitrary()?, bytes.arbitrary()?);
        let mut steps = Vec::new();
        while !bytes.is_empty() && steps.len() < MOST_STEPS {
            steps.push(bytes.arbitrary()?);
        }
        Ok(Self { settings, listing, steps })
    }
}

/// An address by its place in the pool; the greatest numbers are IPv6.
type Address = u8;
type Net = (Address, u8);

#[derive(Arbitrary, Debug)]
pub(crate) enum Step {
    Service(Box<Service>),
    ServiceGone { name: u8 },
    Slice { name: u8, slice: u8, ready: u8, terminating: u8, elsewhere: bool },
    SliceGone { namespace: u8, slice: u8 },
    Namespace { name: u8, edge: bool, share_with: u8 },
    NamespaceGone { name: u8 },
    NodeAddresses { node: u8, addresses: Vec<Address>, pods: Vec<Net> },
    ServiceCidr { nets: Vec<Net> },
    NodeInterfaces { node: u8, interfaces: Vec<(Vec<Net>, Vec<Address>, Vec<Address>)> },
    NodeGone { node: u8 },
    Host { addresses: Vec<(Net, bool, bool)>, hops: Vec<Address>, servers: Vec<Address> },
    Api { addresses: Vec<Address> },
    Claim { vip: Address, was_held: bool, force: bool, services: Vec<u8> },
    ClaimGone { vip: Address },
    Held { vip: Address, here: bool },
    Synced,
    Time,
}

#[derive(Arbitrary, Debug)]
pub(crate) struct Service {
    name: u8,
    uid: bool,
    created: i8,
    /// The known annotations, in the order of their names.
    texts: [Text; 4],
    limits: [Text; 3],
    share: u8,
    flags: u8,
    class: u8,
    external: Vec<Address>,
    ingress: Vec<(Address, bool)>,
    manager: u8,
    other: u8,
    ports: Vec<u8>,
}

/// The text of an annotation.
#[derive(Arbitrary, Debug)]
enum Text {
    Absent,
    Addresses(Vec<Address>),
    Any(String),
}

impl Text {
    fn read(&self) -> Option<Box<str>> {
        match self {
            Self::Absent => None,
            Self::Addresses(list) => {
                let list: Vec<_> = list.iter().map(|place| ip(*place).to_string()).collect();
                Some(list.join(", ").into())
            }
            Self::Any(text) => Some(text.as_str().into()),
        }
    }
}

/// Returns the first events of an agent that runs on a segment.
pub(crate) fn start() -> [Event; 2] {
    let interfaces = vec![interface(&(vec![(3, 2)], Vec::new(), vec![1]))];
    [Event::NodeInterfaces { node: holder(), interfaces, session: session() }, Event::Synced]
}

/// Returns the node that holds the VIPs which have a holder.
pub(crate) fn holder() -> NodeName {
    node(1)
}

fn session() -> Option<Session> {
    Session::from_number(1)
}

/// Returns all addresses that a Service may request, of both families.
pub(crate) fn addresses() -> impl Iterator<Item = IpAddr> {
    POOL.into_iter().map(IpAddr::from).chain((250..=u8::MAX).map(ip))
}

/// Returns one of the pool, or one of three that most Services meet at.
fn v4(place: Address) -> IpAddr {
    let place = usize::from(place % 40);
    POOL.get(place).copied().unwrap_or([10, 0, 0, [2, 6, 7][place % 3]]).into()
}

fn ip(place: Address) -> IpAddr {
    if place >= 250 { Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, place.into()).into() } else { v4(place) }
}

fn ips(places: &[Address]) -> Vec<IpAddr> {
    places.iter().map(|place| ip(*place)).collect()
}

fn net((place, length): Net) -> IpNet {
    IpNet::new_assert(v4(place), LENGTHS[usize::from(length) % LENGTHS.len()])
}

fn nets(list: &[Net]) -> Vec<IpNet> {
    list.iter().map(|one| net(*one)).collect()
}

fn namespace(name: u8) -> Arc<str> {
    NAMESPACES[usize::from(name) % NAMESPACES.len()].into()
}

/// Returns one of two Services in each namespace.
fn service(name: u8) -> ServiceName {
    let own = if (name / 3).is_multiple_of(2) { "web" } else { "api" };
    ServiceName { namespace: namespace(name), name: own.into() }
}

fn node(name: u8) -> NodeName {
    NodeName::from(["node-a", "node-b", "node-c"][usize::from(name % 3)])
}

fn nodes(bits: u8) -> impl Iterator<Item = NodeName> {
    (0..3).filter(move |name| bits >> name & 1 == 1).map(node)
}

fn subnet(text: &str) -> IpNet {
    text.parse().expect("invariant: the text is a network")
}

impl Input {
    pub(crate) fn settings(&self) -> Settings {
        let has = |bit: u8| self.settings >> bit & 1 == 1;
        Settings {
            class_only: has(0),
            namespace_selector: has(1)
                .then(|| "team=edge".parse().expect("invariant: the text is a selector")),
            external_ips: !has(2),
            allow: if has(3) { vec![subnet("10.0.0.0/24"), subnet("192.0.2.8/32")] } else { Vec::new() },
            refuse: if has(4) { vec![subnet("10.0.0.4/31")] } else { Vec::new() },
            most_addresses: if has(5) { 2 } else { 16 },
            most_vips: has(6).then_some(2),
            withdraw_without_endpoints: has(7),
            ..Settings::default()
        }
    }
}

impl Service {
    fn record(&self) -> ServiceRecord {
        let name = service(self.name);
        // Most Services are served.
        let (is, kind) = (|bit: u8| self.flags >> bit & 1 == 1, self.flags >> 3);
        let [addresses, kube_vip_addresses, metallb_addresses, spec] = self.texts.each_ref().map(Text::read);
        let [nodes, preferred_nodes, interface] = self.limits.each_ref().map(Text::read);
        let share = [None, Some("key"), Some(" key "), Some("other"), Some(" ")][usize::from(self.share % 5)];
        let annotations = AnnotationValues {
            pool: None,
            metallb_pool: None,
            metallb_share: None,
            addresses,
            kube_vip_addresses,
            metallb_addresses,
            nodes,
            preferred_nodes,
            interface,
            together: None,
            share: share.map(Into::into),
            ignore: (kind == 2).then(|| "true".into()),
            kube_vip_ignore: None,
            ineffective: Vec::new(),
            former: Vec::new(),
        };
        // The API server gives no two Services the same ClusterIP.
        let cluster_ip = v4(self.name % 6 + 4);
        let port = |number: &u8| Port {
            port: u16::from(number % 16),
            protocol: [Protocol::Tcp, Protocol::Udp][usize::from(number / 16 % 2)],
        };
        let entry = |(place, is_vip): &(Address, bool)| Ingress {
            ip: (*place < 253).then(|| ip(*place)),
            mode: if *is_vip { IpMode::Vip } else { IpMode::Proxy },
        };
        ServiceRecord {
            name,
            uid: if self.uid { "1" } else { "2" }.into(),
            version: Version::from("1"),
            created: self.created.into(),
            labels: ServiceLabels::default(),
            load_balancer: kind != 0,
            cluster_ips: (kind % 4 == 3).then_some(cluster_ip).into_iter().collect(),
            class: match self.class % 8 {
                0 => Some("other".into()),
                1 => Some("vipward.io/l2".into()),
                _ => None,
            },
            annotations: annotations.into(),
            families: vec![Family::V4],
            family_policy: FamilyPolicy::default(),
            load_balancer_ip: spec,
            external_ips: ips(&self.external),
            ingress: self.ingress.iter().map(entry).collect(),
            status_manager: match self.manager % 8 {
                0 => Some("other".into()),
                1 => None,
                2 => Some("kubectl-edit".into()),
                _ => Some("vipward".into()),
            },
            status_shared: is(0),
            status_since: None,
            status_from_metallb: false,
            has_cloud_balancer: self.manager / 8 % 2 == 1,
            other_controller: (self.other == 0).then_some(OtherController::PureLb),
            local: is(1),
            health_check_port: None,
            ports: self.ports.iter().map(port).collect(),
            deleting: kind == 1,
            finalizers: None,
        }
    }
}

impl Step {
    /// Returns the event, or none if only time passes.
    pub(crate) fn event(&self) -> Option<Event> {
        Some(match self {
            Self::Service(service) => Event::Service(Box::new(service.record())),
            Self::ServiceGone { name } => Event::ServiceGone(service(*name)),
            Self::Slice { name, slice, ready, terminating, elsewhere } => Event::Slice(EndpointsRecord {
                slice: slice.to_string().into(),
                service: service(*name),
                ready: nodes(*ready).collect(),
                serving_terminating: nodes(*terminating).collect(),
                ready_elsewhere: *elsewhere,
                is_ipv6: false,
            }),
            Self::SliceGone { namespace: name, slice } => {
                Event::SliceGone { namespace: namespace(*name), slice: slice.to_string().into() }
            }
            Self::Namespace { name, edge, share_with } => Event::Namespace {
                name: namespace(*name),
                labels: edge.then(|| ("team".to_owned(), "edge".to_owned())).into_iter().collect(),
                share_with: (0..3).filter(|other| share_with >> other & 1 == 1).map(namespace).collect(),
            },
            Self::NamespaceGone { name } => Event::NamespaceGone(namespace(*name)),
            Self::NodeAddresses { node: name, addresses, pods } => {
                let labels = BTreeMap::new();
                Event::NodeAddresses {
                    node: node(*name),
                    labels,
                    addresses: ips(addresses),
                    pod_cidrs: nets(pods),
                }
            }
            Self::ServiceCidr { nets: list } => {
                Event::ServiceCidr { name: "kubernetes".into(), nets: nets(list) }
            }
            Self::NodeInterfaces { node: name, interfaces } => Event::NodeInterfaces {
                node: node(*name),
                interfaces: interfaces.iter().map(interface).collect(),
                session: session(),
            },
            Self::NodeGone { node: name } => Event::NodeGone(node(*name)),
            Self::Host { addresses, hops, servers } => Event::HostNetwork(HostNetwork {
                node: node(0),
                addresses: addresses.iter().copied().map(host_address).collect(),
                next_hops: hops.iter().map(|place| v4(*place)).collect(),
                name_servers: servers.iter().map(|place| v4(*place)).collect(),
            }),
            Self::Api { addresses } => {
                Event::ApiServers { slice: Some("kubernetes".into()), addresses: ips(addresses) }
            }
            Self::Claim { vip, was_held, force, services } => Event::Claim {
                vip: v4(*vip),
                was_held: *was_held,
                sessions: session()
                    .filter(|_| *was_held)
                    .map(|session| (holder(), session))
                    .into_iter()
                    .collect(),
                force: *force,
                services: services.iter().map(|name| service(*name)).collect(),
                reservation: None,
                release: false,
            },
            Self::ClaimGone { vip } => Event::ClaimGone(v4(*vip)),
            Self::Held { vip, here } => Event::Held { vip: v4(*vip), here: *here },
            Self::Synced => Event::Synced,
            Self::Time => return None,
        })
    }
}

fn interface((subnets, bound, gateways): &(Vec<Net>, Vec<Address>, Vec<Address>)) -> NodeInterface {
    NodeInterface {
        name: "eth0".into(),
        altnames: Vec::new(),
        mac: MacAddr([2, 0, 0, 0, 0, 1]),
        subnets: subnets.iter().copied().map(net).collect(),
        bound: bound.iter().map(|place| v4(*place)).collect(),
        gateways: gateways.iter().map(|place| v4(*place)).collect(),
        carrier: true,
        last_for: Vec::new(),
        unreached: Vec::new(),
    }
}

fn host_address((address, segment, is_own): (Net, bool, bool)) -> HostAddress {
    let owner = if is_own { Owner::Host } else { Owner::Program };
    HostAddress { interface: "eth0".into(), segment, net: net(address), owner }
}
