//! The API server is out of reach for one node or for all, or it is reachable and does not help.

use std::time::{Duration, SystemTime};

use anyhow::{Context, Result};
use vipward_tests::{
    agent::{LogLine, VIP},
    apiserver::{Effect, Matching, Often},
    cluster::{Cluster, ClusterOptions, Cut, NodeId, PATIENCE, SEGMENT, ServiceSpec, Watch, scenario, skip},
    frames::{Arp, Family, Message},
    kit::wait_until,
    lan::Wire,
};

/// Longest lead of the holder over the observer in receiving an announcement, on a busy machine.
const SKEW: Duration = Duration::from_millis(50);

/// Returns a time in which a VIP would move if there were a reason.
fn long_enough(cluster: &Cluster) -> Duration {
    cluster.options().failover_limit() + cluster.options().lease
}

fn with_args(args: &[&str]) -> ClusterOptions {
    ClusterOptions { args: args.iter().map(|arg| (*arg).to_owned()).collect(), ..ClusterOptions::default() }
}

/// Checks that the VIPs of both families stay with their holder and are answered throughout, during
/// `trouble` and after it.
fn nothing_changes(
    name: &str,
    trouble: impl FnOnce(&mut Cluster, &Watch, NodeId) -> Result<()>,
) -> Result<()> {
    scenario(name, ClusterOptions::default(), |cluster| {
        cluster.create_service(&ServiceSpec::dual_stack("web"))?;
        let holder = cluster.wait_until_all_held(&Family::vips())?;
        let before = cluster.places(&Family::vips())?;
        let watch = cluster.watch(&Family::vips())?;

        trouble(cluster, &watch, holder)?;
        for id in cluster.ids() {
            cluster.wait_until_renewing(id)?;
        }
        watch.let_pass(cluster.options().failover_limit())?;

        watch.stop()?.assert_all_seamless();
        assert_eq!(cluster.places(&Family::vips())?, before);
        Ok(())
    })
}

/// Checks the policy `hold`: the holder answers on until another node has announced the VIP. After
/// its return it lets that node hold the VIP.
fn holder_cut_off(name: &str, cut: Cut) -> Result<()> {
    scenario(name, ClusterOptions::default(), |cluster| {
        cluster.create_service(&ServiceSpec::dual_stack("web"))?;
        let old = cluster.wait_until_all_held(&Family::vips())?;
        let watch = cluster.watch(&Family::vips())?;

        let begun = watch.step(format!("{old} is cut off from the API server"));
        cluster.cut_off(old, cut);
        let new = cluster.wait_until_all_held_by_another(&Family::vips(), old)?;
        watch.wait_until_all_received_by(&Family::vips(), new)?;
        let back = watch.step(format!("{old} is back"));
        cluster.reconnect(old);
        cluster.wait_until_renewing(old)?;
        watch.let_pass(cluster.options().lease)?;

        let seen = watch.stop()?;
        for vip in Family::vips() {
            let wire = seen.wire.vip(vip)?;
            let announced = wire.first_announced_after(begun, new.mac()).context("it was announced")?;
            let before = wire.between(begun, announced - SKEW);
            assert!(
                before.answered() > 0 && before.gaps().is_empty(),
                "{vip} is answered until another announces it: {seen}"
            );
            seen.assert_flows_again(vip, begun, cluster.options().failover_limit());
            seen.assert_no_doubles_after_announcement(vip, new, begun);
            assert!(wire.moves().iter().all(|moved| moved.at < back), "{vip} moves back: {seen}");
            assert_eq!(cluster.holder(vip)?, Some(new));
        }
        Ok(())
    })
}

#[test]
fn a_holder_that_loses_the_api_server_answers_until_another_announces_the_vip() -> Result<()> {
    holder_cut_off("cutsilent", Cut::Silent)
}

#[test]
fn a_holder_whose_connections_are_reset_answers_until_another_announces_the_vip() -> Result<()> {
    holder_cut_off("cutreset", Cut::Reset)
}

/// Checks that the program still has the peers that it yields to: the new
/// agent has read nothing, and the pins stay.
#[test]
fn an_agent_that_starts_where_it_cannot_reach_the_api_server_gives_way_to_the_next_holder() -> Result<()> {
    scenario("startcut", ClusterOptions::default(), |cluster| {
        cluster.create_service(&ServiceSpec::new("web", VIP))?;
        let old = cluster.wait_until_held(VIP)?;
        cluster.wait_until_all_renew()?;
        let known = cluster.member(old)?.agent().context("its agent runs")?.status()?["peers"].clone();
        let watch = cluster.watch(&[VIP])?;

        let begun = watch.step(format!("{old} is cut off from the API server, and its agent started again"));
        cluster.cut_off(old, Cut::Silent);
        cluster.kill9(old)?;
        cluster.start_agent(old)?;
        let new = cluster.wait_until_held_by_another(VIP, old)?;
        watch.wait_until_received_by(VIP, new)?;
        watch.let_pass(cluster.options().lease)?;
        let agent = cluster.member(old)?.agent().context("its agent runs")?;
        assert_eq!(agent.status()?["peers"], known, "the peers that were pinned");
        let unknown_hosts =
            agent.logs()?.iter().filter(|line| format!("{line:?}").contains("unknown host")).count();
        assert_eq!(unknown_hosts, 0, "the next holder is no unknown host");
        watch.step(format!("{old} is back"));
        cluster.reconnect(old);
        cluster.wait_until_renewing(old)?;
        watch.let_pass(cluster.options().lease)?;

        let seen = watch.stop()?;
        seen.assert_no_doubles_after_announcement(VIP, new, begun);
        seen.assert_flows_again(VIP, begun, cluster.options().failover_limit());
        assert_eq!(cluster.holder(VIP)?, Some(new));
        Ok(())
    })
}

#[test]
fn under_stop_a_holder_that_loses_the_api_server_is_silent_before_another_answers() -> Result<()> {
    scenario("cutstop", with_args(&["--policy", "stop"]), |cluster| {
        cluster.create_service(&ServiceSpec::dual_stack("web"))?;
        let old = cluster.wait_until_all_held(&Family::vips())?;
        let watch = cluster.watch(&Family::vips())?;

        let begun = watch.step(format!("{old} is cut off from the API server"));
        cluster.cut_off(old, Cut::Silent);
        let new = cluster.wait_until_all_held_by_another(&Family::vips(), old)?;
        watch.wait_until_all_received_by(&Family::vips(), new)?;
        watch.step(format!("{old} is back"));
        cluster.reconnect(old);
        cluster.wait_until_renewing(old)?;
        watch.let_pass(cluster.options().lease)?;

        let seen = watch.stop()?;
        for vip in Family::vips() {
            seen.assert_no_doubles(vip);
            seen.assert_flows_again(vip, begun, cluster.options().failover_limit());
            let silent = seen.wire.vip(vip)?.longest_gap();
            assert!(silent > Duration::ZERO, "{vip}: the old holder is silent before the new one: {seen}");
            assert_eq!(cluster.holder(vip)?, Some(new));
        }
        Ok(())
    })
}

#[test]
fn a_follower_that_loses_the_api_server_for_a_while_disturbs_no_vip() -> Result<()> {
    nothing_changes("follower", |cluster, watch, holder| {
        let follower = another(cluster, holder)?;
        watch.step(format!("{follower} is cut off from the API server"));
        cluster.cut_off(follower, Cut::Silent);
        watch.let_pass(long_enough(cluster))?;
        watch.step(format!("{follower} is back"));
        cluster.reconnect(follower);
        Ok(())
    })
}

#[test]
fn nothing_changes_while_no_node_reaches_the_api_server_nor_when_all_do_again() -> Result<()> {
    nothing_changes("outage", |cluster, watch, _| {
        watch.step("no node reaches the API server");
        cluster.cut_everyone_off();
        watch.let_pass(Duration::from_secs(30))?;
        watch.step("everybody does again");
        cluster.heal()
    })
}

#[test]
fn nothing_moves_when_the_api_server_comes_back_without_its_history() -> Result<()> {
    nothing_changes("history", |cluster, watch, _| {
        let Some(server) = cluster.api_mut().in_this_process() else {
            return skip("it comes back without its history");
        };
        watch.step("the API server stops");
        server.stop()?;
        watch.let_pass(Duration::from_secs(3))?;
        let server = cluster.api_mut().in_this_process().context("it was there a moment ago")?;
        server.compact();
        watch.step("it is back, and remembers nothing that happened before");
        server.start_again()
    })
}

#[test]
fn a_watch_that_stalls_while_writes_go_on_moves_nothing() -> Result<()> {
    nothing_changes("stall", |cluster, watch, holder| {
        let follower = cluster.user_of(another(cluster, holder)?);
        let length = long_enough(cluster);
        let Some(server) = cluster.api_mut().in_this_process() else {
            return skip("a watch of it stalls");
        };
        watch.step(format!("{follower} learns of no Lease any more"));
        let stall = server.stall_watches(Matching::any().user(follower).resource("leases"));
        watch.let_pass(length)?;
        let server = cluster.api_mut().in_this_process().context("it was there a moment ago")?;
        watch.step("it does again");
        server.end_trouble(stall);
        Ok(())
    })
}

/// Runs an API server that refuses some requests, and is slow with others.
#[test]
fn nothing_moves_while_the_api_server_is_slow_and_refuses_some_requests() -> Result<()> {
    nothing_changes("slow", |cluster, watch, _| {
        let length = long_enough(cluster);
        let Some(server) = cluster.api_mut().in_this_process() else {
            return skip("it is slow and refuses some requests");
        };
        watch.step("the API server is in trouble");
        for (effect, fraction) in [
            (Effect::Delay(Duration::from_millis(300)), 0.5),
            (Effect::Answer(500), 0.1),
            (Effect::Answer(429), 0.1),
            (Effect::Answer(503), 0.1),
        ] {
            server.trouble(Matching::any(), effect, Often::Fraction(fraction));
        }
        // The trouble concerns the test's own requests too, so it sends none meanwhile.
        watch.let_pass(length)?;
        let server = cluster.api_mut().in_this_process().context("it was there a moment ago")?;
        server.end_all_trouble();
        watch.step("it is well again");
        Ok(())
    })
}

/// Longest time until a VIP that was announced in a peer's name is answered again. The peer has two
/// seconds to answer, then come the last probes, and a second for a busy machine.
const TAKEN_BACK: Duration = Duration::from_millis(3_700);

/// Lets an unknown host announce the VIPs of both families in a peer's name while no node reaches the API
/// server. Checks that the holder takes them back, and that nothing has changed when the server is back.
fn forged_in_an_outage(
    name: &str,
    forge: impl FnOnce(&mut Cluster, &Watch, NodeId, NodeId) -> Result<()>,
    notified: impl FnOnce(&Cluster, NodeId, NodeId) -> Result<()>,
) -> Result<()> {
    scenario(name, ClusterOptions::default(), |cluster| {
        cluster.create_service(&ServiceSpec::dual_stack("web"))?;
        let holder = cluster.wait_until_all_held(&Family::vips())?;
        let peer = another(cluster, holder)?;
        let before = cluster.places(&Family::vips())?;
        cluster.wait_until_all_renew()?;
        let watch = cluster.watch(&Family::vips())?;

        watch.step("no node reaches the API server");
        cluster.cut_everyone_off();
        wait_until(PATIENCE, "the lease deadline to pass", || {
            Ok(cluster.status(holder)?["lease_deadline"]["state"] == "grace period")
        })?;
        forge(cluster, &watch, holder, peer)?;
        watch.let_pass(Duration::from_secs(1))?;
        let forged = watch.step("the unknown host forges the Ethernet source too");
        let wire = Wire::open(&cluster.rogue, SEGMENT)?;
        for vip in Family::vips() {
            wire.send(&Message::announcement(peer.mac(), vip).to_bytes())?;
        }
        for vip in Family::vips() {
            cluster.wait_for_entry(holder, vip, "is yielded", |entry| entry["yielded"] == true)?;
        }
        for vip in Family::vips() {
            cluster.wait_for_entry(holder, vip, "is taken back", |entry| {
                entry["role"] == "held" && entry["yielded"] == false
            })?;
        }
        watch.let_pass(Duration::from_secs(2))?;
        watch.step("every node reaches the API server again");
        cluster.heal()?;
        for id in cluster.ids() {
            cluster.wait_until_renewing(id)?;
        }
        watch.let_pass(cluster.options().failover_limit())?;

        let seen = watch.stop()?;
        for vip in Family::vips() {
            let wire = seen.wire.vip(vip)?;
            let before = wire.between(SystemTime::UNIX_EPOCH, forged);
            assert!(before.gaps().is_empty(), "{vip} is not yielded yet: {seen}");
            assert!(wire.gaps().len() <= 1 && wire.longest_gap() <= TAKEN_BACK, "{vip} is dark once: {seen}");
            seen.assert_no_doubles(vip);
        }
        assert_eq!(cluster.places(&Family::vips())?, before);
        notified(cluster, holder, peer)
    })
}

#[test]
fn a_host_that_announces_in_a_peers_name_during_an_outage_takes_no_vip() -> Result<()> {
    forged_in_an_outage(
        "forgedpeer",
        |cluster, watch, _, peer| {
            watch.step(format!(
                "an unknown host announces in the name of {peer}, from its own Ethernet source"
            ));
            let wire = Wire::open(&cluster.rogue, SEGMENT)?;
            let eth_src = cluster.rogue.mac(SEGMENT)?;
            for form in [Arp::gratuitous_request, Arp::gratuitous_reply] {
                wire.send(&Arp { eth_src, ..form(peer.mac(), VIP, peer.mac()) }.to_bytes())?;
            }
            let of_ipv6 = Message::announcement(peer.mac(), Family::V6.vip());
            wire.send(&of_ipv6.sent_by(eth_src).to_bytes())
        },
        |cluster, holder, peer| {
            let agent = cluster.member(holder)?.agent().context("its agent runs")?;
            for vip in Family::vips() {
                let says = |line: &LogLine| {
                    let is_about = line.has("vip", vip) && line.has("mac", peer.mac());
                    is_about && line.message().contains("takes it back")
                };
                assert!(agent.logs()?.iter().any(says), "{}", agent.transcript());
                let parts = [&vip.to_string(), &peer.mac().to_string(), "has taken"];
                let event = cluster.wait_for_event("web", &parts)?;
                assert_eq!(event.reason, "TakenBack", "{event:?}");
            }
            Ok(())
        },
    )
}

#[test]
fn an_agent_that_started_during_the_outage_takes_a_vip_back_too() -> Result<()> {
    forged_in_an_outage(
        "forgedalone",
        |cluster, watch, holder, _| {
            watch.step(format!("the agent of {holder} starts again"));
            cluster.kill9(holder)?;
            cluster.start_agent(holder)
        },
        |_, _, _| Ok(()),
    )
}

fn another(cluster: &Cluster, than: NodeId) -> Result<NodeId> {
    cluster.ids().into_iter().find(|id| *id != than).context("there is but one node")
}
