//! The pools and the reserved addresses, as `vipward pools` shows them.

use std::net::IpAddr;

use schemars::JsonSchema;
use serde::Serialize;

use super::{Allocator, Counts, Event, Family, Pool, PoolRecord, PoolState, Surroundings};
use crate::{
    base::time::utc,
    records::{ClaimRecord, Reservation},
};

#[cfg(test)]
mod tests;

/// The `VIPPool` objects, and the addresses that the `VirtualIP` objects reserve. The numbers are
/// counted by the command, and need no controller that runs.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub struct PoolList {
    /// The pools, by name.
    pub pools: Vec<PoolRow>,
    /// The reserved addresses, in order. With a pool's name, only that pool's.
    pub addresses: Vec<AddressRow>,
}

/// A pool.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub struct PoolRow {
    /// Its name.
    pub pool: String,
    /// Its networks, ranges and addresses.
    pub addresses: Vec<String>,
    /// The numbers of its addresses, for each family that it has.
    pub families: Vec<FamilyRow>,
    /// True if Services get its addresses without naming it.
    pub auto_assign: bool,
    /// The pools with lower numbers come first.
    pub priority: i32,
    /// What of it cannot be used and why, or `null` when all of it can be used.
    pub problem: Option<String>,
}

/// Numbers of addresses of one family. They are texts, because a number of IPv6 addresses may be
/// larger than a JSON number.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, JsonSchema)]
pub struct FamilyRow {
    /// The family: `IPv4` or `IPv6`.
    pub family: String,
    /// Those reserved for Services.
    pub used: String,
    /// Those kept for Services that are gone.
    pub kept: String,
    /// Those that are free.
    pub free: String,
    /// All that the pool gives out.
    pub total: String,
}

/// A reserved address.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub struct AddressRow {
    /// The address.
    pub address: IpAddr,
    /// The Service that it is reserved for, as `namespace/name`.
    pub service: String,
    /// The pool that has it, else the pool that it is from; `null` when the Service requested an
    /// address of no pool.
    pub pool: Option<String>,
    /// True while that pool has it. What a pool has lost stays with its Service until it is
    /// released.
    pub in_pool: bool,
    /// Until when it is kept for a Service of that name (RFC 3339), or `forever`; `null` while the
    /// Service exists.
    pub kept_until: Option<String>,
    /// True while an admin wants it released.
    pub releasing: bool,
}

impl PoolList {
    /// Returns the list of one pool, if there is a pool of that name.
    pub fn only(self, name: &str) -> Option<Self> {
        let Self { mut pools, mut addresses } = self;
        pools.retain(|row| row.pool == name);
        addresses.retain(|row| row.pool.as_deref() == Some(name));
        (!pools.is_empty()).then_some(Self { pools, addresses })
    }
}

/// Counts need no surroundings: nothing is given out.
struct Nowhere;

impl Surroundings for Nowhere {
    fn refuses(&self, _: IpAddr) -> bool {
        true
    }

    fn is_free(&self, _: IpAddr) -> bool {
        false
    }
}

pub fn list(pools: impl IntoIterator<Item = PoolRecord>, claims: &[ClaimRecord]) -> PoolList {
    let mut allocator = Allocator::default();
    let pools = pools.into_iter().map(|record| Event::Pool(Box::new(record)));
    let objects = claims.iter().map(|claim| Event::Object {
        vip: claim.vip,
        reservation: claim.reservation.as_deref().cloned(),
        release: claim.release,
        services: claim.note.services.clone(),
    });
    for event in pools.chain(objects).chain([Event::Synced]) {
        // No command is carried out.
        allocator.on_event(event, &Nowhere);
    }
    let known: Vec<_> = allocator.pools().collect();
    let reserved = claims.iter().filter_map(|claim| Some((claim, claim.reservation.as_deref()?)));
    let mut addresses: Vec<_> =
        reserved.map(|(claim, reservation)| address(claim, reservation, &known)).collect();
    addresses.sort_by_key(|row| row.address);
    let row = |(pool, state): &(&Pool, PoolState)| {
        let faults = allocator.faults(&pool.record.name);
        PoolRow {
            pool: pool.record.name.to_string(),
            addresses: pool.record.addresses.iter().map(|text| text.trim().to_owned()).collect(),
            families: state.counts.iter().map(|(family, counts)| numbers(*family, counts)).collect(),
            auto_assign: pool.record.auto_assign,
            priority: pool.record.priority,
            problem: state.problem(faults),
        }
    };
    PoolList { pools: known.iter().map(row).collect(), addresses }
}

fn numbers(family: Family, counts: &Counts) -> FamilyRow {
    FamilyRow {
        family: family.name().to_owned(),
        used: counts.allocated.to_string(),
        kept: counts.kept.to_string(),
        free: counts.available().to_string(),
        total: counts.total.to_string(),
    }
}

fn address(claim: &ClaimRecord, reservation: &Reservation, pools: &[(&Pool, PoolState)]) -> AddressRow {
    let mut having = pools.iter().filter(|(pool, state)| state.overlap.is_none() && pool.contains(claim.vip));
    let now_in = having.next().map(|(pool, _)| &pool.record.name);
    AddressRow {
        address: claim.vip,
        service: reservation.service.to_string(),
        pool: now_in.or(reservation.pool.as_ref()).map(ToString::to_string),
        in_pool: now_in.is_some(),
        kept_until: reservation.kept.map(|until| until.map_or_else(|| "forever".to_owned(), utc)),
        releasing: claim.release,
    }
}
