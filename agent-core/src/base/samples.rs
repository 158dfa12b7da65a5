//! VIPs and MACs for tests.

use std::{collections::BTreeMap, net::IpAddr};

use vipward_common::{MacAddr, VipKey};

use crate::base::{address::octets, time::Monotonic};

pub(crate) const HOLDER: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);

pub(crate) fn unknown_host(number: u16) -> MacAddr {
    let [high, low] = number.to_be_bytes();
    MacAddr([2, 0, 0, 9, high, low])
}

pub(crate) fn key(host: u16) -> VipKey {
    let [high, low] = host.to_be_bytes();
    VipKey::new(3, [10, 0, high, low])
}

/// Returns the last byte of an address, by which tests distinguish VIPs.
pub(crate) fn last_octet(address: IpAddr) -> u8 {
    octets(address).last().expect("invariant: an address has bytes")
}

pub(crate) fn at(millis: u64) -> Monotonic {
    Monotonic::from_nanos(millis * 1_000_000)
}

pub(crate) fn millis(time: Monotonic) -> u64 {
    time.as_nanos() / 1_000_000
}

pub(crate) fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

pub(crate) fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}
