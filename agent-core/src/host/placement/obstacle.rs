//! Problems of placement, with a remedy for each.

use std::{fmt, net::IpAddr};

use ipnet::IpNet;
use thiserror::Error;
use vipward_common::MacAddr;

use crate::host::{net::Interface, owner::Owner};

/// An interface that was searched for a subnet.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SearchedInterface {
    pub name: String,
    pub addresses: Vec<IpNet>,
}

impl From<&Interface> for SearchedInterface {
    fn from(interface: &Interface) -> Self {
        Self { name: interface.name.clone(), addresses: interface.addresses.clone() }
    }
}

impl fmt::Display for SearchedInterface {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let addresses: Vec<_> = self.addresses.iter().map(ToString::to_string).collect();
        let addresses = if addresses.is_empty() { "no address".to_owned() } else { addresses.join(", ") };
        write!(f, "{} ({addresses})", self.name)
    }
}

pub(crate) fn join<T: fmt::Display>(all: &[T]) -> String {
    if all.is_empty() {
        return "none".to_owned();
    }
    all.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// Returns what `force` does, where it cuts no host off.
fn force(owner: Owner) -> &'static str {
    match owner {
        Owner::Host => "",
        Owner::Agent | Owner::Program => ", or set `force: true` to hold it all the same",
    }
}

/// Obstacle to the configuration. Every obstacle can pass.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Error)]
pub enum Obstacle {
    #[error("interface {name} does not exist; waiting for it")]
    InterfaceMissing { name: String },
    #[error("{mac} is the MAC of several interfaces ({}); name one of them", join(.having))]
    SeveralHaveMac { mac: String, having: Vec<String> },
    #[error("interface {name} is down; waiting for it to be set up")]
    InterfaceDown { name: String },
    #[error("interface {name} is no Ethernet interface; no VIP can be on it")]
    NotEthernet { name: String },
    #[error("no up Ethernet interface matches {}; waiting for one", join(.patterns))]
    NothingMatches { patterns: Vec<String> },
    /// The globs match members of bonds or bridges only.
    #[error(
        "{} matches members of {} only, which speak through it; name it in `interfaces`",
        join(.patterns), join(.masters)
    )]
    OnlyMembers { patterns: Vec<String>, masters: Vec<String> },
    #[error(
        "VIP {vip} is in the subnet of no attached interface; inspected: {}. Name one with `interface:`, or give an \
         interface an address in its subnet",
        join(.searched)
    )]
    NoSubnet { vip: IpAddr, searched: Vec<SearchedInterface> },
    #[error(
        "VIP {vip} belongs to interface {interface}, which is not there or not attached; attached are: {}. \
         Waiting for it",
        join(.attached)
    )]
    NoInterface {
        vip: IpAddr,
        /// The VIP's `interface:`.
        interface: String,
        attached: Vec<String>,
    },
    #[error(
        "VIP {vip} belongs to VLAN {vlan}, which has no device on {lower}: its card would drop the frames, \
         and this host the traffic. Make one: ip link add link {lower} name {device} type vlan id {vlan} \
         && ip link set {device} up"
    )]
    NoVlanDevice {
        vip: IpAddr,
        vlan: u16,
        /// The interface below the device.
        lower: String,
        device: String,
    },
    #[error(
        "VIP {vip} waits: this host has it as {net} on {interface}, and vipward has not put it there; {}{}",
        .owner.remedy("this host", .net, .interface), force(*.owner)
    )]
    OwnAddress { vip: IpAddr, net: IpNet, interface: String, owner: Owner },
    #[error("VIP {vip} is in the subnet of no interface any more; it stays on {interface}, where it is")]
    Stays { vip: IpAddr, interface: String },
    #[error("VIP {vip} is the {what} of {subnet} on {interface}; no host can have it")]
    NetworkAddress { vip: IpAddr, what: &'static str, subnet: IpNet, interface: String },
    #[error("VIP {vip} is to be bound to {interface}, which does not exist; waiting for it")]
    NoBindInterface { vip: IpAddr, interface: String },
    #[error(
        "VIP {vip} is guarded at {mac}, which is this host's own {interface}: it is not guarded here, or its kernel \
         could not answer for it"
    )]
    GuardsItself { vip: IpAddr, mac: MacAddr, interface: String },
    #[error(
        "the map holds {max} entries: {missing} entries are missing on interfaces where VIPs are not held, so that an \
         address bound there may leak; start the agent with a larger --max-vips"
    )]
    NoRoomForShadows { missing: usize, max: u32 },
    #[error(
        "{} does not fit: {left_out} VIPs are left out, since the map holds {max} entries; start the agent with a \
         larger --max-vips",
        .first
    )]
    NoRoom { first: IpAddr, left_out: usize, max: u32 },
}

impl Obstacle {
    /// Returns the VIP that another program's address on this host keeps back.
    pub(crate) fn vip(&self) -> Option<IpAddr> {
        if let Self::OwnAddress { vip, .. } = self { Some(*vip) } else { None }
    }
}
