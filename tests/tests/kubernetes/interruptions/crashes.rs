//! Agents and nodes die, hang, lose their cable and come back.

use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, ensure};
use vipward_tests::{
    agent::{VIP, vip_status},
    cluster::{ClusterOptions, NodeId, SEGMENT, ServiceSpec, scenario},
    frames::Family,
    measure::DatagramReport,
};

/// Time longer than the rest of a claim, and than the spreading of a new MAC.
const SETTLED: Duration = Duration::from_secs(6);
/// Time between two answers of different holders.
const A_MOMENT: Duration = Duration::from_millis(20);
/// Time for late effects.
const AFTERWARDS: Duration = Duration::from_secs(2);

/// Kills the agent of a holder, whose program yields to the next one.
fn kill_the_holder(name: &str, policy: &str) -> Result<()> {
    scenario(name, ClusterOptions::with_args(&["--policy", policy]), |cluster| {
        cluster.create_service(&ServiceSpec::dual_stack("web"))?;
        let old = cluster.wait_until_all_held(&Family::vips())?;
        let watch = cluster.watch(&Family::vips())?;

        let killed = watch.step(format!("kill -9 on {old}"));
        cluster.kill9(old)?;
        let new = cluster.wait_until_all_held_by_another(&Family::vips(), old)?;
        watch.wait_until_all_received_by(&Family::vips(), new)?;
        watch.let_pass(AFTERWARDS)?;

        let seen = watch.stop()?;
        let fence = cluster.status(old)?["fence"].take();
        for vip in Family::vips() {
            seen.assert_flows_again(vip, killed, cluster.options().failover_limit());
            if policy == "stop" {
                assert_eq!((&fence["state"], &fence["policy"]), (&"over".into(), &"stop".into()), "{fence}");
                seen.assert_no_doubles(vip);
            } else {
                seen.assert_no_doubles_after_announcement(vip, new, killed);
                let gap = seen.wire.vip(vip)?.longest_gap();
                assert!(gap <= A_MOMENT, "{vip}: the pinned program answers on until it yields: {seen}");
            }
            assert_received_within(seen.felt(vip)?, new, killed, cluster.options().failover_limit())?;
            let entry = vip_status(cluster.member(old)?.agent().context("it was started")?, vip, SEGMENT)?;
            assert_eq!((&entry["role"], &entry["yielded"]), (&"foreign".into(), &true.into()), "{entry}");
            assert_eq!(entry["mac"], new.mac().to_string(), "{entry}");
        }
        Ok(())
    })
}

#[test]
fn the_vip_of_a_killed_agent_moves_and_its_pinned_program_yields() -> Result<()> {
    kill_the_holder("kill", "hold")
}

#[test]
fn under_stop_the_vip_of_a_killed_agent_moves_and_never_has_two_answers() -> Result<()> {
    kill_the_holder("killstop", "stop")
}

/// Stops a holder for longer than its lease, and then continues it.
fn pause_the_holder(name: &str, policy: &str) -> Result<()> {
    scenario(name, ClusterOptions::with_args(&["--policy", policy]), |cluster| {
        cluster.create_service(&ServiceSpec::dual_stack("web"))?;
        let old = cluster.wait_until_all_held(&Family::vips())?;
        let session = cluster.session(old)?;
        let watch = cluster.watch(&Family::vips())?;

        let paused = watch.step(format!("SIGSTOP to {old}"));
        cluster.pause(old)?;
        let new = cluster.wait_until_all_held_by_another(&Family::vips(), old)?;
        watch.wait_until_all_received_by(&Family::vips(), new)?;
        let resumed = watch.step(format!("SIGCONT to {old}"));
        cluster.resume(old)?;
        for vip in Family::vips() {
            cluster.wait_for_entry(old, vip, "to be foreign by its agent's own word", |entry| {
                let is_foreign = entry["role"] == "foreign" && entry["yielded"] == false;
                is_foreign && entry["mac"] == new.mac().to_string()
            })?;
        }
        cluster.wait_until_renewing(old)?;
        watch.let_pass(AFTERWARDS)?;

        let seen = watch.stop()?;
        for vip in Family::vips() {
            seen.assert_flows_again(vip, paused, cluster.options().failover_limit());
            match policy {
                "stop" => seen.assert_no_doubles(vip),
                _ => seen.assert_no_doubles_after_announcement(vip, new, paused),
            }
            let announced = seen.wire.vip(vip)?.first_announced_after(resumed, old.mac());
            assert_eq!(announced, None, "who was paused does not take {vip} back: {seen}");
            assert_eq!(cluster.holder(vip)?, Some(new));
        }
        assert_ne!(cluster.session(old)?, session, "the session of {old} was ended");
        Ok(())
    })
}

#[test]
fn a_holder_that_was_stopped_for_longer_than_its_lease_finds_itself_deposed() -> Result<()> {
    pause_the_holder("pause", "hold")
}

#[test]
fn under_stop_a_holder_that_was_stopped_never_answers_beside_its_successor() -> Result<()> {
    pause_the_holder("pausestop", "stop")
}

#[test]
fn a_node_that_loses_power_is_replaced_and_gets_the_vip_back_only_when_it_has_been_stable() -> Result<()> {
    const STABLE: Duration = Duration::from_secs(7);
    scenario("power", ClusterOptions::with_args(&["--stable-for", "7s"]), |cluster| {
        cluster.create_service(&ServiceSpec::new("web", VIP))?;
        cluster.wait_until_held(VIP)?;
        let watch = cluster.watch(&[VIP])?;
        // The VIP may be with a node that was not the first choice.
        // If so, it moves now, and not later.
        watch.let_pass(STABLE + Duration::from_secs(1))?;
        let old = cluster.wait_until_held(VIP)?;

        let off = watch.step(format!("{old} loses power"));
        cluster.power_off(old)?;
        let new = cluster.wait_until_held_by_another(VIP, old)?;
        watch.wait_until_received_by(VIP, new)?;
        watch.let_pass(AFTERWARDS)?;
        let on = watch.step(format!("{old} has power again"));
        cluster.power_on(old)?;
        cluster.start_agent(old)?;
        cluster.deliver(VIP)?;
        cluster.wait_until_held_by(VIP, old)?;
        watch.wait_until_received_by(VIP, old)?;
        watch.let_pass(AFTERWARDS)?;

        let end = SystemTime::now();
        let seen = watch.stop()?;
        let (wire, felt) = (seen.wire.vip(VIP)?, seen.felt(VIP)?);
        let lost_last = felt.lost_between(off, end).pop().map_or(off, |number| felt.sent[number]);
        let flows_after = lost_last.duration_since(off)?;
        assert!(flows_after <= cluster.options().failover_limit(), "after {flows_after:?} only: {seen}");
        seen.assert_no_doubles(VIP);
        let back = wire.moves().pop().context("it moved")?;
        assert_eq!(back.to, old.mac(), "{seen}");
        let stable = back.at.duration_since(on)?;
        assert!(stable >= STABLE, "it came back after {stable:?} already: {seen}");
        assert_eq!(wire.between(on, end).gaps(), [], "it came back by a handover: {seen}");
        assert!(felt.lost_between(on, end).is_empty(), "it came back by a handover: {seen}");
        Ok(())
    })
}

#[test]
fn a_holder_without_carrier_on_the_segment_is_replaced_at_once_whatever_the_management_network_says()
-> Result<()> {
    scenario("carrier", ClusterOptions::default(), |cluster| {
        cluster.create_service(&ServiceSpec::dual_stack("web"))?;
        let old = cluster.wait_until_all_held(&Family::vips())?;
        let watch = cluster.watch(&Family::vips())?;
        watch.let_pass(SETTLED)?;

        let pulled = watch.step(format!("{old} loses its carrier"));
        cluster.set_carrier(old, false)?;
        let new = cluster.wait_until_all_held_by_another(&Family::vips(), old)?;
        watch.wait_until_all_received_by(&Family::vips(), new)?;
        watch.let_pass(AFTERWARDS)?;
        watch.step(format!("{old} has carrier again"));
        cluster.set_carrier(old, true)?;
        watch.let_pass(AFTERWARDS)?;

        let seen = watch.stop()?;
        for vip in Family::vips() {
            seen.assert_flows_again(vip, pulled, Duration::from_secs(1));
            seen.assert_no_doubles(vip);
            assert_eq!(cluster.holder(vip)?, Some(new), "it stays where it is");
        }
        Ok(())
    })
}

/// Fails unless a datagram has reached `node` within `limit` from an instant on.
fn assert_received_within(
    felt: &DatagramReport,
    node: NodeId,
    from: SystemTime,
    limit: Duration,
) -> Result<()> {
    let node = node.to_string();
    let first = felt.received.iter().filter(|received| received.node == node && received.at >= from);
    let first = first.map(|received| received.at).min();
    let after = first.with_context(|| format!("{node} received nothing: {felt}"))?.duration_since(from)?;
    ensure!(after <= limit, "{node} received the first datagram after {after:?} only, not {limit:?}: {felt}");
    Ok(())
}
