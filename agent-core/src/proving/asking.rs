//! The hosts that are asked for an answer, and the requests to them.

use std::net::Ipv4Addr;

use ipnet::Ipv4Net;
use vipward_common::{ArpFrame, MacAddr, OPER_REQUEST};

use crate::net::{Interface, NetView};

/// The most hosts that are asked in a round.
pub const MOST_ASKED: usize = 8;

/// Returns the addresses of hosts on a segment that should answer: gateways, then `peers`. There are
/// at most [`MOST_ASKED`]. Those that `is_held` are this host's to answer for, so nobody else does.
pub fn targets(
    view: &NetView,
    segment: u32,
    peers: impl IntoIterator<Item = Ipv4Addr>,
    is_held: impl Fn(Ipv4Addr) -> bool,
) -> Vec<Ipv4Addr> {
    let own = |address: Ipv4Addr| {
        view.interfaces.values().any(|it| it.addresses.iter().any(|net| net.addr() == address))
    };
    let routes = || view.routes.iter().filter(|route| route.interface == segment);
    let is_near = |address: &Ipv4Addr| routes().any(|route| route.prefix.contains(address));
    let mut targets = Vec::new();
    for address in view.next_hops.iter().copied().chain(peers).filter(is_near) {
        if targets.len() < MOST_ASKED && !targets.contains(&address) && !own(address) && !is_held(address) {
            targets.push(address);
        }
    }
    targets
}

/// The sender of requests on a segment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Asker {
    mac: MacAddr,
    nets: Vec<Ipv4Net>,
}

impl Asker {
    /// Returns the sender with an interface's MAC and its own addresses, without VIPs: a request
    /// would announce them.
    pub fn new(interface: &Interface, is_vip: impl Fn(Ipv4Addr) -> bool) -> Self {
        let nets = interface.foreign_addresses().filter(|net| !is_vip(net.addr()));
        Self { mac: interface.mac, nets: nets.collect() }
    }

    /// Returns the request for an address. Without an own address in its subnet it is a probe, which
    /// hosts answer too (RFC 5227, 2.1.1).
    pub fn request(&self, address: Ipv4Addr) -> ArpFrame {
        let own = self.nets.iter().find(|net| net.contains(&address));
        let spa = own.map_or(Ipv4Addr::UNSPECIFIED, Ipv4Net::addr);
        let (everybody, zero) = (MacAddr::BROADCAST, MacAddr::ZERO);
        ArpFrame::new(everybody, self.mac, OPER_REQUEST, self.mac, spa.octets(), zero, address.octets())
    }
}
