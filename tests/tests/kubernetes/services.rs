//! Services come, change and go.

mod sharing;
mod waiting;

use std::net::Ipv4Addr;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use vipward_tests::{
    agent::{VIP, ip},
    cluster::{ClusterOptions, PATIENCE, ServiceSpec, scenario},
};

const SECOND: Ipv4Addr = ip(20);
const THIRD: Ipv4Addr = ip(21);
/// Longest time until a new Service is answered.
const SOON: Duration = Duration::from_secs(1);
/// Time in which a fault would show.
const A_WHILE: Duration = Duration::from_secs(3);

#[test]
fn a_service_is_answered_for_within_a_second_of_its_creation_and_no_more_after_its_deletion() -> Result<()> {
    scenario("created", ClusterOptions::default(), |cluster| {
        cluster.wait_until_all_renew()?;
        let monitor = cluster.monitor(&[VIP])?;
        monitor.wait_for_requests(50, PATIENCE)?;
        let created = monitor.note("the Service is created");
        cluster.create_service(&ServiceSpec::new("web", VIP))?;
        let holder = cluster.wait_until_held(VIP)?;
        cluster.wait_for_ingress("web", VIP)?;
        let announced = format!("{VIP} is announced from {}", cluster.node_name(holder));
        cluster.wait_for_event("web", &[&announced])?;

        let report = monitor.stop()?;
        let wire = report.vip(VIP)?;
        let answered = wire.first_answered_after(created).context("it is held, and never answered")?;
        let took = answered.duration_since(created)?;
        assert!(took <= SOON, "it took {took:?} until a request was answered:\n{report}");
        let gaps = wire.gaps();
        assert_eq!(gaps.len(), 1, "it was answered before it was there, or not throughout:\n{report}");
        assert!(wire.answers_by().keys().all(|by| by.sha == holder.mac()), "others answered too:\n{report}");
        assert!(wire.first_announced_after(created, holder.mac()).is_some(), "not announced:\n{report}");

        ensure!(cluster.delete_service("web")?, "the Service was not there");
        cluster.wait_until_gone(VIP)?;
        cluster.wait_until_forgotten(VIP)?;
        let monitor = cluster.monitor(&[VIP])?;
        monitor.wait_until_silent(VIP, A_WHILE, PATIENCE)?;
        let report = monitor.stop()?;
        assert!(report.vip(VIP)?.announcements.is_empty(), "it was still announced:\n{report}");
        assert_eq!(cluster.virtual_ips()?.len(), 0, "a claim came back");
        Ok(())
    })
}

#[test]
fn fifteen_changes_of_address_at_200_ms_end_in_one_vip_and_silence_at_the_api_server() -> Result<()> {
    scenario("changes", ClusterOptions::default(), |cluster| {
        const CHANGES: usize = 15;
        const PAUSE: Duration = Duration::from_millis(200);
        const ADDRESSES: [Ipv4Addr; 3] = [SECOND, THIRD, ip(22)];
        cluster.create_service(&ServiceSpec::new("still", VIP))?;
        cluster.create_service(&ServiceSpec::new("web", ADDRESSES[2]))?;
        cluster.wait_until_held(VIP)?;
        cluster.wait_for_ingress("still", VIP)?;
        cluster.wait_until_held(ADDRESSES[2])?;
        cluster.wait_for_ingress("web", ADDRESSES[2])?;
        let before = cluster.writes_beside_leases();
        let watch = cluster.watch(&[VIP])?;
        for change in 0..CHANGES {
            watch.step(format!("change {}", change + 1));
            cluster.set_address("web", ADDRESSES[change % ADDRESSES.len()])?;
            watch.let_pass(PAUSE)?;
        }
        let last = ADDRESSES[(CHANGES - 1) % ADDRESSES.len()];
        let holder = cluster.wait_until_held(last)?;
        cluster.wait_for_ingress("web", last)?;
        for old in ADDRESSES.into_iter().filter(|address| *address != last) {
            cluster.wait_until_gone(old)?;
            cluster.wait_until_forgotten(old)?;
        }
        watch.let_pass(A_WHILE)?;
        let after = cluster.writes_beside_leases();
        for change in 0..CHANGES {
            cluster.annotate_service("web", "example.com/note", Some(&change.to_string()))?;
            watch.let_pass(PAUSE)?;
        }
        assert_eq!(cluster.writes_beside_leases(), after, "the agents go on, or write about a note");
        watch.stop()?.assert_seamless(VIP);
        assert_eq!(cluster.answered_by(last)?, Some(holder));
        assert_eq!(cluster.ingress("web")?, [last.to_string()]);
        if let (Some(before), Some(after)) = (before, after) {
            // These are: a new claim, the two steps of its end, a status, an
            // Event and its twin about the VIP, and a retry.
            let limit = 7 * CHANGES as u64;
            assert!(after - before <= limit, "{} writes for {CHANGES} changes", after - before);
        }
        let (errors, _) = cluster.complaints()?;
        assert!(errors.is_empty(), "{errors:#?}");
        Ok(())
    })
}
