//! Ranges of addresses, as a pool's text has them.

use std::{fmt, net::IpAddr, str::FromStr};

#[cfg(test)]
use std::cell::Cell;

use ipnet::IpNet;
use thiserror::Error;

use super::Family;
use crate::base::{
    address::{NeverAVip, ends},
    legible::Excerpt,
};

/// Largest number of ranges of a pool.
pub const MOST_RANGES: usize = 256;

/// Addresses from a first one to a last one, both included, of one family. None of the two is an
/// address that can never be a VIP.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct AddressRange {
    first: IpAddr,
    last: IpAddr,
    /// The network that it was written as.
    subnet: Option<IpNet>,
}

#[cfg(test)]
thread_local! {
    /// Number of times that this thread has inspected a range.
    pub(super) static LOOKS: Cell<usize> = const { Cell::new(0) };
}

/// Counts an inspection of a range, for the tests.
fn looked() {
    #[cfg(test)]
    LOOKS.set(LOOKS.get() + 1);
}

#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum RangeError {
    #[error(
        "{text:?} is no address, network or range; write 192.0.2.10, 192.0.2.0/28 or 192.0.2.10-192.0.2.20"
    )]
    Unreadable { text: Excerpt },
    #[error("{text:?} is an address in {net}; write {net} for the whole network, or the address alone")]
    HostBits { text: Excerpt, net: IpNet },
    #[error("{text:?} begins with an address of one family and ends with one of the other; write two ranges")]
    TwoFamilies { text: Excerpt },
    #[error("{text:?} ends before it begins; swap its two addresses")]
    Backwards { text: Excerpt },
    #[error("{text:?} has {address}, {why}; choose addresses from the segment's subnet")]
    NeverAVip { text: Excerpt, address: IpAddr, why: NeverAVip },
}

impl AddressRange {
    pub fn family(&self) -> Family {
        Family::of(self.first)
    }

    pub fn contains(&self, address: IpAddr) -> bool {
        looked();
        (self.first..=self.last).contains(&address) && Family::of(address) == self.family()
    }

    pub fn overlaps(&self, other: &Self) -> bool {
        looked();
        self.family() == other.family() && self.first <= other.last && other.first <= self.last
    }

    pub fn first(&self) -> IpAddr {
        self.first
    }

    pub fn last(&self) -> IpAddr {
        self.last
    }

    /// Returns the numbers of its first address and of the one after its last, with the family. The
    /// last address of a family is no VIP.
    pub(super) fn edges(&self) -> [(Family, u128); 2] {
        looked();
        [number(self.first), number(self.last) + 1].map(|number| (self.family(), number))
    }

    /// Returns the addresses of the subnet, if it was written as one, that no host can have.
    pub(super) fn ends(&self) -> impl Iterator<Item = IpAddr> {
        self.subnet.iter().flat_map(ends).map(|(address, _)| address)
    }

    /// Reads a network as its writer's tools read it: bits behind the prefix have no effect.
    pub fn of_network(text: &str) -> Result<Self, RangeError> {
        match text.trim().parse::<IpNet>() {
            Ok(net) => Self::of_net(text.trim(), net.trunc()),
            Err(_) => text.parse(),
        }
    }

    fn of_net(text: &str, net: IpNet) -> Result<Self, RangeError> {
        Self::between(text, net.network(), net.broadcast(), Some(net))
    }

    fn between(text: &str, first: IpAddr, last: IpAddr, subnet: Option<IpNet>) -> Result<Self, RangeError> {
        let text = || text.into();
        if Family::of(first) != Family::of(last) {
            return Err(RangeError::TwoFamilies { text: text() });
        }
        if last < first {
            return Err(RangeError::Backwards { text: text() });
        }
        let never = |address| NeverAVip::of(address).map(|why| (address, why));
        match never(first).or_else(|| never(last)) {
            Some((address, why)) => Err(RangeError::NeverAVip { text: text(), address, why }),
            None => Ok(Self { first, last, subnet }),
        }
    }
}

impl FromStr for AddressRange {
    type Err = RangeError;

    fn from_str(text: &str) -> Result<Self, RangeError> {
        let text = text.trim();
        let unreadable = || RangeError::Unreadable { text: text.into() };
        if let Some((first, last)) = text.split_once('-') {
            let address = |part: &str| part.trim().parse::<IpAddr>().map_err(|_| unreadable());
            return Self::between(text, address(first)?, address(last)?, None);
        }
        if let Ok(address) = text.parse::<IpAddr>() {
            return Self::between(text, address, address, None);
        }
        let net: IpNet = text.parse().map_err(|_| unreadable())?;
        if net.addr() != net.network() {
            return Err(RangeError::HostBits { text: text.into(), net: net.trunc() });
        }
        Self::of_net(text, net)
    }
}

impl fmt::Display for AddressRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.first == self.last {
            write!(f, "{}", self.first)
        } else {
            write!(f, "{}-{}", self.first, self.last)
        }
    }
}

pub(super) fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => v4.to_bits().into(),
        IpAddr::V6(v6) => v6.to_bits(),
    }
}
