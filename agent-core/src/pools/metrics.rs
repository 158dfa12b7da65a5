//! The pools of `MetalLB`'s under the metric names of its own controller, for its dashboards and alerts.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
};

use super::{Allocator, Counts, Family, PoolState};
use crate::records::{PoolKind, ServiceName};

#[cfg(test)]
mod tests;

/// What a metric counts of one family of a pool.
type Count = fn(&Counts) -> u128;

/// Each name, without family, with its help and its count.
const NUMBERS: [(&str, &str, Count); 2] = [
    ("addresses_total", "Addresses that the pool gives out", |counts| counts.total),
    ("addresses_in_use_total", "Addresses of the pool that are reserved or kept", |counts| {
        counts.allocated + counts.kept
    }),
];

/// Returns the gauges in the text format of Prometheus. They have one series for each `IPAddressPool`.
pub fn metallb_metrics(allocator: &Allocator) -> String {
    let pools: Vec<(&str, PoolState)> = allocator
        .pools()
        .filter_map(|(pool, state)| match PoolKind::of(&pool.record.name) {
            (PoolKind::IpAddressPool, name) => Some((name, state)),
            (PoolKind::VipPool, _) => None,
        })
        .collect();
    let mut page = String::new();
    for (name, help, count) in NUMBERS {
        for (prefix, families) in
            [("", &[Family::V4, Family::V6][..]), ("ipv4_", &[Family::V4]), ("ipv6_", &[Family::V6])]
        {
            let of = |state: &PoolState| {
                let counts = families.iter().filter_map(|family| state.counts.get(family));
                counts.map(count).fold(0, u128::saturating_add)
            };
            let rows = pools.iter().map(|(pool, state)| (*pool, of(state)));
            gauge(&mut page, &format!("{prefix}{name}"), help, rows);
        }
    }
    let mut services = BTreeMap::<&str, BTreeSet<&ServiceName>>::new();
    for (_, reservation) in allocator.reservations().filter(|(_, reservation)| reservation.kept.is_none()) {
        if let Some((PoolKind::IpAddressPool, pool)) = reservation.pool.as_deref().map(PoolKind::of) {
            services.entry(pool).or_default().insert(&reservation.service);
        }
    }
    let number = |pool: &str| services.get(pool).map_or(0, |services| services.len() as u128);
    let rows = pools.iter().map(|(pool, _)| (*pool, number(pool)));
    gauge(
        &mut page,
        "services_allocated_total",
        "Services for which an address of the pool is reserved",
        rows,
    );
    page
}

fn gauge<'a>(page: &mut String, name: &str, help: &str, rows: impl Iterator<Item = (&'a str, u128)>) {
    let name = format!("metallb_allocator_{name}");
    let mut line = |text: std::fmt::Arguments<'_>| {
        page.write_fmt(text).expect("invariant: a String takes everything");
        page.push('\n');
    };
    line(format_args!("# HELP {name} {help}"));
    line(format_args!("# TYPE {name} gauge"));
    for (pool, number) in rows {
        // An object's name has no character that would need an escape.
        line(format_args!("{name}{{pool=\"{pool}\"}} {number}"));
    }
}
