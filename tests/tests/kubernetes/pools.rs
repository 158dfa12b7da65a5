//! Pools, and the controller that gives out their addresses.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use nix::sys::signal::Signal;
use serde_json::json;
use vipward_tests::cluster::{Cluster, ClusterOptions, ServiceSpec, scenario};
use vipward_tests::scene::{PATIENCE, ip};
use vipward_tests::wait::wait_until;

/// Longest time until another controller leads.
const TAKEN_OVER: Duration = Duration::from_secs(20);

fn with_controller() -> ClusterOptions {
    ClusterOptions { with_controller: true, ..ClusterOptions::default() }
}

#[test]
fn a_service_without_an_address_gets_one_of_a_pool_and_is_answered() -> Result<()> {
    scenario("pools", with_controller(), |cluster| {
        cluster.start_controller(1, &[])?;
        cluster.put_pool("lan", &json!({"addresses": ["192.0.2.64/29"]}))?;
        cluster.create_service(&ServiceSpec::without_address("web"))?;
        // The first address of a network is nobody's.
        cluster.wait_for_ingress("web", ip(65))?;
        cluster.wait_until_held(ip(65))?;
        cluster.wait_for_pool("lan", "/status/used", "1/6")?;
        cluster.create_service(&ServiceSpec::new("asks", ip(70)))?;
        cluster.wait_for_ingress("asks", ip(70))?;
        cluster.wait_until_held(ip(70))?;
        cluster.delete_service("web")?;
        cluster.wait_for_pool("lan", "/status/free", "5")?;
        cluster.wait_until_gone(ip(65))?;
        cluster.create_service(&ServiceSpec::without_address("again"))?;
        cluster.wait_for_ingress("again", ip(65))?;
        cluster.wait_until_held(ip(65))?;
        Ok(())
    })
}

#[test]
fn a_pool_that_is_wrong_or_used_up_says_so_and_takes_nothing_away() -> Result<()> {
    scenario("poolbad", with_controller(), |cluster| {
        cluster.start_controller(1, &[])?;
        cluster.put_pool("lan", &json!({"addresses": ["192.0.2.70", "192.0.2.77/29"]}))?;
        cluster.wait_for_pool(
            "lan",
            "/status/problem",
            "addresses[1]: \"192.0.2.77/29\" is an address in 192.0.2.72/29",
        )?;
        cluster.create_service(&ServiceSpec::without_address("web"))?;
        cluster.wait_for_ingress("web", ip(70))?;
        cluster.wait_until_held(ip(70))?;
        cluster.create_service(&ServiceSpec::without_address("more"))?;
        cluster.wait_for_event("more", &["no IPv4 address is free in VIPPool lan"])?;
        let explain = |name: &str| {
            let service = format!("{}/{name}", cluster.namespace());
            cluster.vipward(&["explain", &service, "--lease-namespace", cluster.system_namespace()])
        };
        let (code, text) = explain("more")?;
        assert_eq!(code, Some(8), "{text}");
        assert!(text.contains("BROKEN    pool        no IPv4 address is free in VIPPool lan"), "{text}");
        let (_, text) = explain("web")?;
        for part in ["192.0.2.70 of VIPPool lan is reserved for", "it names 192.0.2.70", "candidates  "] {
            assert!(text.contains(part), "{part}: {text}");
        }
        cluster.put_pool("lan", &json!({"addresses": ["192.0.2.80"]}))?;
        cluster.wait_for_ingress("more", ip(80))?;
        cluster
            .wait_for_event("web", &["it keeps 192.0.2.70, which VIPPool lan would not give it any more"])?;
        assert!(cluster.holder(ip(70))?.is_some());
        Ok(())
    })
}

#[test]
fn when_the_leader_dies_the_next_allocates_and_nothing_moves() -> Result<()> {
    scenario("poollead", with_controller(), |cluster| {
        cluster.start_controller(1, &[])?;
        cluster.put_pool("lan", &json!({"addresses": ["192.0.2.64-192.0.2.79"], "keep": "1h"}))?;
        cluster.create_service(&ServiceSpec::without_address("web"))?;
        cluster.wait_for_ingress("web", ip(64))?;
        let holder = cluster.wait_until_held(ip(64))?;
        cluster.start_controller(2, &[])?;
        let watch = cluster.watch(&[ip(64)])?;
        watch.step("the leader is killed");
        cluster.kill_controller(1)?;
        let begun = Instant::now();
        cluster.create_service(&ServiceSpec::without_address("next"))?;
        cluster.wait_for_ingress("next", ip(65))?;
        let took = begun.elapsed();
        assert!(took < TAKEN_OVER, "it took {took:?}");
        watch.stop()?.assert_seamless(ip(64));
        assert_eq!(cluster.holder(ip(64))?, Some(holder));
        // Its address is kept for one of the same name.
        cluster.delete_service("next")?;
        cluster.wait_for_pool("lan", "/status/families/IPv4/kept", "1")?;
        cluster.create_service(&ServiceSpec::without_address("other"))?;
        cluster.wait_for_ingress("other", ip(66))?;
        cluster.create_service(&ServiceSpec::without_address("next"))?;
        cluster.wait_for_ingress("next", ip(65))?;
        Ok(())
    })
}

/// The commands are those of docs/KUBERNETES.md, "Uninstalling".
#[test]
fn an_uninstall_with_a_controller_leaves_no_claim_once_the_reservations_are_removed() -> Result<()> {
    /// Time between SIGTERM and SIGKILL in the manifests.
    const TERMINATION: Duration = Duration::from_secs(30);
    scenario("poolend", with_controller(), |cluster| {
        cluster.start_controller(1, &[])?;
        cluster.put_pool("lan", &json!({"addresses": ["192.0.2.64-192.0.2.79"], "keep": "forever"}))?;
        for name in ["web", "gone"] {
            cluster.create_service(&ServiceSpec::without_address(name))?;
        }
        for vip in [ip(64), ip(65)] {
            cluster.wait_until_held(vip)?;
        }
        cluster.delete_service("gone")?;
        cluster.wait_for_pool("lan", "/status/families/IPv4/kept", "1")?;

        cluster.kill_controller(1)?;
        for vip in [ip(64), ip(65)] {
            cluster.admin().merge(&cluster.virtual_ip(vip), &json!({"spec": {"reservation": null}}))?;
        }
        cluster.delete_daemon_set()?;
        for id in cluster.ids() {
            cluster.member_mut(id)?.agent_mut()?.signal(Signal::SIGTERM)?;
        }
        for id in cluster.ids() {
            let ended = cluster.member_mut(id)?.agent_mut()?.wait(TERMINATION)?;
            assert!(ended.success(), "the agent on {id} ended with {ended}");
        }
        assert_eq!(cluster.virtual_ips()?, Vec::<serde_json::Value>::new());
        Ok(())
    })
}

/// Agents alone, then a controller, then agents alone: the way of docs/POOLS.md in both directions.
#[test]
fn a_controller_comes_and_goes_and_no_status_is_cleared_and_no_vip_moves() -> Result<()> {
    let named = ip(40);
    scenario("poolways", ClusterOptions::default(), |cluster| {
        cluster.put_pool("lan", &json!({"addresses": ["192.0.2.64-192.0.2.79"]}))?;
        cluster.create_service(&ServiceSpec::new("named", named))?;
        cluster.wait_for_ingress("named", named)?;
        let named_holder = cluster.wait_until_held(named)?;

        let watch = cluster.watch(&[named])?;
        watch.step("a controller comes");
        cluster.start_controller(1, &[])?;
        cluster.restart_agents_with(true)?;
        cluster.create_service(&ServiceSpec::without_address("web"))?;
        cluster.wait_for_ingress("web", ip(64))?;
        let holder = cluster.wait_until_held(ip(64))?;
        cluster.wait_for_pool("lan", "/status/used", "1/16")?;
        watch.stop()?.assert_seamless(named);
        assert_eq!(cluster.holder(named)?, Some(named_holder));

        let both = [named, ip(64)];
        let watch = cluster.watch(&both)?;
        watch.step("the controller goes");
        cluster.kill_controller(1)?;
        cluster.restart_agents_with(false)?;
        // What is done after each agent has listed everything comes before this status.
        cluster.create_service(&ServiceSpec::new("later", ip(41)))?;
        cluster.wait_for_ingress("later", ip(41))?;
        cluster.wait_for_ingress("web", ip(64))?;
        cluster.wait_for_ingress("named", named)?;
        let report = watch.stop()?;
        for vip in both {
            report.assert_seamless(vip);
        }
        assert_eq!((cluster.holder(named)?, cluster.holder(ip(64))?), (Some(named_holder), Some(holder)));
        Ok(())
    })
}

#[test]
fn a_reservation_that_the_api_server_refuses_is_an_event_and_is_written_once_it_is_allowed() -> Result<()> {
    scenario("poolref", with_controller(), |cluster| {
        let role = cluster.cluster_role_of_the_controller();
        let complete = cluster.admin().get(&role)?.context("the ClusterRole is installed")?;
        let mut rules = complete["rules"].as_array().context("it has rules")?.clone();
        let claims = rules.iter_mut().find(|rule| rule["resources"] == json!(["virtualips"]));
        claims.context("it has the VirtualIPs")?["verbs"] = json!(["get", "list", "watch"]);
        cluster.admin().merge(&role, &json!({"rules": rules}))?;
        cluster.start_controller(1, &[])?;
        cluster.put_pool("lan", &json!({"addresses": ["192.0.2.64-192.0.2.79"]}))?;
        cluster.create_service(&ServiceSpec::without_address("web"))?;
        cluster.wait_for_event(
            "web",
            &[
                "192.0.2.64 is not reserved for it",
                "virtualips",
                "rights of the service account vipward-controller",
            ],
        )?;
        cluster.admin().merge(&role, &json!({"rules": complete["rules"]}))?;
        cluster.wait_for_ingress("web", ip(64))?;
        cluster.wait_until_held(ip(64))?;
        Ok(())
    })
}

#[test]
fn the_pages_of_leader_and_candidate_say_who_leads_and_both_are_ready() -> Result<()> {
    scenario("poolpages", with_controller(), |cluster| {
        cluster.start_controller(1, &["--listen-port", "9701"])?;
        cluster.put_pool("lan", &json!({"addresses": ["192.0.2.64-192.0.2.79"]}))?;
        cluster.create_service(&ServiceSpec::without_address("web"))?;
        cluster.wait_for_ingress("web", ip(64))?;
        cluster.wait_for_pool("lan", "/status/used", "1/16")?;
        cluster.start_controller(2, &["--listen-port", "9702"])?;
        wait_until(PATIENCE, "the candidate to be ready", || {
            Ok(cluster.controller_page(9702, "/readyz").is_ok_and(|answer| answer.status == 200))
        })?;
        for port in [9701, 9702] {
            for page in ["/livez", "/readyz"] {
                let text = cluster.controller_page(port, page)?.good()?;
                ensure!(text.contains("[+]event-loop ok"), "{page} at {port}: {text}");
            }
        }
        let [leads, waits] = [9701, 9702].map(|port| cluster.controller_page(port, "/metrics"));
        let (leads, waits) = (leads?.good()?, waits?.good()?);
        for line in [
            "vipward_controller_leads 1.0",
            "vipward_pool_addresses{pool=\"lan\",family=\"ipv4\",state=\"allocated\"} 1.0",
            "vipward_assignment_duration_seconds_count 1",
            "vipward_reservations_total{result=\"ok\"} 1",
        ] {
            ensure!(leads.lines().any(|said| said == line), "{line} is not in {leads}");
        }
        ensure!(waits.contains("\nvipward_controller_leads 0.0\n"), "{waits}");
        Ok(())
    })
}

#[test]
fn vipward_pools_lists_addresses_and_vipward_release_frees_and_replaces_them() -> Result<()> {
    scenario("poolfree", with_controller(), |cluster| {
        let release = |cluster: &Cluster, vip: &str, code: i32, words: &[&str]| {
            let (ended, said) = cluster.vipward(&["release", vip, "--timeout", "15s"])?;
            let is_said = words.iter().all(|word| said.contains(word));
            ensure!(ended == Some(code) && is_said, "release {vip}: {ended:?}, {said}");
            anyhow::Ok(())
        };
        cluster.start_controller(1, &[])?;
        cluster.put_pool("lan", &json!({"addresses": ["192.0.2.70-192.0.2.71"], "keep": "1h"}))?;
        for (name, last) in [("web", 70), ("gone", 71)] {
            cluster.create_service(&ServiceSpec::without_address(name))?;
            cluster.wait_for_ingress(name, ip(last))?;
            cluster.wait_until_held(ip(last))?;
        }
        cluster.delete_service("gone")?;
        cluster.wait_for_pool("lan", "/status/families/IPv4/kept", "1")?;
        let listed = |cluster: &Cluster, args: &[&str]| {
            let (code, said) = cluster.vipward(args)?;
            ensure!(code == Some(0), "{said}");
            let lines = said.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
            Ok(lines.collect::<Vec<_>>())
        };
        let lines = listed(cluster, &["pools", "--addresses"])?;
        let [web, gone, waits] = ["web", "gone", "waits"].map(|name| cluster.full_name(name));
        assert!(lines.contains(&"lan IPv4 1 1 0 2 yes yes 192.0.2.70-192.0.2.71".to_owned()), "{lines:?}");
        assert!(lines.contains(&format!("192.0.2.70 {web} lan in use")), "{lines:?}");
        let kept = format!("192.0.2.71 {gone} lan kept until 20");
        assert!(lines.iter().any(|line| line.starts_with(&kept)), "{lines:?}");

        // What is kept is free at once, and goes to the Service that waits.
        cluster.create_service(&ServiceSpec::without_address("waits"))?;
        cluster.wait_for_event("waits", &["no IPv4 address is free in VIPPool lan"])?;
        release(cluster, "192.0.2.71", 0, &["is kept for Service", &gone])?;
        cluster.wait_for_ingress("waits", ip(71))?;
        cluster.wait_until_held(ip(71))?;

        // Without another address, a Service keeps what it has.
        release(cluster, "192.0.2.70", 1, &["is still reserved for Service", &web])?;
        let lines = listed(cluster, &["pools", "lan"])?;
        assert!(lines.contains(&format!("192.0.2.70 {web} lan to be released")), "{lines:?}");
        cluster.wait_until_held(ip(70))?;
        cluster.put_pool("lan", &json!({"addresses": ["192.0.2.71", "192.0.2.80"], "keep": "1h"}))?;
        cluster.wait_for_ingress("web", ip(80))?;
        cluster.wait_until_held(ip(80))?;
        cluster.wait_until_gone(ip(70))?;

        // What the pool has lost stays, until it is released.
        cluster.put_pool("lan", &json!({"addresses": ["192.0.2.80", "192.0.2.81"], "keep": "1h"}))?;
        cluster.wait_for_event("waits", &["it keeps 192.0.2.71"])?;
        release(cluster, "192.0.2.71", 0, &["is free now", &waits, "192.0.2.81"])?;
        cluster.wait_for_ingress("waits", ip(81))?;
        cluster.wait_until_held(ip(81))?;
        cluster.wait_until_gone(ip(71))?;

        // What is asked for by name is not released.
        cluster.create_service(&ServiceSpec::new("asks", ip(75)))?;
        cluster.wait_for_ingress("asks", ip(75))?;
        release(
            cluster,
            "192.0.2.75",
            1,
            &["asks for 192.0.2.75 by name (annotation vipward.io/addresses)"],
        )?;
        release(cluster, "192.0.2.71", 1, &["192.0.2.71 is not reserved for any Service"])?;
        let (code, said) = cluster.vipward(&["pools", "wan"])?;
        assert!(code == Some(1) && said.contains("there is no VIPPool \"wan\""), "{code:?}, {said}");
        Ok(())
    })
}
