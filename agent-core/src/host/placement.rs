//! Placement of VIPs: the way from the configuration and the network to the desired maps.

pub(crate) mod obstacle;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    hash::{DefaultHasher, Hash, Hasher},
    net::IpAddr,
};

use vipward_common::{MacAddr, Role, VipKey};

pub use self::obstacle::{Obstacle, SearchedInterface};
use super::{
    interfaces::{self, Segments, Selection, subnets},
    net::{Interface, NetView, Vital},
};
use crate::base::{
    address::{End, ends},
    pattern::{InterfaceName, InterfacePattern},
    time::Monotonic,
};

/// Desired content of the maps, and of the host's addresses.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Desired {
    /// The entries of `vips_v4`.
    pub entries: BTreeMap<VipKey, DesiredEntry>,
    /// This node's MAC on each attached interface.
    pub own_macs: BTreeMap<u32, MacAddr>,
    pub peers: BTreeSet<(u32, MacAddr)>,
    /// VIPs on interfaces, for local delivery.
    pub binds: BTreeSet<(String, IpAddr)>,
}

impl Desired {
    /// Removes the silent entries of VIPs that no node holds from interfaces that have their
    /// addresses. Such an address is the host's own, and its kernel must answer for it.
    pub fn leave_audible(&mut self, view: &NetView, is_vacant: impl Fn(IpAddr) -> bool) {
        let of_one = |interface: &Interface| {
            let keys = interface.foreign_addresses();
            keys.map(|net| VipKey::new(interface.index, net.addr())).collect::<Vec<_>>()
        };
        for key in view.interfaces.values().flat_map(of_one) {
            let is_silent = self.entries.get(&key).is_some_and(|entry| entry.role == Role::Foreign);
            if is_silent && is_vacant(key.addr) {
                self.entries.remove(&key);
            }
        }
    }

    /// Removes the entries that would keep a host from resolving these addresses.
    pub fn leave_received(&mut self, vital: &Vital) {
        self.entries.retain(|VipKey { addr, .. }, entry| {
            let is_guard = entry.role == Role::Foreign;
            let is_vital = vital.api_servers.contains(addr) || is_guard && vital.next_hops.contains(addr);
            !is_vital
        });
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct DesiredEntry {
    pub role: Role,
    /// The MAC of the VIP; zero if unknown.
    pub mac: MacAddr,
    /// End of a handover, in nanoseconds on the monotonic clock; 0 in other roles.
    pub until_ns: u64,
}

impl DesiredEntry {
    pub const fn new(role: Role, mac: MacAddr) -> Self {
        Self { role, mac, until_ns: 0 }
    }
}

/// Desired entry of a VIP, before the VIP is placed on an interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Entry {
    /// This node answers with its own MAC.
    Held,
    /// Another node answers, or is about to. This node is silent.
    Foreign {
        /// The MAC of the VIP; zero if unknown.
        mac: MacAddr,
    },
    /// This node answers with its successor's MAC.
    Handover {
        mac: MacAddr,
        /// The time at which the handover ends by itself.
        until: Monotonic,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wanted<'a> {
    pub address: IpAddr,
    /// The pattern of its interface. If none: the interface whose subnet contains the VIP.
    pub interface: Option<&'a InterfacePattern>,
    /// The ID of its VLAN. If given: a VLAN device with that ID. Its own name or the name of the
    /// interface below matches the pattern.
    pub vlan: Option<u16>,
    /// The interface that gets the address, for local delivery.
    pub bind: Option<&'a InterfaceName>,
    pub entry: Entry,
    /// True if the file guards the VIP for another host.
    pub is_guarded: bool,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Placement {
    /// The interfaces to attach to, by index.
    pub attach: Vec<u32>,
    pub desired: Desired,
    /// VIPs for which the map has no room.
    pub left_out: Vec<IpAddr>,
    /// The obstacles that were met. Some of them are warnings about VIPs that are placed.
    pub problems: Vec<Obstacle>,
}

impl Placement {
    /// Returns the VIPs without a place, with the reasons.
    pub(crate) fn without_place(&self, max: u32) -> impl Iterator<Item = (IpAddr, Obstacle)> {
        let met = self.problems.iter().filter_map(|it| Some((it.without_place()?.0, it.clone())));
        let left_out = move |vip: &IpAddr| (*vip, Obstacle::NoRoom { first: *vip, left_out: 1, max });
        met.chain(self.left_out.iter().map(left_out))
    }
}

pub fn peers<'a>(
    selection: &Selection<'_>,
    interfaces: impl IntoIterator<Item = &'a Interface>,
) -> BTreeSet<(u32, MacAddr)> {
    let on_one = |interface: &'a Interface| {
        // All nodes may have the same list, so it may contain an interface of this node.
        let peers = selection.peers.iter().filter(|peer| **peer != interface.mac);
        peers.map(|peer| (interface.index, *peer))
    };
    interfaces.into_iter().flat_map(on_one).collect()
}

/// Places every VIP.
///
/// `placed` has the present interfaces of VIPs. A VIP whose subnet has gone stays on its interface.
/// `is_there` returns true for existing entries. If the map has no room for all VIPs, new VIPs are
/// left out before existing ones.
pub fn place<'a>(
    selection: &Selection<'_>,
    vips: impl Iterator<Item = Wanted<'a>> + Clone,
    view: &NetView,
    placed: &BTreeMap<IpAddr, u32>,
    is_there: &dyn Fn(&VipKey) -> bool,
    max_vips: u32,
) -> Placement {
    let in_use = placed.values().copied().collect();
    let (attached, problems) = interfaces::choose(selection, view, &in_use);
    let mut placement = Placement {
        attach: attached.iter().map(|interface| interface.index).collect(),
        desired: Desired {
            own_macs: attached.iter().map(|interface| (interface.index, interface.mac)).collect(),
            peers: peers(selection, attached.iter().copied()),
            ..Desired::default()
        },
        left_out: Vec::new(),
        problems,
    };
    let placer = Placer { segments: Segments::new(view, &attached), view, placed };
    let home = |vip: Wanted| (vip.address, placer.home_of(&vip, &mut placement.problems));
    let mut homes: Vec<(IpAddr, Home)> = vips.clone().map(home).collect();
    placement.left_out =
        beyond(max_vips, &homes, |vip, home| placed.contains_key(&vip) || is_there(&VipKey::new(home, vip)));
    let left_out: BTreeSet<IpAddr> = placement.left_out.iter().copied().collect();
    for (_, home) in homes.iter_mut().filter(|(vip, _)| left_out.contains(vip)) {
        *home = Home::Refused;
    }
    for (vip, (_, home)) in vips.zip(&homes) {
        placement.put_home(&vip, *home, view);
    }
    // Shadows come last, so that an interface that comes up does not displace a held VIP.
    placement.put_shadows(&homes, &attached, view, max_vips);
    if let Some(first) = placement.left_out.first() {
        let left_out = placement.left_out.len();
        placement.problems.push(Obstacle::NoRoom { first: *first, left_out, max: max_vips });
    }
    placement
}

/// Returns the VIPs that do not fit: the last of the
/// new ones, and then the last of the existing ones.
fn beyond(room: u32, homes: &[(IpAddr, Home)], is_there: impl Fn(IpAddr, u32) -> bool) -> Vec<IpAddr> {
    let homes = homes.iter().filter_map(|(vip, home)| match home {
        Home::On(ifindex) => Some((*vip, *ifindex)),
        Home::Nowhere | Home::Refused => None,
    });
    let left_out = homes.clone().count().saturating_sub(room as usize);
    if left_out == 0 {
        return Vec::new();
    }
    let (there, new): (Vec<_>, Vec<_>) = homes.partition(|(vip, home)| is_there(*vip, *home));
    let last_first = new.into_iter().rev().chain(there.into_iter().rev());
    let mut beyond: Vec<IpAddr> = last_first.take(left_out).map(|(vip, _)| vip).collect();
    beyond.reverse();
    beyond
}

/// Returns a problem if this host has the MAC at which the file guards a VIP. One
/// file may serve all hosts, and the holder of a guarded VIP must not silence itself.
fn guards_itself(vip: &Wanted, view: &NetView) -> Option<Obstacle> {
    if !vip.is_guarded {
        return None;
    }
    let Entry::Foreign { mac } = vip.entry else { return None };
    let own = view.interfaces.values().find(|interface| interface.mac == mac)?;
    Some(Obstacle::GuardsItself { vip: vip.address, mac, interface: own.name.clone() })
}

impl Placement {
    /// Returns a number that is another for another placement. It stands for a placement of very
    /// many VIPs, which takes megabytes.
    pub fn digest(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.hash(&mut hasher);
        hasher.finish()
    }

    fn put_home(&mut self, vip: &Wanted, home: Home, view: &NetView) {
        let Home::On(home) = home else { return };
        let Some(home) = view.interfaces.get(&home) else { return };
        let entry = match vip.entry {
            Entry::Held => DesiredEntry::new(Role::Held, home.mac),
            Entry::Foreign { mac } => DesiredEntry::new(Role::Foreign, mac),
            Entry::Handover { mac, until } => {
                DesiredEntry { role: Role::Handover, mac, until_ns: until.as_nanos() }
            }
        };
        self.desired.entries.insert(VipKey::new(home.index, vip.address), entry);
        let Some(bind) = vip.bind else { return };
        if view.by_name(bind.as_str()).is_some() {
            self.desired.binds.insert((bind.as_str().to_owned(), vip.address));
        } else {
            let problem = Obstacle::NoBindInterface { vip: vip.address, interface: bind.as_str().to_owned() };
            self.problems.push(problem);
        }
    }

    /// Adds a silent entry for each VIP on every attached interface but its own and the links below
    /// it, over which its frames arrive. A VIP without an interface gets one on all of them. The kernel must not
    /// answer there for a bound address.
    fn put_shadows(
        &mut self,
        homes: &[(IpAddr, Home)],
        attached: &[&Interface],
        view: &NetView,
        max_vips: u32,
    ) {
        let shadow = DesiredEntry::new(Role::Foreign, MacAddr::ZERO);
        let paths: BTreeMap<u32, BTreeSet<u32>> =
            attached.iter().map(|home| (home.index, view.path(home.index))).collect();
        let mut missing = 0;
        for (vip, home) in homes {
            let home = match home {
                Home::On(ifindex) => Some(*ifindex),
                Home::Nowhere => None,
                Home::Refused => continue,
            };
            let path = home.and_then(|home| paths.get(&home));
            let is_elsewhere = |interface: &&&Interface| {
                Some(interface.index) != home && path.is_none_or(|path| !path.contains(&interface.index))
            };
            for interface in attached.iter().filter(is_elsewhere) {
                if self.desired.entries.len() == max_vips as usize {
                    missing += 1;
                } else {
                    self.desired.entries.insert(VipKey::new(interface.index, *vip), shadow);
                }
            }
        }
        if missing > 0 {
            self.problems.push(Obstacle::NoRoomForShadows { missing, max: max_vips });
        }
    }
}

#[derive(Clone, Copy)]
enum Home {
    On(u32),
    /// No interface. The VIP is silent on all of them.
    Nowhere,
    /// None, and no silent entry either.
    Refused,
}

struct Placer<'a> {
    segments: Segments<'a>,
    view: &'a NetView,
    placed: &'a BTreeMap<IpAddr, u32>,
}

impl<'a> Placer<'a> {
    /// Returns the place of a VIP. Adds the obstacles to `problems`.
    fn home_of(&self, vip: &Wanted, problems: &mut Vec<Obstacle>) -> Home {
        if let Some(problem) = guards_itself(vip, self.view) {
            problems.push(problem);
            return Home::Refused;
        }
        match self.interface_of(vip) {
            Ok((interface, warning)) => {
                problems.extend(warning);
                Home::On(interface.index)
            }
            Err(problem) => {
                let is_refused = matches!(problem, Obstacle::NetworkAddress { .. });
                problems.push(problem);
                if is_refused { Home::Refused } else { Home::Nowhere }
            }
        }
    }

    fn interface_of(&self, vip: &Wanted) -> Result<(&'a Interface, Option<Obstacle>), Obstacle> {
        let address = vip.address;
        let is_named = |interface: &Interface| self.is_named(vip, interface);
        if let Some(interface) = self.segments.of(is_named, address) {
            check_address(interface, address)?;
            return Ok((interface, None));
        }
        let attached = || self.segments.interfaces.iter().copied();
        let named = || attached().filter(|interface| is_named(interface));
        let stays = named().find(|interface| self.placed.get(&address) == Some(&interface.index));
        // A named interface need not have an address in the VIP's subnet.
        if vip.interface.is_some() || vip.vlan.is_some() {
            let found = stays.or_else(|| named().next()).map(|interface| (interface, None));
            return found.ok_or_else(|| self.why_none_is_named(vip));
        }
        if let Some(interface) = stays {
            let problem = Obstacle::Stays { vip: address, interface: interface.name.clone() };
            return Ok((interface, Some(problem)));
        }
        Err(Obstacle::NoSubnet { vip: address, searched: attached().map(SearchedInterface::from).collect() })
    }

    /// Returns true if the VIP may be on an interface: its pattern and its VLAN name it.
    fn is_named(&self, vip: &Wanted, interface: &Interface) -> bool {
        let matches = |name: &str| vip.interface.is_none_or(|pattern| pattern.matches(name));
        let Some(vlan) = vip.vlan else { return matches(&interface.name) };
        let lower = interface.lower.and_then(|lower| self.view.interfaces.get(&lower));
        interface.vlan_id() == Some(vlan)
            && (matches(&interface.name) || lower.is_some_and(|lower| matches(&lower.name)))
    }

    fn why_none_is_named(&self, vip: &Wanted) -> Obstacle {
        let attached = || self.segments.interfaces.iter();
        let there = self.view.interfaces.values().find(|interface| self.is_named(vip, interface));
        if let (Some(vlan), None) = (vip.vlan, there) {
            let named = |name: &str| vip.interface.is_none_or(|pattern| pattern.matches(name));
            let lowers = || attached().filter(|interface| interface.vlan.is_none());
            let lower = lowers().find(|interface| named(&interface.name));
            // The name may be the device's, which does not exist yet.
            let device = vip.interface.and_then(InterfacePattern::literal).filter(|_| lower.is_none());
            let lower = lower.or_else(|| lowers().next()).map_or("DEV", |interface| &interface.name);
            let device = device.map_or_else(|| device_name(lower, vlan), ToOwned::to_owned);
            return Obstacle::NoVlanDevice { vip: vip.address, vlan, lower: lower.to_owned(), device };
        }
        Obstacle::NoInterface {
            vip: vip.address,
            interface: match (there, vip.interface) {
                (Some(interface), _) => interface.name.clone(),
                (None, pattern) => pattern.map(ToString::to_string).unwrap_or_default(),
            },
            attached: attached().map(|interface| interface.name.clone()).collect(),
        }
    }
}

/// Returns a name for a VLAN device that the kernel takes: at most 15 bytes.
fn device_name(lower: &str, vlan: u16) -> String {
    let name = format!("{lower}.{vlan}");
    if name.len() <= 15 { name } else { format!("vlan{vlan}") }
}

/// Refuses the addresses of the interface's subnets that no host can have.
fn check_address(interface: &Interface, vip: IpAddr) -> Result<(), Obstacle> {
    for subnet in subnets(interface) {
        let Some((_, end)) = ends(&subnet).find(|(address, _)| *address == vip) else { continue };
        let what = match end {
            End::Network => "network address",
            End::Broadcast => "broadcast address",
            End::Routers => "address of all routers",
        };
        return Err(Obstacle::NetworkAddress { vip, what, subnet, interface: interface.name.clone() });
    }
    Ok(())
}
