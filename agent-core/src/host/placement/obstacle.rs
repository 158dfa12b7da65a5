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
        Owner::Agent | Owner::Program | Owner::Unclear => ", or set `force: true` to hold it all the same",
    }
}

const NAME_ONE: &str = "name one with `interface:`, or give an interface an address in its subnet";
const WAIT: &str = "waiting for it";

fn no_subnet(searched: &[SearchedInterface]) -> String {
    format!("is in the subnet of no attached interface; inspected: {}", join(searched))
}

fn no_interface(interface: &str, attached: &[String]) -> String {
    format!(
        "belongs to interface {interface}, which is not there or not attached; attached are: {}",
        join(attached)
    )
}

fn no_vlan_device(vlan: u16, lower: &str) -> String {
    format!(
        "belongs to VLAN {vlan}, which has no device on {lower}: its card would drop the frames, and this host the \
         traffic"
    )
}

fn make_vlan_device(vlan: u16, lower: &str, device: &str) -> String {
    format!("make one: ip link add link {lower} name {device} type vlan id {vlan} && ip link set {device} up")
}

fn network_address(what: &str, subnet: &IpNet, interface: &str) -> String {
    format!("is the {what} of {subnet} on {interface}; no host can have it")
}

/// Obstacle to the configuration. Every obstacle can pass.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Error)]
pub enum Obstacle {
    #[error("interface {name} does not exist; waiting for it")]
    InterfaceMissing { name: String },
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
    #[error("VIP {vip} {}; {}", no_subnet(.searched), NAME_ONE)]
    NoSubnet { vip: IpAddr, searched: Vec<SearchedInterface> },
    #[error("VIP {vip} {}; {}", no_interface(.interface, .attached), WAIT)]
    NoInterface {
        vip: IpAddr,
        /// The VIP's `interface:`.
        interface: String,
        attached: Vec<String>,
    },
    #[error("VIP {vip} {}; {}", no_vlan_device(*.vlan, .lower), make_vlan_device(*.vlan, .lower, .device))]
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
    #[error("VIP {vip} {}", network_address(.what, .subnet, .interface))]
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

    /// Returns the VIP that has no interface for it, why, and what to do.
    pub(crate) fn without_place(&self) -> Option<(IpAddr, String, String)> {
        let (vip, why, remedy) = match self {
            Self::NoSubnet { vip, searched } => (vip, no_subnet(searched), NAME_ONE.to_owned()),
            Self::NoInterface { vip, interface, attached } => (
                vip,
                no_interface(interface, attached),
                format!("make {interface}, set it up, or name another interface"),
            ),
            Self::NoVlanDevice { vip, vlan, lower, device } => {
                (vip, no_vlan_device(*vlan, lower), make_vlan_device(*vlan, lower, device))
            }
            Self::NetworkAddress { vip, what, subnet, interface } => {
                (vip, network_address(what, subnet, interface), "choose another VIP".to_owned())
            }
            Self::NoRoom { first, max, .. } => (
                first,
                format!("is left out, since the map holds {max} entries"),
                "start the agent with a larger --max-vips".to_owned(),
            ),
            // They concern interfaces, or VIPs that have one.
            Self::InterfaceMissing { .. }
            | Self::InterfaceDown { .. }
            | Self::NotEthernet { .. }
            | Self::NothingMatches { .. }
            | Self::OnlyMembers { .. }
            | Self::OwnAddress { .. }
            | Self::Stays { .. }
            | Self::NoBindInterface { .. }
            | Self::GuardsItself { .. }
            | Self::NoRoomForShadows { .. } => return None,
        };
        Some((*vip, format!("it {why}"), remedy))
    }
}
