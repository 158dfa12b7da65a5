//! Whose an address on an interface is, and what an operator may do about it if it is to be a VIP.

use std::net::IpAddr;

use ipnet::IpNet;

use super::net::{Interface, NetView};
use crate::base::address::is_host;

#[cfg(test)]
mod tests;

/// The owner of an address on an interface. It decides which remedies are safe.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Owner {
    /// The host, which others may reach by it. It must stay.
    Host,
    /// An agent, which has bound a VIP.
    Agent,
    /// Another program or an operator: a VIP of theirs, beside the host's own address.
    Program,
    /// The host or another program: an address of `lo` may be the one that a router reaches the host by,
    /// and that of another node may have a lifetime.
    Unclear,
}

impl Owner {
    /// Returns the owner of an address that no agent has bound. `own` has the addresses by which the host
    /// is reached on the same segment.
    fn of(net: &IpNet, own: impl IntoIterator<Item = IpAddr>) -> Self {
        let address = net.addr();
        let is_other = |own: IpAddr| own != address && own.is_ipv4() == address.is_ipv4();
        if is_host(net) && own.into_iter().any(is_other) { Self::Program } else { Self::Host }
    }

    /// Returns the owner of an address on an interface of another node, whose Lease names `own` there. It
    /// names no lifetimes, and a /128 by DHCP stands beside a subnet.
    pub(crate) fn at_node(net: &IpNet, own: impl IntoIterator<Item = IpAddr>) -> Self {
        match Self::of(net, own) {
            Self::Program if net.addr().is_ipv6() => Self::Unclear,
            owner => owner,
        }
    }

    /// Returns the remedy if the address is to be a VIP. `host` is `this host`, or a node's name.
    pub fn remedy(self, host: &str, net: &IpNet, interface: &str) -> String {
        let address = net.addr();
        match self {
            Self::Host => format!("{address} is {host}'s own address: choose another VIP"),
            Self::Agent => format!(
                "an agent that runs takes it away by itself; without one: ip address del {net} dev {interface}"
            ),
            Self::Program => {
                format!("choose another VIP, or remove it there (ip address del {net} dev {interface})")
            }
            Self::Unclear => {
                format!(
                    "choose another VIP; if another program has put {address} there, have that program remove it"
                )
            }
        }
    }
}

impl NetView {
    /// Returns the owner of an address on an interface.
    ///
    /// An address with a subnet, or with a lifetime (DHCP, router advertisements), is the host's own. A /32 or
    /// /128 is another program's only if its segment has an own address of that family too: the host
    /// may have no other (clouds, unnumbered links). On `lo` it may be either's.
    pub fn owner_of(&self, ifindex: u32, net: &IpNet) -> Owner {
        let address = net.addr();
        let Some(interface) = self.interfaces.get(&ifindex) else { return Owner::Host };
        if interface.ours.contains(&address) {
            return Owner::Agent;
        }
        if interface.leased.contains(&address) {
            return Owner::Host;
        }
        let segment = self.segment_of(ifindex);
        let on_segment = |index: u32| interface.loopback || self.segment_of(index) == segment;
        let others = self.interfaces.values().filter(|it| !it.loopback && on_segment(it.index));
        match Owner::of(net, others.flat_map(Interface::own_addresses)) {
            Owner::Program if interface.loopback => Owner::Unclear,
            owner => owner,
        }
    }
}

impl Interface {
    /// Returns the addresses that are certainly the host's own.
    fn own_addresses(&self) -> impl Iterator<Item = IpAddr> {
        let own = self.foreign_addresses().filter(|net| !is_host(net) || self.leased.contains(&net.addr()));
        own.map(|net| net.addr())
    }
}
