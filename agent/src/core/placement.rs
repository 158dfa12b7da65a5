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
    config::{Config, InterfaceName, InterfacePattern, VipConfig},
    interfaces,
    net::{Interface, NetView},
    time::Monotonic,
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
    /// When a handover ends by itself, in nanoseconds on the monotonic clock; 0 in other roles.
    pub until_ns: u64,
}

impl DesiredEntry {
    /// An entry that ends by itself at no time.
    pub const fn new(role: Role, mac: MacAddr) -> Self {
        Self { role, mac, until_ns: 0 }
    }
}

/// What this node is to be to a VIP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stance {
    /// It answers with its own MAC.
    Held,
    /// It knows that the VIP is at this MAC.
    At(MacAddr),
    /// It answers with the successor's MAC.
    Handover {
        /// The successor's.
        mac: MacAddr,
        /// When it ends by itself.
        until: Monotonic,
    },
    /// It is about to answer with its own MAC, and keeps silent until then.
    Coming,
    /// It keeps silent, and does not know where the VIP is.
    Elsewhere,
}

/// A VIP that is to be placed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wanted<'a> {
    /// The VIP.
    pub address: Ipv4Addr,
    /// The interface that it belongs to; none means the one whose subnet contains it.
    pub interface: Option<&'a InterfacePattern>,
    /// The interface that the address is put on for local delivery.
    pub bind: Option<&'a InterfaceName>,
    /// What this node is to it.
    pub stance: Stance,
}

impl<'a> From<&'a VipConfig> for Wanted<'a> {
    fn from(vip: &'a VipConfig) -> Self {
        Self {
            address: vip.address,
            interface: vip.interface.as_ref(),
            bind: vip.bind.as_ref(),
            stance: vip.mac.map_or(Stance::Held, Stance::At),
        }
    }
}

/// The result of placing.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Placement {
    /// The interfaces to attach to, by index.
    pub attach: Vec<u32>,
    /// What everything should be.
    pub desired: Desired,
    /// VIPs that the map has no room for.
    pub left_out: Vec<Ipv4Addr>,
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

impl From<&Interface> for LookedAt {
    fn from(interface: &Interface) -> Self {
        Self { name: interface.name.clone(), addresses: interface.addresses.clone() }
    }
}

impl fmt::Display for LookedAt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let addresses: Vec<_> = self.addresses.iter().map(ToString::to_string).collect();
        let addresses =
            if addresses.is_empty() { "no IPv4 address".to_owned() } else { addresses.join(", ") };
        write!(f, "{} ({addresses})", self.name)
    }
}

pub(super) fn join<T: fmt::Display>(all: &[T]) -> String {
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
    /// The globs match members of bonds or bridges only.
    #[error(
        "{} matches members of {} only, which speak through it; name it in `interfaces`",
        join(.patterns), join(.masters)
    )]
    OnlyMembers {
        /// The globs.
        patterns: Vec<String>,
        /// The bonds and bridges.
        masters: Vec<String>,
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
    /// The guarded VIP is this host's own.
    #[error(
        "VIP {vip} is guarded at {mac}, which is this host's own {interface}: it is not guarded here, or its kernel \
         could not answer for it"
    )]
    GuardsItself {
        /// The VIP.
        vip: Ipv4Addr,
        /// Where it is said to be.
        mac: MacAddr,
        /// The interface that has this MAC.
        interface: String,
    },
    /// The map has no room for entries on the interfaces where VIPs are not.
    #[error(
        "the map holds {max} entries: {missing} entries are missing on interfaces where VIPs are not held, so that an \
         address bound there may leak; start the agent with a larger --max-vips"
    )]
    NoRoomForShadows {
        /// How many.
        missing: usize,
        /// Entries of the map.
        max: u32,
    },
    /// The map has no room.
    #[error(
        "{} does not fit: {left_out} VIPs are left out, since the map holds {max} entries; start the agent with a \
         larger --max-vips",
        .first
    )]
    NoRoom {
        /// The first VIP that is left out.
        first: Ipv4Addr,
        /// How many are.
        left_out: usize,
        /// Entries of the map.
        max: u32,
    },
}

/// The peers on these interfaces.
pub fn peers<'a>(
    config: &Config,
    interfaces: impl IntoIterator<Item = &'a Interface>,
) -> BTreeSet<(u32, MacAddr)> {
    let on_one = |interface: &'a Interface| {
        // All nodes may have the same list: this node's own interface is no peer of itself.
        let peers = config.peers.iter().filter(|peer| **peer != interface.mac);
        peers.map(|peer| (interface.index, *peer))
    };
    interfaces.into_iter().flat_map(on_one).collect()
}

/// Places every VIP. `placed` says where VIPs are now: one whose subnet has gone stays there. `is_there` says which entries
/// there are: when there is no room for all VIPs, none of these is turned out for another.
pub fn place<'a>(
    config: &Config,
    vips: impl ExactSizeIterator<Item = Wanted<'a>>,
    view: &NetView,
    placed: &BTreeMap<Ipv4Addr, u32>,
    is_there: &dyn Fn(&VipKey) -> bool,
    max_vips: u32,
) -> Placement {
    let in_use = placed.values().copied().collect();
    let (attached, problems) = interfaces::choose(config, view, &in_use);
    let mut placement = Placement {
        attach: attached.iter().map(|interface| interface.index).collect(),
        desired: Desired {
            links: attached.iter().map(|interface| (interface.index, interface.mac)).collect(),
            peers: peers(config, attached.iter().copied()),
            ..Desired::default()
        },
        left_out: Vec::new(),
        problems,
    };
    let mut homes = Vec::with_capacity(vips.len());
    let placer = Placer::new(view, &attached, placed);
    for vip in vips {
        if let Some(problem) = guards_itself(&vip, view) {
            placement.problems.push(problem);
            continue;
        }
        match placer.interface_of(&vip) {
            Ok((interface, warning)) => {
                placement.problems.extend(warning);
                homes.push((vip, Some(interface)));
            }
            Err(problem @ Problem::NetworkAddress { .. }) => placement.problems.push(problem),
            Err(problem) => {
                placement.problems.push(problem);
                homes.push((vip, None));
            }
        }
    }
    placement.left_out = beyond(max_vips, &homes, |vip, home| {
        placed.contains_key(&vip) || is_there(&VipKey::untagged(home, vip.octets()))
    });
    let left_out: BTreeSet<Ipv4Addr> = placement.left_out.iter().copied().collect();
    homes.retain(|(vip, _)| !left_out.contains(&vip.address));
    for (vip, home) in &homes {
        placement.put_home(vip, *home, view);
    }
    let homes: Vec<(Ipv4Addr, Option<u32>)> =
        homes.iter().map(|(vip, home)| (vip.address, home.map(|interface| interface.index))).collect();
    // Last, so that an interface that comes up takes no held VIP's room.
    placement.put_shadows(&homes, &attached, max_vips);
    if let Some(first) = placement.left_out.first() {
        let left_out = placement.left_out.len();
        placement.problems.push(Problem::NoRoom { first: *first, left_out, max: max_vips });
    }
    placement
}

/// The VIPs that there is no room for: the last of those that are new.
fn beyond(
    room: u32,
    homes: &[(Wanted, Option<&Interface>)],
    is_there: impl Fn(Ipv4Addr, u32) -> bool,
) -> Vec<Ipv4Addr> {
    let homes = homes.iter().filter_map(|(vip, home)| Some((vip.address, home.as_ref()?.index)));
    let left_out = homes.clone().count().saturating_sub(room as usize);
    if left_out == 0 {
        return Vec::new();
    }
    let (there, new): (Vec<_>, Vec<_>) = homes.partition(|(vip, home)| is_there(*vip, *home));
    let last_first = new.into_iter().rev().chain(there.into_iter().rev());
    let mut beyond: Vec<Ipv4Addr> = last_first.take(left_out).map(|(vip, _)| vip).collect();
    beyond.reverse();
    beyond
}

/// One file may serve all hosts: the one where a guarded VIP lives must not silence itself.
fn guards_itself(vip: &Wanted, view: &NetView) -> Option<Problem> {
    let Stance::At(mac) = vip.stance else { return None };
    let own = view.interfaces.values().find(|interface| interface.mac == mac)?;
    Some(Problem::GuardsItself { vip: vip.address, mac, interface: own.name.clone() })
}

impl Placement {
    /// The entry where the VIP is held or guarded, and its binding.
    fn put_home(&mut self, vip: &Wanted, home: Option<&Interface>, view: &NetView) {
        let Some(home) = home else { return };
        let entry = match vip.stance {
            Stance::Held => DesiredEntry::new(Role::Held, home.mac),
            Stance::At(mac) => DesiredEntry::new(Role::Foreign, mac),
            Stance::Handover { mac, until } => {
                DesiredEntry { role: Role::Handover, mac, until_ns: until.as_nanos() }
            }
            Stance::Coming => DesiredEntry::new(Role::Foreign, home.mac),
            Stance::Elsewhere => DesiredEntry::new(Role::Foreign, MacAddr::ZERO),
        };
        self.desired.entries.insert(VipKey::untagged(home.index, vip.address.octets()), entry);
        let Some(bind) = vip.bind else { return };
        if view.by_name(bind.as_str()).is_some() {
            self.desired.binds.insert((bind.as_str().to_owned(), vip.address));
        } else {
            let problem = Problem::NoBindInterface { vip: vip.address, interface: bind.as_str().to_owned() };
            self.problems.push(problem);
        }
    }

    /// An entry on every other attached interface, also when the VIP is on none: a bound address must leak nowhere.
    fn put_shadows(&mut self, homes: &[(Ipv4Addr, Option<u32>)], attached: &[&Interface], max_vips: u32) {
        let shadow = DesiredEntry::new(Role::Foreign, MacAddr::ZERO);
        let mut missing = 0;
        for (vip, home) in homes {
            for interface in attached.iter().filter(|interface| Some(interface.index) != *home) {
                if self.desired.entries.len() == max_vips as usize {
                    missing += 1;
                } else {
                    self.desired.entries.insert(VipKey::untagged(interface.index, vip.octets()), shadow);
                }
            }
        }
        if missing > 0 {
            self.problems.push(Problem::NoRoomForShadows { missing, max: max_vips });
        }
    }
}

/// A subnet that is reached through an attached interface. Least is best: the longest prefix, the lowest metric, the
/// first of the kernel's routes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Reached {
    host_bits: u8,
    metric: u32,
    position: usize,
    ifindex: u32,
    prefix: Ipv4Net,
}

/// The index of the one of these interfaces whose subnet contains an address; where several do, of the one that the kernel's
/// own route prefers.
pub(super) fn preferred(view: &NetView, among: &[&Interface], address: Ipv4Addr) -> Option<u32> {
    let placed = BTreeMap::new();
    Placer::new(view, among, &placed).by_subnet(None, address).map(|interface| interface.index)
}

struct Placer<'a> {
    attached: &'a [&'a Interface],
    placed: &'a BTreeMap<Ipv4Addr, u32>,
    /// The best first.
    reached: Vec<Reached>,
}

impl<'a> Placer<'a> {
    fn new(view: &NetView, attached: &'a [&'a Interface], placed: &'a BTreeMap<Ipv4Addr, u32>) -> Self {
        let is_attached = |ifindex| attached.iter().any(|interface| interface.index == ifindex);
        // A default route is no subnet.
        let routes =
            view.routes.iter().filter(|route| route.prefix.prefix_len() > 0 && is_attached(route.interface));
        let by_route = routes.enumerate().map(|(position, route)| Reached {
            host_bits: 32 - route.prefix.prefix_len(),
            metric: route.metric,
            position,
            ifindex: route.interface,
            prefix: route.prefix,
        });
        // Addresses count where there is no route (noprefixroute).
        let by_address = attached.iter().flat_map(|interface| {
            subnets(interface).map(|subnet| Reached {
                host_bits: 32 - subnet.prefix_len(),
                metric: u32::MAX,
                position: usize::MAX,
                ifindex: interface.index,
                prefix: subnet,
            })
        });
        let mut reached: Vec<_> = by_route.chain(by_address).collect();
        reached.sort_unstable();
        Self { attached, placed, reached }
    }

    fn interface_of(&self, vip: &Wanted) -> Result<(&'a Interface, Option<Problem>), Problem> {
        let pattern = vip.interface;
        let address = vip.address;
        if let Some(interface) = self.by_subnet(pattern, address) {
            check_address(interface, address)?;
            return Ok((interface, None));
        }
        let stays =
            self.matching(pattern).find(|interface| self.placed.get(&address) == Some(&interface.index));
        match (pattern, stays) {
            // Named: it need not have an address in the VIP's subnet.
            (Some(pattern), _) => match stays.or_else(|| self.matching(Some(pattern)).next()) {
                Some(interface) => Ok((interface, None)),
                None => Err(Problem::NoInterface {
                    vip: address,
                    interface: pattern.to_string(),
                    attached: self.attached.iter().map(|interface| interface.name.clone()).collect(),
                }),
            },
            (None, Some(interface)) => {
                let problem = Problem::Stays { vip: address, interface: interface.name.clone() };
                Ok((interface, Some(problem)))
            }
            (None, None) => {
                let looked_at = self.attached.iter().copied().map(LookedAt::from).collect();
                Err(Problem::NoSubnet { vip: address, looked_at })
            }
        }
    }

    fn matching(&self, pattern: Option<&InterfacePattern>) -> impl Iterator<Item = &'a Interface> {
        self.attached
            .iter()
            .copied()
            .filter(move |interface| pattern.is_none_or(|pattern| pattern.matches(&interface.name)))
    }

    /// Where several interfaces have the subnet, the one that the kernel's own route prefers.
    fn by_subnet(&self, pattern: Option<&InterfacePattern>, vip: Ipv4Addr) -> Option<&'a Interface> {
        self.reached
            .iter()
            .filter(|reached| reached.prefix.contains(&vip))
            .find_map(|reached| self.matching(pattern).find(|interface| interface.index == reached.ifindex))
    }
}

/// The subnets of an interface's addresses; a /32 is an address and no subnet.
fn subnets(interface: &Interface) -> impl Iterator<Item = Ipv4Net> {
    interface.addresses.iter().filter(|address| address.prefix_len() < 32).map(Ipv4Net::trunc)
}

/// The first and last address of a subnet are no host's; point-to-point subnets (RFC 3021) have neither.
fn check_address(interface: &Interface, vip: Ipv4Addr) -> Result<(), Problem> {
    for subnet in subnets(interface).filter(|subnet| subnet.prefix_len() < 31) {
        let what = if vip == subnet.network() {
            "network"
        } else if vip == subnet.broadcast() {
            "broadcast"
        } else {
            continue;
        };
        return Err(Problem::NetworkAddress { vip, what, subnet, interface: interface.name.clone() });
    }
    Ok(())
}
