//! The families of addresses.

use std::net::IpAddr;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Family {
    V4,
    V6,
}

impl Family {
    pub fn of(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(_) => Self::V4,
            IpAddr::V6(_) => Self::V6,
        }
    }

    /// Returns its name in Kubernetes.
    pub fn name(self) -> &'static str {
        match self {
            Self::V4 => "IPv4",
            Self::V6 => "IPv6",
        }
    }

    /// Returns the first address of the family.
    pub(crate) fn first(self) -> IpAddr {
        self.address(0)
    }

    pub(super) fn address(self, number: u128) -> IpAddr {
        match self {
            Self::V4 => IpAddr::V4(u32::try_from(number).expect("invariant: an IPv4 address").into()),
            Self::V6 => IpAddr::V6(number.into()),
        }
    }
}
