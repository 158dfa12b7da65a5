//! A namespace that requests more than its share leaves the others their shares.

use std::net::Ipv4Addr;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use ipnet::Ipv4Net;
use vipward_tests::{
    agent::ip,
    cluster::{Cluster, ClusterOptions, PATIENCE, SEGMENT, ServiceSpec, scenario},
};

/// The large subnet of the segment, beside the usual one.
const LARGE: Ipv4Addr = Ipv4Addr::new(10, 65, 0, 0);
const LENGTH: u8 = 16;
/// The limit of addresses by default.
const MOST: usize = 16;
/// Time between two looks.
const POLL: Duration = Duration::from_millis(500);

/// Gives each node an address in the large subnet.
fn enlarge(cluster: &Cluster) -> Result<()> {
    for (id, host) in cluster.ids().into_iter().zip(1..) {
        let own = Ipv4Net::new(u32::from(LARGE).wrapping_add(host).into(), LENGTH)?;
        cluster.member(id)?.host.add_address(SEGMENT, own)?;
    }
    cluster.wait_until_all_renew()
}

/// Returns an address in the large subnet that no node has.
fn large(number: usize) -> Result<Ipv4Addr> {
    let number = u32::try_from(number).context("a small number")?;
    Ok(Ipv4Addr::from(u32::from(LARGE) + 256 + number))
}

/// Returns a Service with `count` addresses of the large subnet.
fn greedy(number: usize, count: usize) -> Result<ServiceSpec> {
    let addresses = (number * count..(number + 1) * count).map(|address| Ok(large(address)?.to_string()));
    let addresses = addresses.collect::<Result<Vec<_>>>()?.join(",");
    let service = ServiceSpec::without_address(&format!("b/greedy-{number}"));
    Ok(service.annotation("vipward.io/addresses", &addresses))
}

/// Returns the time from the creation of a Service until its VIP is held.
fn time_until_held(cluster: &Cluster, name: &str, vip: Ipv4Addr) -> Result<Duration> {
    let created = Instant::now();
    cluster.create_service(&ServiceSpec::new(name, vip))?;
    cluster.wait_until_held(vip)?;
    Ok(created.elapsed())
}

#[test]
fn a_new_service_does_not_wait_for_the_hundreds_of_another_namespace() -> Result<()> {
    const SERVICES: usize = 300;
    const ALL: usize = SERVICES * MOST;
    scenario("fair", ClusterOptions::default(), |cluster| {
        cluster.add_tenant("b")?;
        enlarge(cluster)?;
        let alone = time_until_held(cluster, "alone", ip(30))?;
        let began = Instant::now();
        for number in 0..SERVICES {
            cluster.create_service(&greedy(number, MOST)?)?;
        }
        let before = cluster.virtual_ips()?.len();
        let took = time_until_held(cluster, "modest", ip(31))?;
        let claims = cluster.virtual_ips()?.len() - before;
        eprintln!(
            "alone: held after {alone:?}; beside {SERVICES} Services: after {took:?}, {claims} claims meanwhile"
        );
        assert!(claims < ALL / 2, "{claims} went before it");
        // A busy machine takes long for all of them. A pause without progress is a fault.
        let (mut taken, mut last) = (0, Instant::now());
        while taken < ALL + 2 {
            let now = cluster.virtual_ips()?.len();
            if now > taken {
                (taken, last) = (now, Instant::now());
            }
            ensure!(last.elapsed() < PATIENCE, "only {taken} of {} were taken", ALL + 2);
            sleep(POLL);
        }
        eprintln!("all: after {:?}", began.elapsed());
        Ok(())
    })
}
