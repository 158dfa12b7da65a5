//! The kernel refuses what an agent asks of it: nobody is told what is not so.

use std::net::Ipv4Addr;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use nix::sys::signal::Signal;
use vipward_tests::{
    cluster::{Cluster, ClusterOptions, N1, N2, NodeId, PATIENCE, SEGMENT, ServiceSpec, scenario},
    process::output_of,
    scene::{VIP, ip},
    tools,
};

const EXCLUDE: &str = "node.kubernetes.io/exclude-from-external-load-balancers";

/// From now on no entry of a node can be changed, by its agent or by anybody.
fn freeze_entries(cluster: &Cluster, id: NodeId) -> Result<()> {
    let agent = cluster.member(id)?.agent().context("it has an agent")?;
    let mut command = Command::new(tools::bpftool()?);
    command.args(["map", "freeze", "pinned"]).arg(agent.options.pin_dir.join("vips_v4"));
    output_of(command).map(drop)
}

/// Waits until a node's agent has said that it cannot change a VIP's entry.
fn wait_until_told(cluster: &mut Cluster, id: NodeId, vip: Ipv4Addr) -> Result<()> {
    let agent = cluster.member_mut(id)?.agent_mut()?;
    let said = agent.wait_for_log(PATIENCE, &format!("that it cannot change {vip}"), |line| {
        line.message().starts_with("failed to change the VIP's entry") && line.has("vip", vip)
    })?;
    let error = said.field("error").map(ToString::to_string);
    ensure!(said.has("interface", SEGMENT) && error.is_some_and(|error| error.contains("vips_v4")), "{said}");
    Ok(())
}

#[test]
fn a_vip_whose_entry_cannot_be_changed_is_not_given_away_and_that_is_told_once() -> Result<()> {
    let vips = [VIP, ip(21)];
    scenario("frozen", ClusterOptions::default(), |cluster| {
        let preferred = format!("kubernetes.io/hostname={}", cluster.node_name(N1));
        for (name, vip) in ["web", "mail"].into_iter().zip(vips) {
            let service = ServiceSpec::new(name, vip).annotation("vipward.io/preferred-nodes", &preferred);
            cluster.create_service(&service)?;
            cluster.wait_until_held_by(vip, N1)?;
        }
        cluster.wait_until_all_renew()?;
        let watch = cluster.watch(&vips)?;
        watch.let_pass(cluster.options().lease + cluster.options().margin)?;
        let before = (cluster.epoch(vips[0])?, cluster.epoch(vips[1])?);

        watch.step(format!("no entry of {N1} can be changed any more"));
        freeze_entries(cluster, N1)?;
        watch.step(format!("{N1} is labelled"));
        cluster.label_node(N1, EXCLUDE, Some("true"))?;
        for vip in vips {
            wait_until_told(cluster, N1, vip)?;
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
        assert!(logs.iter().all(|line| !line.message().contains("refused")), "{logs:#?}");
        Ok(())
    })
}

#[test]
fn a_node_that_leaves_and_cannot_stop_answering_does_not_end_its_session_before_its_fence() -> Result<()> {
    let args = ["--policy", "stop"].map(str::to_owned).to_vec();
    let options = ClusterOptions { nodes: 2, args, ..ClusterOptions::default() };
    scenario("frozenend", options, |cluster| {
        cluster.wait_until_all_renew()?;
        cluster.label_node(N2, EXCLUDE, Some("true"))?;
        cluster.create_service(&ServiceSpec::new("web", VIP))?;
        cluster.wait_until_held_by(VIP, N1)?;
        let watch = cluster.watch(&[VIP])?;
        watch.let_pass(cluster.options().lease + cluster.options().margin)?;

        watch.step(format!("no entry of {N1} can be changed any more, and it is drained"));
        freeze_entries(cluster, N1)?;
        cluster.cordon(N1)?;
        cluster.member_mut(N1)?.agent_mut()?.signal(Signal::SIGTERM)?;
        wait_until_told(cluster, N1, VIP)?;
        let free = watch.step(format!("{N2} may have it"));
        cluster.label_node(N2, EXCLUDE, None)?;
        cluster.wait_until_held_by(VIP, N2)?;
        watch.wait_until_received_by(VIP, N2)?;

        let seen = watch.stop()?;
        seen.assert_no_doubles(VIP);
        seen.assert_flows_again(VIP, free, cluster.options().failover_limit());
        Ok(())
    })
}
