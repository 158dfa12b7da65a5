//! The names of a run's nodes, VIPs and interfaces.

use std::{
    net::{IpAddr, Ipv4Addr},
    sync::Arc,
};

use ipnet::IpNet;
use vipward_common::{MacAddr, VipKey};
use vipward_core::records::{NodeName, ServiceName};

/// The last byte of the first VIP; the others follow.
const FIRST_VIP: u8 = 10;

/// The number of the first host that is no node, among the stations of a segment.
const FIRST_HOST: usize = 16;
/// The number of the first controller, among the processes that use the API server; the other follows.
pub(crate) const CONTROLLER: usize = 7;
/// The number of controllers.
pub(crate) const CONTROLLERS: usize = 2;
/// The number of the first interface; the other follows.
const FIRST_INTERFACE: u32 = 2;

/// The MAC of a host that is no node and has the address of a VIP.
pub(crate) const HOST: MacAddr = MacAddr([2, 0, 0, 0, 0xff, 0xff]);
/// The MAC of the gateway of each segment.
pub(crate) const GATEWAY: MacAddr = MacAddr([2, 0xff, 0, 0, 0, 2]);
/// The MAC of a host that is no node, and has the key.
pub(crate) const STRANGER: MacAddr = MacAddr([2, 0xff, 0, 0, 0, 1]);

pub(crate) fn node(index: usize) -> NodeName {
    const NAMES: [&str; CONTROLLER + CONTROLLERS] = [
        "node-a",
        "node-b",
        "node-c",
        "node-d",
        "node-e",
        "node-f",
        "node-g",
        "controller-a",
        "controller-b",
    ];
    NodeName::from(NAMES[index])
}

/// Returns the name of a node that does not exist.
pub(crate) fn nowhere() -> NodeName {
    NodeName::from("nowhere")
}

pub(crate) fn is_controller(who: usize) -> bool {
    who >= CONTROLLER
}

/// Returns the node of this name, if there is one.
pub(crate) fn node_index(name: &NodeName) -> Option<usize> {
    let last = name.as_str().strip_prefix("node-")?.bytes().next()?;
    last.checked_sub(b'a').map(usize::from)
}

/// Returns a VIP's address. Even and odd ones are in different subnets, which are on one segment or
/// on two.
pub(crate) fn vip(index: usize) -> IpAddr {
    v4(index).into()
}

/// Returns the `healthCheckNodePort` of a VIP's Service.
pub(crate) fn health_port(index: usize) -> u16 {
    30_000 + u16::from(byte(index))
}

pub(crate) fn v4(index: usize) -> Ipv4Addr {
    let index = byte(index);
    Ipv4Addr::from([10, 0, index % 2, FIRST_VIP + index])
}

pub(crate) fn vip_index(vip: IpAddr) -> usize {
    let IpAddr::V4(v4) = vip else { unreachable!("every VIP of a run is IPv4") };
    usize::from(v4.octets()[3] - FIRST_VIP)
}

/// Returns the subnets of a segment.
pub(crate) fn subnets(segment: usize, segments: usize) -> Vec<IpNet> {
    let subnet = |third| IpNet::new_assert(IpAddr::from([10, 0, third, 0]), 24);
    if segments == 1 { vec![subnet(0), subnet(1)] } else { vec![subnet(byte(segment))] }
}

/// Returns the address of a node on a segment, with the subnet.
pub(crate) fn host_net(node: usize, segment: usize) -> IpNet {
    IpNet::new_assert(IpAddr::from([10, 0, byte(segment), 200 + byte(node)]), 24)
}

/// Returns the address of the gateway of a segment.
pub(crate) fn gateway(segment: usize) -> IpAddr {
    IpAddr::from([10, 0, byte(segment), 254])
}

/// Returns the namespace of the Services that own the VIPs.
pub(crate) fn namespace() -> Arc<str> {
    "default".into()
}

pub(crate) fn service(vip: usize) -> ServiceName {
    ServiceName { namespace: namespace(), name: format!("service-{vip}").into() }
}

pub(crate) fn strangers_namespace() -> Arc<str> {
    "stranger".into()
}

pub(crate) fn strangers_service(number: u8) -> ServiceName {
    ServiceName { namespace: strangers_namespace(), name: format!("service-{number}").into() }
}

pub(crate) fn is_strangers(service: &ServiceName) -> bool {
    service.namespace == strangers_namespace()
}

/// Returns a tenant's namespace: that of its Services with even or with odd numbers.
pub(crate) fn tenants_namespace(number: usize) -> Arc<str> {
    ["tenant-a", "tenant-b"][number % 2].into()
}

pub(crate) fn tenants_service(number: usize) -> ServiceName {
    ServiceName { namespace: tenants_namespace(number), name: format!("web-{number}").into() }
}

pub(crate) fn pool(number: usize) -> Arc<str> {
    format!("pool-{number}").into()
}

pub(crate) fn interface(segment: usize) -> Arc<str> {
    ["eth0", "eth1"][segment].into()
}

/// Returns the segment of the interface of this name.
pub(crate) fn segment(interface: &str) -> usize {
    usize::from(interface == "eth1")
}

/// Returns the number of a node's interface on a segment.
pub(crate) fn ifindex(segment: usize) -> u32 {
    FIRST_INTERFACE + u32::from(byte(segment))
}

/// Returns the segment of the interface of this number.
pub(crate) fn segment_behind(ifindex: u32) -> usize {
    usize::from(ifindex != FIRST_INTERFACE)
}

/// Returns the number of the host that has the address of a VIP, among the stations of a segment.
pub(crate) fn host(vip: usize) -> usize {
    FIRST_HOST + vip
}

/// Returns the key of a VIP's entry on a segment.
pub(crate) fn key(vip: usize, segment: usize) -> VipKey {
    VipKey::new(ifindex(segment), self::vip(vip))
}

/// Returns the MAC of a node's interface. Each change gives another.
pub(crate) fn mac(node: usize, segment: usize, change: u8) -> MacAddr {
    MacAddr([2, 0, 0, change, byte(segment), byte(node)])
}

/// Returns the node whose interface has or had this MAC.
pub(crate) fn mac_node(mac: MacAddr) -> usize {
    usize::from(mac.0[5])
}

fn byte(index: usize) -> u8 {
    u8::try_from(index).expect("invariant: runs are small")
}
