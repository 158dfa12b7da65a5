//! Services come, change and go.

use std::net::Ipv4Addr;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::json;
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
fn a_service_is_answered_for_within_a_second_of_its_creation() -> Result<()> {
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
        Ok(())
    })
}

#[test]
fn a_service_is_answered_for_by_one_node_and_silence_follows_its_deletion() -> Result<()> {
    scenario("deleted", ClusterOptions::default(), |cluster| {
        cluster.create_service(&ServiceSpec::new("web", VIP))?;
        let holder = cluster.wait_until_held(VIP)?;
        let watch = cluster.watch(&[VIP])?;
        watch.wait_until_received_by(VIP, holder)?;
        watch.stop()?.assert_seamless(VIP);

        cluster.stop_delivering(VIP)?;
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
fn a_service_that_changes_its_address_is_answered_for_at_the_new_one_only() -> Result<()> {
    scenario("changed", ClusterOptions::default(), |cluster| {
        cluster.create_service(&ServiceSpec::new("web", VIP))?;
        cluster.wait_until_held(VIP)?;
        cluster.wait_for_ingress("web", VIP)?;
        cluster.wait_until_all_renew()?;
        let monitor = cluster.monitor(&[VIP, SECOND])?;
        monitor.wait_until_answered(VIP, PATIENCE)?;

        let changed = monitor.note("the address changes");
        cluster.set_address("web", SECOND)?;
        cluster.wait_until_held(SECOND)?;
        cluster.wait_for_ingress("web", SECOND)?;
        cluster.wait_until_gone(VIP)?;
        cluster.wait_until_forgotten(VIP)?;
        monitor.wait_until_silent(VIP, A_WHILE, PATIENCE)?;

        let report = monitor.stop()?;
        let answered = report.vip(SECOND)?.first_answered_after(changed).context("never answered")?;
        let took = answered.duration_since(changed)?;
        assert!(took <= SOON, "it took {took:?} until the new address was answered:\n{report}");
        assert!(report.vip(SECOND)?.doubles().is_empty(), "two answered:\n{report}");
        assert_eq!(cluster.ingress("web")?, [SECOND.to_string()]);
        Ok(())
    })
}

#[test]
fn two_services_on_one_vip_share_its_holder_and_the_vip_leaves_with_the_last() -> Result<()> {
    scenario("shared", ClusterOptions::default(), |cluster| {
        cluster.create_service(&ServiceSpec::new("web", VIP))?;
        let holder = cluster.wait_until_held(VIP)?;
        let watch = cluster.watch(&[VIP])?;

        watch.step("a second Service asks for the VIP");
        cluster.create_service(&ServiceSpec::new("mail", VIP).port(25))?;
        cluster.wait_for_ingress("mail", VIP)?;
        watch.step("the first Service is deleted");
        ensure!(cluster.delete_service("web")?, "the Service was not there");
        let of_mail_only = |claim: Option<&serde_json::Value>| {
            let services = claim.and_then(|claim| claim["spec"]["services"].as_str());
            services.is_some_and(|services| services.ends_with("/mail") && !services.contains("/web"))
        };
        cluster.admin().wait_for(PATIENCE, &cluster.virtual_ip(VIP), "to be of one Service", of_mail_only)?;
        watch.let_pass(A_WHILE)?;
        watch.stop()?.assert_seamless(VIP);
        assert_eq!(cluster.holder(VIP)?, Some(holder), "it has moved");
        assert_eq!(cluster.ingress("mail")?, [VIP.to_string()]);

        cluster.stop_delivering(VIP)?;
        ensure!(cluster.delete_service("mail")?, "the Service was not there");
        cluster.wait_until_gone(VIP)?;
        cluster.wait_until_forgotten(VIP)
    })
}

#[test]
fn fifteen_changes_of_address_at_200_ms_end_in_one_vip_and_silence_at_the_api_server() -> Result<()> {
    scenario("changes", ClusterOptions::default(), |cluster| {
        const CHANGES: usize = 15;
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
            watch.let_pass(Duration::from_millis(200))?;
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
        watch.let_pass(A_WHILE)?;
        assert_eq!(cluster.writes_beside_leases(), after, "the agents go on writing");
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

#[test]
fn fifteen_changes_of_a_foreign_annotation_at_200_ms_change_nothing() -> Result<()> {
    scenario("notes", ClusterOptions::default(), |cluster| {
        cluster.create_service(&ServiceSpec::new("web", VIP))?;
        let holder = cluster.wait_until_held(VIP)?;
        cluster.wait_for_ingress("web", VIP)?;
        let announced = format!("{VIP} is announced from {}", cluster.node_name(holder));
        cluster.wait_for_event("web", &[&announced])?;
        let watch = cluster.watch(&[VIP])?;
        let before = cluster.writes_beside_leases();
        for change in 0..15 {
            cluster.annotate_service("web", "example.com/note", Some(&change.to_string()))?;
            watch.let_pass(Duration::from_millis(200))?;
        }
        assert_eq!(cluster.writes_beside_leases(), before, "the agents wrote about it");
        watch.stop()?.assert_seamless(VIP);
        assert_eq!(cluster.holder(VIP)?, Some(holder));
        Ok(())
    })
}

#[test]
fn a_service_of_a_foreign_class_is_left_alone() -> Result<()> {
    scenario("foreign", ClusterOptions::default(), |cluster| {
        cluster.create_service(&ServiceSpec::new("theirs", VIP).class("example.com/other"))?;
        // Once a later Service is served, the earlier one has been passed over.
        cluster.create_service(&ServiceSpec::new("ours", SECOND).class("vipward.io/l2"))?;
        cluster.wait_until_held(SECOND)?;
        cluster.wait_for_ingress("ours", SECOND)?;
        let monitor = cluster.monitor(&[VIP])?;
        monitor.wait_until_silent(VIP, A_WHILE, PATIENCE)?;
        let report = monitor.stop()?;
        assert_eq!(report.vip(VIP)?.answered(), 0, "{report}");
        for id in cluster.ids() {
            assert!(!cluster.knows(id, VIP)?, "{id} has an entry for it");
        }
        assert_eq!(cluster.virtual_ips()?.len(), 1);
        assert_eq!(cluster.ingress("theirs")?, [""; 0]);
        assert_eq!(cluster.events_about("theirs")?, []);
        Ok(())
    })
}

#[test]
fn a_service_that_goes_to_another_class_is_let_go_and_taken_up_when_it_returns() -> Result<()> {
    scenario("class", ClusterOptions::default(), |cluster| {
        cluster.create_service(&ServiceSpec::new("web", VIP).class("vipward.io/l2"))?;
        cluster.wait_until_held(VIP)?;
        cluster.wait_for_ingress("web", VIP)?;

        // A class cannot change alone: the Service has another type in between.
        let away =
            json!({"spec": {"type": "ClusterIP", "loadBalancerClass": null, "externalTrafficPolicy": null}});
        cluster.patch_service("web", &away)?;
        cluster.wait_until_gone(VIP)?;
        cluster.wait_until_forgotten(VIP)?;
        let theirs = json!({"spec": {"type": "LoadBalancer", "loadBalancerClass": "example.com/other"}});
        cluster.patch_service("web", &theirs)?;
        cluster.create_service(&ServiceSpec::new("ours", SECOND))?;
        cluster.wait_until_held(SECOND)?;
        assert_eq!(cluster.holder(VIP)?, None, "a Service of another class is served");
        assert_eq!(cluster.ingress("web")?, [""; 0], "what was written into its status is still there");

        cluster.patch_service("web", &away)?;
        let ours = json!({"spec": {"type": "LoadBalancer", "loadBalancerClass": "vipward.io/l2"}});
        cluster.patch_service("web", &ours)?;
        cluster.wait_until_held(VIP)?;
        cluster.wait_for_ingress("web", VIP)
    })
}

#[test]
fn a_service_that_is_to_be_ignored_is_let_go() -> Result<()> {
    scenario("ignored", ClusterOptions::default(), |cluster| {
        for key in ["vipward.io/ignore", "kube-vip.io/ignore"] {
            let (name, _) = key.split_once('.').context("invariant: it has a dot")?;
            cluster.create_service(&ServiceSpec::new(name, VIP))?;
            cluster.wait_until_held(VIP)?;
            cluster.wait_for_ingress(name, VIP)?;
            cluster.annotate_service(name, key, Some("true"))?;
            cluster.wait_until_gone(VIP)?;
            cluster.wait_until_forgotten(VIP)?;
            let cleared = |service: Option<&serde_json::Value>| {
                service.is_some_and(|service| service.pointer("/status/loadBalancer/ingress/0").is_none())
            };
            cluster.admin().wait_for(PATIENCE, &cluster.service(name), "to have no status", cleared)?;
            cluster.annotate_service(name, key, None)?;
            cluster.wait_until_held(VIP)?;
            cluster.wait_for_ingress(name, VIP)?;
            ensure!(cluster.delete_service(name)?, "the Service was not there");
            cluster.wait_until_gone(VIP)?;
        }
        Ok(())
    })
}
