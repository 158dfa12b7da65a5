//! Agents and nodes die, hang, lose their cable and come back.

use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, ensure};
use vipward_tests::{
    agent::{LogLine, VIP, vip_status},
    cluster::{ClusterOptions, NodeId, SEGMENT, ServiceSpec, scenario},
    frames::{Arp, Family, Mac, Message},
    lan::Wire,
    measure::DatagramReport,
};

/// Time longer than the rest of a claim, and than the spreading of a new MAC.
const SETTLED: Duration = Duration::from_secs(6);
/// Time between two answers of different holders.
const A_MOMENT: Duration = Duration::from_millis(20);
/// Time for late effects.
const AFTERWARDS: Duration = Duration::from_secs(2);

fn with_args(args: &[&str]) -> ClusterOptions {
    let args = args.iter().map(|arg| (*arg).to_owned()).collect();
    ClusterOptions { args, ..ClusterOptions::default() }
}

#[test]
fn the_vip_of_a_killed_agent_moves_and_its_pinned_program_yields() -> Result<()> {
    scenario("kill", ClusterOptions::default(), |cluster| {
        cluster.create_service(&ServiceSpec::dual_stack("web"))?;
        let old = cluster.wait_until_all_held(&Family::vips())?;
        let watch = cluster.watch(&Family::vips())?;

        let killed = watch.step(format!("kill -9 on {old}"));
        cluster.kill9(old)?;
        let new = cluster.wait_until_all_held_by_another(&Family::vips(), old)?;
        watch.wait_until_all_received_by(&Family::vips(), new)?;
        watch.let_pass(AFTERWARDS)?;

        let seen = watch.stop()?;
        for vip in Family::vips() {
            seen.assert_flows_again(vip, killed, cluster.options().failover_limit());
            seen.assert_no_doubles_after_announcement(vip, new, killed);
            let gap = seen.wire.vip(vip)?.longest_gap();
            assert!(gap <= A_MOMENT, "{vip}: the pinned program answers on until it yields: {seen}");
            assert_received_within(seen.felt(vip)?, new, killed, cluster.options().failover_limit())?;
            let entry = vip_status(cluster.member(old)?.agent().context("it was started")?, vip, SEGMENT)?;
            assert_eq!((&entry["role"], &entry["yielded"]), (&"foreign".into(), &true.into()), "{entry}");
            assert_eq!(entry["mac"], new.mac().to_string(), "{entry}");
        }
        Ok(())
    })
}

#[test]
fn under_stop_the_vip_of_a_killed_agent_moves_and_never_has_two_answers() -> Result<()> {
    scenario("killstop", with_args(&["--policy", "stop"]), |cluster| {
        cluster.create_service(&ServiceSpec::dual_stack("web"))?;
        let old = cluster.wait_until_all_held(&Family::vips())?;
        let watch = cluster.watch(&Family::vips())?;

        let killed = watch.step(format!("kill -9 on {old}"));
        cluster.kill9(old)?;
        let new = cluster.wait_until_all_held_by_another(&Family::vips(), old)?;
        watch.wait_until_all_received_by(&Family::vips(), new)?;
        watch.let_pass(AFTERWARDS)?;

        let seen = watch.stop()?;
        let lease_deadline = cluster.status(old)?["lease_deadline"].take();
        assert_eq!(
            (&lease_deadline["state"], &lease_deadline["policy"]),
            (&"over".into(), &"stop".into()),
            "{lease_deadline}"
        );
        for vip in Family::vips() {
            seen.assert_flows_again(vip, killed, cluster.options().failover_limit());
            seen.assert_no_doubles(vip);
            assert_received_within(seen.felt(vip)?, new, killed, cluster.options().failover_limit())?;
            let entry = vip_status(cluster.member(old)?.agent().context("it was started")?, vip, SEGMENT)?;
            assert_eq!((&entry["role"], &entry["yielded"]), (&"foreign".into(), &true.into()), "{entry}");
        }
        Ok(())
    })
}

/// Stops a holder for longer than its lease, and then continues it.
fn pause_the_holder(name: &str, policy: &str) -> Result<()> {
    scenario(name, with_args(&["--policy", policy]), |cluster| {
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
fn a_holder_that_was_stopped_for_longer_than_its_lease_finds_itself_expired() -> Result<()> {
    pause_the_holder("pause", "hold")
}

#[test]
fn under_stop_a_holder_that_was_stopped_never_answers_beside_its_successor() -> Result<()> {
    pause_the_holder("pausestop", "stop")
}

#[test]
fn a_node_that_loses_power_is_replaced_and_gets_the_vip_back_only_when_it_has_been_stable() -> Result<()> {
    const STABLE: Duration = Duration::from_secs(7);
    scenario("power", with_args(&["--stable-for", "7s"]), |cluster| {
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

#[test]
fn no_client_notices_that_a_followers_agent_is_killed() -> Result<()> {
    scenario("follower", ClusterOptions::default(), |cluster| {
        cluster.create_service(&ServiceSpec::new("web", VIP))?;
        let holder = cluster.wait_until_held(VIP)?;
        let follower = cluster.ids().into_iter().find(|id| *id != holder).context("there are three")?;
        let watch = cluster.watch(&[VIP])?;
        let epoch = cluster.epoch(VIP)?;

        watch.step(format!("kill -9 on {follower}"));
        cluster.kill9(follower)?;
        watch.let_pass(cluster.options().failover_limit() + AFTERWARDS)?;

        watch.stop()?.assert_seamless(VIP);
        assert_eq!((cluster.holder(VIP)?, cluster.epoch(VIP)?), (Some(holder), epoch));
        Ok(())
    })
}

#[test]
fn two_nodes_lose_power_one_after_the_other_and_the_third_answers() -> Result<()> {
    scenario("twice", with_args(&["--policy", "stop"]), |cluster| {
        let limit = cluster.options().failover_limit();
        cluster.create_service(&ServiceSpec::new("web", VIP))?;
        let first = cluster.wait_until_held(VIP)?;
        let watch = cluster.watch(&[VIP])?;

        let off = watch.step(format!("{first} loses power"));
        cluster.power_off(first)?;
        let second = cluster.wait_until_held_by_another(VIP, first)?;
        watch.wait_until_received_by(VIP, second)?;
        let off_too = watch.step(format!("{second} loses power"));
        cluster.power_off(second)?;
        let third = cluster.wait_until_held_by_another(VIP, second)?;
        watch.wait_until_received_by(VIP, third)?;

        let seen = watch.stop()?;
        assert_ne!(third, first);
        assert_received_within(seen.felt(VIP)?, second, off, limit)?;
        seen.assert_flows_again(VIP, off_too, limit);
        seen.assert_no_doubles(VIP);
        Ok(())
    })
}

#[test]
fn a_rogue_that_claims_the_vip_during_a_failover_is_dropped_and_reported() -> Result<()> {
    /// Time between two claims of the rogue.
    const PAUSE: Duration = Duration::from_millis(200);
    /// Time in which a round comes: announcements are repeated every 1.1 s at first.
    const ROUND: Duration = Duration::from_millis(1500);
    scenario("rogue", ClusterOptions::default(), |cluster| {
        cluster.create_service(&ServiceSpec::dual_stack("web"))?;
        let old = cluster.wait_until_all_held(&Family::vips())?;
        let watch = cluster.watch(&Family::vips())?;
        let wire = Wire::open(&cluster.rogue, SEGMENT)?;
        let rogue = cluster.rogue.mac(SEGMENT)?;
        let claim = || {
            wire.send(&Arp::gratuitous_request(rogue, VIP, Mac::ZERO).to_bytes())?;
            wire.send(&Arp::gratuitous_reply(rogue, VIP, rogue).to_bytes())?;
            wire.send(&Message::announcement(rogue, Family::V6.vip()).to_bytes())
        };

        let off = watch.step(format!("{old} loses power"));
        cluster.power_off(old)?;
        let limit = cluster.options().failover_limit();
        while Family::vips().iter().any(|vip| cluster.holder(*vip).is_ok_and(|now| now == Some(old))) {
            ensure!(off.elapsed()? < 2 * limit, "no node takes the VIPs over");
            claim()?;
            watch.let_pass(PAUSE)?;
        }
        let new = cluster.wait_until_all_held_by_another(&Family::vips(), old)?;
        let last = watch.step("the rogue's last claim");
        claim()?;
        watch.wait_until_all_received_by(&Family::vips(), new)?;
        watch.let_pass(AFTERWARDS)?;

        let seen = watch.stop()?;
        let notified = cluster.member(new)?.agent().context("it was started")?.logs()?;
        for vip in Family::vips() {
            seen.assert_flows_again(vip, last, ROUND);
            seen.assert_no_doubles(vip);
            assert_eq!(cluster.answered_by(vip)?, Some(new));
            let entry = cluster.wait_for_entry(new, vip, "to count conflicts", |entry| {
                entry["conflicts"].as_u64().is_some_and(|conflicts| conflicts > 0)
            })?;
            assert_eq!(entry["role"], "held", "{entry}");
            let is_it = |line: &LogLine| {
                line.has("kind", "conflict") && line.has("mac", rogue) && line.has("vip", vip)
            };
            assert!(notified.iter().any(is_it), "the conflict about {vip} is reported with the rogue's MAC");
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
