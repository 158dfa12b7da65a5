//! Pools of addresses, and who has which of their addresses.
//!
//! A pool is a `VIPPool` object, or an `IPAddressPool` of `MetalLB`'s. The controller gives a
//! Service that asks for no address of its own one of a pool, and reserves it by the `VirtualIP`
//! object that the address names: the creation of that object decides between two controllers.
//! docs/POOLS.md has the rules.

mod allocator;
pub mod election;
mod l2_advertisement;
mod listing;
mod metrics;
mod policy;
mod pool;
mod range;
#[cfg(test)]
mod tests;

use std::net::IpAddr;

pub use self::{
    allocator::{
        Allocator, Command, Counts, Event, Expected, Fit, Lack, PoolState, Prospect, Request,
        ReservationWrite, Surroundings,
    },
    l2_advertisement::{L2Advertisement, L2AdvertisementRecord},
    listing::{AddressRow, FamilyRow, PoolList, PoolRow, list},
    metrics::metallb_metrics,
    policy::{AnnounceRecord, Policies},
    pool::{Choice, Keep, MOST_RANGES, Pool, PoolFault, PoolFaultKind, PoolRecord, Sharing},
    range::{AddressRange, RangeError},
};
pub use super::records::{
    Allowance, PoolPolicy, Reservation,
    pool_kind::{PoolKind, Shown},
};

/// An address family.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Family {
    V4,
    V6,
}

impl Family {
    /// Returns the family of an address.
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

    fn address(self, number: u128) -> IpAddr {
        match self {
            Self::V4 => IpAddr::V4(u32::try_from(number).expect("invariant: an IPv4 address").into()),
            Self::V6 => IpAddr::V6(number.into()),
        }
    }
}
