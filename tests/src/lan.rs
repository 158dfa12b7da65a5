//! Makes LANs: switches, hosts and cables between them.
//! A switch is a bridge in its own network namespace, so that hosts on two LANs with the
//! same names and addresses never meet. A cable is a veth whose ends are created in their
//! namespaces. Namespaces have no name in the file system without [`Lan::keep_named`].
//!
//! - [`Lan`], [`Host`], [`Nic`]: switches, hosts, cables, addresses, neighbour tables, sysctls.
//! - [`Wire`], [`http`]: a raw socket for frames, and one HTTP request.
//! - [`Responder`], [`Flood`]: an ARP responder in user space, and a rogue that floods.
//! - [`Port`], [`Rules`]: a switch whose ports block, filter, delay and answer.
//! - [`Hook`]: foreign programs on a host.
//! - [`vm`]: the virtual machine that a test runs in.

mod ethtool;
mod flood;
mod hook;
mod host;
pub mod http;
mod links;
mod losses;
mod managed;
mod named;
mod neighbours;
mod netns;
mod responder;
mod snooping;
mod stacked;
mod switch;
mod team;
pub mod vm;
mod wire;

pub use rtnetlink::packet_route::link::{BondMode, VlanProtocol};

pub(crate) use self::wire::set_option;
pub use self::{
    flood::Flood,
    hook::{Hook, Hooked},
    host::{Host, Nic},
    links::Link,
    losses::{Lost, Way},
    managed::{Port, Rules},
    named::{NamedNamespaces, remove_named},
    neighbours::{Neighbour, NeighbourState},
    netns::NetNs,
    responder::{Responder, ResponderCounts},
    switch::{Lan, connect},
    wire::{Frame, GuestWire, Wire},
};
