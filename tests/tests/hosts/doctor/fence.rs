//! The doctor's report on the fence: the last heartbeat, an agent that hangs, a lapsed fence.

use anyhow::Result;
use nix::sys::signal::Signal;
use vipward_tests::{
    agent::{HOLDS_ONE, NODE, Node, PATIENCE, VIP},
    kit::wait_until,
};

use super::{
    GREEN, RED, YELLOW,
    report::{ILL, doctor},
};

#[test]
fn when_the_agent_is_killed_the_fence_runs_out_and_is_red() -> Result<()> {
    let mut node = Node::start(
        "killed",
        &format!("fence: {{duration: 1s, heartbeat: 200ms, policy: stop}}\n{HOLDS_ONE}"),
    )?;
    node.wait_until_answered(VIP, NODE)?;
    node.agent.kill9()?;
    wait_until(PATIENCE, "the fence to be over", || Ok(node.agent.status()?["fence"]["state"] == "over"))?;
    let report = doctor(&node, &[])?;
    report.assert("fence", None, RED, &["over since", "1 of this node's VIPs"], &["start the agent again"]);
    report.assert("agent", None, YELLOW, &["on its own"], &["journalctl"]);
    assert_eq!(report.code, ILL, "{report}");

    node.restart_agent()?;
    let report = doctor(&node, &[])?;
    report.assert("fence", None, GREEN, &["valid"], &[]);
    report.assert("agent", None, GREEN, &[], &[]);
    Ok(())
}

#[test]
fn an_agent_that_hangs_with_a_long_fence_is_reported() -> Result<()> {
    let mut node = Node::start("hangs", &format!("fence: {{duration: 60s, heartbeat: 1s}}\n{HOLDS_ONE}"))?;
    let report = doctor(&node, &[])?;
    report.assert("fence", None, GREEN, &["the last heartbeat"], &[]);
    node.agent.signal(Signal::SIGSTOP)?;
    let report = doctor(&node, &[])?;
    let found = ["not moved while it was watched for 3s", "; valid for another 5"];
    report.assert("fence", None, YELLOW, &found, &["hangs", "/livez"]);
    assert!(report.said.contains("watched the fence for 1s: no heartbeat so far\n"), "{}", report.said);
    assert_eq!(report.code, 0, "{report}");

    node.agent.signal(Signal::SIGCONT)?;
    doctor(&node, &[])?.assert("fence", None, GREEN, &["the last heartbeat"], &[]);
    Ok(())
}
