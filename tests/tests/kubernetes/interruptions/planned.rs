//! Planned moves: no request goes unanswered and no datagram is lost.

use std::{net::Ipv4Addr, time::Duration};

use anyhow::{Context, Result, bail, ensure};
use ipnet::Ipv4Net;
use serde_json::json;
use vipward_tests::{
    agent::{VIP, ip},
    apiserver::{Effect, Matching, Often, Verb},
    cluster::{Cluster, ClusterOptions, Kind, NodeId, SEGMENT, ServiceSpec, Watch, scenario},
    frames::Family,
};

const EXCLUDE: &str = "node.kubernetes.io/exclude-from-external-load-balancers";

/// Waits until the VIPs of both families have their holder, and the nodes know each other as
/// candidates.
fn begin(cluster: &mut Cluster) -> Result<(NodeId, Watch)> {
    cluster.create_service(&ServiceSpec::dual_stack("web"))?;
    let holder = cluster.wait_until_all_held(&Family::vips())?;
    for id in cluster.ids() {
        cluster.wait_until_renewing(id)?;
    }
    let watch = cluster.watch(&Family::vips())?;
    watch.let_pass(cluster.options().lease + cluster.options().margin)?;
    Ok((holder, watch))
}

/// Does `deed` to the holder's node, and checks that the VIPs move without a gap.
fn moves_away(name: &str, what: &str, deed: impl FnOnce(&Cluster, NodeId) -> Result<()>) -> Result<()> {
    scenario(name, ClusterOptions::default(), |cluster| {
        let (old, watch) = begin(cluster)?;
        watch.step(format!("{old}: {what}"));
        deed(cluster, old)?;
        let new = cluster.wait_until_all_held_by_another(&Family::vips(), old)?;
        watch.wait_until_all_received_by(&Family::vips(), new)?;
        watch.let_pass(cluster.options().lease)?;
        watch.stop()?.assert_all_seamless();
        assert_eq!(cluster.holder(VIP)?, Some(new));
        Ok(())
    })
}

#[test]
fn a_cordoned_holder_hands_over() -> Result<()> {
    moves_away("cordon", "cordoned", Cluster::cordon)
}

#[test]
fn a_holder_that_is_not_ready_hands_over_when_another_can_take_it() -> Result<()> {
    moves_away("notready", "not ready", |cluster, id| cluster.set_conditions(id, false, false))
}

#[test]
fn a_drain_of_the_holder_hands_over_and_the_end_of_its_agent_is_not_noticed() -> Result<()> {
    scenario("drain", ClusterOptions::default(), |cluster| {
        let (old, watch) = begin(cluster)?;
        watch.step(format!("drain of {old}: cordoned"));
        cluster.cordon(old)?;
        watch.step(format!("drain of {old}: its agent gets the signal to end"));
        let ended = cluster.terminate(old)?;
        ensure!(ended.success(), "the agent on {old} ended with {ended}");
        let new = cluster.wait_until_all_held_by_another(&Family::vips(), old)?;
        watch.wait_until_all_received_by(&Family::vips(), new)?;
        watch.let_pass(cluster.options().failover_limit())?;
        watch.stop()?.assert_all_seamless();
        Ok(())
    })
}

#[test]
fn vipward_move_hands_over_to_the_node_that_is_named() -> Result<()> {
    scenario("move", ClusterOptions::default(), |cluster| {
        let (old, watch) = begin(cluster)?;
        let to = cluster.ids().into_iter().rfind(|id| *id != old).context("there is but one node")?;
        watch.step(format!("vipward move --to {to}"));
        let name = cluster.node_name(to);
        let (code, printed) = cluster.vipward_move(VIP, &name)?;
        assert_eq!(code, Some(0), "{printed}");
        assert!(printed.contains(&format!("{VIP} is held by {name} now, at {}", to.mac())), "{printed}");
        watch.wait_until_all_received_by(&Family::vips(), to)?;

        watch.step(format!("vipward move --to {to}, which has it"));
        let epoch = cluster.epoch(VIP)?;
        let (code, printed) = cluster.vipward_move(VIP, &name)?;
        assert_eq!(code, Some(0), "{printed}");
        watch.let_pass(cluster.options().lease)?;

        watch.stop()?.assert_all_seamless();
        assert_eq!((cluster.holder(VIP)?, cluster.epoch(VIP)?), (Some(to), epoch));
        Ok(())
    })
}

#[test]
fn vipward_move_to_a_node_that_cannot_hold_the_vip_says_why_and_moves_nothing() -> Result<()> {
    scenario("refused", ClusterOptions::default(), |cluster| {
        let (holder, watch) = begin(cluster)?;
        let to = cluster.ids().into_iter().find(|id| *id != holder).context("there is but one node")?;
        cluster.label_node(to, EXCLUDE, Some("true"))?;
        watch.let_pass(Duration::from_secs(1))?;
        watch.step(format!("vipward move --to {to}, which is excluded"));
        let name = cluster.node_name(to);
        let (code, printed) = cluster.vipward_move(VIP, &name)?;
        assert_eq!(code, Some(1), "{printed}");
        assert!(printed.contains("stays where it is") && printed.contains("label"), "{printed}");

        watch.stop()?.assert_all_seamless();
        assert_eq!(cluster.holder(VIP)?, Some(holder));
        Ok(())
    })
}

#[test]
fn a_move_does_not_wait_for_hundreds_of_new_claims() -> Result<()> {
    const NEW: u32 = 500;
    const MOVES: usize = 3;
    let vips = Ipv4Net::new(Ipv4Addr::new(10, 65, 0, 0), 16)?;
    let vip = |number: u32| Ipv4Addr::from(u32::from(vips.network()) + 256 + number);
    scenario("queue", ClusterOptions::default(), |cluster| {
        for (id, host) in cluster.ids().into_iter().zip(1..) {
            let own = Ipv4Net::new(u32::from(vips.network()).wrapping_add(host).into(), vips.prefix_len())?;
            cluster.member(id)?.host.add_address(SEGMENT, own)?;
        }
        let (_, watch) = begin(cluster)?;
        if let Some(server) = cluster.api_mut().in_this_process() {
            // This is the longest time of an answer. A write that waits for a
            // few of them comes too late for a handover.
            let new = Matching::any().verb(Verb::Create).resource("virtualips");
            server.trouble(new, Effect::Delay(Duration::from_secs(3)), Often::Always);
        }
        watch.step(format!("{NEW} Services are created"));
        for number in 0..NEW {
            cluster.create_service(&ServiceSpec::new(&format!("new-{number}"), vip(number)))?;
        }
        for _ in 0..MOVES {
            let holder = cluster.holder(VIP)?;
            let to = cluster.ids().into_iter().find(|id| Some(*id) != holder).context("another node")?;
            watch.step(format!("{VIP} is to move to {to}"));
            let wish = json!({"metadata": {"annotations": {"vipward.io/move-to": cluster.node_name(to)}}});
            cluster.admin().merge(&cluster.virtual_ip(VIP), &wish)?;
            cluster.wait_until_held_by(VIP, to)?;
            watch.wait_until_received_by(VIP, to)?;
        }
        if cluster.api_mut().in_this_process().is_some() {
            let claims = cluster.admin().list(Kind::VIRTUAL_IP, None)?.len();
            assert!(claims < NEW as usize, "nothing waited while the VIP moved");
        }
        watch.let_pass(cluster.options().lease)?;
        watch.stop()?.assert_all_seamless();
        Ok(())
    })
}

#[test]
fn many_new_vips_a_move_and_a_crash_leave_no_warning_in_any_log() -> Result<()> {
    /// Time in which an agent reports all that it has heard of its peers.
    const TOLD: Duration = Duration::from_secs(65);
    scenario("quiet", ClusterOptions::default(), |cluster| {
        cluster.wait_until_all_renew()?;
        let vips: Vec<Ipv4Addr> = (20..220).map(ip).collect();
        for vip in &vips {
            cluster.create_service(&ServiceSpec::new(&format!("web-{}", vip.octets()[3]), *vip))?;
        }
        for vip in &vips {
            cluster.wait_until_held(*vip)?;
        }
        let watch = cluster.watch(&vips[..1])?;
        watch.let_pass(cluster.options().lease + cluster.options().margin)?;
        let old = cluster.holder(vips[0])?.context("it is held")?;
        let [to, crashed] = cluster.ids().into_iter().filter(|id| *id != old).collect::<Vec<_>>()[..] else {
            bail!("there are three nodes");
        };
        watch.step(format!("{} moves from {old} to {to}", vips[0]));
        let (code, printed) = cluster.vipward_move(vips[0], &cluster.node_name(to))?;
        assert_eq!(code, Some(0), "{printed}");
        watch.wait_until_received_by(vips[0], to)?;

        watch.step(format!("{crashed} loses power"));
        cluster.power_off(crashed)?;
        for vip in &vips {
            cluster.wait_until_held_by_another(*vip, crashed)?;
        }
        watch.let_pass(TOLD)?;
        watch.stop()?.assert_seamless(vips[0]);
        let (errors, warnings) = cluster.complaints()?;
        assert_eq!((errors, warnings), (vec![], vec![]));
        Ok(())
    })
}
