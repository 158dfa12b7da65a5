//! Planned moves: no request goes unanswered and no datagram is lost.

use std::{net::Ipv4Addr, time::Duration};

use anyhow::{Context, Result, bail, ensure};
use ipnet::Ipv4Net;
use serde_json::json;
use vipward_tests::{
    agent::{VIP, ip},
    apiserver::{Effect, Matching, Often, Verb},
    cluster::{Cluster, ClusterOptions, Kind, N1, NodeId, SEGMENT, ServiceSpec, Watch, scenario},
    frames::{Family, Mac},
};

const EXCLUDE: &str = "node.kubernetes.io/exclude-from-external-load-balancers";
const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";

fn with_args(args: &[&str]) -> ClusterOptions {
    ClusterOptions { args: args.iter().map(|arg| (*arg).to_owned()).collect(), ..ClusterOptions::default() }
}

/// Waits until the VIPs of both families have their holder, and the nodes know each other as
/// candidates.
fn begin(cluster: &mut Cluster) -> Result<(NodeId, Watch)> {
    begin_with(cluster, &ServiceSpec::dual_stack("web"))
}

fn begin_with(cluster: &mut Cluster, service: &ServiceSpec) -> Result<(NodeId, Watch)> {
    cluster.create_service(service)?;
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

/// Does `deed`, and checks that no VIP moves.
fn stays(
    name: &str,
    options: ClusterOptions,
    what: &str,
    deed: impl FnOnce(&Cluster, NodeId) -> Result<()>,
) -> Result<()> {
    scenario(name, options, |cluster| {
        let (holder, watch) = begin(cluster)?;
        let before = cluster.places(&Family::vips())?;
        watch.step(what);
        deed(cluster, holder)?;
        watch.let_pass(cluster.options().failover_limit() + cluster.options().lease)?;
        watch.stop()?.assert_all_seamless();
        assert_eq!(cluster.places(&Family::vips())?, before);
        Ok(())
    })
}

#[test]
fn a_cordoned_holder_hands_over() -> Result<()> {
    moves_away("cordon", "cordoned", Cluster::cordon)
}

#[test]
fn a_holder_that_is_excluded_by_its_label_hands_over() -> Result<()> {
    moves_away("exclude", "labelled", |cluster, id| cluster.label_node(id, EXCLUDE, Some("true")))
}

#[test]
fn a_holder_that_is_out_of_service_hands_over() -> Result<()> {
    moves_away("oos", "tainted", |cluster, id| cluster.set_taints(id, &[(OUT_OF_SERVICE, "NoExecute")]))
}

#[test]
fn a_holder_that_is_not_ready_hands_over_when_another_can_take_it() -> Result<()> {
    moves_away("notready", "not ready", |cluster, id| cluster.set_conditions(id, false, false))
}

#[test]
fn a_holder_whose_network_is_unavailable_hands_over() -> Result<()> {
    moves_away("nonet", "network unavailable", |cluster, id| cluster.set_conditions(id, true, true))
}

#[test]
fn when_every_node_is_not_ready_nothing_moves() -> Result<()> {
    stays("allbad", ClusterOptions::default(), "no node is ready", |cluster, holder| {
        // The holder comes last: until then it is the best node.
        let others = cluster.ids().into_iter().filter(|id| *id != holder);
        for id in others.chain([holder]) {
            cluster.set_conditions(id, false, false)?;
        }
        Ok(())
    })
}

#[test]
fn the_only_node_keeps_its_vip_when_it_is_cordoned() -> Result<()> {
    let options = ClusterOptions { nodes: 1, ..ClusterOptions::default() };
    stays("onenode", options, "the only node is cordoned", Cluster::cordon)
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
fn an_uncordoned_node_gets_its_vip_back_only_when_it_has_been_good_for_a_while() -> Result<()> {
    const STABLE: Duration = Duration::from_secs(6);
    scenario("uncordon", with_args(&["--stable-for", "6s"]), |cluster| {
        let old = N1;
        let preferred = format!("kubernetes.io/hostname={}", cluster.node_name(old));
        let service = ServiceSpec::new("web", VIP).annotation("vipward.io/preferred-nodes", &preferred);
        cluster.create_service(&service)?;
        cluster.wait_until_held_by(VIP, old)?;
        let watch = cluster.watch(&[VIP])?;
        watch.step(format!("{old} is cordoned"));
        cluster.cordon(old)?;
        let new = cluster.wait_until_held_by_another(VIP, old)?;
        watch.wait_until_received_by(VIP, new)?;

        let uncordoned = watch.step(format!("{old} is uncordoned"));
        cluster.uncordon(old)?;
        cluster.wait_until_held_by(VIP, old)?;
        watch.wait_until_received_by(VIP, old)?;
        watch.let_pass(cluster.options().lease)?;

        let seen = watch.stop()?;
        seen.assert_seamless(VIP);
        let moves = seen.wire.vip(VIP)?.moves();
        let back = moves.iter().find(|moved| moved.at > uncordoned).context("it moved back")?;
        let after = back.at.duration_since(uncordoned)?;
        assert!(after >= STABLE, "it moved back after {after:?}: {seen}");
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
        watch.wait_until_received_by(VIP, to)?;

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
fn a_move_to_a_node_that_does_not_exist_moves_nothing_and_leaves_no_wish() -> Result<()> {
    scenario("nonode", ClusterOptions::default(), |cluster| {
        let (holder, watch) = begin(cluster)?;
        let claim = cluster.virtual_ip(VIP);
        watch.step("vipward move --to nowhere");
        let (code, printed) = cluster.vipward_move(VIP, "nowhere")?;
        assert_eq!(code, Some(1), "{printed}");
        assert!(printed.contains("there is no node \"nowhere\""), "{printed}");
        let about = cluster.events_about("web")?;
        assert!(about.iter().all(|event| !event.note.contains("nowhere")), "no agent was asked: {about:#?}");

        watch.step("vipward.io/move-to: nowhere");
        let wish = json!({"metadata": {"annotations": {"vipward.io/move-to": "nowhere"}}});
        cluster.admin().merge(&claim, &wish)?;
        cluster.wait_for_event("web", &["cannot be moved to nowhere", "there is no such Node"])?;
        let limit = cluster.options().lease;
        cluster.admin().wait_for(limit, &claim, "to be without the wish", |claim| {
            claim.is_some_and(|claim| claim["metadata"]["annotations"]["vipward.io/move-to"].is_null())
        })?;

        watch.stop()?.assert_all_seamless();
        assert_eq!(cluster.holder(VIP)?, Some(holder));
        Ok(())
    })
}

#[test]
fn the_annotation_moves_a_vip_and_is_taken_off() -> Result<()> {
    scenario("annotate", ClusterOptions::default(), |cluster| {
        let (old, watch) = begin(cluster)?;
        let to = cluster.ids().into_iter().rfind(|id| *id != old).context("there is but one node")?;
        watch.step(format!("vipward.io/move-to: {to}"));
        let claim = cluster.virtual_ip(VIP);
        let wish = json!({"metadata": {"annotations": {"vipward.io/move-to": cluster.node_name(to)}}});
        cluster.admin().merge(&claim, &wish)?;
        cluster.wait_until_held_by(VIP, to)?;
        watch.wait_until_received_by(VIP, to)?;
        let limit = cluster.options().lease;
        cluster.admin().wait_for(limit, &claim, "to be without the wish", |claim| {
            claim.is_some_and(|claim| claim["metadata"]["annotations"]["vipward.io/move-to"].is_null())
        })?;
        watch.let_pass(limit)?;
        watch.stop()?.assert_all_seamless();
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
fn when_the_holders_mac_changes_the_new_one_is_answered_and_the_claim_says_so() -> Result<()> {
    const NEW: Mac = Mac([2, 0, 0, 0, 0x09, 0x09]);
    scenario("newmac", ClusterOptions::default(), |cluster| {
        let (holder, watch) = begin(cluster)?;
        let changed = watch.step(format!("the MAC of {holder} changes"));
        cluster.member(holder)?.host.set_mac(SEGMENT, NEW)?;
        for vip in Family::vips() {
            watch.monitor().wait_until_answered_by(vip, NEW, cluster.options().failover_limit())?;
        }
        let limit = cluster.options().failover_limit();
        cluster.admin().wait_for(limit, &cluster.virtual_ip(VIP), "to have the new MAC", |claim| {
            claim.is_some_and(|claim| claim["spec"]["mac"] == NEW.to_string())
        })?;
        watch.wait_until_received_by(VIP, holder)?;
        watch.let_pass(limit)?;

        let seen = watch.stop()?;
        // The announcement updates a client's old cache at once.
        for vip in Family::vips() {
            seen.assert_flows_again(vip, changed, Duration::from_secs(2));
            seen.assert_no_doubles(vip);
            assert_eq!(cluster.holder(vip)?, Some(holder));
        }
        Ok(())
    })
}

#[test]
fn many_new_vips_a_move_and_a_crash_leave_no_warning_in_any_log() -> Result<()> {
    /// Time in which an agent reports all that it has learned of its peers.
    const NOTIFIED: Duration = Duration::from_secs(65);
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
        watch.let_pass(NOTIFIED)?;
        watch.stop()?.assert_seamless(vips[0]);
        let (errors, warnings) = cluster.complaints()?;
        assert_eq!((errors, warnings), (vec![], vec![]));
        Ok(())
    })
}
