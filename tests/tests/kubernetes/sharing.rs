//! Services that share a VIP: within a namespace, and across namespaces by consent.

use std::net::Ipv4Addr;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use vipward_tests::{
    agent::{VIP, ip},
    cluster::{Cluster, ClusterOptions, Endpoint, PATIENCE, ServiceSpec, Watch, scenario},
};

const SECOND: Ipv4Addr = ip(20);
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
fn the_key_and_the_owners_namespace_together_share_a_vip_across_namespaces() -> Result<()> {
    scenario("consent", ClusterOptions::default(), |cluster| {
        let watch = settle(cluster)?;
        watch.step("the guest comes without a key");
        cluster.create_service(&ServiceSpec::new(GUEST, VIP).port(25))?;
        let refused = format!("{VIP} (annotation vipward.io/addresses) is not announced for this Service");
        let consent = format!("Namespace {} list {}", cluster.namespace(), cluster.namespace_of("b"));
        cluster.wait_for_event(GUEST, &[&refused, &cluster.full_name("web"), SHARE, &consent])?;
        check_unshared(cluster, "web")?;
        watch.step("it has the key");
        cluster.annotate_service(GUEST, SHARE, Some("front"))?;
        check_unshared(cluster, "web")?;
        watch.step("it is listed, and has another key");
        cluster.annotate_service(GUEST, SHARE, Some("back"))?;
        let listed = format!("other, {}", cluster.namespace_of("b"));
        cluster.annotate_namespace(SHARE_WITH, Some(&listed))?;
        check_unshared(cluster, "web")?;
        watch.step("it has both");
        cluster.annotate_service(GUEST, SHARE, Some("front"))?;
        cluster.wait_for_ingress(GUEST, VIP)?;
        wait_until_of(cluster, VIP, &["web", GUEST])?;
        watch.stop()?.assert_seamless(VIP);
        Ok(())
    })
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
        // Consent ends with the owner. Then the address is free for whoever asks.
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

#[test]
fn a_vip_whose_owner_is_deleted_stays_in_its_namespace_if_another_service_there_has_it() -> Result<()> {
    scenario("heir", ClusterOptions::default(), |cluster| {
        let watch = settle(cluster)?;
        cluster.annotate_namespace(SHARE_WITH, Some(&cluster.namespace_of("b")))?;
        cluster.create_service(&ServiceSpec::new(GUEST, VIP).port(25).annotation(SHARE, "front"))?;
        cluster.wait_for_ingress(GUEST, VIP)?;
        // It comes after the guest, and has no key.
        cluster.create_service(&ServiceSpec::new("mail", VIP).port(143))?;
        cluster.wait_for_ingress("mail", VIP)?;
        wait_until_of(cluster, VIP, &["web", GUEST, "mail"])?;
        watch.step("the owner is deleted");
        ensure!(cluster.delete_service("web")?, "the owner was not there");
        wait_until_of(cluster, VIP, &["mail"])?;
        wait_until_cleared(cluster, GUEST)?;
        cluster.wait_for_event(GUEST, &["is not announced for this Service", &cluster.full_name("mail")])?;
        watch.let_pass(A_WHILE)?;
        watch.stop()?.assert_seamless(VIP);
        assert_eq!(cluster.ingress("mail")?, [VIP.to_string()]);
        Ok(())
    })
}

#[test]
fn a_service_with_the_port_of_another_one_on_the_vip_is_refused() -> Result<()> {
    scenario("clash", ClusterOptions::default(), |cluster| {
        cluster.create_service(&ServiceSpec::new("web", VIP))?;
        cluster.wait_until_held(VIP)?;
        cluster.wait_for_ingress("web", VIP)?;
        let watch = cluster.watch(&[VIP])?;
        watch.step("another Service with its port comes");
        // By its name it is the first.
        cluster.create_service(&ServiceSpec::new("again", VIP))?;
        let owner = format!("its port 80/TCP is that of Service {}", cluster.full_name("web"));
        cluster.wait_for_event("again", &[&VIP.to_string(), "is not announced for this Service", &owner])?;
        watch.let_pass(A_WHILE)?;
        assert_eq!(cluster.ingress("again")?, [""; 0]);
        wait_until_of(cluster, VIP, &["web"])?;
        watch.step("it changes its port, and back");
        let port = |port: u16| serde_json::json!({"spec": {"ports": [{"name": "port", "port": port}]}});
        cluster.patch_service("again", &port(443))?;
        cluster.wait_for_ingress("again", VIP)?;
        wait_until_of(cluster, VIP, &["web", "again"])?;
        cluster.patch_service("again", &port(80))?;
        wait_until_cleared(cluster, "again")?;
        wait_until_of(cluster, VIP, &["web"])?;
        watch.stop()?.assert_seamless(VIP);
        assert_eq!(cluster.ingress("web")?, [VIP.to_string()]);
        let notes = cluster.events_about("web")?;
        assert!(notes.iter().all(|event| !event.note.contains("port")), "{notes:#?}");
        Ok(())
    })
}

#[test]
fn a_later_service_of_the_same_namespace_neither_narrows_nor_moves_a_vip() -> Result<()> {
    scenario("later", ClusterOptions::default(), |cluster| {
        cluster.create_service(&ServiceSpec::new("web", VIP))?;
        let holder = cluster.wait_until_held(VIP)?;
        cluster.wait_for_ingress("web", VIP)?;
        cluster.wait_until_all_renew()?;
        let other = cluster.ids().into_iter().find(|id| *id != holder).context("there are three")?;
        let watch = cluster.watch(&[VIP])?;
        let owner = cluster.full_name("web");

        watch.step("a Service for no node comes");
        let nowhere = ServiceSpec::new("nodes", VIP).port(25).annotation("vipward.io/nodes", "role=nobody");
        cluster.create_service(&nowhere)?;
        watch.step("a Service for no interface comes");
        let no_interface =
            ServiceSpec::new("interface", VIP).port(26).annotation("vipward.io/interface", "bond*");
        cluster.create_service(&no_interface)?;
        watch.step("a Service that prefers another node comes");
        let prefer = format!("kubernetes.io/hostname={}", cluster.node_name(other));
        let prefers =
            ServiceSpec::new("prefers", VIP).port(27).annotation("vipward.io/preferred-nodes", &prefer);
        cluster.create_service(&prefers)?;
        watch.step("a Service with its Pod elsewhere comes");
        cluster.set_endpoints("local", &[Endpoint::ready(other)])?;
        cluster.create_service(&ServiceSpec::new("local", VIP).port(28).local())?;
        watch.let_pass(A_WHILE)?;
        watch.stop()?.assert_seamless(VIP);

        for name in ["nodes", "interface", "prefers"] {
            cluster.wait_for_event(
                name,
                &["has no effect", &format!("Service {owner}, which has the VIP longer")],
            )?;
        }
        cluster.wait_for_event("local", &["gets no traffic (externalTrafficPolicy Local)", &owner])?;
        assert_eq!(cluster.holder(VIP)?, Some(holder), "it has moved");
        for name in ["web", "nodes", "interface", "prefers", "local"] {
            cluster.wait_for_ingress(name, VIP)?;
        }
        Ok(())
    })
}

#[test]
fn an_older_service_with_its_own_address_joins_a_vip_behind_its_owner() -> Result<()> {
    scenario("joins", ClusterOptions::default(), |cluster| {
        let nowhere =
            ServiceSpec::new("old", SECOND).port(25).annotation("vipward.io/preferred-nodes", "role=nobody");
        cluster.create_service(&nowhere)?;
        cluster.wait_until_held(SECOND)?;
        sleep(Duration::from_millis(1_100));
        cluster.create_service(&ServiceSpec::new("web", VIP))?;
        cluster.wait_until_held(VIP)?;
        cluster.wait_for_ingress("web", VIP)?;
        let watch = cluster.watch(&[VIP])?;
        watch.step("the older one changes its address, and its nodes");
        cluster.set_address("old", VIP)?;
        wait_until_of(cluster, VIP, &["web", "old"])?;
        cluster.annotate_service("old", "vipward.io/nodes", Some("role=nobody"))?;
        cluster.wait_for_event("old", &["annotation vipward.io/nodes", "has no effect"])?;
        watch.let_pass(A_WHILE)?;
        watch.stop()?.assert_seamless(VIP);
        Ok(())
    })
}
