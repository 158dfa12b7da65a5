//! A snapshot of this host's network, which the shell takes and the core reads.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::Ipv4Addr,
};

use ipnet::Ipv4Net;
use vipward_common::{MacAddr, Role};

/// One network interface, as rtnetlink describes it.
#[derive(Clone, PartialEq, Eq, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "the kernel's flags, which are independent of each other")]
pub struct Interface {
    /// ifindex.
    pub index: u32,
    /// Its name, which can change.
    pub name: String,
    /// Its hardware address; zero when it has none of six bytes.
    pub mac: MacAddr,
    /// `IFLA_INFO_KIND` (`veth`, `bridge`, `bond`, `vlan`, …); empty for hardware.
    pub kind: String,
    /// True if its link type is Ethernet (`ARPHRD_ETHER`).
    pub ethernet: bool,
    /// True if it is a loopback interface.
    pub loopback: bool,
    /// True if it is administratively up (`IFF_UP`).
    pub up: bool,
    /// True if it has carrier (`IFF_LOWER_UP`).
    pub carrier: bool,
    /// The bond or bridge that it is a member of.
    pub master: Option<u32>,
    /// Ids of the XDP programs that the kernel runs on it, whoever attached them.
    pub xdp_programs: Vec<u32>,
    /// Its IPv4 addresses with their prefix lengths.
    pub addresses: Vec<Ipv4Net>,
}

/// A reason why an interface does not answer for a VIP, whatever the maps say.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InterfaceFault {
    /// The interface is gone.
    Gone,
    /// The kernel does not run the program on it.
    NotAttached,
    /// It is administratively down.
    Down,
    /// It has no carrier.
    NoCarrier,
    /// Its own MAC is not the VIP's.
    OtherMac,
}

impl InterfaceFault {
    /// All of them, in the order in which they are looked for.
    pub const ALL: [Self; 5] = [Self::Gone, Self::NotAttached, Self::Down, Self::NoCarrier, Self::OtherMac];

    /// Returns the reason why `interface` does not answer with `mac`, if there is one.
    pub fn of(interface: Option<&Interface>, attached: bool, mac: MacAddr) -> Option<Self> {
        match interface {
            None => Some(Self::Gone),
            Some(_) if !attached => Some(Self::NotAttached),
            Some(interface) if !interface.up => Some(Self::Down),
            Some(interface) if !interface.carrier => Some(Self::NoCarrier),
            Some(interface) if interface.mac != mac => Some(Self::OtherMac),
            Some(_) => None,
        }
    }

    /// Returns true if it silences an entry of that role.
    pub fn silences(self, role: Role) -> bool {
        match role {
            Role::Held => true,
            // It answers with its successor's MAC.
            Role::Handover => self != Self::OtherMac,
            Role::Foreign => false,
        }
    }

    /// Returns it in words, the same in every output.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Gone => "the interface is gone",
            Self::NotAttached => "the program is not attached",
            Self::Down => "the interface is down",
            Self::NoCarrier => "no carrier",
            Self::OtherMac => "the interface has another MAC",
        }
    }
}

impl Interface {
    /// Returns an Ethernet interface for tests: up, with carrier and a MAC made of its index,
    /// without addresses.
    pub fn sample(index: u32, name: &str) -> Self {
        let [_, _, high, low] = index.to_be_bytes();
        Self {
            index,
            name: name.to_owned(),
            mac: MacAddr([2, 0, 0, 0, high, low]),
            kind: String::new(),
            ethernet: true,
            loopback: false,
            up: true,
            carrier: true,
            master: None,
            xdp_programs: Vec::new(),
            addresses: Vec::new(),
        }
    }
}

/// A connected route: the kernel reaches `prefix` directly through `interface`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ConnectedRoute {
    /// The subnet.
    pub prefix: Ipv4Net,
    /// ifindex.
    pub interface: u32,
    /// Lower is preferred.
    pub metric: u32,
}

/// The host's network at one moment.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct NetView {
    /// The interfaces by ifindex.
    pub interfaces: BTreeMap<u32, Interface>,
    /// The connected routes of the main table, in the kernel's order.
    pub routes: Vec<ConnectedRoute>,
    /// The next hops of all other routes of the main table. A change of these alone causes no new
    /// snapshot.
    pub next_hops: BTreeSet<Ipv4Addr>,
}

impl NetView {
    /// Returns the interface's name, or its index when it is gone.
    pub fn name_of(&self, ifindex: u32) -> String {
        self.interfaces
            .get(&ifindex)
            .map_or_else(|| format!("#{ifindex}"), |interface| interface.name.clone())
    }

    /// Returns the unicast MACs of the interfaces.
    pub fn macs(&self) -> BTreeSet<MacAddr> {
        self.interfaces.values().map(|interface| interface.mac).filter(|mac| mac.is_unicast()).collect()
    }

    /// Returns the interface of that name.
    pub fn by_name(&self, name: &str) -> Option<&Interface> {
        self.interfaces.values().find(|interface| interface.name == name)
    }
}
