use std::sync::Arc;

use super::*;
use crate::{
    pools::{Event, PoolRecord, Surroundings},
    records::Reservation,
};

struct Open;

impl Surroundings for Open {
    fn refuses(&self, _: std::net::IpAddr) -> bool {
        false
    }

    fn is_free(&self, _: std::net::IpAddr) -> bool {
        true
    }
}

#[test]
fn each_pool_of_metallbs_has_its_series_and_a_vippool_has_none() {
    let pool = |name: Arc<str>, addresses: &[&str]| {
        let addresses = addresses.iter().map(|text| (*text).into()).collect();
        Event::Pool(Box::new(PoolRecord { name, addresses, use_ends: true, ..PoolRecord::default() }))
    };
    let object = |vip: &str, kept| {
        let service = ServiceName { namespace: "default".into(), name: "web".into() };
        let pool = Some(PoolKind::IpAddressPool.key("lan"));
        Event::Object {
            vip: vip.parse().expect("an address"),
            reservation: Some(Reservation { service, pool, kept }),
            release: false,
            services: Vec::new(),
        }
    };
    let mut allocator = Allocator::default();
    for event in [
        pool(PoolKind::IpAddressPool.key("lan"), &["192.0.2.0/30", "2001:db8::/126"]),
        pool("own".into(), &["192.0.2.8/30"]),
        object("192.0.2.1", None),
        object("2001:db8::1", None),
        object("192.0.2.2", Some(None)),
        Event::Synced,
    ] {
        allocator.on_event(event, &Open);
    }
    let page = metallb_metrics(&allocator);
    let series: Vec<_> = page.lines().filter(|line| !line.starts_with('#')).collect();
    let expected = [
        "metallb_allocator_addresses_total{pool=\"lan\"} 8",
        "metallb_allocator_ipv4_addresses_total{pool=\"lan\"} 4",
        "metallb_allocator_ipv6_addresses_total{pool=\"lan\"} 4",
        "metallb_allocator_addresses_in_use_total{pool=\"lan\"} 3",
        "metallb_allocator_ipv4_addresses_in_use_total{pool=\"lan\"} 2",
        "metallb_allocator_ipv6_addresses_in_use_total{pool=\"lan\"} 1",
        "metallb_allocator_services_allocated_total{pool=\"lan\"} 1",
    ];
    assert_eq!(series, expected);
    assert_eq!(page.matches("# TYPE metallb_allocator_").count(), expected.len());
}
