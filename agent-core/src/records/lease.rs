//! A node's Lease, and the lists of interfaces in it.

use std::{fmt, net::IpAddr, str::FromStr, sync::Arc, time::Duration};

use ipnet::IpNet;
use vipward_common::{MacAddr, VipFault};

use super::{Epoch, NodeName, Offer, Proxy, Session, Version};
use crate::base::{address::is_host, pattern::InterfacePattern};

/// A node's interface that VIPs can be on, as its Lease lists it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NodeInterface {
    pub name: Arc<str>,
    pub altnames: Vec<Arc<str>>,
    pub mac: MacAddr,
    /// The subnets of its segment. If the interface has an address in a subnet,
    /// the address stands here with its prefix length.
    pub subnets: Vec<IpNet>,
    /// Its addresses that are one address (/32, /128) and that Vipward did not put there.
    pub bound: Vec<IpAddr>,
    /// The node's gateways in these subnets.
    pub gateways: Vec<IpAddr>,
    /// True if it is up and has carrier.
    pub carrier: bool,
    /// The VIPs for which this node comes last, since their clients did not reach it here. More than 8
    /// stand for all VIPs.
    pub last_for: Vec<IpAddr>,
    /// The VIPs of other nodes whose clients do not reach them, as this node found.
    pub unreached: Vec<Unreached>,
}

/// The names by which users may choose an interface of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InterfaceNames<'a> {
    pub name: &'a str,
    pub altnames: &'a [Arc<str>],
    pub mac: MacAddr,
}

impl InterfaceNames<'_> {
    /// Returns true if one of the patterns names the interface.
    pub(crate) fn match_one_of(self, patterns: &[InterfacePattern]) -> bool {
        patterns.iter().any(|pattern| {
            pattern.matches(self.name)
                || self.altnames.iter().any(|name| pattern.matches(name))
                || pattern.mac() == Some(self.mac)
        })
    }
}

/// A VIP whose clients do not reach its holder, as another node found.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Unreached {
    pub vip: IpAddr,
    /// The epoch in which the holder has it.
    pub epoch: Epoch,
    pub fault: VipFault,
}

impl fmt::Display for Unreached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} in epoch {}: {}", self.vip, self.epoch.0, self.fault.word())
    }
}

impl FromStr for Unreached {
    type Err = ();

    /// Reads what [`fmt::Display`] writes.
    fn from_str(text: &str) -> Result<Self, ()> {
        let (vip, rest) = text.split_once(" in epoch ").ok_or(())?;
        let (epoch, word) = rest.split_once(": ").ok_or(())?;
        let fault = VipFault::ALL.into_iter().find(|fault| fault.word() == word).ok_or(())?;
        let epoch = Epoch(epoch.parse().map_err(|_| ())?);
        Ok(Self { vip: vip.parse().map_err(|_| ())?, epoch, fault })
    }
}

impl NodeInterface {
    pub(crate) fn names(&self) -> InterfaceNames<'_> {
        InterfaceNames { name: &self.name, altnames: &self.altnames, mac: self.mac }
    }

    /// Returns true if this node comes last for a VIP.
    pub fn is_last_for(&self, vip: IpAddr) -> bool {
        self.last_for.len() > MOST_LISTED || self.last_for.contains(&vip)
    }

    /// Returns its addresses. A subnet in which it has none stands without host bits.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        self.subnets.iter().filter(|net| net.addr() != net.network()).map(IpNet::addr)
    }

    /// Returns true if it can ask for a VIP in its own name: it has an address in a subnet of the VIP.
    pub(crate) fn can_ask_for(&self, vip: IpAddr) -> bool {
        let has_address = |net: &IpNet| net.addr() != net.network() && net.contains(&vip);
        self.carrier && self.subnets.iter().any(has_address)
    }

    /// Returns the subnets in which a VIP may be. The largest that anyone is given are an IPv4 /8 and an
    /// IPv6 /32.
    pub(crate) fn segments(&self) -> impl Iterator<Item = IpNet> {
        let is_of_a_segment =
            |net: &IpNet| !is_host(net) && net.prefix_len() >= if net.addr().is_ipv4() { 8 } else { 32 };
        self.subnets.iter().filter(move |net| is_of_a_segment(net)).map(IpNet::trunc)
    }

    /// Returns true if the two interfaces are on one segment: they have a subnet in common.
    pub(crate) fn shares_a_segment(&self, other: &Self) -> bool {
        let mut subnets = self.subnets.iter().map(IpNet::trunc);
        subnets.any(|subnet| other.subnets.iter().any(|of| of.trunc() == subnet))
    }
}

/// Largest number of subnets in a Lease, over all its interfaces.
pub const MOST_SUBNETS: usize = 256;
/// Largest number of bound addresses, and of gateways, in a Lease, over all its interfaces.
pub const MOST_ADDRESSES: usize = 64;

/// Largest number of alternative names in a Lease, over all its interfaces.
const MOST_ALTNAMES: usize = 64;
/// Largest number of VIPs for which an interface comes last one by one.
const MOST_LISTED: usize = 8;
/// Largest number of unreached VIPs in a Lease, over all its interfaces.
const MOST_UNREACHED: usize = 64;

/// The room that is left in a Lease for the lists of its interfaces.
#[derive(Debug)]
pub struct Room {
    altnames: usize,
    subnets: usize,
    bound: usize,
    gateways: usize,
    unreached: usize,
}

impl Default for Room {
    fn default() -> Self {
        Self {
            altnames: MOST_ALTNAMES,
            subnets: MOST_SUBNETS,
            bound: MOST_ADDRESSES,
            gateways: MOST_ADDRESSES,
            unreached: MOST_UNREACHED,
        }
    }
}

impl Room {
    /// Returns the interface with the part of its lists for which there is room.
    pub fn limit(&mut self, mut interface: NodeInterface) -> NodeInterface {
        interface.last_for.truncate(MOST_LISTED + 1);
        NodeInterface {
            altnames: first(interface.altnames, &mut self.altnames),
            unreached: first(interface.unreached, &mut self.unreached),
            subnets: first(interface.subnets, &mut self.subnets),
            bound: first(interface.bound, &mut self.bound),
            gateways: first(interface.gateways, &mut self.gateways),
            ..interface
        }
    }
}

/// Returns the first values of a list, as many as there is room for.
fn first<T>(mut values: Vec<T>, room: &mut usize) -> Vec<T> {
    values.truncate(*room);
    *room -= values.len();
    values
}

/// Largest number of ended sessions in a Lease.
pub const MOST_ENDED: usize = 8;

/// A node's Lease: its heartbeat and its session.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LeaseRecord {
    pub node: NodeName,
    /// Its version. Every write changes it.
    pub version: Version,
    /// The node's session. None if the Lease is blank: it
    /// names no session of the node, or has no duration.
    pub session: Option<Session>,
    /// Sessions of the node that have ended, the latest last. The node itself
    /// ended them, or a candidate that expired it.
    pub ended: Vec<Session>,
    /// Validity of one renewal.
    pub duration: Duration,
    pub interfaces: Vec<NodeInterface>,
    /// True while the node leaves. It takes no more VIPs then.
    pub leaving: bool,
    /// Its offer of wire failover. None if it takes no part.
    pub wire: Option<Offer>,
    /// The state of its service proxy. None if it states nothing.
    pub proxy: Option<Proxy>,
}

impl LeaseRecord {
    /// Returns the node's live session: the one in the Lease, unless it has ended.
    pub fn live_session(&self) -> Option<Session> {
        self.session.filter(|session| !self.ended.contains(session))
    }

    /// Returns true if another node has created the Lease: it lists ended sessions, and describes
    /// nothing.
    pub(crate) fn is_anothers(&self) -> bool {
        self.session.is_none() && self.wire.is_none() && self.interfaces.is_empty()
    }
}
