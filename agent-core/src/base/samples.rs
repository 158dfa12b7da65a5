//! VIPs and MACs for tests.

use std::net::IpAddr;

use vipward_common::{MacAddr, VipKey};

use crate::base::address::octets;

pub(crate) const HOLDER: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);

/// Returns one of the hosts that claim VIPs.
pub(crate) fn stranger(number: u16) -> MacAddr {
    let [high, low] = number.to_be_bytes();
    MacAddr([2, 0, 0, 9, high, low])
}

/// Returns one of the VIPs on the segment.
pub(crate) fn key(host: u16) -> VipKey {
    let [high, low] = host.to_be_bytes();
    VipKey::new(3, [10, 0, high, low])
}

/// Returns the last byte of an address, by which tests tell VIPs apart.
pub(crate) fn last_octet(address: IpAddr) -> u8 {
    octets(address).last().expect("invariant: an address has bytes")
}
