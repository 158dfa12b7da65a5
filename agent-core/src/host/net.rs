//! Snapshot of this host's network. The shell takes it, and the core reads it.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, Ipv6Addr},
};

use ipnet::IpNet;
use vipward_common::{MacAddr, Proof, Role, VlanTag};

#[cfg(test)]
mod tests;

/// A network interface, as rtnetlink describes it.
#[derive(Clone, PartialEq, Eq, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "the kernel's flags, which are independent of each other")]
pub struct Interface {
    /// ifindex.
    pub index: u32,
    /// Its name, which can change.
    pub name: String,
    /// Its alternative names (`IFLA_ALT_IFNAME`). One may be its name of before an upgrade.
    pub altnames: Vec<String>,
    /// Its hardware address; zero if it has none of six bytes.
    pub mac: MacAddr,
    /// `IFLA_INFO_KIND` (`veth`, `bridge`, `bond`, `vlan`, …); empty for hardware.
    pub kind: String,
    /// True if its link type is Ethernet (`ARPHRD_ETHER`).
    pub ethernet: bool,
    pub loopback: bool,
    /// True if it is administratively up (`IFF_UP`).
    pub up: bool,
    /// True if it has carrier (`IFF_LOWER_UP`).
    pub carrier: bool,
    /// The number of times that it lost its carrier: a short loss shows in nothing else
    /// (`IFLA_CARRIER_DOWN_COUNT`).
    pub carrier_losses: u32,
    /// The bond or bridge that it is a member of.
    pub master: Option<u32>,
    /// The interface below a VLAN, macvlan or ipvlan device, if it is in this network namespace.
    pub lower: Option<u32>,
    /// The tag that the frames of a VLAN device have on the interface below it.
    pub vlan: Option<VlanTag>,
    /// True if the card takes VLAN tags off received frames before XDP sees them
    /// (`rx-vlan-offload`). It is only read for interfaces with VLAN devices.
    pub strips_tags: bool,
    /// The active port of a bond whose mode has one (`IFLA_BOND_ACTIVE_SLAVE`).
    pub active_port: Option<u32>,
    /// Ids of the XDP programs that the kernel runs on it, from any source.
    pub xdp_programs: Vec<u32>,
    /// Ids of the tcx programs at its ingress, from any source, in the order in which they run. Ids
    /// of filters where the kernel has no tcx. None if they could not be read.
    pub tc_programs: Option<Vec<u32>>,
    /// Its addresses of both families with their prefix lengths, without link-local ones of IPv6.
    pub addresses: Vec<IpNet>,
    /// The addresses that the agent has bound, by their label or protocol.
    pub ours: BTreeSet<IpAddr>,
    /// The addresses with a lifetime, which DHCP or a router gave (not `IFA_F_PERMANENT`).
    pub leased: BTreeSet<IpAddr>,
    /// A link-local IPv6 address of it that no other host has.
    pub link_local: Option<Ipv6Addr>,
    /// The addresses that another host may have (the kernel still probes) or has (duplicate found).
    pub doubtful: BTreeSet<IpAddr>,
}

/// Reason why an interface does not answer for a VIP, regardless of the maps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InterfaceFault {
    Gone,
    /// The kernel does not run the program on it.
    NotAttached,
    Down,
    NoCarrier,
    /// The interface's own MAC is not the VIP's.
    OtherMac,
    /// The kernel receives frames that the program does not see.
    Blind,
    /// Requests for VIPs get past the program to the kernel.
    Bypassed,
}

impl InterfaceFault {
    /// All faults, in the order of the search.
    pub const ALL: [Self; 7] = [
        Self::Gone,
        Self::NotAttached,
        Self::Down,
        Self::NoCarrier,
        Self::OtherMac,
        Self::Blind,
        Self::Bypassed,
    ];

    /// Returns the reason why `interface` does not answer with `mac`, if there is one. `proof` is the
    /// agent's finding about its segment.
    pub fn of(interface: Option<&Interface>, attached: bool, mac: MacAddr, proof: Proof) -> Option<Self> {
        match interface {
            None => Some(Self::Gone),
            Some(_) if !attached => Some(Self::NotAttached),
            Some(interface) if !interface.up => Some(Self::Down),
            Some(interface) if !interface.carrier => Some(Self::NoCarrier),
            Some(interface) if interface.mac != mac => Some(Self::OtherMac),
            Some(_) => Self::of_proof(proof),
        }
    }

    /// Returns the fault that a finding names, if it names one.
    pub const fn of_proof(proof: Proof) -> Option<Self> {
        match proof {
            Proof::Unproven | Proof::Proven => None,
            Proof::Blind => Some(Self::Blind),
            Proof::Bypassed => Some(Self::Bypassed),
        }
    }

    /// Returns true if the fault silences an entry of this role.
    pub fn silences(self, role: Role) -> bool {
        match role {
            Role::Held => true,
            // This node answers with its successor's MAC, not with its own.
            Role::Handover => self != Self::OtherMac,
            Role::Foreign => false,
        }
    }

    pub const fn name(self) -> &'static str {
        match self {
            Self::Gone => "the interface is gone",
            Self::NotAttached => "the program is not attached",
            Self::Down => "the interface is down",
            Self::NoCarrier => "no carrier",
            Self::OtherMac => "the interface has another MAC",
            Self::Blind => "the program does not see the interface's frames",
            Self::Bypassed => "requests for VIPs get past the program",
        }
    }
}

impl Interface {
    /// Returns an Ethernet interface for tests. It is up, has carrier and a
    /// MAC made of its index, and has no addresses.
    pub fn sample(index: u32, name: &str) -> Self {
        let [_, _, high, low] = index.to_be_bytes();
        Self {
            index,
            name: name.to_owned(),
            altnames: Vec::new(),
            mac: MacAddr([2, 0, 0, 0, high, low]),
            kind: String::new(),
            ethernet: true,
            loopback: false,
            up: true,
            carrier: true,
            carrier_losses: 0,
            master: None,
            lower: None,
            vlan: None,
            strips_tags: false,
            active_port: None,
            xdp_programs: Vec::new(),
            tc_programs: Some(Vec::new()),
            addresses: Vec::new(),
            ours: BTreeSet::new(),
            leased: BTreeSet::new(),
            link_local: None,
            doubtful: BTreeSet::new(),
        }
    }

    pub fn vlan_id(&self) -> Option<u16> {
        self.vlan.map(VlanTag::id)
    }

    /// Returns true if the interface is a software device: it has a kind, as hardware has not.
    pub fn is_software(&self) -> bool {
        !self.kind.is_empty()
    }

    /// Returns true if the interface is a bond or team: XDP in the driver runs on its ports, with
    /// their ifindex (`bond_xdp_set`).
    pub fn has_ports(&self) -> bool {
        matches!(&*self.kind, "bond" | "team")
    }

    /// Returns the address, with its prefix length, if the interface has it and the agent has not
    /// bound it.
    pub fn foreign_address(&self, address: IpAddr) -> Option<IpNet> {
        self.foreign_addresses().find(|net| net.addr() == address)
    }

    /// Returns true if the interface has the address and the agent has not bound it.
    pub fn has(&self, address: IpAddr) -> bool {
        self.link_local.map(IpAddr::from) == Some(address) || self.foreign_address(address).is_some()
    }

    /// Returns the source address for requests about another address: the link-local one for IPv6,
    /// else one in its subnet. It is never a VIP, because the request would announce it.
    pub fn source_for(&self, address: IpAddr, is_vip: impl Fn(IpAddr) -> bool) -> Option<IpAddr> {
        let link_local = self.link_local.filter(|_| address.is_ipv6()).map(IpAddr::from);
        link_local.or_else(|| {
            let mut near = self.foreign_addresses().filter(|net| net.contains(&address));
            near.find(|net| !is_vip(net.addr()) && !self.doubtful.contains(&net.addr())).map(|net| net.addr())
        })
    }

    pub fn foreign_addresses(&self) -> impl Iterator<Item = IpNet> {
        self.addresses.iter().copied().filter(|net| !self.ours.contains(&net.addr()))
    }
}

/// Returns an interface's name for users, with the VLAN ID of a VLAN device.
pub fn labelled(interface: &str, vlan: Option<u16>) -> String {
    vlan.map_or_else(|| interface.to_owned(), |vlan| format!("{interface} (VLAN {vlan})"))
}

/// A connected route: the kernel reaches `prefix` directly through `interface`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ConnectedRoute {
    pub prefix: IpNet,
    /// ifindex.
    pub interface: u32,
    /// The metric. The kernel prefers the lower one.
    pub metric: u32,
}

/// Addresses whose owners' frames an agent must receive to reach the API server.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Vital {
    pub api_servers: BTreeSet<IpAddr>,
    pub next_hops: BTreeSet<IpAddr>,
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct NetView {
    pub interfaces: BTreeMap<u32, Interface>,
    /// The connected routes of the main table, in the kernel's order.
    pub routes: Vec<ConnectedRoute>,
    /// The next hops of all other routes, in all tables. A change of these alone causes no new
    /// snapshot.
    pub next_hops: BTreeSet<IpAddr>,
}

impl NetView {
    /// Returns the interface's name. Returns its index if the interface is gone.
    pub fn name_of(&self, ifindex: u32) -> String {
        self.interfaces
            .get(&ifindex)
            .map_or_else(|| format!("#{ifindex}"), |interface| interface.name.clone())
    }

    /// Returns the interface's name for users, with the VLAN ID of a VLAN device.
    pub fn label_of(&self, ifindex: u32) -> String {
        labelled(&self.name_of(ifindex), self.vlan_of(ifindex))
    }

    pub fn vlan_of(&self, ifindex: u32) -> Option<u16> {
        self.interfaces.get(&ifindex)?.vlan_id()
    }

    pub fn macs(&self) -> BTreeSet<MacAddr> {
        self.interfaces.values().map(|interface| interface.mac).filter(|mac| mac.is_unicast()).collect()
    }

    /// Returns the interface with this name of its own. [`NetView::named`] knows what users write.
    pub fn by_name(&self, name: &str) -> Option<&Interface> {
        self.interfaces.values().find(|interface| interface.name == name)
    }
}
