//! The end: after a withdrawal or an unload, nothing answers.

use anyhow::Result;
use vipward_tests::{
    agent::{NODE, Node, PATIENCE, VIP},
    kit::{output_of, tools::bpftool, wait_until},
};

/// Number of requests that show silence.
const SOME: usize = 300;
/// Exit code for a pin directory that an agent uses.
const NOT_ALONE: i32 = 5;

fn assert_silent(node: &Node) -> Result<()> {
    let probe = node.probe(VIP)?;
    probe.wait_for_requests(SOME, PATIENCE)?;
    let report = probe.stop()?;
    assert_eq!(report.answered(), 0, "{report}");
    Ok(())
}

/// Returns true if the VIP is on lo.
fn bound(node: &Node) -> Result<bool> {
    Ok(node.host.namespace().addresses("lo")?.iter().any(|address| address.addr() == VIP))
}

#[test]
fn unload_leaves_nothing() -> Result<()> {
    let mut node = Node::start("unload", "shutdown: keep\nvips: [{address: 192.0.2.10}]\n")?;
    node.wait_until_answered(VIP, NODE)?;
    let programs = node.programs()?;
    assert_eq!(programs.len(), 1);
    assert!(node.agent.options.pin_dir.join("vips_v4").exists());
    assert_eq!(node.agent.terminate()?.code(), Some(0));

    let removed = node.agent.unload()?;
    for what in ["link", "map vips_v4", "map layout", "directory"] {
        assert!(removed.contains(what), "{what} in: {removed}");
    }
    assert_eq!(node.programs()?, Vec::<u64>::new());
    assert!(!node.agent.options.pin_dir.exists());
    // The kernel frees a program a little after its last user has gone.
    wait_until(PATIENCE, "the program to be gone", || {
        let mut command = node.host.command(bpftool()?);
        command.args(["prog", "show", "id", &programs[0].to_string()]);
        Ok(output_of(command).is_err())
    })?;
    assert_silent(&node)?;
    assert!(node.agent.unload()?.contains("nothing of Vipward's is pinned"));

    node.restart_agent()?;
    node.wait_until_answered(VIP, NODE)
}

#[test]
fn unload_takes_the_addresses_away_that_a_killed_agent_left() -> Result<()> {
    let mut node = Node::start("unload-bound", "vips: [{address: 192.0.2.10, bind: lo}]\n")?;
    wait_until(PATIENCE, "the VIP on lo", || bound(&node))?;
    node.agent.kill9()?;
    let removed = node.agent.unload()?;
    assert!(removed.contains("address 192.0.2.10 from lo"), "{removed}");
    assert!(!bound(&node)?);
    // The kernel does not answer for it either.
    assert_silent(&node)
}

#[test]
fn unload_is_refused_while_an_agent_runs() -> Result<()> {
    let node = Node::start("unload-running", "vips: [{address: 192.0.2.10}]\n")?;
    node.wait_until_answered(VIP, NODE)?;
    let probe = node.probe(VIP)?;
    let output = node.agent.vipward("unload")?.output()?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(NOT_ALONE), "{said}");
    let pid = format!("(pid {})", node.agent.pid()?);
    assert!(said.contains(&pid), "{pid} in: {said}");
    assert_eq!(node.programs()?.len(), 1);
    node.assert_answered_throughout(&probe.stop()?);
    Ok(())
}
