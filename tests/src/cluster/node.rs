//! A node of a cluster: its number and addresses, its host, and its agent.

use std::collections::BTreeSet;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr};

use anyhow::{Context, Result};
use ipnet::Ipv4Net;

use crate::{
    agent::{Agent, ip, net},
    frames::{Family, Mac},
    lan::{Host, Nic},
    measure::{bind_locally, unbind_locally},
};

/// Interface on the segment of the VIPs.
pub const SEGMENT: &str = "eth0";
/// Interface towards the API server.
pub const MANAGEMENT: &str = "mgmt0";
pub const N1: NodeId = NodeId(1);
pub const N2: NodeId = NodeId(2);
pub const N3: NodeId = NodeId(3);

/// Most nodes of a cluster: their addresses are .11 to .19.
pub(super) const MOST_NODES: u8 = 9;

/// Node, by its number from 1.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NodeId(pub(super) u8);

impl NodeId {
    /// Returns the node's MAC on the segment.
    pub fn mac(self) -> Mac {
        Mac([0x02, 0, 0, 0, 0x01, self.0])
    }

    /// Returns the node's address on the segment.
    pub fn address(self) -> Ipv4Addr {
        ip(10 + self.0)
    }

    /// Returns the node's address of a family on the segment.
    pub fn address_in(self, family: Family) -> IpAddr {
        family.ip(10 + self.0)
    }

    /// Returns the node's address towards the API server.
    pub fn management_address(self) -> Ipv4Addr {
        management_ip(10 + self.0)
    }
}

/// The name of its host.
impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "n{}", self.0)
    }
}

/// Node: its host and, once started, its agent.
#[derive(Debug)]
pub struct Member {
    pub(super) agent: Option<Agent>,
    pub id: NodeId,
    pub host: Host,
    pub(super) powered: bool,
    /// VIPs that its kernel delivers.
    pub(super) bound: BTreeSet<IpAddr>,
}

impl Member {
    /// Returns its agent, if it was started since the node has power.
    pub fn agent(&self) -> Option<&Agent> {
        self.agent.as_ref()
    }

    /// Returns its agent for operations that the cluster does not offer.
    pub fn agent_mut(&mut self) -> Result<&mut Agent> {
        let id = self.id;
        self.agent.as_mut().with_context(|| format!("no agent was started on {id}"))
    }

    pub fn is_powered(&self) -> bool {
        self.powered
    }

    /// Returns true if its agent runs. A stopped process counts as running.
    pub fn agent_runs(&mut self) -> Result<bool> {
        self.agent.as_mut().map_or(Ok(false), Agent::is_running)
    }

    pub(super) fn bind(&mut self, vip: IpAddr) -> Result<()> {
        if self.bound.insert(vip) { bind_locally(&self.host, vip) } else { Ok(()) }
    }

    pub(super) fn unbind(&mut self, vip: IpAddr) -> Result<()> {
        if self.bound.remove(&vip) { unbind_locally(&self.host, vip) } else { Ok(()) }
    }
}

/// Returns an interface on the segment, with an address of each family.
pub(super) fn nic(last: u8) -> Nic {
    Nic::new(net(last)).address(Family::V6.net(last))
}

pub(super) const fn management_ip(last: u8) -> Ipv4Addr {
    Ipv4Addr::new(198, 51, 100, last)
}

pub(super) fn management_net(address: Ipv4Addr) -> Ipv4Net {
    Ipv4Net::new(address, 24).expect("24 is a prefix length")
}
