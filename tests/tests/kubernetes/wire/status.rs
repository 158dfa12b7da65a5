//! Wire failover as the commands and HTTP endpoints show it.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use vipward_tests::{
    agent::{Capability, VIP},
    cluster::{Cluster, ClusterOptions, N1, N2, NodeId, PATIENCE, ServiceSpec, scenario},
    kit::{output_of, wait_for},
};

/// Runs `vipward` with the rights of the administrator, and returns the JSON that it prints.
fn json_of(cluster: &Cluster, args: &[&str]) -> Result<Value> {
    let namespace = cluster.system_namespace().to_owned();
    let (code, said) = cluster.vipward(&[args, &["-o", "json", "--lease-namespace", &namespace]].concat())?;
    let start = said.find('{').with_context(|| format!("{code:?}: {said}"))?;
    let mut values = serde_json::Deserializer::from_str(&said[start..]).into_iter();
    values.next().with_context(|| format!("{code:?}: {said}"))?.context("it is JSON")
}

fn state(cluster: &Cluster, id: NodeId) -> Result<String> {
    let page = cluster.page(id, "/metrics")?.good()?;
    let is_one = |line: &&str| line.starts_with("vipward_wire_state{") && line.ends_with(" 1.0");
    let line = page.lines().find(is_one).context("no state is 1")?;
    let state = line.split('"').nth(1).context("no label")?;
    Ok(state.to_owned())
}

/// Returns the doctor's check of wire failover on a node: its state, what it found and the remedy.
fn check(cluster: &Cluster, id: NodeId) -> Result<Value> {
    let agent = cluster.member(id)?.agent().context("it was started")?;
    let mut command = agent.vipward("doctor")?;
    command.args(["-o", "json"]);
    let report: Value = serde_json::from_str(&output_of(command)?)?;
    let checks = report["checks"].as_array().context("no checks")?;
    checks.iter().find(|check| check["subject"] == "wire").cloned().context("no check of it")
}

fn wait_for_state(cluster: &Cluster, id: NodeId, wanted: &str) -> Result<()> {
    let mut last = String::new();
    let found = wait_for(PATIENCE, &format!("the state {wanted}"), || {
        last = state(cluster, id)?;
        Ok((last == wanted).then_some(()))
    });
    found.with_context(|| format!("it is {last}"))
}

#[test]
fn voters_keys_and_answers_are_shown_by_commands_and_pages() -> Result<()> {
    scenario("wireshown", ClusterOptions::with_args(&["--wire=1"]), |cluster| {
        cluster.create_service(&ServiceSpec::new("web", VIP))?;
        let holder = cluster.wait_until_all_held(&[VIP.into()])?;
        wait_for_state(cluster, holder, "no_key")?;
        let found = check(cluster, holder)?;
        assert_eq!(found["state"], "yellow", "{found}");
        ensure!(
            found["remedy"].as_str().is_some_and(|remedy| remedy.contains("vipward wire init")),
            "{found}"
        );

        let namespace = cluster.system_namespace().to_owned();
        cluster.vipward(&["wire", "init", "--lease-namespace", &namespace])?;
        wait_for_state(cluster, holder, "on")?;

        let others: Vec<_> = cluster.ids().into_iter().filter(|id| *id != holder).collect();
        let row = wait_for(PATIENCE, "the voters in the status", || {
            let overview = json_of(cluster, &["status", "--cluster"])?;
            let rows = overview["nodes"].as_array().context("no nodes")?;
            let row = rows.iter().find(|row| row["node"] == cluster.node_name(holder)).context("no row")?;
            Ok((row["quorum"] == 2).then(|| row.clone()))
        })?;
        let voters = row["voters"].as_array().context("no voters")?;
        assert_eq!(voters.len(), 2, "{row}");
        for other in &others {
            ensure!(voters.contains(&json!(cluster.node_name(*other))), "{other} is not in {row}");
        }
        assert_eq!(row["found_by_lease"], Value::Null, "{row}");

        let explained = json_of(cluster, &["explain", &VIP.to_string()])?;
        let steps = explained["steps"].as_array().context("no steps")?;
        let session = steps.iter().find(|step| step["subject"] == "session").context("no session")?;
        let says = session["details"][0].as_str().unwrap_or_default();
        ensure!(says.starts_with("if it dies, that is found by 2 of its 2 voters"), "{session}");

        let status = cluster.status(holder)?;
        assert_eq!(status["wire"]["keys"], json!([1]), "{status:#}");
        assert_eq!(status["wire"]["scale"], json!(1), "{status:#}");
        let peers = status["wire"]["peers"].as_array().context("no peers")?;
        // They share the segment of the API server, too.
        let answering = peers.iter().filter(|peer| {
            peer["interface"] == "eth0" && peer["round_trip_seconds"].as_f64().is_some_and(|took| took < 0.5)
        });
        assert_eq!(answering.count(), 2, "{:#}", status["wire"]);

        for id in cluster.ids() {
            let check = check(cluster, id)?;
            let found = check["found"].as_str().context("nothing was found")?;
            let on = format!("on: if 2 of {}, {} find", voters[0], voters[1]).replace('"', "");
            let off = "off: this node answers for no VIP";
            ensure!(found.starts_with(if id == holder { &on } else { off }), "{id}: {check}");
            ensure!(found.contains("by --wire 1 a node is unresponsive after 0.30 s"), "{id}: {check}");
            ensure!(found.contains("answered 0.") && found.contains("lost"), "{id}: {check}");
            let page = cluster.page(id, "/metrics")?.good()?;
            let pings = page.lines().find_map(|line| line.strip_prefix("vipward_wire_pings_total "));
            ensure!(pings.is_some_and(|pings| pings != "0"), "{id}: {pings:?}");
        }

        // Without its agent, a node still shows what its program receives.
        cluster.kill9(others[0])?;
        let check = check(cluster, others[0])?;
        assert_eq!(check["state"], "not-applicable", "{check}");
        ensure!(
            check["found"].as_str().is_some_and(|found| found.contains(
                "the last frame of a peer \
            came"
            )),
            "{check}"
        );
        Ok(())
    })
}

/// Returns the doctor's finding about the rights of a node's pinging thread.
fn rights(cluster: &Cluster, id: NodeId) -> Result<String> {
    wait_for(PATIENCE, "the thread of wire failover", || {
        let check = check(cluster, id)?;
        let found = check["found"].as_str().context("nothing was found")?;
        Ok(found.split_once("; its thread ").map(|(_, rights)| rights.to_owned()))
    })
}

#[test]
fn with_the_overlays_capabilities_the_pinging_thread_has_the_rights_that_all_capabilities_give() -> Result<()>
{
    scenario("wirecaps", ClusterOptions { nodes: 2, ..ClusterOptions::default() }, |cluster| {
        let namespace = cluster.system_namespace().to_owned();
        cluster.vipward(&["wire", "init", "--lease-namespace", &namespace])?;
        cluster.kill9(N1)?;
        cluster.member_mut(N1)?.agent_mut()?.options.only_capabilities =
            Some(Capability::OF_THE_OVERLAY.map(|(_, capability)| capability).to_vec());
        cluster.restart_agent(N1)?;
        cluster.wait_until_all_renew()?;
        let of_all = rights(cluster, N2)?;
        ensure!(of_all.ends_with("its memory is locked"), "{of_all}");
        assert_eq!(rights(cluster, N1)?, of_all);
        Ok(())
    })
}
