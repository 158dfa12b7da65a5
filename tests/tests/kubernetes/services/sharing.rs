//! Services that share a VIP: within a namespace, and across namespaces by consent.

use std::net::Ipv4Addr;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use vipward_tests::{
    agent::VIP,
    cluster::{Cluster, ClusterOptions, PATIENCE, ServiceSpec, Watch, scenario},
};

const SHARE: &str = "vipward.io/share";
const SHARE_WITH: &str = "vipward.io/share-with";
const GUEST: &str = "b/guest";
/// Time in which a fault would show.
const A_WHILE: Duration = Duration::from_secs(3);

/// Waits until exactly these Services are in a VIP's claim, the owner first.
fn wait_until_of(cluster: &Cluster, vip: Ipv4Addr, services: &[&str]) -> Result<()> {
    let expected = services.iter().map(|name| cluster.full_name(name)).collect::<Vec<_>>().join(",");
    let what = format!("to be of {expected}");
    let is_of =
        |claim: Option<&Value>| claim.is_some_and(|claim| claim["spec"]["services"] == expected.as_str());
    cluster.admin().wait_for(PATIENCE, &cluster.virtual_ip(vip), &what, is_of).map(drop)
}

fn wait_until_cleared(cluster: &Cluster, name: &str) -> Result<()> {
    let cleared = |service: Option<&Value>| {
        service.is_some_and(|service| service.pointer("/status/loadBalancer/ingress/0").is_none())
    };
    cluster.admin().wait_for(PATIENCE, &cluster.service(name), "to have no status", cleared).map(drop)
}

/// Returns the uid of the VIP's claim.
fn uid(cluster: &Cluster) -> Result<Value> {
    let claim = cluster.admin().get(&cluster.virtual_ip(VIP))?.context("the claim is gone")?;
    Ok(claim["metadata"]["uid"].clone())
}

/// Checks for a while that a VIP's only Service is this one, and that the guest's status is empty.
fn check_unshared(cluster: &Cluster, owner: &str) -> Result<()> {
    sleep(A_WHILE);
    wait_until_of(cluster, VIP, &[owner])?;
    assert_eq!(cluster.ingress(GUEST)?, [""; 0]);
    Ok(())
}

/// Creates the owner with a key and the tenant `b`. Returns a watch of the VIP.
fn settle(cluster: &mut Cluster) -> Result<Watch> {
    cluster.add_tenant("b")?;
    cluster.create_service(&ServiceSpec::new("web", VIP).annotation(SHARE, "front"))?;
    cluster.wait_until_held(VIP)?;
    cluster.wait_for_ingress("web", VIP)?;
    cluster.wait_until_all_renew()?;
    cluster.watch(&[VIP])
}

#[test]
fn a_guest_leaves_with_the_consent_and_has_the_vip_after_its_owner_only_when_the_claim_is_gone() -> Result<()>
{
    scenario("withdrawn", ClusterOptions::default(), |cluster| {
        let watch = settle(cluster)?;
        let holder = cluster.holder(VIP)?;
        cluster.annotate_namespace(SHARE_WITH, Some(&cluster.namespace_of("b")))?;
        let guest = ServiceSpec::new(GUEST, VIP).port(25).annotation(SHARE, "front");
        cluster.create_service(&guest)?;
        cluster.wait_for_ingress(GUEST, VIP)?;
        watch.step("the namespace withdraws its consent");
        cluster.annotate_namespace(SHARE_WITH, None)?;
        wait_until_cleared(cluster, GUEST)?;
        cluster.wait_for_event(GUEST, &["is not announced for this Service", &cluster.full_name("web")])?;
        check_unshared(cluster, "web")?;
        assert_eq!(cluster.ingress("web")?, [VIP.to_string()]);

        watch.step("it gives it again, and the owner is deleted");
        cluster.annotate_namespace(SHARE_WITH, Some(&cluster.namespace_of("b")))?;
        cluster.wait_for_ingress(GUEST, VIP)?;
        wait_until_of(cluster, VIP, &["web", GUEST])?;
        watch.stop()?.assert_seamless(VIP);
        assert_eq!(cluster.holder(VIP)?, holder, "it has moved");
        // Consent ends with the owner. Then the address is free for the next Service that requests it.
        let of_owner = uid(cluster)?;
        ensure!(cluster.delete_service("web")?, "the owner was not there");
        wait_until_of(cluster, VIP, &[GUEST])?;
        assert_ne!(uid(cluster)?, of_owner, "the owner's claim was passed on");
        cluster.wait_for_ingress(GUEST, VIP)?;
        cluster.create_service(&ServiceSpec::new("web", VIP).annotation(SHARE, "front"))?;
        cluster.wait_for_event("web", &["is not announced for this Service", &cluster.full_name(GUEST)])?;
        sleep(A_WHILE);
        wait_until_of(cluster, VIP, &[GUEST])?;
        assert_eq!(cluster.ingress(GUEST)?, [VIP.to_string()]);
        assert_eq!(cluster.ingress("web")?, [""; 0]);
        Ok(())
    })
}
