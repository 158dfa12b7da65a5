//! Other controllers that also serve Vipward's Services, or take them over.

use std::net::Ipv4Addr;

use anyhow::Result;
use serde_json::json;
use vipward_tests::{
    agent::{VIP, ip},
    cluster::{Cluster, ClusterOptions, ServiceSpec, scenario},
};

const SECOND: Ipv4Addr = ip(20);
const THIRD: Ipv4Addr = ip(21);
const RIVAL: &str = "f5-cis";
/// The settings in the remedy, whatever the other controller is.
const REMEDY: [&str; 2] = ["spec.loadBalancerClass, \"vipward.io/l2\" for Vipward", "--class-only"];

/// Sets or removes a Service's class. Between two classes a Service must have another type.
fn set_class(cluster: &Cluster, name: &str, class: Option<&str>) -> Result<()> {
    let away =
        json!({"spec": {"type": "ClusterIP", "loadBalancerClass": null, "externalTrafficPolicy": null}});
    cluster.patch_service(name, &away)?;
    cluster.patch_service(name, &json!({"spec": {"type": "LoadBalancer", "loadBalancerClass": class}}))
}

#[test]
fn another_controller_is_reported_once_with_its_name_and_what_to_set() -> Result<()> {
    scenario("two", ClusterOptions::default(), |cluster| {
        cluster.create_service(&ServiceSpec::new("web", VIP))?;
        cluster.wait_until_held(VIP)?;
        cluster.wait_for_ingress("web", VIP)?;
        // The annotation says that the Service is Vipward's, until the other one insists.
        for _ in 0..2 {
            cluster.set_ingress("web", RIVAL, &[SECOND])?;
            cluster.wait_for_ingress("web", VIP)?;
        }
        cluster.set_ingress("web", RIVAL, &[SECOND])?;
        let parts = ["field managers \"f5-cis\" and \"vipward\" take turns", REMEDY[0], REMEDY[1]];
        let notified = cluster.wait_for_event("web", &parts)?;
        assert_eq!(
            (notified.regarding.as_str(), notified.reason.as_str()),
            ("Service web", "StatusContested")
        );
        assert_eq!(cluster.ingress("web")?, [SECOND.to_string()]);
        cluster.wait_until_held(VIP)?;

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
