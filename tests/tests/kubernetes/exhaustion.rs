//! A namespace that asks for more than its share leaves the others theirs.

use std::net::Ipv4Addr;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use ipnet::Ipv4Net;
use vipward_tests::{
    agent::{VIP, ip},
    cluster::{Cluster, ClusterOptions, PATIENCE, SEGMENT, ServiceSpec, scenario},
};

/// The large subnet of the segment, beside the usual one.
const LARGE: Ipv4Addr = Ipv4Addr::new(10, 65, 0, 0);
const LENGTH: u8 = 16;
/// The limit of addresses by default.
const MOST: usize = 16;
/// Time between two looks.
const POLL: Duration = Duration::from_millis(500);
/// Time in which a fault would show.
const A_WHILE: Duration = Duration::from_secs(3);

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
fn a_service_has_at_most_sixteen_addresses() -> Result<()> {
    const ASKED: usize = 5_000;
    scenario("sixteen", ClusterOptions::default(), |cluster| {
        cluster.add_tenant("b")?;
        enlarge(cluster)?;
        cluster.create_service(&greedy(0, ASKED)?)?;
        let took = time_until_held(cluster, "modest", VIP)?;
        eprintln!("beside {ASKED} addresses: held after {took:?}");
        let limit = format!("it asks for {ASKED} addresses, and a Service may have {MOST} (--max-addresses)");
        cluster.wait_for_event("b/greedy-0", &[&limit])?;
        cluster.wait_until_held(large(MOST - 1)?)?;
        let full = Instant::now();
        while cluster.ingress("b/greedy-0")?.len() < MOST {
            ensure!(full.elapsed() < PATIENCE, "its status has {:?}", cluster.ingress("b/greedy-0")?);
            sleep(POLL);
        }
        sleep(A_WHILE);
        assert_eq!(cluster.virtual_ips()?.len(), MOST + 1);
        let first = (0..MOST).map(|number| Ok(large(number)?.to_string())).collect::<Result<Vec<_>>>()?;
        assert_eq!(cluster.ingress("b/greedy-0")?, first);
        Ok(())
    })
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

#[test]
fn a_namespace_has_at_most_as_many_vips_as_an_admin_allows_and_keeps_those_it_has() -> Result<()> {
    let args = vec!["--max-vips-per-namespace".to_owned(), "2".to_owned()];
    scenario("limit", ClusterOptions { args, ..ClusterOptions::default() }, |cluster| {
        let [first, second, third] = [VIP, ip(20), ip(21)];
        cluster.add_tenant("b")?;
        for (name, vip) in [("first", first), ("second", second)] {
            cluster.create_service(&ServiceSpec::new(name, vip))?;
            cluster.wait_until_held(vip)?;
            cluster.wait_for_ingress(name, vip)?;
        }
        cluster.create_service(&ServiceSpec::new("third", third))?;
        let limit = "its namespace has 2 VIPs, and may have no more (--max-vips-per-namespace)";
        cluster.wait_for_event("third", &[&third.to_string(), "is not announced", limit])?;
        // Other namespaces have their own number.
        cluster.create_service(&ServiceSpec::new("b/web", ip(22)))?;
        cluster.wait_until_held(ip(22))?;

        let watch = cluster.watch(&[first, second])?;
        watch.step("all agents start anew");
        for id in cluster.ids() {
            cluster.kill9(id)?;
        }
        for id in cluster.ids() {
            cluster.start_agent(id)?;
        }
        cluster.wait_until_all_renew()?;
        watch.let_pass(A_WHILE)?;
        let seen = watch.stop()?;
        for vip in [first, second] {
            seen.assert_seamless(vip);
        }
        assert_eq!((cluster.holder(third)?, cluster.ingress("third")?), (None, Vec::new()));

        cluster.stop_delivering(first)?;
        ensure!(cluster.delete_service("first")?, "it was not there");
        cluster.wait_until_held(third)?;
        cluster.wait_for_ingress("third", third)
    })
}
