//! Pools, and the controller that gives out their addresses.

use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, ensure};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use vipward_tests::{
    agent::{VIP, ip},
    cluster::{Cluster, ClusterOptions, Kind, N1, N2, N3, PATIENCE, SEGMENT, ServiceSpec, scenario},
    frames::Family,
};

/// Longest time until a Service has its addresses.
const SOON: Duration = Duration::from_secs(3);
/// Longest time until another controller leads.
const TAKEN_OVER: Duration = Duration::from_secs(20);

fn with_controller() -> ClusterOptions {
    ClusterOptions { with_controller: true, ..ClusterOptions::default() }
}

/// Returns the addresses in a Service's status.
fn addresses_of(service: &Value) -> Vec<&str> {
    let ingress = service["status"]["loadBalancer"]["ingress"].as_array();
    ingress.into_iter().flatten().filter_map(|entry| entry["ip"].as_str()).collect()
}

#[test]
fn both_addresses_of_a_service_are_written_at_once_soon_after_a_controller_leads() -> Result<()> {
    scenario("poolboth", with_controller(), |cluster| {
        cluster.wait_until_all_renew()?;
        let pool = json!({"addresses": ["192.0.2.64-192.0.2.79", "2001:db8::64-2001:db8::79"]});
        cluster.put_pool("lan", &pool)?;
        let dual = |name| {
            let service =
                ServiceSpec::without_address(name).field("ipFamilyPolicy", &json!("PreferDualStack"));
            service.field("ipFamilies", &json!(["IPv4", "IPv6"]))
        };
        cluster.create_service(&dual("waits"))?;
        let changes = cluster.admin().changes(Kind::SERVICE, Some(cluster.namespace()))?;
        let leases = cluster.admin().changes(Kind::LEASE, Some(cluster.system_namespace()))?;
        cluster.start_controller(1, &[])?;
        let is_lead = |lease: &Value| lease["metadata"]["name"] == "vipward-controller";
        let mut begun = leases.wait_for(PATIENCE, "a leader", is_lead)?.at;
        for name in ["waits", "comes"] {
            if name == "comes" {
                begun = SystemTime::now();
                cluster.create_service(&dual(name))?;
            }
            let has_some = |it: &Value| it["metadata"]["name"] == name && !addresses_of(it).is_empty();
            let first = changes.wait_for(PATIENCE, "an address", has_some)?;
            let took = first.at.duration_since(begun).context("the clock was set")?;
            println!("{name}: {:?} after {took:?}", addresses_of(&first.object));
            ensure!(addresses_of(&first.object).len() == 2, "not both at once: {}", first.object["status"]);
            ensure!(took < SOON, "{name}: after {took:?}");
        }
        Ok(())
    })
}

/// Every write of a pool's status reaches every agent.
#[test]
fn a_pools_status_is_written_once_a_second_however_many_services_get_addresses() -> Result<()> {
    const SERVICES: usize = 300;
    let options = ClusterOptions { start_agents: false, ..with_controller() };
    scenario("poolpace", options, |cluster| {
        cluster.start_controller(1, &[])?;
        let namespace = cluster.namespace().to_owned();
        let service = |number: usize| {
            json!({
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": {"name": format!("s{number}"), "namespace": namespace},
                "spec": {"type": "LoadBalancer", "ports": [{"port": 80}]},
            })
        };
        cluster.admin().create_all("kubectl", &(0..SERVICES).map(service).collect::<Vec<_>>(), 8)?;
        let changes = cluster.admin().changes(Kind::POOL, None)?;
        cluster.put_pool("lan", &json!({"addresses": ["10.64.0.0-10.64.9.255"]}))?;
        cluster.wait_for_pool("lan", "/status/used", &format!("{SERVICES}/"))?;
        let written: Vec<_> =
            changes.so_far()?.into_iter().filter(|change| change.object["status"].is_object()).collect();
        let (first, last) = (written.first().context("a write")?.at, written.last().context("a write")?.at);
        let took = last.duration_since(first).context("the clock was set")?;
        println!("{} writes in {took:?}", written.len());
        ensure!(written.len() <= 2 + usize::try_from(took.as_secs())?, "{} in {took:?}", written.len());
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

/// The commands are those of docs/kubernetes/README.md, "Uninstalling".
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
        assert_eq!(cluster.virtual_ips()?, Vec::<Value>::new());
        Ok(())
    })
}

/// Agents alone, then a controller, then agents alone: the way of docs/kubernetes/pools.md in both directions.
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

        // An address that is requested by name is not released.
        cluster.create_service(&ServiceSpec::new("asks", ip(75)))?;
        cluster.wait_for_ingress("asks", ip(75))?;
        release(
            cluster,
            "192.0.2.75",
            1,
            &["requests 192.0.2.75 by name (annotation vipward.io/addresses)"],
        )?;
        release(cluster, "192.0.2.71", 1, &["192.0.2.71 is not reserved for any Service"])?;
        let (code, said) = cluster.vipward(&["pools", "wan"])?;
        assert!(code == Some(1) && said.contains("there is no VIPPool \"wan\""), "{code:?}, {said}");
        Ok(())
    })
}

/// Longest time until a change of a pool is in effect on the wire.
const IN_EFFECT: Duration = Duration::from_secs(10);

/// Creates or changes a pool that has the VIPs of both families.
fn announce(cluster: &mut Cluster, policy: &Value) -> Result<()> {
    let spec = json!({"addresses": Family::vips(), "autoAssign": false, "announce": policy});
    cluster.put_pool("lan", &spec)
}

#[test]
fn the_nodes_that_a_pool_selects_hold_its_vips_and_nothing_is_lost_when_it_selects_others() -> Result<()> {
    scenario("poolnodes", ClusterOptions::impatient(), |cluster| {
        for (id, role) in [(N1, "core"), (N2, "edge"), (N3, "spare")] {
            cluster.label_node(id, "role", Some(role))?;
        }
        let role = |role: &str| json!({"nodeSelector": {"matchLabels": {"role": role}}});
        announce(cluster, &role("edge"))?;
        cluster.create_service(&ServiceSpec::dual_stack("web"))?;
        for vip in Family::vips() {
            cluster.wait_until_held_by(vip, N2)?;
        }
        cluster.wait_until_all_renew()?;
        let watch = cluster.watch(&Family::vips())?;
        for (step, id) in [("spare", N3), ("core", N1), ("edge", N2)] {
            watch.step(format!("the pool selects {step}"));
            announce(cluster, &role(step))?;
            for vip in Family::vips() {
                cluster.wait_until_held_by(vip, id)?;
                watch.wait_until_received_by(vip, id)?;
            }
        }
        watch.step("a value that cannot be read");
        let unreadable = json!({"matchExpressions": [{"key": "role", "operator": "Is", "values": ["core"]}]});
        announce(cluster, &json!({"nodeSelector": unreadable}))?;
        watch.let_pass(Duration::from_secs(4))?;
        watch.stop()?.assert_all_seamless();
        assert_eq!(cluster.holder(VIP)?, Some(N2), "the last value that was read is in effect");

        for vip in Family::vips() {
            cluster.stop_delivering(vip)?;
        }
        announce(
            cluster,
            &json!({"nodeSelector": {"matchLabels": {"role": "nobody"}, "matchExpressions": null}}),
        )?;
        let why = "spec.announce.nodeSelector of VIPPool lan leaves it out";
        // An earlier Event may have this reason for a node whose agent came before this one's.
        let of_holder = format!("{}: {why}", cluster.node_name(N2));
        cluster.wait_for_event("web", &[&format!("no node can hold {VIP}"), &of_holder])?;
        assert_eq!(cluster.answered_by(VIP)?, None);
        let namespace = cluster.system_namespace().to_owned();
        let (code, said) =
            cluster.vipward(&["explain", &VIP.to_string(), "--lease-namespace", &namespace])?;
        let remedy = "change spec.announce.nodeSelector of VIPPool lan";
        ensure!(code != Some(0) && said.contains(why) && said.contains(remedy), "{code:?}, {said}");

        // A pool that is gone limits nothing.
        cluster.delete_pool("lan")?;
        for vip in Family::vips() {
            cluster.wait_until_held(vip)?;
        }
        Ok(())
    })
}

#[test]
fn a_pool_changes_the_interface_of_its_vips_and_the_former_one_is_silent() -> Result<()> {
    scenario("poolnic", ClusterOptions { nodes: 1, ..ClusterOptions::default() }, |cluster| {
        let second = cluster.plug_in(N1, "eth1", 51)?;
        announce(cluster, &json!({"interfaces": [SEGMENT]}))?;
        cluster.create_service(&ServiceSpec::dual_stack("web"))?;
        let monitor = cluster.monitor(&Family::vips())?;
        for vip in Family::vips() {
            monitor.wait_until_answered_by(vip, N1.mac(), PATIENCE)?;
        }
        for (interface, mac, former) in [("eth[1-9]", second, N1.mac()), ("eth0", N1.mac(), second)] {
            announce(cluster, &json!({"interfaces": [interface]}))?;
            for vip in Family::vips() {
                monitor.wait_until_answered_by(vip, mac, IN_EFFECT)?;
            }
            let settled = monitor.note(format!("the VIPs are at {mac}"));
            monitor.wait_for_requests(100, PATIENCE)?;
            for vip in Family::vips() {
                let report = monitor.report();
                let requests = &report.vip(vip)?.requests;
                let answers =
                    requests.iter().filter(|one| one.sent_at >= settled).flat_map(|one| &one.answers);
                let by: std::collections::BTreeSet<_> = answers.map(|answer| answer.by.sha).collect();
                ensure!(by == [mac].into(), "{vip}: answered by {by:?}, and {former} was the former");
            }
        }
        announce(cluster, &json!({"interfaces": ["bond*"]}))?;
        let why = "spec.announce.interfaces of VIPPool lan leaves out eth";
        cluster.wait_for_event("web", &[&format!("no node can hold {VIP}"), why])?;
        for vip in Family::vips() {
            monitor.wait_until_silent(vip, Duration::from_secs(3), PATIENCE)?;
        }
        Ok(())
    })
}
