//! Pins under a directory that no option names: found, named and removed.

use std::{fs, process::Command};

use anyhow::{Context, Result};
use vipward_tests::{
    agent::{Agent, AgentOptions, HOLDS_ONE, NODE, Node, PATIENCE, VIP, ip, start_agent},
    kit::output_of,
};

use crate::doctor::report::doctor;

/// Returns an exit code, and all that a command says.
fn run(mut command: Command) -> Result<(i32, String)> {
    let output = command.output().context("failed to start vipward")?;
    let said = [output.stdout, output.stderr].concat();
    Ok((output.status.code().context("it was killed")?, String::from_utf8_lossy(&said).into_owned()))
}

/// Returns `vipward unload` with these arguments, on a node.
fn unload(node: &Node, arguments: &[&str]) -> Result<(i32, String)> {
    let mut command = node.host.command(Agent::default_binary());
    command.arg("unload").args(arguments);
    run(command)
}

/// Returns `vipward unload --all` on a node, out of whose sight other tests' bpffs are.
fn unload_all(node: &Node) -> Result<(i32, String)> {
    const HIDE: &str = "awk '$3 == \"bpf\" {print $2}' /proc/self/mounts | \
        while read at; do [ \"$at\" = \"$KEEP\" ] || umount -l \"$at\"; done; exec \"$@\"";
    let mut command = node.host.command("unshare");
    command.env("KEEP", node.bpffs.path());
    command.args(["--mount", "--propagation", "private", "sh", "-c", HIDE, "sh"]);
    command.arg(Agent::default_binary()).args(["unload", "--all"]);
    run(command)
}

#[test]
fn the_pins_of_a_trial_run_are_named_and_removed_and_those_of_a_running_agent_are_not() -> Result<()> {
    let node = Node::start("trial", HOLDS_ONE)?;
    let trial_dir = node.bpffs.pin_dir("trial");
    let config = "attach: tc\nvips: [{address: 192.0.2.11}]\n";
    let mut trial = start_agent(&node.host, config, AgentOptions::new(trial_dir.clone()))?;
    let is_other = |level: &str, line: &vipward_tests::agent::LogLine| {
        line.message().starts_with("another Vipward agent runs") && line.level() == level
    };
    let line = trial.wait_for_log(PATIENCE, "the other agent", |line| is_other("WARN", line))?;
    assert!(line.has("interfaces", "eth0"));
    assert_eq!(doctor(&node, &[])?.row("other-pins", None).text("state"), "yellow");

    node.wait_until_answered(ip(11), NODE)?;
    trial.kill9()?;
    assert_eq!(node.ask(ip(11))?, Some(NODE), "the pinned program answers on");
    let report = doctor(&node, &[])?;
    let row = report.row("other-pins", None);
    assert_eq!(row.text("state"), "red", "{report}");
    assert!(row.text("found").contains(&format!("{} on eth0", trial_dir.display())), "{report}");

    let (code, said) = unload_all(&node)?;
    assert_eq!((code, said.matches("error:").count()), (5, 1), "{said}");
    assert!(said.contains(&format!("agent (pid {}) uses", node.agent.pid()?)), "{said}");
    assert!(said.contains(&format!("removed directory {}", trial_dir.display())), "{said}");
    assert_eq!(node.ask(ip(11))?, None);
    assert_eq!(node.ask(VIP)?, Some(NODE), "the running agent's VIP");
    assert_eq!(doctor(&node, &[])?.row("other-pins", None).text("state"), "green");
    Ok(())
}

#[test]
fn unload_touches_neither_a_directory_on_another_file_system_nor_pins_of_others() -> Result<()> {
    let mut node = Node::start("foreign", HOLDS_ONE)?;
    let plain = tempfile::TempDir::with_prefix("vipward-plain-")?;
    for name in ["layout", "events", "lease_deadline"] {
        fs::write(plain.path().join(name), "")?;
    }
    let (code, said) = unload(&node, &["--pin-dir", &plain.path().display().to_string()])?;
    assert_eq!(code, 4, "{said}");
    assert!(said.contains("is not on a bpffs") && fs::read_dir(plain.path())?.count() == 3, "{said}");

    // A directory of another program, with a pin that has the name of one of Vipward's.
    let (ours, foreign) = (node.agent.options.pin_dir.clone(), node.bpffs.pin_dir("foreign"));
    fs::create_dir(&foreign)?;
    let pin = |map: &str, to: &std::path::Path| -> Result<()> {
        let mut command = Command::new(vipward_tests::kit::tools::bpftool()?);
        command.args(["map", "pin", "pinned"]).args([ours.join(map), to.to_owned()]);
        output_of(command).map(drop)
    };
    pin("events", &foreign.join("events"))?;
    let (code, said) = unload(&node, &["--pin-dir", &foreign.display().to_string()])?;
    assert_eq!((code, foreign.join("events").exists()), (0, true), "{said}");
    assert!(said.starts_with("nothing of Vipward's is pinned under"), "{said}");

    // A pin of another program among Vipward's.
    pin("events", &ours.join("another_programs"))?;
    node.agent.terminate()?;
    node.agent.unload()?;
    let left: Vec<_> = fs::read_dir(&ours)?.map(|entry| Ok(entry?.file_name())).collect::<Result<_>>()?;
    assert_eq!(left, ["another_programs"]);
    Ok(())
}

/// What was removed by hand, or an unload that was killed, may leave the program without its maps.
#[test]
fn unload_detaches_a_program_whose_maps_were_removed() -> Result<()> {
    let mut node = Node::start("left", HOLDS_ONE)?;
    node.wait_until_answered(VIP, NODE)?;
    node.agent.kill9()?;
    let dir = node.agent.options.pin_dir.clone();
    for map in ["layout", "vips_v4", "own_macs", "lease_deadline"] {
        fs::remove_file(dir.join(map))?;
    }
    assert_eq!(node.ask(VIP)?, Some(NODE), "the program has its maps");
    let (code, said) = unload(&node, &["--pin-dir", &dir.display().to_string()])?;
    assert!(code == 0 && said.contains("removed link of interface"), "{code}: {said}");
    assert_eq!((node.ask(VIP)?, dir.exists()), (None, false), "{said}");
    Ok(())
}
