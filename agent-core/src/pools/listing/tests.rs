use super::*;
use crate::records::{ClaimState, ServiceName};

fn pool(name: &str, addresses: &[&str]) -> PoolRecord {
    let addresses = addresses.iter().map(|text| (*text).into()).collect();
    PoolRecord { name: name.into(), auto_assign: true, addresses, ..PoolRecord::default() }
}

fn claim(vip: &str, name: &str, from: Option<&str>) -> ClaimRecord {
    let service = ServiceName { namespace: "a".into(), name: name.into() };
    ClaimRecord {
        state: ClaimState::Released,
        reservation: Some(Box::new(Reservation { service, pool: from.map(Into::into), kept: None })),
        ..ClaimRecord::blank(vip.parse().expect("an address"), "1".into())
    }
}

fn kept(vip: &str, name: &str, until: Option<i64>) -> ClaimRecord {
    let mut claim = claim(vip, name, Some("lan"));
    claim.reservation.as_mut().expect("it is reserved").kept = Some(until);
    claim
}

#[test]
fn a_pool_has_its_numbers_by_family_and_what_cannot_be_used() {
    let pools = [
        pool("lan", &["192.0.2.0/29", "2001:db8::/64"]),
        pool("bad", &["192.0.2.9/29"]),
        PoolRecord { created: 1, ..pool("late", &["192.0.2.4-192.0.2.8"]) },
    ];
    let claims = [
        claim("192.0.2.1", "web", Some("lan")),
        kept("192.0.2.2", "old", None),
        claim("2001:db8::1", "web", Some("lan")),
        ClaimRecord { reservation: None, ..claim("192.0.2.3", "b", None) },
    ];
    let list = list(pools, &claims);
    let numbers =
        |row: &FamilyRow| [&row.family, &row.used, &row.kept, &row.free, &row.total].map(String::clone);
    let names: Vec<_> = list.pools.iter().map(|row| row.pool.as_str()).collect();
    assert_eq!(names, ["bad", "lan", "late"]);
    assert_eq!(
        list.pools[1].families.iter().map(numbers).collect::<Vec<_>>(),
        [["IPv4", "1", "1", "4", "6"], ["IPv6", "1", "0", "18446744073709551614", "18446744073709551615"]]
            .map(|row| row.map(str::to_owned))
    );
    assert_eq!(list.pools[1].problem, None);
    assert_eq!(list.pools[0].families, []);
    let says = |row: &PoolRow| row.problem.clone().unwrap_or_default();
    assert!(says(&list.pools[0]).starts_with("addresses[0]: \"192.0.2.9/29\" is an address in"));
    assert!(says(&list.pools[2]).starts_with("it gives out nothing: VIPPool lan, which is older"));
}

#[test]
fn an_address_has_its_service_its_pool_and_the_time_for_which_it_is_kept() {
    let pools = [pool("lan", &["192.0.2.8/29"]), pool("other", &["192.0.2.16/29"])];
    let claims = [
        ClaimRecord { release: true, ..claim("192.0.2.20", "moved", Some("lan")) },
        claim("192.0.2.1", "stays", Some("lan")),
        kept("192.0.2.9", "kept", Some(1_767_225_600)),
        kept("192.0.2.10", "for-ever", None),
        claim("198.51.100.1", "asked", None),
    ];
    let list = list(pools, &claims);
    let row = |row: &AddressRow| {
        let pool = row.pool.clone().unwrap_or_default();
        let until = row.kept_until.clone().unwrap_or_default();
        format!("{} {} [{pool}] {} [{until}] {}", row.address, row.service, row.in_pool, row.releasing)
    };
    assert_eq!(
        list.addresses.iter().map(row).collect::<Vec<_>>(),
        [
            "192.0.2.1 a/stays [lan] false [] false",
            "192.0.2.9 a/kept [lan] true [2026-01-01T00:00:00Z] false",
            "192.0.2.10 a/for-ever [lan] true [forever] false",
            "192.0.2.20 a/moved [other] true [] true",
            "198.51.100.1 a/asked [] false [] false",
        ]
    );
    let only = list.clone().only("lan").expect("there is one");
    assert_eq!((only.pools.len(), only.addresses.len()), (1, 3));
    assert_eq!(list.only("none"), None);
}
