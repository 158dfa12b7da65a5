//! The cluster without `vipward kubernetes`: its members run standalone
//! agents, and the test decides on the holders.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use tempfile::TempDir;
use vipward_tests::{
    agent::{Agent, wait_until_running},
    cluster::{
        Admin, Cluster, ClusterOptions, Cut, Endpoint, Kind, N1, N2, N3, NodeId, Object, ServiceSpec,
        scenario,
    },
};

use super::{PATIENCE, VIP};

/// A cluster whose members run standalone agents.
struct StandIns {
    configs: TempDir,
}

impl StandIns {
    fn new() -> Result<Self> {
        Ok(Self { configs: TempDir::new()? })
    }

    fn options(&self) -> ClusterOptions {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR"));
        let configs = self.configs.path().display().to_string();
        let env =
            [("STAND_IN_FOR", Agent::default_binary().display().to_string()), ("STAND_IN_CONFIGS", configs)];
        ClusterOptions {
            start_agents: false,
            binary: Some(directory.join("tests/harness/monitor/stand-in-member.sh")),
            env: env.map(|(key, value)| (key.to_owned(), value)).to_vec(),
            ..ClusterOptions::default()
        }
    }

    /// Makes one node hold the VIP: writes the files of all agents, and the claim.
    fn give(&self, cluster: &Cluster, holder: NodeId) -> Result<()> {
        for id in cluster.ids() {
            let mac = if id == holder { String::new() } else { format!(", mac: {}", holder.mac()) };
            let path = self.configs.path().join(format!("{}.yaml", cluster.node_name(id)));
            let new = path.with_extension("new");
            fs::write(&new, format!("vips: [{{address: {VIP}{mac}}}]\nfence: {{policy: stop}}\n"))?;
            fs::rename(&new, &path)?;
        }
        cluster.admin().put(&json!({
            "apiVersion": Kind::VIRTUAL_IP.api_version(),
            "kind": Kind::VIRTUAL_IP.name(),
            "metadata": {"name": VIP.to_string()},
            "spec": {"address": VIP.to_string(), "epoch": 1, "holder": cluster.node_name(holder)},
        }))?;
        Ok(())
    }
}

fn start_agent(cluster: &mut Cluster, id: NodeId) -> Result<()> {
    let member = cluster.member_mut(id)?;
    let seen = if member.agent().is_some() { member.agent_mut()?.logs()?.len() } else { 0 };
    cluster.start_agent(id)?;
    wait_until_running(cluster.member_mut(id)?.agent_mut()?, seen)
}

#[test]
fn members_have_the_rights_of_the_manifests_over_the_forwarder() -> Result<()> {
    scenario("c-rights", StandIns::new()?.options(), |cluster| {
        cluster.create_service(&ServiceSpec::new("web", VIP))?;
        let lease = json!({
            "apiVersion": Kind::LEASE.api_version(),
            "kind": Kind::LEASE.name(),
            "metadata": {"name": cluster.node_name(N1), "namespace": cluster.system_namespace()},
            "spec": {"holderIdentity": format!("{}/0000000000000001", cluster.node_name(N1))},
        });
        let web = cluster.service("web");
        let (services, refused) = cluster.as_agent(N1, |member| {
            member.create(&lease)?;
            Ok((member.list(Kind::SERVICE, None)?.len(), member.delete(&web)))
        })?;
        assert_eq!(services, 1);
        let refused = format!("{:#}", refused.expect_err("an agent deletes no Service"));
        assert!(refused.contains("forbidden") && refused.contains(&cluster.user_of(N1)), "{refused}");
        assert_eq!(cluster.lease_of(N1)?.map(|lease| lease.name), Some(cluster.node_name(N1)));
        assert_eq!(cluster.lease_of(N2)?, None);
        assert!(cluster.describe().contains("0000000000000001"), "a failure shows the Leases");

        cluster.cut_off(N1, Cut::Reset);
        let list = |member: &Admin| member.list(Kind::NODE, None);
        assert!(cluster.as_agent(N1, list).is_err(), "it is cut off");
        assert_eq!(cluster.as_agent(N2, list)?.len(), 3, "and no other");
        cluster.reconnect(N1);
        assert_eq!(cluster.as_agent(N1, list)?.len(), 3);
        Ok(())
    })
}

#[test]
fn a_lease_is_renewed_when_it_goes_on_changing() -> Result<()> {
    scenario("c-renew", StandIns::new()?.options(), |cluster| {
        let lease = Object::within(Kind::LEASE, cluster.system_namespace(), cluster.node_name(N1));
        let renewal = |number: u32| {
            json!({
                "apiVersion": Kind::LEASE.api_version(),
                "kind": Kind::LEASE.name(),
                "metadata": {"name": lease.name, "namespace": lease.namespace},
                "spec": {"holderIdentity": format!("{}/1", lease.name), "leaseTransitions": number},
            })
        };
        let admin = cluster.admin();
        thread::scope(|scope| {
            let waiting = scope.spawn(|| cluster.wait_until_renewing(N1));
            let mut number = 0;
            while !waiting.is_finished() {
                number += 1;
                admin.put(&renewal(number))?;
            }
            assert!(number >= 2, "once is no renewal");
            waiting.join().expect("waiting does not panic")
        })
    })
}

#[test]
fn objects_are_written_and_read_in_the_words_of_scenarios() -> Result<()> {
    scenario("c-objects", StandIns::new()?.options(), |cluster| {
        cluster.create_service(&ServiceSpec::new("web", VIP).local().class("example.org/lb").port(443))?;
        let read = |cluster: &Cluster, object: &Object| cluster.admin().get(object)?.context("it is there");
        let web = read(cluster, &cluster.service("web"))?;
        assert_eq!(web["metadata"]["annotations"]["vipward.io/addresses"], VIP.to_string());
        assert_eq!(web["spec"]["externalTrafficPolicy"], "Local");
        assert_eq!(web["spec"]["loadBalancerClass"], "example.org/lb");
        assert_eq!(web["spec"]["ports"][0]["port"], 443);

        cluster.set_policy("web", "Cluster")?;
        cluster.annotate_service("web", "vipward.io/ignore", Some("true"))?;
        cluster.annotate_service("web", "vipward.io/addresses", None)?;
        cluster.set_ingress("web", "other-controller", &[VIP])?;
        cluster.wait_for_ingress("web", VIP)?;
        let web = read(cluster, &cluster.service("web"))?;
        assert_eq!(web["spec"]["externalTrafficPolicy"], "Cluster");
        assert_eq!(web["metadata"]["annotations"], json!({"vipward.io/ignore": "true"}));
        let owns_status =
            |entry: &Value| entry["manager"] == "other-controller" && entry["subresource"] == "status";
        assert!(
            web["metadata"]["managedFields"].as_array().is_some_and(|owners| owners.iter().any(owns_status))
        );

        cluster.set_endpoints("web", &[Endpoint::ready(N1), Endpoint::terminating(N2)])?;
        cluster.set_endpoints("web", &[Endpoint::not_ready(N3)])?;
        let slices = cluster.admin().list(Kind::ENDPOINT_SLICE, Some(cluster.namespace()))?;
        let conditions = json!({"ready": false, "serving": false, "terminating": false});
        assert_eq!(slices[0]["endpoints"][0]["conditions"], conditions);
        assert_eq!(slices[0]["endpoints"][0]["nodeName"], cluster.node_name(N3));
        assert_eq!(slices[0]["endpoints"].as_array().map(Vec::len), Some(1));
        assert!(cluster.delete_endpoints("web")? && !cluster.delete_endpoints("web")?);

        cluster.cordon(N1)?;
        cluster.set_taints(N1, &[("node.kubernetes.io/out-of-service", "NoExecute")])?;
        cluster.label_node(N1, "node.kubernetes.io/exclude-from-external-load-balancers", Some(""))?;
        cluster.set_conditions(N1, false, true)?;
        let node = read(cluster, &cluster.node_object(N1))?;
        assert_eq!(
            (&node["spec"]["unschedulable"], &node["spec"]["taints"][0]["effect"]),
            (&json!(true), &json!("NoExecute"))
        );
        assert_eq!(node["metadata"]["labels"]["node.kubernetes.io/exclude-from-external-load-balancers"], "");
        assert_eq!(node["status"]["conditions"][0]["status"], "False");
        assert_eq!(node["status"]["addresses"][0]["address"], N1.address().to_string());
        cluster.uncordon(N1)?;
        assert!(read(cluster, &cluster.node_object(N1))?["spec"].get("unschedulable").is_none());

        assert!(cluster.delete_service("web")?);
        let gone = cluster
            .admin()
            .wait_for(PATIENCE, &cluster.service("web"), "to be gone", |found| found.is_none());
        assert_eq!(gone?, None);
        Ok(())
    })
}

#[test]
fn a_failover_is_seen_on_the_wire_and_felt_by_a_client() -> Result<()> {
    let stand_ins = StandIns::new()?;
    scenario("c-failover", stand_ins.options(), |cluster| {
        stand_ins.give(cluster, N1)?;
        for id in cluster.ids() {
            start_agent(cluster, id)?;
        }
        assert_eq!(cluster.wait_until_held(VIP)?, N1);
        let watch = cluster.watch(&[VIP])?;
        watch.wait_until_received_by(VIP, N1)?;

        // Its program continues without the agent, and the next agent with the program.
        watch.step("the agent is killed, paused and terminated");
        cluster.kill9(N1)?;
        start_agent(cluster, N1)?;
        cluster.pause(N1)?;
        cluster.resume(N1)?;
        cluster.terminate(N1)?;
        start_agent(cluster, N1)?;
        watch.let_pass(Duration::from_millis(200))?;
        let seen = watch.stop()?;
        seen.assert_seamless(VIP);
        assert_eq!(seen.felt(VIP)?.received_by().len(), 1, "{seen}");

        let watch = cluster.watch(&[VIP])?;
        let off = watch.step("power off");
        cluster.power_off(N1)?;
        assert!(!cluster.member_mut(N1)?.agent_runs()?);
        let pins = &cluster.member(N1)?.agent().context("it was started")?.options.pin_dir;
        assert!(!pins.exists(), "its program is gone");
        watch.monitor().wait_until_silent(VIP, Duration::from_millis(50), PATIENCE)?;
        stand_ins.give(cluster, N2)?;
        assert_eq!(cluster.wait_until_held_by_another(VIP, N1)?, N2);
        watch.wait_until_received_by(VIP, N2)?;
        let seen = watch.stop()?;
        assert!(seen.check_seamless(VIP).is_err(), "{seen}");
        seen.assert_flows_again(VIP, off, PATIENCE);
        assert!(seen.check_flows_again(VIP, off, Duration::from_millis(50)).is_err(), "{seen}");
        seen.assert_no_doubles(VIP);
        seen.assert_no_doubles_after_announcement(VIP, N2, off);
        assert!(seen.check_no_doubles_after_announcement(VIP, N3, off).is_err(), "it has announced nothing");
        let moves = seen.wire.vip(VIP)?.moves();
        assert_eq!(
            moves.iter().map(|moved| (moved.from, moved.to)).collect::<Vec<_>>(),
            [(N1.mac(), N2.mac())]
        );
        let turns: Vec<_> = seen.felt(VIP)?.turns().iter().map(|turn| turn.node.clone()).collect();
        assert_eq!(turns, [N1.to_string(), N2.to_string()], "{seen}");

        // After its return its role follows from its file, and its
        // kernel does not answer in between.
        let watch = cluster.watch(&[VIP])?;
        cluster.power_on(N1)?;
        start_agent(cluster, N1)?;
        cluster.deliver(VIP)?;
        watch.let_pass(Duration::from_millis(200))?;
        watch.stop()?.assert_seamless(VIP);
        assert_eq!(cluster.status(N1)?["vips"][0]["role"], "foreign");
        Ok(())
    })
}

#[test]
fn a_kernel_that_answers_beside_the_holder_is_a_double() -> Result<()> {
    let stand_ins = StandIns::new()?;
    scenario("c-double", ClusterOptions { nodes: 2, ..stand_ins.options() }, |cluster| {
        stand_ins.give(cluster, N1)?;
        start_agent(cluster, N1)?;
        start_agent(cluster, N2)?;
        let watch = cluster.watch(&[VIP])?;
        // Without its program, its kernel still has the VIP.
        cluster.terminate(N2)?;
        cluster.member(N2)?.agent().context("it was started")?.unload()?;
        watch.monitor().wait_for_requests(50, PATIENCE)?;
        let seen = watch.stop()?;
        assert!(seen.check_no_doubles(VIP).is_err(), "{seen}");
        assert!(seen.check_seamless(VIP).is_err(), "{seen}");
        Ok(())
    })
}
