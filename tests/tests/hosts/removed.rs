//! What another program removes from a host while its agent runs is back within 2 s, and the
//! log says so.

use std::{fs, path::Path, time::Duration};

use anyhow::{Context, Result};
use nix::{
    mount::{MntFlags, MsFlags, mount, umount2},
    sys::signal::Signal,
};
use serde_json::Value;
use vipward_tests::{
    agent::{Agent, AgentOptions, Attachment, HOLDS_ONE, NODE, Node, PATIENCE, VIP, start_agent},
    kit::{output_of, tools::bpftool},
    lan::http::{self, PAGES},
};

/// A second until the agent looks, and one for a busy machine. It reads everything back after 30 s only.
const SOON: Duration = Duration::from_secs(2);
const REMOVED: &str = "another program has removed Vipward's from the interface; attaching it again";
const UNPINNED: &str = "pins were removed; pinning the running maps and links again";
const PINNED: &str = "everything is pinned again";

/// Detaches a pinned link, as no program can by netlink.
fn detach(pin: &Path) -> Result<()> {
    let bpftool = |arguments: &[&str]| {
        let mut command = std::process::Command::new(bpftool()?);
        command.args(arguments);
        output_of(command)
    };
    let shown: Value =
        serde_json::from_str(&bpftool(&["-j", "link", "show", "pinned", &pin.display().to_string()])?)?;
    let id = shown["id"].as_u64().with_context(|| format!("no id in {shown}"))?;
    bpftool(&["link", "detach", "id", &id.to_string()]).map(drop)
}

#[test]
fn a_link_that_another_program_detaches_is_attached_again() -> Result<()> {
    for (attachment, mode) in [(Attachment::Auto, "tc"), (Attachment::Native, "native")] {
        let mut node = Node::start_with("detached", attachment, HOLDS_ONE, |_| {})?;
        node.wait_until_answered(VIP, NODE)?;
        let ifindex = node.host.link("eth0")?.index;
        detach(&node.agent.options.pin_dir.join(format!("link_{ifindex}_{mode}")))?;
        let line = node.agent.wait_for_log(SOON, REMOVED, |line| line.message() == REMOVED)?;
        assert_eq!((line.level(), line.has("interface", "eth0")), ("WARN", true), "{mode}");
        assert!(line.has("mode", mode) && line.has("instead", "none"), "{mode}");
        node.wait_until_answered(VIP, NODE)?;
    }
    Ok(())
}

/// Waits for the lines that begin and end it. Then the pins must be as good as before: the VIP is answered
/// without a gap while the agent is killed and started again.
fn assert_pinned_again(node: &mut Node) -> Result<()> {
    let line = node.agent.wait_for_log(SOON, UNPINNED, |line| line.message() == UNPINNED)?;
    assert_eq!(line.level(), "WARN");
    node.agent.wait_for_log(SOON, PINNED, |line| line.message() == PINNED)?;
    let probe = node.probe(VIP)?;
    node.agent.kill9()?;
    probe.wait_for_requests(100, PATIENCE)?;
    node.restart_agent()?;
    probe.wait_for_requests(300, PATIENCE)?;
    node.assert_answered_throughout(&probe.stop()?);
    let reused = node.agent.logs()?.iter().any(|line| line.message() == "reusing pinned data plane");
    assert!(reused, "{}", node.agent.transcript());
    Ok(())
}

#[test]
fn a_pin_directory_that_is_removed_is_made_again_and_locked_again() -> Result<()> {
    let mut node = Node::start("unpinned", HOLDS_ONE)?;
    node.wait_until_answered(VIP, NODE)?;
    let dir = node.agent.options.pin_dir.clone();
    fs::remove_dir_all(&dir).with_context(|| format!("failed to remove {}", dir.display()))?;
    node.agent.wait_for_log(SOON, PINNED, |line| line.message() == PINNED)?;
    let refused = node.agent.vipward("unload")?.output()?;
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains(&format!("(pid {}) uses", node.agent.pid()?)), "{said}");
    assert_pinned_again(&mut node)
}

#[test]
fn one_pin_that_is_removed_is_made_again() -> Result<()> {
    let mut node = Node::start("one-pin", HOLDS_ONE)?;
    node.wait_until_answered(VIP, NODE)?;
    fs::remove_file(node.agent.options.pin_dir.join("vips_v4"))?;
    assert_pinned_again(&mut node)
}

/// Waits for the line of a failed attempt to pin again, with `why` in its error.
fn wait_for_failure(agent: &mut Agent, limit: Duration, why: &str) -> Result<()> {
    let failed = "failed to pin again; what answers now ends with this agent; trying again";
    let line = agent.wait_for_log(limit, why, |line| {
        line.message() == failed
            && line.field("error").and_then(Value::as_str).is_some_and(|error| error.contains(why))
    })?;
    assert_eq!(line.level(), "ERROR");
    Ok(())
}

/// The directory and all names in it are there again when the agent looks. Only the lock shows that they are
/// not its own.
#[test]
fn a_pin_directory_that_another_agent_has_replaced_is_reported_until_it_is_free() -> Result<()> {
    let mut node = Node::start("replaced", HOLDS_ONE)?;
    node.wait_until_answered(VIP, NODE)?;
    let dir = node.agent.options.pin_dir.clone();
    node.agent.signal(Signal::SIGSTOP)?;
    fs::remove_dir_all(&dir).with_context(|| format!("failed to remove {}", dir.display()))?;
    let config = "attach: tc\nvips: [{address: 192.0.2.11}]\n";
    let mut other = start_agent(&node.host, config, AgentOptions::new(dir))?;
    node.agent.signal(Signal::SIGCONT)?;
    wait_for_failure(&mut node.agent, PATIENCE, &format!("(pid {}) uses", other.pid()?))?;
    other.kill9()?;
    wait_for_failure(&mut node.agent, PATIENCE, "which has ended, left its pins in")?;
    other.unload()?;
    assert_pinned_again(&mut node)
}

/// Another program's pins, and directories with more of them, may stand beside Vipward's.
#[test]
fn pins_of_others_and_directories_in_the_pin_directory_stay_their_owners() -> Result<()> {
    let mut node = Node::start("beside", HOLDS_ONE)?;
    node.wait_until_answered(VIP, NODE)?;
    let dir = node.agent.options.pin_dir.clone();
    let (nested, foreign) = (dir.join("nested"), dir.join("another_programs"));
    fs::create_dir(&nested)?;
    let mut pin = std::process::Command::new(bpftool()?);
    pin.args(["map", "create"]).arg(&foreign).args(["type", "array", "key", "4", "value", "4"]);
    pin.args(["entries", "1", "name", "foreign"]);
    output_of(pin)?;
    node.agent.kill9()?;
    node.restart_agent()?;
    node.wait_until_answered(VIP, NODE)?;

    fs::remove_file(&foreign)?;
    // The agent has looked for missing pins when this one is back.
    fs::remove_file(dir.join("vips_v4"))?;
    node.agent.wait_for_log(SOON, PINNED, |line| line.message() == PINNED)?;
    assert!(!foreign.exists() && nested.is_dir());
    Ok(())
}

#[test]
fn a_bpffs_that_is_unmounted_is_reported_and_used_again_once_it_is_mounted() -> Result<()> {
    let mut node = Node::start("unmounted", HOLDS_ONE)?;
    node.wait_until_answered(VIP, NODE)?;
    umount2(node.bpffs.path(), MntFlags::MNT_DETACH)?;
    wait_for_failure(&mut node.agent, SOON, "is not on a bpffs")?;
    let page = http::get(&node.host, PAGES, "/readyz/pins")?;
    assert!(page.status == 503 && page.body.contains("pins are missing"), "{}", page.body);
    mount(Some("bpf"), node.bpffs.path(), Some("bpf"), MsFlags::empty(), None::<&str>)?;
    assert_pinned_again(&mut node)
}
