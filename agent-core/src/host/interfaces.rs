//! Choice of interfaces: those that the program is attached to, and the one of each VIP.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::Arc,
};

use ipnet::IpNet;
use vipward_common::MacAddr;

use super::{
    net::{ConnectedRoute, Interface, NetView},
    placement::obstacle::Obstacle,
};
use crate::{
    base::{
        address::{is_host, mac},
        pattern::InterfacePattern,
    },
    records::{MOST_ADDRESSES, NodeInterface, Room, Unreached},
};

#[cfg(test)]
mod tests;

/// Name prefixes of container, tunnel and virtual switch interfaces. They lead to no segment. An
/// alternative name excludes none: who made an interface shows in its own name.
const EXCLUDED: &[&str] = &[
    "veth",
    "cali",
    "azv",
    "antrea-",
    "lxc",
    "cilium",
    "cni",
    "cbr",
    "flannel",
    "docker",
    "br-",
    "virbr",
    "lxdbr",
    "vnet",
    "tap",
    "tun",
    "kube-",
    "nodelocaldns",
    "podman",
    "weave",
    "vxlan",
    "geneve",
    "gre",
    "wg",
    "ovs-",
    "ovn-",
    "dummy",
    "ifb",
    // The virtual MACs of keepalived (`use_vmac`): devices of another program.
    "vrrp",
];

/// Interfaces to attach to, and peers, as an operator names them.
#[derive(Clone, Debug, Default)]
pub struct Selection<'a> {
    /// The interfaces. If empty: every Ethernet interface that is up and not excluded.
    pub interfaces: &'a [InterfacePattern],
    /// The names of interfaces that VIPs name. They count although they are excluded.
    pub named: BTreeSet<&'a str>,
    /// MACs of hosts that may take a VIP over once the lease deadline has passed.
    pub peers: &'a [MacAddr],
}

/// Returns the interfaces to attach to, and a problem for each
/// named interface that cannot be attached.
///
/// An interface that is down is left out, unless it already has VIPs
/// (`in_use`). An operator may set an interface down and up again, for example
/// for a new MAC. That is no reason to give the VIPs up.
pub(crate) fn choose<'a>(
    selection: &Selection<'_>,
    view: &'a NetView,
    in_use: &BTreeSet<u32>,
) -> (Vec<&'a Interface>, Vec<Obstacle>) {
    let is_usable =
        |interface: &Interface| speaks_arp(interface) && (interface.up || in_use.contains(&interface.index));
    let usable: Vec<&Interface> = view.interfaces.values().filter(|interface| is_usable(interface)).collect();
    if selection.interfaces.is_empty() {
        return (choose_default(selection, view, &usable), Vec::new());
    }
    let usable = || usable.iter().copied();
    let chosen: Vec<_> =
        usable().filter(|interface| is_named(selection.interfaces, view, interface)).collect();
    let mut problems: Vec<_> =
        selection.interfaces.iter().filter_map(|pattern| why_not(pattern.literal()?, view)).collect();
    if chosen.is_empty() && problems.is_empty() {
        let patterns = selection.interfaces.iter().map(ToString::to_string).collect();
        let matching = usable()
            .filter(|interface| selection.interfaces.iter().any(|pattern| view.matches(pattern, interface)));
        let masters: BTreeSet<String> = matching
            .filter_map(|interface| Some(view.interfaces.get(&master_of(view, interface)?)?.name.clone()))
            .collect();
        problems.push(if masters.is_empty() {
            Obstacle::NothingMatches { patterns }
        } else {
            Obstacle::OnlyMembers { patterns, masters: masters.into_iter().collect() }
        });
    }
    (chosen, problems)
}

/// Returns the interfaces that lead to a segment, and those that the VIPs name.
fn choose_default<'a>(
    selection: &Selection<'_>,
    view: &NetView,
    usable: &[&'a Interface],
) -> Vec<&'a Interface> {
    let usable = || usable.iter().copied();
    // A bridge may have any name. It counts if one of its members leads to a segment.
    let stand_ins: BTreeSet<u32> = usable()
        .filter(|interface| !is_excluded(&interface.name))
        .filter_map(|interface| master_of(view, interface))
        .collect();
    let named: BTreeSet<u32> =
        selection.named.iter().filter_map(|name| Some(view.named(name)?.index)).collect();
    let is_default = |interface: &&Interface| {
        let leads_to_a_segment = !is_excluded(&interface.name) || stand_ins.contains(&interface.index);
        named.contains(&interface.index) || (leads_to_a_segment && master_of(view, interface).is_none())
    };
    usable().filter(is_default).collect()
}

fn why_not(name: &str, view: &NetView) -> Option<Obstacle> {
    let Some(interface) = view.named(name) else { return Some(missing(name, view)) };
    match interface.name.clone() {
        name if !speaks_arp(interface) => Some(Obstacle::NotEthernet { name }),
        name if !interface.up => Some(Obstacle::InterfaceDown { name }),
        _ => None,
    }
}

fn missing(name: &str, view: &NetView) -> Obstacle {
    let name = name.to_owned();
    let having: Vec<_> = mac(&name).map(|mac| view.with_mac(mac)).unwrap_or_default();
    let having: Vec<_> = having.into_iter().map(|interface| interface.name.clone()).collect();
    if having.is_empty() {
        Obstacle::InterfaceMissing { name }
    } else {
        Obstacle::SeveralHaveMac { mac: name, having }
    }
}

/// Returns true if the interface carries ARP. A VRF looks like Ethernet, but only routes.
pub(crate) fn speaks_arp(interface: &Interface) -> bool {
    interface.ethernet && !interface.loopback && interface.kind != "vrf" && interface.mac.is_unicast()
}

fn is_excluded(name: &str) -> bool {
    EXCLUDED.iter().any(|prefix| name.starts_with(prefix))
}

/// Returns the bond or bridge through which an interface speaks.
/// An interface in a VRF speaks for itself.
pub(crate) fn master_of(view: &NetView, interface: &Interface) -> Option<u32> {
    let is_vrf = |index: &u32| view.interfaces.get(index).is_some_and(|master| master.kind == "vrf");
    interface.master.filter(|master| !is_vrf(master))
}

/// Returns true if a pattern names an interface. A member of a bond or bridge speaks
/// through its master, so only its exact name counts.
fn is_named(patterns: &[InterfacePattern], view: &NetView, interface: &Interface) -> bool {
    patterns.iter().any(|pattern| {
        view.matches(pattern, interface)
            && (pattern.literal().is_some() || master_of(view, interface).is_none())
    })
}

/// A subnet that an interface reaches. The least value is the best: the longest prefix, then the
/// lowest metric, then the first of the kernel's routes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Reached {
    host_bits: u8,
    metric: u32,
    position: usize,
    ifindex: u32,
    prefix: IpNet,
}

pub(crate) struct Segments<'a> {
    pub(crate) interfaces: &'a [&'a Interface],
    reached: Vec<Reached>,
}

impl<'a> Segments<'a> {
    pub(crate) fn new(view: &NetView, interfaces: &'a [&'a Interface]) -> Self {
        let is_one = |ifindex| interfaces.iter().any(|interface| interface.index == ifindex);
        let by_route = routes(view).filter(|route| is_one(route.interface)).enumerate();
        let by_route = by_route.map(|(position, route)| Reached {
            host_bits: route.prefix.max_prefix_len() - route.prefix.prefix_len(),
            metric: route.metric,
            position,
            ifindex: route.interface,
            prefix: route.prefix,
        });
        // Addresses count too if there is no route (noprefixroute).
        let by_address = interfaces.iter().flat_map(|interface| {
            subnets(interface).map(|subnet| Reached {
                host_bits: subnet.max_prefix_len() - subnet.prefix_len(),
                metric: u32::MAX,
                position: usize::MAX,
                ifindex: interface.index,
                prefix: subnet,
            })
        });
        let mut reached: Vec<_> = by_route.chain(by_address).collect();
        reached.sort_unstable();
        Self { interfaces, reached }
    }

    /// Returns the interface whose subnet contains an address, of those that may be chosen. If several
    /// interfaces have the subnet, the kernel's own route decides.
    pub(crate) fn of(&self, may_be: impl Fn(&Interface) -> bool, address: IpAddr) -> Option<&'a Interface> {
        let mut containing = self.reached.iter().filter(|reached| reached.prefix.contains(&address));
        containing.find_map(|reached| {
            let interface = self.interfaces.iter().find(|interface| interface.index == reached.ifindex)?;
            may_be(interface).then_some(*interface)
        })
    }
}

/// Returns the kernel's routes to subnets. A default route leads to no subnet.
fn routes(view: &NetView) -> impl Iterator<Item = &ConnectedRoute> {
    view.routes.iter().filter(|route| route.prefix.prefix_len() > 0)
}

/// Returns the subnets of an interface's addresses. A /32 or /128 is an address and no subnet.
pub(crate) fn subnets(interface: &Interface) -> impl Iterator<Item = IpNet> {
    interface.addresses.iter().filter(|address| !is_host(address)).map(IpNet::trunc)
}

/// Returns a node's interfaces for its Lease. The interfaces that
/// the kernel's routes prefer come first.
///
/// A host may have thousands of addresses of other programs, and route by thousands of gateways: the
/// first of them are listed. `found` returns the VIPs for which the node comes
/// last on an interface, and those of others that are unreached there.
pub fn node_interfaces(
    view: &NetView,
    attached: &[u32],
    found: impl Fn(u32) -> (Vec<IpAddr>, Vec<Unreached>),
) -> Vec<NodeInterface> {
    let mut of_interface: BTreeMap<u32, (usize, Vec<IpNet>)> = BTreeMap::new();
    let mut routes: Vec<_> = routes(view).collect();
    routes.sort_by_key(|route| route.metric);
    for (position, route) in routes.into_iter().enumerate() {
        let (_, nets) = of_interface.entry(route.interface).or_insert((position, Vec::new()));
        if !nets.contains(&route.prefix) {
            nets.push(route.prefix);
        }
    }
    let mut interfaces = Vec::new();
    let mut room = Room::default();
    for interface in attached.iter().filter_map(|ifindex| view.interfaces.get(ifindex)) {
        let (position, mut nets) = of_interface.remove(&interface.index).unwrap_or((usize::MAX, Vec::new()));
        // An address is stricter than a route's subnet: no node may take another node's address.
        for address in interface.addresses.iter().filter(|net| !is_host(net)) {
            match nets.iter_mut().find(|net| **net == address.trunc()) {
                Some(net) => *net = *address,
                None => nets.push(*address),
            }
        }
        let foreign = interface.foreign_addresses().filter(is_host);
        let bound: BTreeSet<IpAddr> = foreign.map(|net| net.addr()).collect();
        let gateways = view.next_hops.iter().filter(|hop| nets.iter().any(|net| net.contains(*hop)));
        let gateways = gateways.copied().collect();
        let (last_for, unreached) = found(interface.index);
        let own = room.limit(NodeInterface {
            name: Arc::from(interface.name.as_str()),
            altnames: interface.altnames.iter().map(|name| Arc::from(name.as_str())).collect(),
            mac: interface.mac,
            subnets: nets,
            bound: bound.into_iter().collect(),
            gateways,
            carrier: interface.up && interface.carrier,
            last_for,
            unreached,
        });
        interfaces.push((position, own));
    }
    interfaces.sort_by_key(|(position, interface)| (*position, Arc::clone(&interface.name)));
    interfaces.into_iter().map(|(_, interface)| interface).collect()
}

/// Returns the addresses of the DNS servers in a text like `/etc/resolv.conf` (resolv.conf(5)).
pub fn name_servers(text: &str) -> BTreeSet<IpAddr> {
    let value = |line: &str| {
        let mut words = line.split_whitespace();
        words.next().filter(|keyword| *keyword == "nameserver")?;
        words.next()?.parse().ok()
    };
    text.lines().filter_map(value).take(MOST_ADDRESSES).collect()
}

/// Returns the interface on a VIP's segment: of those that may have the VIP, the one with the longest
/// subnet that contains it. If the Service names an interface, it need not have such a subnet.
pub(crate) fn interface_for<'a>(
    interfaces: &'a [NodeInterface],
    vip: IpAddr,
    named: &[InterfacePattern],
    may_have_it: impl Fn(&NodeInterface) -> bool,
) -> Option<&'a NodeInterface> {
    let allowed = |interface: &&NodeInterface| {
        (named.is_empty() || interface.names().match_one_of(named)) && may_have_it(interface)
    };
    let longest = |interface: &NodeInterface| {
        interface.subnets.iter().filter(|net| net.contains(&vip)).map(IpNet::prefix_len).max()
    };
    // The first of the best is the interface that the kernel's routes prefer.
    let by_subnet = interfaces
        .iter()
        .filter(allowed)
        .filter_map(|interface| Some((longest(interface)?, interface)))
        .reduce(|best, other| if other.0 > best.0 { other } else { best })
        .map(|(_, interface)| interface);
    by_subnet.or_else(|| interfaces.iter().filter(allowed).find(|_| !named.is_empty()))
}
