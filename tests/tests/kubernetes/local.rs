//! `externalTrafficPolicy: Local`, and endpoints that come and go.

use std::net::Ipv4Addr;
use std::time::Duration;

use anyhow::{Context as _, Result};
use vipward_tests::{
    agent::{VIP, ip},
    apiserver::{ApiServer, Effect, Matching, Often, Verb},
    cluster::{Cluster, ClusterOptions, Endpoint, N1, N2, N3, NodeId, ServiceSpec, scenario},
};

const SECOND: Ipv4Addr = ip(20);
const THIRD: Ipv4Addr = ip(30);
const A_WHILE: Duration = Duration::from_secs(3);

/// Creates a Service with policy Local and a pod on a node.
fn create_local(cluster: &mut Cluster, name: &str, vip: Ipv4Addr, id: NodeId) -> Result<()> {
    cluster.set_endpoints(name, &[Endpoint::ready(id)])?;
    cluster.create_service(&ServiceSpec::new(name, vip).local())?;
    cluster.wait_until_held_by(vip, id)
}

/// Creates a Service of policy Cluster that prefers the node `best` and has its pod on another.
fn create_apart(cluster: &mut Cluster, best: NodeId, pod: NodeId) -> Result<()> {
    let prefer = format!("kubernetes.io/hostname={}", cluster.node_name(best));
    cluster.wait_until_all_renew()?;
    cluster.set_endpoints("web", &[Endpoint::ready(pod)])?;
    let service = ServiceSpec::new("web", VIP).annotation("vipward.io/preferred-nodes", &prefer);
    cluster.create_service(&service)?;
    cluster.wait_until_held_by(VIP, best)
}

#[test]
fn under_the_policy_local_a_vip_follows_its_pod_and_no_client_notices() -> Result<()> {
    scenario("follow", ClusterOptions::impatient(), |cluster| {
        create_local(cluster, "web", VIP, N1)?;
        cluster.wait_until_all_renew()?;
        let watch = cluster.watch(&[VIP])?;
        for (from, to) in [(N1, N2), (N2, N3), (N3, N1)] {
            watch.step(format!("a pod is ready on {to}, then the one on {from} ends"));
            cluster.set_endpoints("web", &[Endpoint::ready(from), Endpoint::ready(to)])?;
            watch.let_pass(Duration::from_millis(100))?;
            cluster.set_endpoints("web", &[Endpoint::terminating(from), Endpoint::ready(to)])?;
            cluster.wait_until_held_by(VIP, to)?;
            watch.wait_until_received_by(VIP, to)?;
            cluster.set_endpoints("web", &[Endpoint::ready(to)])?;
            let moved = format!("{VIP} moved from {} to {}", cluster.node_name(from), cluster.node_name(to));
            cluster.wait_for_event("web", &[&moved])?;
        }
        watch.let_pass(A_WHILE)?;
        let seen = watch.stop()?;
        seen.assert_seamless(VIP);
        assert_eq!(seen.wire.vip(VIP)?.moves().len(), 3, "it moved otherwise than its pod:\n{seen}");
        assert_eq!(cluster.holder(VIP)?, Some(N1));
        Ok(())
    })
}

/// Returns the options of a scenario whose API server gets into trouble.
fn in_process() -> ClusterOptions {
    ClusterOptions { api_in_process: true, ..ClusterOptions::impatient() }
}

fn server(cluster: &mut Cluster) -> Result<&mut ApiServer> {
    cluster.api_mut().in_this_process().context("the API server is in this process")
}

/// Returns the number of lists of slices that each agent has requested, in one namespace or in all.
fn lists_of_slices(cluster: &mut Cluster) -> Result<Vec<u64>> {
    let agents: Vec<String> = cluster.ids().into_iter().map(|id| cluster.user_of(id)).collect();
    let stats = server(cluster)?.stats();
    let lists = agents.iter().map(|agent| {
        stats
            .count(|kind| kind.user == *agent && kind.verb == Verb::List && kind.resource == "endpointslices")
    });
    Ok(lists.collect())
}

#[test]
fn the_first_local_service_has_the_slices_listed_and_its_vip_stays_where_it_is_until_they_are() -> Result<()>
{
    scenario("late", in_process(), |cluster| {
        let (best, pod) = (N1, N2);
        create_apart(cluster, best, pod)?;
        let watch = cluster.watch(&[VIP])?;
        watch.let_pass(A_WHILE)?;
        let before = lists_of_slices(cluster)?;

        let lists = Matching::any().verb(Verb::List).resource("endpointslices");
        let trouble = server(cluster)?.trouble(lists, Effect::Answer(503), Often::Always);
        watch.step("Local, while slices cannot be listed; two Services are new");
        cluster.set_policy("web", "Local")?;
        cluster.set_endpoints("new", &[Endpoint::ready(pod)])?;
        cluster.create_service(&ServiceSpec::new("new", THIRD).local())?;
        cluster.create_service(&ServiceSpec::new("other", SECOND))?;
        cluster.wait_until_held(SECOND)?;
        watch.let_pass(A_WHILE)?;
        assert_eq!(cluster.holder(VIP)?, Some(best), "no endpoint is known");
        assert_eq!(cluster.holder(THIRD)?, None, "no endpoint is known");
        let after = lists_of_slices(cluster)?;
        let all_have_tried = before.iter().zip(&after).all(|(before, after)| after > before);
        assert!(all_have_tried, "lists of slices: {before:?}, then {after:?}");
        let events = cluster.events_about("new")?;
        assert!(events.iter().all(|event| !event.note.contains("no node can hold")), "{events:#?}");

        watch.step("slices can be listed");
        server(cluster)?.end_trouble(trouble);
        cluster.wait_until_held_by(VIP, pod)?;
        cluster.wait_until_held_by(THIRD, pod)?;
        watch.wait_until_received_by(VIP, pod)?;
        watch.stop()?.assert_seamless(VIP);
        Ok(())
    })
}

#[test]
fn endpoints_that_flap_five_times_end_in_one_holder_and_little_was_written() -> Result<()> {
    scenario("flap", ClusterOptions::default(), |cluster| {
        const FLAPS: u64 = 5;
        const PAUSE: Duration = Duration::from_millis(300);
        create_local(cluster, "local", VIP, N2)?;
        cluster.set_endpoints("web", &[Endpoint::ready(N1)])?;
        cluster.create_service(&ServiceSpec::new("web", SECOND))?;
        let holder = cluster.wait_until_held(SECOND)?;
        cluster.wait_for_ingress("local", VIP)?;
        cluster.wait_for_ingress("web", SECOND)?;
        cluster.wait_until_all_renew()?;
        let watch = cluster.watch(&[SECOND])?;
        let before = cluster.writes_beside_leases();
        for flap in 1..=FLAPS {
            watch.step(format!("flap {flap}"));
            cluster.set_endpoints("local", &[Endpoint::not_ready(N2)])?;
            cluster.set_endpoints("web", &[Endpoint::not_ready(N1)])?;
            watch.let_pass(PAUSE)?;
            cluster.set_endpoints("local", &[Endpoint::ready(N2)])?;
            cluster.set_endpoints("web", &[Endpoint::ready(N1)])?;
            watch.let_pass(PAUSE)?;
        }
        cluster.wait_until_held_by(VIP, N2)?;
        watch.let_pass(A_WHILE)?;
        cluster.wait_until_held_by(VIP, N2)?;
        let after = cluster.writes_beside_leases();
        watch.let_pass(A_WHILE)?;
        assert_eq!(cluster.writes_beside_leases(), after, "the agents go on writing");

        watch.stop()?.assert_seamless(SECOND);
        assert_eq!(cluster.holder(SECOND)?, Some(holder));
        if let (Some(before), Some(after)) = (before, after) {
            // Each time the claim is released and taken, and each is reported in
            // an Event on the Service and one on the VIP.
            assert!(after - before <= 6 * FLAPS, "{} writes for {FLAPS} flaps", after - before);
        }
        let events = cluster.events_about("local")?;
        assert!(events.len() <= 3, "{events:#?}");
        let (errors, warnings) = cluster.complaints()?;
        assert!(errors.is_empty(), "{errors:#?}");
        assert!(warnings.len() <= 10, "{warnings:#?}");
        Ok(())
    })
}
