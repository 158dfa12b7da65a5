//! Restarts of the agent under a thousand requests a second: none goes unanswered.

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use vipward_tests::{
    agent::{Attachment, HOLDS_ONE, NODE, Node, PATIENCE, VIP},
    frames::Family,
    kit::{
        output_of,
        tools::{bpftool, target_dir},
        wait_until,
    },
};

/// Number of requests that show a gap of milliseconds before and after a change.
const SOME: usize = 300;
/// The ways to attach that a restart must survive.
const EACH: [Attachment; 3] = [Attachment::Auto, Attachment::Native, Attachment::Generic];
/// A configuration that keeps answering after SIGTERM.
const KEEPS: &str = "shutdown: keep\nvips: [{address: 192.0.2.10}]\n";

/// Returns the ids of the link and of the program on the only interface.
fn link_and_program(node: &Node) -> Result<(u64, u64)> {
    let status = node.agent.status()?;
    let rows = status["interfaces"].as_array().context("status has no list of interfaces")?;
    ensure!(rows.len() == 1 && rows[0]["attached"] == true, "not attached to one interface: {rows:?}");
    let id = |key: &str| rows[0][key].as_u64().with_context(|| format!("status has no {key}"));
    Ok((id("link_id")?, id("program_id")?))
}

/// Returns the kernel's hash of a loaded program's instructions.
fn tag(node: &Node, program: u64) -> Result<String> {
    let mut command = node.host.command(bpftool()?);
    command.args(["-j", "prog", "show", "id", &program.to_string()]);
    let program: Value = serde_json::from_str(&output_of(command)?)?;
    program["tag"].as_str().map(ToOwned::to_owned).context("bpftool shows no tag")
}

fn survives_being_killed(attachment: Attachment) -> Result<()> {
    for family in Family::BOTH {
        let mut node = Node::start_in(family, "kill", attachment, &holds(family))?;
        node.wait_until_answered(family.vip(), NODE)?;
        let probe = node.probe(family.vip())?;
        for _ in 0..3 {
            probe.wait_for_requests(SOME, PATIENCE)?;
            node.agent.kill9()?;
            probe.wait_for_requests(SOME, PATIENCE)?;
            node.restart_agent()?;
            probe.wait_for_requests(SOME, PATIENCE)?;
        }
        node.assert_answered_throughout(&probe.stop()?);
    }
    Ok(())
}

/// Returns a configuration that holds the VIP of a family.
fn holds(family: Family) -> String {
    format!("vips: [{{address: '{}'}}]\n", family.vip())
}

#[test]
fn no_request_goes_unanswered_when_the_agent_is_killed_and_restarted() -> Result<()> {
    EACH.into_iter().try_for_each(survives_being_killed)
}

fn survives_being_replaced(attachment: Attachment) -> Result<()> {
    let mut node = Node::start_with("replace", attachment, HOLDS_ONE, |_| {})?;
    node.wait_until_answered(VIP, NODE)?;
    let (link, program) = link_and_program(&node)?;
    let tag_before = tag(&node, program)?;

    let probe = node.probe(VIP)?;
    probe.wait_for_requests(SOME, PATIENCE)?;
    node.agent.kill9()?;
    let other = target_dir().join("bpf/vipward-nolog.o");
    node.agent.options.args = vec!["--ebpf-object".to_owned(), other.display().to_string()];
    node.restart_agent()?;
    probe.wait_for_requests(SOME, PATIENCE)?;

    let (link_after, program_after) = link_and_program(&node)?;
    assert_eq!(link_after, link, "the link goes on");
    assert_ne!(program_after, program, "with another program");
    assert_ne!(tag(&node, program_after)?, tag_before, "of another build");
    assert_eq!(node.programs()?, [program_after]);

    // And back again.
    node.agent.options.args.clear();
    node.agent.kill9()?;
    node.restart_agent()?;
    probe.wait_for_requests(SOME, PATIENCE)?;
    assert_eq!(tag(&node, link_and_program(&node)?.1)?, tag_before);
    node.assert_answered_throughout(&probe.stop()?);
    Ok(())
}

#[test]
fn no_request_goes_unanswered_when_the_program_is_replaced_by_another_build() -> Result<()> {
    EACH.into_iter().try_for_each(survives_being_replaced)
}

fn survives_sigterm(attachment: Attachment) -> Result<()> {
    let mut node = Node::start_with("term", attachment, KEEPS, |_| {})?;
    node.wait_until_answered(VIP, NODE)?;
    let probe = node.probe(VIP)?;
    probe.wait_for_requests(SOME, PATIENCE)?;
    assert_eq!(node.agent.terminate()?.code(), Some(0));
    probe.wait_for_requests(SOME, PATIENCE)?;
    assert_eq!(node.vip_status(VIP)?["answering"], true, "status works without an agent");
    node.restart_agent()?;
    probe.wait_for_requests(SOME, PATIENCE)?;
    node.assert_answered_throughout(&probe.stop()?);
    Ok(())
}

#[test]
fn no_request_goes_unanswered_between_sigterm_and_the_next_start() -> Result<()> {
    [Attachment::Auto, Attachment::Native].into_iter().try_for_each(survives_sigterm)
}

#[test]
fn a_held_vip_is_answered_after_the_lease_deadline_of_a_killed_agent_when_the_policy_is_hold() -> Result<()> {
    for family in Family::BOTH {
        let vip = family.vip();
        let yaml = format!("fence: {{duration: 2s, policy: hold}}\n{}", holds(family));
        let mut node = Node::start_in(family, "lapse", Attachment::Auto, &yaml)?;
        node.wait_until_answered(vip, NODE)?;
        let probe = node.probe(vip)?;
        node.agent.kill9()?;
        let (_, lapsed) = node.deadline_passes("left_seconds")?;
        wait_until(PATIENCE, "the lease deadline to pass", || {
            Ok(std::time::SystemTime::now() > lapsed
                && node.agent.status()?["lease_deadline"]["state"] == "grace period")
        })?;
        probe.wait_for_requests(SOME, PATIENCE)?;
        node.restart_agent()?;
        probe.wait_for_requests(SOME, PATIENCE)?;
        assert_eq!(node.agent.status()?["lease_deadline"]["state"], "valid");
        assert_eq!(node.vip_status(vip)?["yielded"], false);
        node.assert_answered_throughout(&probe.stop()?);
    }
    Ok(())
}
