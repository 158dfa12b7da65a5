//! What each VIP and interface should be: the configuration and the network in, the desired maps out.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    net::Ipv4Addr,
};

use ipnet::Ipv4Net;
use thiserror::Error;
use vipward_common::{MacAddr, Role, VipKey};

use super::{
    config::{Config, InterfacePattern, VipConfig},
    interfaces,
    net::{Interface, NetView},
};

#[cfg(test)]
mod tests;

/// What the maps and the host's addresses should be.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Desired {
    /// The entries of `vips_v4`.
    pub entries: BTreeMap<VipKey, DesiredEntry>,
    /// Our own MAC on each attached interface.
    pub links: BTreeMap<u32, MacAddr>,
    /// The peers on each attached interface.
    pub peers: BTreeSet<(u32, MacAddr)>,
    /// VIPs that are put on an interface for local delivery.
    pub binds: BTreeSet<(String, Ipv4Addr)>,
}

/// What an entry should say.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DesiredEntry {
    /// What this node is to the VIP.
    pub role: Role,
    /// Where the VIP is; zero if unknown.
    pub mac: MacAddr,
}

/// The result of placing.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Placement {
    /// The interfaces to attach to, by index.
    pub attach: Vec<u32>,
    /// What everything should be.
    pub desired: Desired,
    /// What stands in the way of the rest.
    pub problems: Vec<Problem>,
}

/// An interface that was looked at, and what was found there.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct LookedAt {
    /// Its name.
    pub name: String,
    /// Its addresses.
    pub addresses: Vec<Ipv4Net>,
}

impl fmt::Display for LookedAt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let addresses: Vec<_> = self.addresses.iter().map(ToString::to_string).collect();
        let addresses =
            if addresses.is_empty() { "no IPv4 address".to_owned() } else { addresses.join(", ") };
        write!(f, "{} ({addresses})", self.name)
    }
}

fn join<T: fmt::Display>(all: &[T]) -> String {
    if all.is_empty() {
        return "none".to_owned();
    }
    all.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// What keeps a VIP or an interface from being what the configuration says. None of them is for ever.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Error)]
pub enum Problem {
    /// A named interface is not there.
    #[error("interface {name} does not exist; waiting for it")]
    InterfaceMissing {
        /// Its name.
        name: String,
    },
    /// A named interface is down.
    #[error("interface {name} is down; waiting for it to be set up")]
    InterfaceDown {
        /// Its name.
        name: String,
    },
    /// A named interface carries no Ethernet.
    #[error("interface {name} is no Ethernet interface; there is no ARP on it")]
    NotEthernet {
        /// Its name.
        name: String,
    },
    /// The globs match nothing.
    #[error("no up Ethernet interface matches {}; waiting for one", join(.patterns))]
    NothingMatches {
        /// The globs.
        patterns: Vec<String>,
    },
    /// No subnet contains the VIP.
    #[error(
        "VIP {vip} is in the subnet of no attached interface; looked at: {}. Name one with `interface:`, or give an \
         interface an address in its subnet",
        join(.looked_at)
    )]
    NoSubnet {
        /// The VIP.
        vip: Ipv4Addr,
        /// The attached interfaces.
        looked_at: Vec<LookedAt>,
    },
    /// The named interface is not attached.
    #[error(
        "VIP {vip} belongs to interface {interface}, which is not there or not attached; attached are: {}. Waiting for it",
        join(.attached)
    )]
    NoInterface {
        /// The VIP.
        vip: Ipv4Addr,
        /// What the VIP's `interface:` says.
        interface: String,
        /// The attached interfaces.
        attached: Vec<String>,
    },
    /// The VIP's subnet has gone from its interface.
    #[error("VIP {vip} is in the subnet of no interface any more; it stays on {interface}, where it is")]
    Stays {
        /// The VIP.
        vip: Ipv4Addr,
        /// Where it is.
        interface: String,
    },
    /// The VIP is the first or last address of the subnet.
    #[error("VIP {vip} is the {what} address of {subnet} on {interface}; no host can have it")]
    NetworkAddress {
        /// The VIP.
        vip: Ipv4Addr,
        /// network or broadcast.
        what: &'static str,
        /// The subnet.
        subnet: Ipv4Net,
        /// The interface.
        interface: String,
    },
    /// The interface that the VIP is to be bound to is not there.
    #[error("VIP {vip} is to be bound to {interface}, which does not exist; waiting for it")]
    NoBindInterface {
        /// The VIP.
        vip: Ipv4Addr,
        /// The interface.
        interface: String,
    },
    /// The map has no room.
    #[error(
        "{} does not fit: {left_out} VIPs are left out, since the map holds {max} entries and each VIP takes one on \
         each of {interfaces} interfaces; start the agent with a larger --max-vips",
        .first
    )]
    NoRoom {
        /// The first VIP that is left out.
        first: Ipv4Addr,
        /// How many are.
        left_out: usize,
        /// Entries of the map.
        max: u32,
        /// Attached interfaces.
        interfaces: usize,
    },
}

/// Places every VIP. `held` says where VIPs are held now: a VIP whose subnet has gone stays there.
pub fn place(config: &Config, view: &NetView, held: &BTreeMap<Ipv4Addr, u32>, max_vips: u32) -> Placement {
    let (attached, problems) = interfaces::choose(config, view);
    let mut placement = Placement {
        attach: attached.iter().map(|interface| interface.index).collect(),
        desired: Desired {
            links: attached.iter().map(|interface| (interface.index, interface.mac)).collect(),
            peers: attached
                .iter()
                .flat_map(|interface| config.peers.iter().map(|peer| (interface.index, *peer)))
                .collect(),
            ..Desired::default()
        },
        problems,
    };
    let room = max_vips as usize / attached.len().max(1);
    let mut placed = 0;
    let mut left_out = Vec::new();
    let placer = Placer { view, attached: &attached, held };
    for vip in &config.vips {
        match placer.interface_of(vip) {
            Ok(_) if placed == room => left_out.push(vip.address),
            Ok((interface, warning)) => {
                placed += 1;
                placement.problems.extend(warning);
                placement.put(vip, interface, &attached, view);
            }
            Err(problem) => placement.problems.push(problem),
        }
    }
    if let Some(first) = left_out.first() {
        placement.problems.push(Problem::NoRoom {
            first: *first,
            left_out: left_out.len(),
            max: max_vips,
            interfaces: attached.len(),
        });
    }
    placement
}

impl Placement {
    /// An entry on every attached interface: a bound address must leak nowhere.
    fn put(&mut self, vip: &VipConfig, on: &Interface, attached: &[&Interface], view: &NetView) {
        for interface in attached {
            let entry = match vip.mac {
                _ if interface.index != on.index => DesiredEntry { role: Role::Foreign, mac: MacAddr::ZERO },
                Some(mac) => DesiredEntry { role: Role::Foreign, mac },
                None => DesiredEntry { role: Role::Held, mac: interface.mac },
            };
            self.desired.entries.insert(VipKey::untagged(interface.index, vip.address.octets()), entry);
        }
        let Some(bind) = &vip.bind else { return };
        if view.by_name(bind.as_str()).is_some() {
            self.desired.binds.insert((bind.as_str().to_owned(), vip.address));
        } else {
            let problem = Problem::NoBindInterface { vip: vip.address, interface: bind.as_str().to_owned() };
            self.problems.push(problem);
        }
    }
}

struct Placer<'a> {
    view: &'a NetView,
    attached: &'a [&'a Interface],
    held: &'a BTreeMap<Ipv4Addr, u32>,
}

impl<'a> Placer<'a> {
    fn interface_of(&self, vip: &VipConfig) -> Result<(&'a Interface, Option<Problem>), Problem> {
        let address = vip.address;
        if let Some(interface) = self.by_subnet(vip.interface.as_ref(), address) {
            check_address(interface, address)?;
            return Ok((interface, None));
        }
        if let Some(pattern) = &vip.interface {
            // Named: it need not have an address in the VIP's subnet.
            return match self.attached.iter().find(|interface| pattern.matches(&interface.name)) {
                Some(interface) => Ok((*interface, None)),
                None => Err(Problem::NoInterface {
                    vip: address,
                    interface: pattern.to_string(),
                    attached: self.attached.iter().map(|interface| interface.name.clone()).collect(),
                }),
            };
        }
        let held_at = self.held.get(&address).copied();
        match self.attached.iter().find(|interface| Some(interface.index) == held_at && vip.mac.is_none()) {
            Some(interface) => {
                let problem = Problem::Stays { vip: address, interface: interface.name.clone() };
                Ok((*interface, Some(problem)))
            }
            None => Err(Problem::NoSubnet {
                vip: address,
                looked_at: self
                    .attached
                    .iter()
                    .map(|interface| LookedAt {
                        name: interface.name.clone(),
                        addresses: interface.addresses.clone(),
                    })
                    .collect(),
            }),
        }
    }

    /// Where several interfaces have the subnet, the one that the kernel's own route prefers.
    fn by_subnet(&self, pattern: Option<&InterfacePattern>, vip: Ipv4Addr) -> Option<&'a Interface> {
        self.attached
            .iter()
            .enumerate()
            .filter(|(_, interface)| pattern.is_none_or(|pattern| pattern.matches(&interface.name)))
            .filter_map(|(order, interface)| {
                let subnet = subnet_of(interface, vip)?;
                Some((self.preference(interface.index, subnet, order), *interface))
            })
            .min_by_key(|(preference, _)| *preference)
            .map(|(_, interface)| interface)
    }

    /// Least is best: longest prefix, lowest metric, first of the kernel's routes.
    fn preference(&self, ifindex: u32, subnet: Ipv4Net, order: usize) -> (u8, u32, usize, usize) {
        let found = self
            .view
            .routes
            .iter()
            .enumerate()
            .find(|(_, route)| route.interface == ifindex && route.prefix == subnet.trunc());
        let (position, metric) =
            found.map_or((usize::MAX, u32::MAX), |(position, route)| (position, route.metric));
        (32 - subnet.prefix_len(), metric, position, order)
    }
}

/// The subnet of the interface that contains the VIP; a /32 is an address and no subnet.
fn subnet_of(interface: &Interface, vip: Ipv4Addr) -> Option<Ipv4Net> {
    interface
        .addresses
        .iter()
        .filter(|address| address.prefix_len() < 32 && address.contains(&vip))
        .max_by_key(|address| address.prefix_len())
        .copied()
}

fn check_address(interface: &Interface, vip: Ipv4Addr) -> Result<(), Problem> {
    let Some(subnet) = subnet_of(interface, vip).filter(|subnet| subnet.prefix_len() < 31) else {
        return Ok(());
    };
    let what = if vip == subnet.network() {
        "network"
    } else if vip == subnet.broadcast() {
        "broadcast"
    } else {
        return Ok(());
    };
    Err(Problem::NetworkAddress { vip, what, subnet: subnet.trunc(), interface: interface.name.clone() })
}
