//! The doctor's report on the lease deadline: the last heartbeat, an agent that hangs, a passed deadline.

use std::time::Duration;

use anyhow::{Context, Result};
use nix::sys::signal::Signal;
use vipward_tests::{
    agent::{HOLDS_ONE, NODE, Node, PATIENCE, VIP, empty_map},
    cluster::{ClusterOptions, N1, N2, ServiceSpec, scenario},
    kit::wait_until,
};

use super::{
    GREEN, RED, YELLOW,
    report::{ILL, doctor, doctor_at},
};

#[test]
fn when_the_agent_is_killed_the_lease_deadline_passes_and_is_red() -> Result<()> {
    let mut node = Node::start(
        "killed",
        &format!("fence: {{duration: 1s, heartbeat: 200ms, policy: stop}}\n{HOLDS_ONE}"),
    )?;
    node.wait_until_answered(VIP, NODE)?;
    node.agent.kill9()?;
    wait_until(PATIENCE, "the lease deadline to be over", || {
        Ok(node.agent.status()?["lease_deadline"]["state"] == "over")
    })?;
    let report = doctor(&node, &[])?;
    report.assert(
        "lease-deadline",
        None,
        RED,
        &["over since", "1 of this node's VIPs"],
        &["start the agent again"],
    );
    report.assert("agent", None, YELLOW, &["on its own"], &["journalctl"]);
    assert_eq!(report.code, ILL, "{report}");

    node.restart_agent()?;
    let report = doctor(&node, &[])?;
    report.assert("lease-deadline", None, GREEN, &["valid"], &[]);
    report.assert("agent", None, GREEN, &[], &[]);
    Ok(())
}

#[test]
fn the_last_heartbeats_age_is_shown() -> Result<()> {
    const DURATION: Duration = Duration::from_secs(10);
    const HEARTBEAT: Duration = Duration::from_secs(1);
    let node = Node::start("heartbeat", &format!("fence: {{duration: 10s, heartbeat: 1s}}\n{HOLDS_ONE}"))?;
    for _ in 0..3 {
        let report = doctor(&node, &[])?;
        report.assert(
            "lease-deadline",
            None,
            GREEN,
            &["the last heartbeat was ", "; valid for another "],
            &[],
        );
        let found = report.row("lease-deadline", None).text("found");
        let (age, left) = age_and_left(&found)?;
        // From half a heartbeat on, the agent itself logs a late one.
        assert!(age <= HEARTBEAT * 3 / 2, "{found}");
        // Both are rounded down to a tenth of a second, and a busy
        // machine polls less often than every 50 ms.
        let sum = age + left;
        assert!(sum <= DURATION && sum + HEARTBEAT >= DURATION, "{found}");
    }
    Ok(())
}

/// Returns the two times in "the last heartbeat was 400ms ago; valid for another 9s 600ms".
fn age_and_left(found: &str) -> Result<(Duration, Duration)> {
    let found = found.strip_prefix("the last heartbeat was ").context("it begins otherwise")?;
    let (age, left) = found.split_once(" ago; valid for another ").context("it goes on otherwise")?;
    Ok((humantime::parse_duration(age)?, humantime::parse_duration(left)?))
}

#[test]
fn an_agent_that_hangs_long_before_its_lease_deadline_is_reported() -> Result<()> {
    let mut node = Node::start("hangs", &format!("fence: {{duration: 60s, heartbeat: 1s}}\n{HOLDS_ONE}"))?;
    let report = doctor(&node, &[])?;
    report.assert("lease-deadline", None, GREEN, &["the last heartbeat"], &[]);
    node.agent.signal(Signal::SIGSTOP)?;
    let report = doctor(&node, &[])?;
    let found = ["not moved while it was watched for 3s", "; valid for another 5"];
    report.assert("lease-deadline", None, YELLOW, &found, &["hangs", "/livez"]);
    assert!(
        report.said.contains("watched the lease deadline for 1s: no heartbeat so far\n"),
        "{}",
        report.said
    );
    assert_eq!(report.code, 0, "{report}");

    node.agent.signal(Signal::SIGCONT)?;
    doctor(&node, &[])?.assert("lease-deadline", None, GREEN, &["the last heartbeat"], &[]);
    Ok(())
}

#[test]
fn a_lease_deadline_that_passes_while_it_is_watched_is_over() -> Result<()> {
    let yaml = format!("fence: {{duration: 2800ms, heartbeat: 200ms, policy: stop}}\n{HOLDS_ONE}");
    let mut node = Node::start("passes", &yaml)?;
    node.agent.signal(Signal::SIGSTOP)?;
    let report = doctor(&node, &[])?;
    // The doctor watched it, so it was valid at first.
    assert!(report.said.contains("no heartbeat so far"), "{}", report.said);
    report.assert("lease-deadline", None, RED, &["over since "], &["why it cannot renew"]);
    Ok(())
}

#[test]
fn a_grace_period_is_yellow() -> Result<()> {
    let mut node = Node::start(
        "grace",
        &format!("fence: {{duration: 1s, heartbeat: 200ms, policy: hold}}\n{HOLDS_ONE}"),
    )?;
    node.agent.kill9()?;
    wait_until(PATIENCE, "the grace period", || {
        Ok(node.agent.status()?["lease_deadline"]["state"] == "grace period")
    })?;
    let report = doctor(&node, &[])?;
    report.assert("lease-deadline", None, YELLOW, &["grace period", "passed"], &["start the agent again"]);
    assert_eq!(report.code, 0, "{report}");
    Ok(())
}

#[test]
fn a_grace_period_without_a_peer_is_red_in_a_cluster() -> Result<()> {
    scenario("doc-alone", ClusterOptions { nodes: 2, ..ClusterOptions::default() }, |cluster| {
        cluster.create_service(&ServiceSpec::new("web", VIP))?;
        let holder = cluster.wait_until_held(VIP)?;
        cluster.wait_until_all_renew()?;
        // Both agents hang: no node takes it, and no agent repairs the map.
        for id in [N1, N2] {
            cluster.pause(id)?;
        }
        let member = cluster.member(holder)?;
        let agent = member.agent().context("it has an agent")?;
        wait_until(PATIENCE, "the grace period", || {
            Ok(agent.status()?["lease_deadline"]["state"] == "grace period")
        })?;
        let report = doctor_at(&member.host, &agent.options.pin_dir, &[])?;
        report.assert(
            "lease-deadline",
            None,
            YELLOW,
            &["grace period"],
            &["the agent runs", "reach the API server"],
        );

        empty_map(agent, "peers")?;
        let report = doctor_at(&member.host, &agent.options.pin_dir, &[])?;
        let found = ["1 VIPs on eth0", "no peer", "yields to no host", "two may answer"];
        report.assert("lease-deadline", None, RED, &found, &["who-has ADDRESS", "vipward unload"]);
        assert_eq!(report.code, ILL, "{report}");
        for id in [N1, N2] {
            cluster.resume(id)?;
        }
        Ok(())
    })
}
