//! Pools of addresses, and the Services that have them.
//!
//! A pool is a `VIPPool` object, or an `IPAddressPool` of `MetalLB`'s. The controller allocates a
//! pool's address to a Service that requests no certain one. It reserves the address by a
//! `VirtualIP` object of that name: the creation of the object decides between two controllers.
//! docs/kubernetes/pools.md has the rules.
//!
//! Rooms, lowest first. Each imports only rooms above it in this list.
//! - `family`: the two families of addresses.
//! - `range`: ranges of addresses, as a pool's text has them.
//! - `fault`: the faults of a pool's values.
//! - `announce`: where a pool's addresses may be announced, by its object.
//! - `pool`: one pool with its rules.
//! - `l2_advertisement`: `MetalLB`'s object for the same.
//! - `policy`: where each address may be announced.
//! - `allocator`: which Service gets which address.
//! - `listing`: the pools, as the command shows them.
//! - `metrics`: the pools, as `MetalLB`'s dashboards show them.
//! - `election`: which of several controllers leads.

mod allocator;
mod announce;
pub mod election;
mod family;
mod fault;
mod l2_advertisement;
mod listing;
mod metrics;
mod policy;
mod pool;
mod range;
#[cfg(test)]
mod tests;

pub use self::{
    allocator::{
        Allocator, Announcing, Apart, Command, Counts, Event, Expected, Fit, Given, Lack, Limits, PoolState,
        Prospect, Request, ReservationWrite, ShareKey, Surroundings,
    },
    announce::AnnounceRecord,
    family::Family,
    fault::{PoolFault, PoolFaultKind},
    l2_advertisement::{L2Advertisement, L2AdvertisementRecord},
    listing::{AddressRow, FamilyRow, PoolList, PoolRow, list},
    metrics::metallb_metrics,
    policy::{Change, Policies},
    pool::{Choice, Keep, Pool, PoolRecord, Sharing},
    range::{AddressRange, MOST_RANGES, RangeError},
};
pub use super::records::{
    Allowance, PoolPolicy, Reservation,
    pool_kind::{PoolKind, Shown},
};
