//! `externalTrafficPolicy: Local`, and endpoints that come and go.

use std::net::Ipv4Addr;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use vipward_tests::{
    agent::{VIP, ip},
    apiserver::{ApiServer, Effect, Matching, Often, Verb},
    cluster::{Cluster, ClusterOptions, Endpoint, N1, N2, N3, NodeId, PATIENCE, ServiceSpec, scenario},
};

const SECOND: Ipv4Addr = ip(20);
const THIRD: Ipv4Addr = ip(30);
const A_WHILE: Duration = Duration::from_secs(3);

/// Returns options with which a VIP goes back to the best node within a test.
fn impatient() -> ClusterOptions {
    let args = vec!["--stable-for".to_owned(), "2s".to_owned()];
    ClusterOptions { args, ..ClusterOptions::default() }
}

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
    scenario("follow", impatient(), |cluster| {
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

#[test]
fn a_pod_that_terminates_and_serves_keeps_the_vip_while_no_other_is_ready() -> Result<()> {
    scenario("last", impatient(), |cluster| {
        create_local(cluster, "web", VIP, N2)?;
        let watch = cluster.watch(&[VIP])?;
        watch.step("the only pod is being deleted");
        cluster.set_endpoints("web", &[Endpoint::terminating(N2), Endpoint::not_ready(N3)])?;
        watch.let_pass(A_WHILE)?;
        assert_eq!(cluster.holder(VIP)?, Some(N2));
        watch.step("the next one is ready");
        cluster.set_endpoints("web", &[Endpoint::terminating(N2), Endpoint::ready(N3)])?;
        cluster.wait_until_held_by(VIP, N3)?;
        watch.wait_until_received_by(VIP, N3)?;
        watch.stop()?.assert_seamless(VIP);
        Ok(())
    })
}

#[test]
fn a_gateways_placeholder_without_a_node_lets_any_node_hold_the_vip_until_a_pod_names_one() -> Result<()> {
    scenario("gateway", impatient(), |cluster| {
        let (best, pod) = (N1, N2);
        let prefer = format!("kubernetes.io/hostname={}", cluster.node_name(best));
        cluster.wait_until_all_renew()?;
        cluster.set_endpoints("web", &[Endpoint::placeholder()])?;
        let service = ServiceSpec::new("web", VIP).local().annotation("vipward.io/preferred-nodes", &prefer);
        cluster.create_service(&service)?;
        cluster.wait_until_held_by(VIP, best)?;
        let watch = cluster.watch(&[VIP])?;
        watch.step(format!("a pod is ready on {pod}, beside the placeholder"));
        cluster.set_endpoints("web", &[Endpoint::placeholder(), Endpoint::ready(pod)])?;
        cluster.wait_until_held_by(VIP, pod)?;
        watch.wait_until_received_by(VIP, pod)?;
        watch.step("only the placeholder is left");
        cluster.set_endpoints("web", &[Endpoint::placeholder()])?;
        cluster.wait_until_held_by(VIP, best)?;
        watch.wait_until_received_by(VIP, best)?;
        watch.stop()?.assert_seamless(VIP);
        Ok(())
    })
}

#[test]
fn a_policy_that_is_flipped_both_ways_moves_the_vip_without_a_gap() -> Result<()> {
    scenario("flip", impatient(), |cluster| {
        let (best, pod) = (N1, N2);
        create_apart(cluster, best, pod)?;
        let watch = cluster.watch(&[VIP])?;
        for _ in 0..2 {
            watch.step(format!("Local, with the pod on {pod}"));
            cluster.set_policy("web", "Local")?;
            cluster.wait_until_held_by(VIP, pod)?;
            watch.wait_until_received_by(VIP, pod)?;
            watch.step("Cluster");
            cluster.set_policy("web", "Cluster")?;
            // Every node may have it again. The best node gets it
            // after that has lasted for a while.
            cluster.wait_until_held_by(VIP, best)?;
            watch.wait_until_received_by(VIP, best)?;
        }
        watch.stop()?.assert_seamless(VIP);
        Ok(())
    })
}

/// Returns the options of a scenario whose API server gets into trouble.
fn in_process() -> ClusterOptions {
    ClusterOptions { api_in_process: true, ..impatient() }
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
fn the_holder_of_a_local_vip_starts_again_without_a_gap_although_the_slices_are_listed_late() -> Result<()> {
    scenario("again", in_process(), |cluster| {
        create_local(cluster, "web", VIP, N2)?;
        cluster.wait_until_all_renew()?;
        let lists = Matching::any().verb(Verb::List).resource("endpointslices");
        server(cluster)?.trouble(lists, Effect::Delay(Duration::from_secs(1)), Often::Always);
        let watch = cluster.watch(&[VIP])?;
        watch.step("the holder's agent starts again");
        cluster.kill9(N2)?;
        cluster.restart_agent(N2)?;
        watch.let_pass(A_WHILE * 2)?;
        let seen = watch.stop()?;
        seen.assert_seamless(VIP);
        assert_eq!(seen.wire.vip(VIP)?.moves().len(), 0, "it moved:\n{seen}");
        assert_eq!(cluster.holder(VIP)?, Some(N2));
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

#[test]
fn without_endpoint_slices_a_local_vip_is_silent_and_says_why_and_the_others_stay() -> Result<()> {
    scenario("slices", ClusterOptions::default(), |cluster| {
        create_local(cluster, "local", VIP, N2)?;
        cluster.set_endpoints("web", &[Endpoint::ready(N1)])?;
        cluster.create_service(&ServiceSpec::new("web", SECOND))?;
        let holder = cluster.wait_until_held(SECOND)?;
        let watch = cluster.watch(&[SECOND])?;
        let monitor = cluster.monitor(&[VIP])?;
        monitor.wait_until_answered(VIP, PATIENCE)?;

        watch.step("the EndpointSlices are deleted");
        for name in ["local", "web"] {
            ensure!(cluster.delete_endpoints(name)?, "there was no EndpointSlice of {name}");
        }
        monitor.wait_until_silent(VIP, A_WHILE, PATIENCE)?;
        let nobody = format!("no node can hold {VIP}");
        let nodes = cluster.ids().into_iter().map(|id| cluster.node_name(id)).collect::<Vec<_>>();
        let mut parts = vec![nobody.as_str(), "externalTrafficPolicy is Local and no endpoint is ready"];
        parts.extend(nodes.iter().map(String::as_str));
        cluster.wait_for_event("local", &parts)?;
        assert_eq!(cluster.holder(VIP)?, None);

        watch.step("a pod is ready elsewhere");
        cluster.set_endpoints("local", &[Endpoint::ready(N3)])?;
        cluster.wait_until_held_by(VIP, N3)?;
        let wire = monitor.stop()?;
        assert!(wire.vip(VIP)?.doubles().is_empty(), "two answered:\n{wire}");
        watch.stop()?.assert_seamless(SECOND);
        assert_eq!(cluster.holder(SECOND)?, Some(holder));
        Ok(())
    })
}

#[test]
fn a_vip_of_local_services_follows_the_pods_of_its_owner_and_the_other_one_reports_its_loss() -> Result<()> {
    scenario("apart", ClusterOptions::default(), |cluster| {
        create_local(cluster, "web", VIP, N1)?;
        cluster.wait_until_held_by(VIP, N1)?;
        cluster.set_endpoints("mail", &[Endpoint::ready(N2)])?;
        cluster.create_service(&ServiceSpec::new("mail", VIP).local().port(25))?;
        let parts = [&format!("VIP {VIP} may be on nodes without an endpoint of this Service"), "/web"];
        cluster.wait_for_event("mail", &parts)?;
        cluster.wait_for_ingress("mail", VIP)?;
        assert_eq!(cluster.holder(VIP)?, Some(N1), "the later Service has moved it");
        cluster.set_endpoints("web", &[Endpoint::ready(N2)])?;
        cluster.wait_until_held_by(VIP, N2)
    })
}
