//! The rules about addresses that both families share.

use std::net::{IpAddr, Ipv4Addr};

use ipnet::IpNet;
use thiserror::Error;
use vipward_common::MacAddr;

/// The first of all addresses in their order.
pub(crate) const FIRST: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Error)]
pub enum NeverAVip {
    /// 0.0.0.0/8 or `::`.
    #[error("an address that means \"this host\"")]
    ThisHost,
    /// 127.0.0.0/8 or `::1`.
    #[error("a loopback address")]
    Loopback,
    /// 224.0.0.0/4 or `ff00::/8`.
    #[error("a multicast address")]
    Multicast,
    /// 240.0.0.0/4.
    #[error("a broadcast or reserved address")]
    Reserved,
    /// `::ffff:0:0/96`.
    #[error("an IPv4 address in the form of IPv6")]
    Mapped,
    /// 169.254.0.0/16 or `fe80::/10`.
    #[error("a link-local address")]
    LinkLocal,
}

impl NeverAVip {
    /// Returns the reason, if `address` can never be a VIP.
    pub fn of(address: IpAddr) -> Option<Self> {
        let is_reserved = |first: u8| first >= 240;
        match address {
            IpAddr::V4(v4) if v4.octets()[0] == 0 => Some(Self::ThisHost),
            _ if address.is_unspecified() => Some(Self::ThisHost),
            _ if address.is_loopback() => Some(Self::Loopback),
            _ if address.is_multicast() => Some(Self::Multicast),
            IpAddr::V4(v4) if is_reserved(v4.octets()[0]) => Some(Self::Reserved),
            IpAddr::V4(v4) if v4.is_link_local() => Some(Self::LinkLocal),
            IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some() => Some(Self::Mapped),
            IpAddr::V6(v6) if v6.is_unicast_link_local() => Some(Self::LinkLocal),
            IpAddr::V4(_) | IpAddr::V6(_) => None,
        }
    }
}

/// Reads a MAC: six hexadecimal bytes with colons or hyphens.
pub(crate) fn mac(text: &str) -> Option<MacAddr> {
    let mut octets = [0; 6];
    let mut parts = text.split([':', '-']);
    for octet in &mut octets {
        let is_byte = |part: &&str| part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_hexdigit());
        *octet = parts.next().filter(is_byte).and_then(|part| u8::from_str_radix(part, 16).ok())?;
    }
    parts.next().is_none().then_some(MacAddr(octets))
}

/// Returns true if `net` is one address and no subnet: a /32 or /128.
pub fn is_host(net: &IpNet) -> bool {
    net.prefix_len() == net.max_prefix_len()
}

/// Returns true if `net` has no more than two addresses, which are both hosts' (RFC 3021, RFC 6164).
pub(crate) fn is_point_to_point(net: &IpNet) -> bool {
    net.prefix_len() + 1 >= net.max_prefix_len()
}

/// An address of a subnet that no host can have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum End {
    /// The first of an IPv4 subnet.
    Network,
    /// The last of an IPv4 subnet.
    Broadcast,
    /// The first of an IPv6 subnet (RFC 4291, 2.6.1).
    Routers,
}

/// Returns the addresses of a subnet that no host can have. Point-to-point subnets have none.
pub(crate) fn ends(subnet: &IpNet) -> impl Iterator<Item = (IpAddr, End)> + use<> {
    let (first, last) = match subnet {
        IpNet::V4(_) => (End::Network, Some((subnet.broadcast(), End::Broadcast))),
        IpNet::V6(_) => (End::Routers, None),
    };
    let is_subnet = !is_point_to_point(subnet);
    [Some((subnet.network(), first)), last].into_iter().flatten().filter(move |_| is_subnet)
}

/// Returns the bytes of the address, in wire order.
pub(crate) fn octets(address: IpAddr) -> impl Iterator<Item = u8> {
    let (octets, len) = match address {
        IpAddr::V4(v4) => (v4.to_ipv6_compatible().octets(), 4),
        IpAddr::V6(v6) => (v6.octets(), 16),
    };
    octets.into_iter().skip(16 - len)
}

/// Mixes the bits of a number (the finisher of `SplitMix64`).
pub(crate) const fn mix(number: u64) -> u64 {
    let mut mixed = number;
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}

/// Returns the address as a number that spreads well.
pub(crate) fn number(address: IpAddr) -> u64 {
    match address {
        IpAddr::V4(v4) => v4.to_bits().into(),
        IpAddr::V6(v6) => {
            let octets = v6.octets();
            let half = |octets: &[u8]| octets.iter().fold(0, |half, octet| half << 8 | u64::from(*octet));
            mix(half(&octets[..8])) ^ half(&octets[8..])
        }
    }
}

#[cfg(test)]
mod tests;
