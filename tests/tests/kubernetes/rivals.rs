//! Other controllers that also serve Vipward's Services, or take them over.

use std::net::Ipv4Addr;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use vipward_tests::{
    agent::{LogLine, VIP, ip},
    cluster::{Cluster, ClusterOptions, PATIENCE, SEGMENT, ServiceSpec, scenario},
    frames::{Arp, Mac},
    lan::Wire,
};

const SECOND: Ipv4Addr = ip(20);
const THIRD: Ipv4Addr = ip(21);
const RIVAL: &str = "f5-cis";
const A_WHILE: Duration = Duration::from_secs(3);
/// Number of nodes in a default cluster.
const NODES: u64 = 3;
/// The settings in the remedy, whatever the other controller is.
const REMEDY: [&str; 2] = ["spec.loadBalancerClass, \"vipward.io/l2\" for Vipward", "--class-only"];

/// Sets or removes a Service's class. Between two classes a Service must have another type.
fn set_class(cluster: &Cluster, name: &str, class: Option<&str>) -> Result<()> {
    let away =
        json!({"spec": {"type": "ClusterIP", "loadBalancerClass": null, "externalTrafficPolicy": null}});
    cluster.patch_service(name, &away)?;
    cluster.patch_service(name, &json!({"spec": {"type": "LoadBalancer", "loadBalancerClass": class}}))
}

fn has_no_status(service: Option<&Value>) -> bool {
    service.is_some_and(|service| service.pointer("/status/loadBalancer/ingress/0").is_none())
}

#[test]
fn another_controller_is_reported_once_with_its_name_and_what_to_set() -> Result<()> {
    scenario("two", ClusterOptions::default(), |cluster| {
        cluster.create_service(&ServiceSpec::new("web", VIP))?;
        cluster.wait_until_held(VIP)?;
        cluster.wait_for_ingress("web", VIP)?;
        cluster.set_ingress("web", RIVAL, &[SECOND])?;
        let parts = ["field manager \"f5-cis\" has written 192.0.2.20", REMEDY[0], REMEDY[1]];
        let told = cluster.wait_for_event("web", &parts)?;
        assert_eq!((told.regarding.as_str(), told.reason.as_str()), ("Service web", "Problem"));
        cluster.wait_until_held(SECOND)?;

        let both = ServiceSpec::new("both", THIRD).annotation("cis.f5.com/ip", &THIRD.to_string());
        cluster.create_service(&both)?;
        let parts = ["annotation cis.f5.com/ip makes it a Service of F5 CIS", REMEDY[0], REMEDY[1]];
        cluster.wait_for_event("both", &parts)?;
        for (name, part) in [("web", "f5-cis"), ("both", "F5 CIS")] {
            let events = cluster.event_objects_about(name, part)?;
            assert_eq!(events.len(), 1, "{name}: {events:#?}");
        }
        Ok(())
    })
}

#[test]
fn controllers_that_take_turns_at_a_status_are_one_event_and_no_agent_writes_to_and_fro() -> Result<()> {
    scenario("turns", ClusterOptions::default(), |cluster| {
        cluster.create_service(&ServiceSpec::new("web", VIP))?;
        cluster.wait_until_held(VIP)?;
        cluster.wait_for_ingress("web", VIP)?;
        cluster.set_ingress("web", "f5-cis", &[SECOND])?;
        cluster.wait_until_held(SECOND)?;
        let watch = cluster.watch(&[SECOND])?;
        cluster.stop_delivering(SECOND)?;
        for turn in 1..20 {
            let (manager, vip) = [("f5-cis", SECOND), ("metallb", THIRD)][turn % 2];
            cluster.set_ingress("web", manager, &[vip])?;
            watch.let_pass(Duration::from_millis(200))?;
        }
        let names = "field managers \"f5-cis\" and \"metallb\" and \"vipward\" take turns";
        cluster.wait_for_event("web", &[names, REMEDY[0], REMEDY[1]])?;

        cluster.set_ingress("web", "metallb", &[])?;
        cluster.wait_until_held(VIP)?;
        watch.let_pass(A_WHILE)?;
        let service = cluster.admin().get(&cluster.service("web"))?;
        assert!(has_no_status(service.as_ref()), "it was written again: {service:#?}");
        // The first address may have stood for long enough to be reported on its own.
        let before = cluster.event_objects_about("web", "has written")?;
        assert!(before.len() <= 1, "{before:#?}");
        let events = cluster.event_objects_about("web", "take turns")?;
        assert_eq!(events.len(), 1, "{events:#?}");
        // The holder of the VIP reports the turn. The others
        // report the same then, in the same Event.
        let times = events[0]["series"]["count"].as_u64().unwrap_or(1);
        assert!(times <= NODES, "reported again: {events:#?}");
        Ok(())
    })
}

#[test]
fn a_service_whose_class_changes_hands_is_withdrawn_and_an_event_says_so() -> Result<()> {
    scenario("hands", ClusterOptions::default(), |cluster| {
        cluster.create_service(&ServiceSpec::new("web", VIP))?;
        cluster.wait_until_held(VIP)?;
        cluster.wait_for_ingress("web", VIP)?;
        set_class(cluster, "web", Some("f5"))?;
        let parts =
            ["does not announce it any more", "spec.loadBalancerClass is \"f5\" now", "vipward.io/l2"];
        cluster.wait_for_event("web", &parts)?;
        cluster.wait_until_gone(VIP)?;
        cluster.wait_until_forgotten(VIP)?;
        let events = cluster.event_objects_about("web", "any more")?;
        assert_eq!(events.len(), 1, "{events:#?}");

        set_class(cluster, "web", Some("vipward.io/l2"))?;
        cluster.wait_until_held(VIP)?;
        cluster.wait_for_ingress("web", VIP)
    })
}

#[test]
fn in_class_only_mode_a_service_that_loses_its_class_is_withdrawn_and_reported() -> Result<()> {
    let options = ClusterOptions { args: vec!["--class-only".to_owned()], ..ClusterOptions::default() };
    scenario("classonly", options, |cluster| {
        cluster.create_service(&ServiceSpec::new("none", SECOND))?;
        cluster.create_service(&ServiceSpec::new("web", VIP).class("vipward.io/l2"))?;
        cluster.wait_until_held(VIP)?;
        cluster.wait_for_ingress("web", VIP)?;
        assert_eq!(cluster.holder(SECOND)?, None, "one without a class is served");
        // A rival's address on a Service of Vipward's class is the other controller's mistake.
        cluster.set_ingress("web", RIVAL, &[THIRD])?;
        let parts = ["\"f5-cis\"", "gives this one to Vipward", "have the other serve its own class only"];
        cluster.wait_for_event("web", &parts)?;
        cluster.set_ingress("web", RIVAL, &[])?;
        cluster.wait_for_ingress("web", VIP)?;

        set_class(cluster, "web", None)?;
        let parts = ["does not announce it any more", "no spec.loadBalancerClass now", "--class-only"];
        cluster.wait_for_event("web", &parts)?;
        cluster.wait_until_gone(VIP)?;
        let what = "to have no status";
        cluster.admin().wait_for(PATIENCE, &cluster.service("web"), what, has_no_status)?;
        assert_eq!(cluster.events_about("none")?, []);
        Ok(())
    })
}

#[test]
fn a_node_that_announces_a_vip_against_its_claim_is_a_warning_in_the_others_logs() -> Result<()> {
    /// Longest time until the agent logs it: it first waits for a new claim.
    const TOLD: Duration = Duration::from_secs(75);
    scenario("speaker", ClusterOptions::default(), |cluster| {
        cluster.wait_until_all_renew()?;
        cluster.create_service(&ServiceSpec::new("web", VIP))?;
        let holder = cluster.wait_until_held(VIP)?;
        let others: Vec<_> = cluster.ids().into_iter().filter(|id| *id != holder).collect();
        let [rival, third] = others[..] else { panic!("there are three nodes") };
        // The program reports one announcement of a VIP each 100 ms, and the holder's may be the first.
        thread::sleep(Duration::from_millis(200));
        // Another controller's speaker on that node does the same.
        let wire = Wire::open(&cluster.member(rival)?.host, SEGMENT)?;
        wire.send(&Arp::gratuitous_request(rival.mac(), VIP, Mac::ZERO).to_bytes())?;
        for (id, kind, limit) in [(holder, "contested", PATIENCE), (third, "moved", TOLD)] {
            let is_told = |line: &LogLine| {
                line.level() == "WARN" && line.has("kind", kind) && line.has("mac", rival.mac())
            };
            let what = format!("that {rival} announces {VIP}");
            let line = cluster.member_mut(id)?.agent_mut()?.wait_for_log(limit, &what, is_told)?;
            assert!(line.has("vip", VIP), "{line}");
        }
        assert_eq!(cluster.holder(VIP)?.context("it is held")?, holder);
        Ok(())
    })
}
