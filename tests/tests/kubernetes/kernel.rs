//! The kernel refuses an agent's changes: no report is false.

use std::net::Ipv4Addr;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use vipward_tests::{
    agent::{VIP, ip},
    cluster::{Cluster, ClusterOptions, N1, NodeId, PATIENCE, SEGMENT, ServiceSpec, scenario},
    kit::{output_of, tools},
};

const MAX_VIPS: u8 = 8;
const EXCLUDE: &str = "node.kubernetes.io/exclude-from-external-load-balancers";

/// Makes all later changes of a node's entries fail, for every process.
fn freeze_entries(cluster: &Cluster, id: NodeId) -> Result<()> {
    let agent = cluster.member(id)?.agent().context("it has an agent")?;
    let mut command = Command::new(tools::bpftool()?);
    command.args(["map", "freeze", "pinned"]).arg(agent.options.pin_dir.join("vips_v4"));
    output_of(command).map(drop)
}

/// Waits until a node's agent logs that it cannot change a VIP's entry.
fn wait_until_notified(cluster: &mut Cluster, id: NodeId, vip: Ipv4Addr) -> Result<()> {
    let agent = cluster.member_mut(id)?.agent_mut()?;
    let said = agent.wait_for_log(PATIENCE, &format!("that it cannot change {vip}"), |line| {
        line.message().starts_with("failed to change the VIP's entry") && line.has("vip", vip)
    })?;
    let error = said.field("error").map(ToString::to_string);
    ensure!(said.has("interface", SEGMENT) && error.is_some_and(|error| error.contains("vips_v4")), "{said}");
    Ok(())
}

#[test]
fn a_vip_whose_entry_cannot_be_changed_is_not_given_away_and_that_is_reported_once() -> Result<()> {
    let vips = [VIP, ip(21)];
    scenario("frozen", ClusterOptions::default(), |cluster| {
        // Otherwise the first node to start would hold them.
        cluster.wait_until_all_renew()?;
        let preferred = format!("kubernetes.io/hostname={}", cluster.node_name(N1));
        for (name, vip) in ["web", "mail"].into_iter().zip(vips) {
            let service = ServiceSpec::new(name, vip).annotation("vipward.io/preferred-nodes", &preferred);
            cluster.create_service(&service)?;
            cluster.wait_until_held_by(vip, N1)?;
        }
        let watch = cluster.watch(&vips)?;
        watch.let_pass(cluster.options().lease + cluster.options().margin)?;
        let before = (cluster.epoch(vips[0])?, cluster.epoch(vips[1])?);

        watch.step(format!("no entry of {N1} can be changed any more"));
        freeze_entries(cluster, N1)?;
        watch.step(format!("{N1} is labelled"));
        cluster.label_node(N1, EXCLUDE, Some("true"))?;
        for vip in vips {
            wait_until_notified(cluster, N1, vip)?;
        }
        watch.step("it is tried again, and again");
        watch.let_pass(cluster.options().failover_limit() * 2)?;

        let seen = watch.stop()?;
        for vip in vips {
            seen.assert_seamless(vip);
            assert_eq!(cluster.holder(vip)?, Some(N1));
        }
        assert_eq!((cluster.epoch(vips[0])?, cluster.epoch(vips[1])?), before, "nothing was written");
        let logs = cluster.member_mut(N1)?.agent_mut()?.logs()?;
        let about_entries = logs.iter().filter(|line| line.message().contains("the VIP's entry"));
        assert_eq!(about_entries.count(), vips.len(), "once for each: {logs:#?}");
        assert!(logs.iter().all(|line| !line.message().contains("refuses")), "{logs:#?}");
        Ok(())
    })
}

/// Fills the entries' map of a node with foreign entries.
fn fill_entries(cluster: &Cluster, id: NodeId) -> Result<()> {
    let agent = cluster.member(id)?.agent().context("it has an agent")?;
    let map = agent.options.pin_dir.join("vips_v4");
    let mut command = Command::new(tools::bpftool()?);
    command.args(["--json", "map", "dump", "pinned"]).arg(&map);
    let dump: Vec<Value> = serde_json::from_str(&output_of(command)?)?;
    let bytes = |field: &str| -> Result<Vec<String>> {
        let bytes = dump.first().and_then(|entry| entry[field].as_array()).context("an entry")?;
        Ok(bytes.iter().filter_map(Value::as_str).map(ToOwned::to_owned).collect())
    };
    let (mut key, value) = (bytes("key")?, bytes("value")?);
    for number in 0..=MAX_VIPS {
        // The interface does not exist.
        key.splice(..4, ["0xff", "0xff", "0xff", &format!("{number:#x}")].map(str::to_owned));
        let mut command = Command::new(tools::bpftool()?);
        command.args(["map", "update", "pinned"]).arg(&map).arg("key").args(&key).arg("value").args(&value);
        if let Err(error) = output_of(command) {
            ensure!(error.to_string().contains("Argument list too long"), "{error:#}");
            return Ok(());
        }
    }
    bail!("the map holds more than {MAX_VIPS} entries")
}

#[test]
fn a_vip_whose_entry_the_map_has_no_room_for_is_taken_when_it_has_and_others_are_left_alone() -> Result<()> {
    let args = vec![format!("--max-vips={MAX_VIPS}")];
    scenario("fullmap", ClusterOptions { nodes: 1, args, ..ClusterOptions::default() }, |cluster| {
        let second = ip(21);
        cluster.create_service(&ServiceSpec::new("web", VIP))?;
        cluster.wait_until_held_by(VIP, N1)?;
        let watch = cluster.watch(&[VIP])?;
        watch.step("the map is full of entries without an owner");
        fill_entries(cluster, N1)?;
        cluster.create_service(&ServiceSpec::new("mail", second))?;
        wait_until_notified(cluster, N1, second)?;
        assert_eq!(cluster.holder(second)?, None, "it is not claimed without an entry");
        watch.step("the agent removes entries without an owner, and tries again");
        cluster.wait_until_held_by(second, N1)?;
        cluster.member_mut(N1)?.agent_mut()?.wait_for_log(PATIENCE, "that it is over", |line| {
            line.message().contains("entry is changed after all") && line.has("vip", second)
        })?;
        watch.stop()?.assert_seamless(VIP);
        Ok(())
    })
}
