//! Agents that are started again, rolled out, removed, and added on more nodes.

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use nix::sys::signal::Signal;
use vipward_tests::{
    agent::{VIP, ip},
    cluster::{Cluster, ClusterOptions, N1, NodeId, PATIENCE, ServiceSpec, Watch, scenario},
    frames::Family,
};

fn with_args(args: &[&str]) -> ClusterOptions {
    let args = args.iter().map(|arg| (*arg).to_owned()).collect();
    ClusterOptions { args, ..ClusterOptions::default() }
}

/// Kills an agent, and starts it again as a supervisor would.
fn kill_and_start_again(name: &str, policy: &str) -> Result<()> {
    scenario(name, with_args(&["--policy", policy]), |cluster| {
        cluster.create_service(&ServiceSpec::dual_stack("web"))?;
        let holder = cluster.wait_until_all_held(&Family::vips())?;
        let session = cluster.session(holder)?;
        let before = cluster.places(&Family::vips())?;
        let watch = cluster.watch(&Family::vips())?;

        watch.step(format!("kill -9 on {holder}"));
        cluster.kill9(holder)?;
        watch.step(format!("the agent on {holder} is started again"));
        cluster.restart_agent(holder)?;
        watch.let_pass(cluster.options().failover_limit())?;

        watch.stop()?.assert_all_seamless();
        assert_eq!(cluster.places(&Family::vips())?, before);
        assert_eq!(cluster.session(holder)?, session, "the new process goes on with the session");
        Ok(())
    })
}

#[test]
fn a_killed_agent_that_is_started_again_goes_on_with_its_session_and_its_vips() -> Result<()> {
    kill_and_start_again("again", "hold")
}

#[test]
fn under_stop_a_killed_agent_that_is_started_again_goes_on_too() -> Result<()> {
    kill_and_start_again("againstop", "stop")
}

#[test]
fn a_rolling_restart_with_pauses_longer_than_a_lease_moves_nothing() -> Result<()> {
    /// Time between SIGTERM and the new process.
    const PAUSE: Duration = Duration::from_secs(20);
    scenario("rolling", ClusterOptions::default(), |cluster| {
        cluster.create_service(&ServiceSpec::dual_stack("web"))?;
        cluster.wait_until_all_held(&Family::vips())?;
        let before = cluster.places(&Family::vips())?;
        let watch = cluster.watch(&Family::vips())?;

        for id in cluster.ids() {
            let session = cluster.session(id)?;
            watch.step(format!("SIGTERM to {id}"));
            let ended = cluster.terminate(id)?;
            ensure!(ended.success(), "the agent on {id} ended with {ended}");
            watch.let_pass(PAUSE)?;
            watch.step(format!("the agent on {id} is started again"));
            cluster.restart_agent(id)?;
            assert_eq!(cluster.session(id)?, session, "the new process on {id} goes on with the session");
        }
        watch.let_pass(cluster.options().failover_limit())?;

        watch.stop()?.assert_all_seamless();
        assert_eq!(cluster.places(&Family::vips())?, before);
        Ok(())
    })
}

/// Time for which an agent waits for another `DaemonSet` (docs/kubernetes/README.md, "Uninstalling").
const WAIT: Duration = Duration::from_secs(15);

#[test]
fn a_daemon_set_that_is_deleted_and_created_again_moves_no_vip_and_no_client_notices() -> Result<()> {
    let vips = [VIP, ip(50), ip(51)];
    scenario("replace", ClusterOptions::default(), |cluster| {
        for vip in vips {
            cluster.create_service(&ServiceSpec::new(&name_of(vip), vip).port(u16::from(vip.octets()[3])))?;
        }
        let holders = vips.iter().map(|vip| cluster.wait_until_held(*vip)).collect::<Result<Vec<_>>>()?;
        cluster.wait_until_all_renew()?;
        let epochs = vips.iter().map(|vip| cluster.epoch(*vip)).collect::<Result<Vec<_>>>()?;
        let watch = cluster.watch(&vips)?;

        watch.step("the DaemonSet is deleted; SIGTERM to all");
        cluster.delete_daemon_set()?;
        for id in cluster.ids() {
            cluster.member_mut(id)?.agent_mut()?.signal(Signal::SIGTERM)?;
        }
        watch.let_pass(WAIT / 2)?;
        for id in cluster.ids() {
            ensure!(cluster.member_mut(id)?.agent_runs()?, "the agent on {id} has not waited");
        }
        watch.step("the DaemonSet is created again");
        cluster.make_daemon_set()?;
        for id in cluster.ids() {
            let agent = cluster.member_mut(id)?.agent_mut()?;
            let ended = agent.wait(PATIENCE)?;
            ensure!(ended.success(), "the agent on {id} ended with {ended}");
            let pins = &agent.options.pin_dir;
            ensure!(pins.exists(), "{} is gone from {id}", pins.display());
            cluster.delete_pod(id)?;
            watch.step(format!("the Pod on {id} is another one"));
            cluster.restart_agent(id)?;
        }
        watch.let_pass(cluster.options().failover_limit())?;

        let seen = watch.stop()?;
        for vip in vips {
            seen.assert_seamless(vip);
        }
        assert_eq!(vips.iter().map(|vip| cluster.epoch(*vip)).collect::<Result<Vec<_>>>()?, epochs);
        let now = vips.iter().map(|vip| cluster.wait_until_held(*vip)).collect::<Result<Vec<_>>>()?;
        assert_eq!(now, holders);
        Ok(())
    })
}

#[test]
fn after_an_uninstall_with_a_dead_agent_nothing_answers_and_no_claim_is_left() -> Result<()> {
    const SILENCE: Duration = Duration::from_millis(500);
    /// Time between SIGTERM and SIGKILL in the manifests.
    const TERMINATION: Duration = Duration::from_secs(30);
    let vips = [VIP, ip(50), ip(51), ip(52)];
    scenario("uninstall", with_args(&["--hold-for", "5s"]), |cluster| {
        for vip in vips {
            cluster.create_service(&ServiceSpec::new(&name_of(vip), vip).port(u16::from(vip.octets()[3])))?;
        }
        for vip in vips {
            cluster.wait_until_held(vip)?;
        }
        for id in cluster.ids() {
            cluster.wait_until_renewing(id)?;
        }
        let dead = cluster.wait_until_held(VIP)?;
        let living: Vec<NodeId> = cluster.ids().into_iter().filter(|id| *id != dead).collect();
        let monitor = cluster.monitor(&vips)?;
        monitor.wait_until_answered(VIP, PATIENCE)?;

        let killed = monitor.note(format!("kill -9 on {dead}; the DaemonSet is deleted"));
        cluster.kill9(dead)?;
        cluster.delete_daemon_set()?;
        let signalled = Instant::now();
        for id in &living {
            cluster.member_mut(*id)?.agent_mut()?.signal(Signal::SIGTERM)?;
        }
        for id in &living {
            let agent = cluster.member_mut(*id)?.agent_mut()?;
            let ended = agent.wait(TERMINATION.saturating_sub(signalled.elapsed()))?;
            ensure!(ended.success(), "the agent on {id} ended with {ended}");
            let pins = &agent.options.pin_dir;
            ensure!(!pins.exists(), "{} is left on {id}", pins.display());
        }
        monitor.note("the living have ended");
        for vip in vips {
            monitor.wait_until_silent(vip, SILENCE, PATIENCE)?;
        }
        let report = monitor.stop()?;

        for vip in vips {
            let answered = report.vip(vip)?.requests.iter().rfind(|request| request.is_answered());
            let last = answered.with_context(|| format!("{vip} was never answered: {report}"))?;
            let after = last.sent_at.duration_since(killed).unwrap_or_default();
            let is_in_time = after > WAIT.saturating_sub(Duration::from_secs(1)) && after < TERMINATION;
            assert!(is_in_time, "{vip} was answered for {after:?}: {report}");
        }
        let left = cluster.virtual_ips()?;
        assert_eq!(left, Vec::<serde_json::Value>::new(), "no agent is left to delete them");
        Ok(())
    })
}

#[test]
fn from_one_node_to_three_vips_move_one_at_a_time_and_no_client_notices() -> Result<()> {
    /// `--handover-pace`
    const PACE: Duration = Duration::from_secs(1);
    let vips = [VIP, ip(50), ip(51), ip(52)];
    let options =
        ClusterOptions { start_agents: false, ..with_args(&["--stable-for", "2s", "--handover-pace", "1s"]) };
    scenario("scale", options, |cluster| {
        cluster.start_agent(N1)?;
        for vip in vips {
            cluster.create_service(&ServiceSpec::new(&name_of(vip), vip).port(u16::from(vip.octets()[3])))?;
        }
        for vip in vips {
            cluster.wait_until_held_by(vip, N1)?;
        }
        let watch = cluster.watch(&vips)?;

        watch.step("two more nodes");
        let more: Vec<NodeId> = cluster.ids().into_iter().filter(|id| *id != N1).collect();
        for id in &more {
            cluster.start_agent(*id)?;
        }
        for vip in vips {
            cluster.deliver(vip)?;
        }
        wait_until_spread(cluster, &watch, &vips)?;

        let seen = watch.stop()?;
        let mut moves = Vec::new();
        for vip in vips {
            seen.assert_seamless(vip);
            let moved = seen.wire.vip(vip)?.moves();
            assert!(moved.len() <= 1, "{vip} moved more than once: {seen}");
            moves.extend(moved.iter().map(|moved| moved.at));
        }
        moves.sort();
        assert!(moves.len() >= 2, "most are better off elsewhere: {seen}");
        for pair in moves.windows(2) {
            let between = pair[1].duration_since(pair[0])?;
            // The wire shows two handovers later than they began, by the time of the API server.
            assert!(between > PACE / 2, "two moved within {between:?}: {seen}");
        }
        Ok(())
    })
}

/// Waits until some VIPs have left the first node and the others stay.
fn wait_until_spread(cluster: &Cluster, watch: &Watch, vips: &[Ipv4Addr]) -> Result<()> {
    const QUIET: Duration = Duration::from_secs(4);
    let holders = || vips.iter().map(|vip| cluster.wait_until_held(*vip)).collect::<Result<Vec<_>>>();
    let mut before = holders()?;
    let rounds = PATIENCE.as_secs() / QUIET.as_secs();
    for _ in 0..rounds {
        watch.let_pass(QUIET)?;
        let now = holders()?;
        if now == before && now.iter().any(|holder| *holder != N1) {
            return Ok(());
        }
        before = now;
    }
    bail!("the VIPs do not spread: they are at {before:?}")
}

fn name_of(vip: Ipv4Addr) -> String {
    format!("web-{}", vip.octets()[3])
}
