//! `vipward explain` on broken set-ups: it names the broken step.

use std::fs;
use std::net::Ipv4Addr;
use std::process::{Command, Output};

use anyhow::{Context, Result, ensure};
use ipnet::Ipv4Net;
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use tempfile::NamedTempFile;
use vipward_tests::{
    agent::{Agent, AgentOptions, LogLine, NODE, ROGUE, Scene, VIP, ip, start_agent, vip_status},
    cluster::{Cluster, ClusterOptions, N1, N2, NodeId, PATIENCE, ServiceSpec, scenario, skip},
    kit::wait_until,
    lan::{Host, Responder},
};

const GOOD: i32 = 0;
const BROKEN: i32 = 8;
const BAD_CONFIGURATION: i32 = 3;

fn output(mut command: Command) -> Result<Output> {
    command.output().context("failed to start vipward")
}

/// Returns the explanation. Checks that the exit code fits it.
fn explained(command: Command) -> Result<Value> {
    let output = output(command)?;
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let value: Value = serde_json::from_str(&stdout).with_context(|| format!("{stdout}{stderr}"))?;
    let code = if value["broken"].is_null() { GOOD } else { BROKEN };
    ensure!(output.status.code() == Some(code), "{:?} for {value:#}", output.status);
    Ok(value)
}

fn step<'a>(explanation: &'a Value, link: &str) -> Result<&'a Value> {
    let steps = explanation["steps"].as_array().context("no steps")?;
    steps.iter().find(|step| step["subject"] == link).with_context(|| format!("no {link} in {explanation:#}"))
}

/// Fails unless `link` is the first broken step, with this text and this remedy.
#[track_caller]
fn assert_broken(explanation: &Value, link: &str, says: &str, remedy: &str) {
    assert_eq!(explanation["broken"], link, "{explanation:#}");
    let step = step(explanation, link).expect("the step");
    let everything = format!("{} {}", step["found"], step["details"]);
    assert!(everything.contains(says), "{says:?} in {step:#}");
    let to_do = explanation["remedy"].as_str().unwrap_or_default();
    assert!(to_do.contains(remedy), "{remedy:?} in {to_do:?}");
}

/// Fails unless the explanation has the program on the veth `eth0` in mode tc, with the reason.
#[track_caller]
fn assert_attached(explanation: &Value) -> Result<()> {
    let attached = &explanation["attached"];
    assert_eq!((&attached["interface"], &attached["mode"]), (&json!("eth0"), &json!("tc")), "{attached}");
    let because = attached["because"].as_str().unwrap_or_default();
    assert!(because.contains("software"), "{attached}");
    let step = step(explanation, "attached")?;
    assert_eq!(step["state"], "green", "{step:#}");
    assert_eq!(step["found"], "the program runs on eth0 in tc mode");
    assert!(step["details"].to_string().contains(because), "{step:#}");
    Ok(())
}

/// Runs `vipward explain` on a node of a cluster, with its rights and its pins.
fn on_node(cluster: &Cluster, id: NodeId, vip: Ipv4Addr) -> Result<Value> {
    let kubeconfig = NamedTempFile::new()?;
    fs::write(kubeconfig.path(), cluster.kubeconfig_of(id)?)?;
    let member = cluster.member(id)?;
    let agent = member.agent().context("no agent was started")?;
    let mut command = member.host.command(Agent::default_binary());
    command.args(["explain", &vip.to_string(), "-o", "json", "--kubeconfig"]).arg(kubeconfig.path());
    command.arg("--pin-dir").arg(&agent.options.pin_dir);
    command.args(["--lease-namespace", cluster.system_namespace()]);
    explained(command)
}

fn two_nodes() -> ClusterOptions {
    ClusterOptions { nodes: 2, ..ClusterOptions::default() }
}

fn other(id: NodeId) -> NodeId {
    if id == N1 { N2 } else { N1 }
}

#[test]
fn what_is_held_is_explained_from_the_service_to_the_answer() -> Result<()> {
    scenario("why-held", two_nodes(), |cluster| {
        cluster.create_service(&ServiceSpec::new("web", VIP))?;
        let holder = cluster.wait_until_held(VIP)?;
        cluster.wait_until_all_renew()?;
        for id in [holder, other(holder)] {
            let explanation = on_node(cluster, id, VIP)?;
            assert_eq!(explanation["broken"], Value::Null, "on {id}: {explanation:#}");
            let service = format!("wanted by {}/web", cluster.namespace());
            assert_eq!(step(&explanation, "service")?["found"], service);
            assert_eq!(step(&explanation, "candidates")?["found"], "2 of 2 nodes can hold it");
            let claim = format!("held by {} at {} on eth0, epoch 1", cluster.node_name(holder), holder.mac());
            assert_eq!(step(&explanation, "claim")?["found"], claim);
            assert_eq!(step(&explanation, "session")?["state"], "green");
            let is_here = id == holder;
            assert_eq!(step(&explanation, "lease-deadline").is_ok(), is_here, "on {id}: {explanation:#}");
            let segment = if is_here {
                "this host alone answers".to_owned()
            } else {
                format!("{} answers, as it should", holder.mac())
            };
            assert_eq!(step(&explanation, "segment")?["found"], segment, "on {id}");
            // The mode of the program is known on the holder. Elsewhere the
            // explanation names the node to check.
            if is_here {
                assert_attached(&explanation)?;
            } else {
                assert_eq!(explanation["attached"], Value::Null, "on {id}: {explanation:#}");
                let details = step(&explanation, "entry")?["details"].to_string();
                let there = format!(
                    "kubectl -n {} exec POD -- /vipward explain {VIP} (POD: the agent's on {})",
                    cluster.system_namespace(),
                    cluster.node_name(holder)
                );
                assert!(details.contains("only this host's entry was read"), "{details}");
                assert!(details.contains(&there), "{there} in {details}");
            }
        }

        // A rival that only answers by unicast is seen from either side.
        let _rival = Responder::start(&cluster.rogue, "eth0", VIP, ROGUE)?;
        for id in [holder, other(holder)] {
            let explanation = on_node(cluster, id, VIP)?;
            assert_broken(&explanation, "segment", "CONFLICT: 2 MACs", &ROGUE.to_string());
        }
        Ok(())
    })
}

#[test]
fn dead_agents_are_seen_by_their_leases_and_an_api_server_that_is_away_by_its_absence() -> Result<()> {
    scenario("why-dead", two_nodes(), |cluster| {
        cluster.create_service(&ServiceSpec::new("web", VIP))?;
        let holder = cluster.wait_until_held(VIP)?;
        cluster.wait_until_all_renew()?;
        for id in [N1, N2] {
            cluster.kill9(id)?;
        }
        let explanation = on_node(cluster, holder, VIP)?;
        let silent = format!("{}: its agent has not renewed its Lease", cluster.node_name(holder));
        assert_broken(&explanation, "candidates", &silent, "see whether the agent runs");
        assert_eq!(step(&explanation, "session")?["state"], "red", "{explanation:#}");
        // Under the policy hold the pinned program answers on.
        assert_eq!(step(&explanation, "entry")?["state"], "green", "{explanation:#}");
        assert_eq!(step(&explanation, "lease-deadline")?["state"], "yellow", "{explanation:#}");
        assert_eq!(step(&explanation, "segment")?["state"], "green", "{explanation:#}");

        if cluster.api().is_shared() {
            return skip("an API server that is away");
        }
        cluster.forwarder.refuse_all();
        let explanation = on_node(cluster, holder, VIP)?;
        assert_broken(&explanation, "cluster", "cannot be read", "--kubeconfig");
        assert_eq!(step(&explanation, "segment")?["state"], "green", "{explanation:#}");
        cluster.heal()
    })
}

/// Runs `vipward explain` beside a standalone agent, or on a host without one.
fn standalone(host: &Host, pin_dir: &str, config: Option<&str>, vip: Ipv4Addr) -> Result<Value> {
    let file = NamedTempFile::new()?;
    let mut command = host.command(Agent::default_binary());
    command.env_remove("KUBECONFIG").env("HOME", "/nonexistent");
    command.args(["explain", &vip.to_string(), "-o", "json", "--pin-dir", pin_dir]);
    if let Some(yaml) = config {
        fs::write(file.path(), yaml)?;
        command.arg("--config").arg(file.path());
    }
    explained(command)
}

const HOLDS: &str =
    "vips: [{address: 192.0.2.10, bind: lo}]\nfence: {duration: 2s, heartbeat: 500ms, policy: stop}\n";

#[test]
fn beside_a_standalone_agent_each_link_is_checked() -> Result<()> {
    let scene = Scene::new("why-alone")?;
    let pin_dir = scene.bpffs.pin_dir("node");
    let pins = pin_dir.to_str().context("a path in UTF-8")?.to_owned();
    let explain = |config: Option<&str>| standalone(&scene.node, &pins, config, VIP);

    let explanation = explain(Some(HOLDS))?;
    assert_broken(&explanation, "entry", "nothing is pinned", "start the agent");

    let options = AgentOptions::new(pin_dir.clone());
    let mut agent = start_agent(&scene.node, HOLDS, options)?;
    // Its address is probed first.
    wait_until(PATIENCE, "the VIP to be held", || Ok(vip_status(&agent, VIP, "eth0")?["answering"] == true))?;
    let explanation = explain(Some(HOLDS))?;
    assert_eq!(explanation["broken"], Value::Null, "{explanation:#}");
    assert_eq!(
        step(&explanation, "entry")?["found"],
        format!("this host's entry on eth0 is held at {NODE}"),
        "{explanation:#}"
    );
    assert_eq!(step(&explanation, "bound")?["state"], "green");
    assert_attached(&explanation)?;
    let asked_for = explain(Some(&format!("{HOLDS}attach: tc\n")))?;
    assert_eq!(asked_for["attached"]["mode"], "tc", "{asked_for:#}");
    assert!(asked_for["attached"]["because"].to_string().contains("sets it"), "{asked_for:#}");
    // The pins alone give the same.
    assert_eq!(explain(None)?["broken"], Value::Null);

    let explanation = explain(Some("vips: []\n"))?;
    assert_broken(&explanation, "config", "does not list it", "add it");
    let explanation = explain(Some("vips: [{adress: 192.0.2.10}]\n"))?;
    assert_broken(&explanation, "config", "adress", "--check");
    let explanation = explain(Some("vips: [{address: 192.0.2.10, interface: eth7}]\n"))?;
    assert_broken(&explanation, "placement", "eth7", "name an interface");

    let rival = Responder::start(&scene.rogue, "eth0", VIP, ROGUE)?;
    let explanation = explain(Some(HOLDS))?;
    assert_broken(&explanation, "segment", "CONFLICT: 2 MACs", "02:00:00:00:00:03");
    rival.stop()?;

    // A running agent would restore it.
    agent.signal(Signal::SIGSTOP)?;
    scene.node.delete_address("lo", Ipv4Net::new(VIP, 32)?)?;
    let explanation = explain(Some(HOLDS))?;
    assert_eq!(step(&explanation, "bound")?["state"], "red", "{explanation:#}");

    agent.kill9()?;
    wait_until(PATIENCE, "the lease deadline to be over", || {
        Ok(agent.status()?["lease_deadline"]["state"] == "over")
    })?;
    let explanation = explain(Some("vips: [{address: 192.0.2.10}]\n"))?;
    assert_broken(&explanation, "lease-deadline", "it is not answered", "start the agent");
    assert_eq!(step(&explanation, "segment")?["state"], "red", "{explanation:#}");
    Ok(())
}

#[test]
fn without_agent_and_cluster_the_segment_is_probed_all_the_same() -> Result<()> {
    let scene = Scene::new("why-bare")?;
    let none = "/sys/fs/bpf/vipward-none";
    let explanation = standalone(&scene.client, none, None, ip(3))?;
    assert_eq!(explanation["broken"], Value::Null, "{explanation:#}");
    assert_eq!(step(&explanation, "cluster")?["state"], "unknown");
    assert_eq!(step(&explanation, "entry")?["state"], "unknown");
    assert!(step(&explanation, "segment")?["found"].to_string().contains(&ROGUE.to_string()));

    let explanation = standalone(&scene.client, none, None, ip(99))?;
    assert_broken(&explanation, "segment", "no host on eth0 answers", "the steps above");

    // The text has the same facts, without colours where stdout is no terminal.
    let mut command = scene.client.command(Agent::default_binary());
    command.env_remove("KUBECONFIG").env("HOME", "/nonexistent").args([
        "explain",
        "192.0.2.99",
        "--pin-dir",
        none,
    ]);
    let printed = output(command)?;
    let text = String::from_utf8_lossy(&printed.stdout);
    for part in [
        "192.0.2.99",
        " unknown  cluster",
        "red      segment",
        "The first broken step: segment",
        "What to do:",
    ] {
        assert!(text.contains(part), "{part} in:\n{text}");
    }
    assert!(!text.contains('\x1b'), "{text:?}");

    let mut command = scene.client.command(Agent::default_binary());
    command.args(["explain", "192.0.2.99", "--kubeconfig", "/nonexistent"]);
    let refused = output(command)?;
    assert_eq!(refused.status.code(), Some(BAD_CONFIGURATION));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("/nonexistent"), "{refused:?}");
    Ok(())
}

#[test]
fn a_vip_that_waits_is_explained_with_what_the_agent_knows() -> Result<()> {
    let scene = Scene::new("why-waits")?;
    let rival = Responder::start(&scene.rogue, "eth0", VIP, ROGUE)?;
    let mut agent = scene.agent("vips: [{address: 192.0.2.10}, {address: 192.0.2.2}]\n")?;
    let pin_dir = scene.bpffs.pin_dir("node");
    let pin_dir = pin_dir.to_str().context("a path that is no text")?;
    let explain = |vip| standalone(&scene.node, pin_dir, None, vip);
    wait_until(PATIENCE, "the answer to be noticed", || {
        Ok(step(&explain(VIP)?, "entry")?["found"].to_string().contains(&ROGUE.to_string()))
    })?;
    let in_use = format!("this host is to hold it on eth0, and does not: {ROGUE} (");
    assert_broken(&explain(VIP)?, "entry", &in_use, "give that host another address");

    // Neither the log nor a command has the host give up the address by which it is reached.
    let own = "192.0.2.2 is this host's own address: choose another VIP";
    assert_broken(&explain(ip(2))?, "entry", "this host has it as 192.0.2.2/24 on eth0", own);
    let begun = |line: &LogLine| line.message() == "a problem has begun" && line.to_string().contains(own);
    agent.wait_for_log(PATIENCE, "the problem", begun)?;
    assert!(agent.logs()?.iter().all(|line| !line.to_string().contains("address del")));
    rival.stop()?;
    Ok(())
}
