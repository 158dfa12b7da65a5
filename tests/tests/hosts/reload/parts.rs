//! Files that take VIPs away: the first part of a longer one, and one that is meant so.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use nix::sys::signal::Signal;
use serde_json::Value;
use vipward_tests::{
    agent::{HOLDS_ONE, LogLine, NODE, Node, PATIENCE, ip},
    kit::wait_until,
};

use super::{SOME, refused::page, wait_until_held};

const FIRST: &str = "vips:\n- {address: 192.0.2.10}\n";
const SECOND: &str = "- {address: 192.0.2.11}\n";
/// Time between two parts of a file.
const PAUSE: Duration = Duration::from_millis(1_500);
/// Time in which a file that takes a VIP away is applied: 2 s, on a busy machine.
const SETTLED: Duration = Duration::from_secs(5);
const UNSETTLED: &str =
    "the file changes or leaves out what is in force; it is applied if it does not change meanwhile";

/// Returns the time of the last file that was good, in seconds.
fn read_at(node: &Node) -> Result<String> {
    let metrics = page(node, "/metrics")?;
    let name = "vipward_config_last_reload_success_timestamp_seconds ";
    let line = metrics.lines().find_map(|line| line.strip_prefix(name));
    Ok(line.context("no time")?.to_owned())
}

#[test]
fn no_request_is_lost_while_a_file_is_written_in_two_parts() -> Result<()> {
    let mut node = Node::start("parts", &format!("{FIRST}{SECOND}"))?;
    node.wait_until_answered(ip(11), NODE)?;
    let probe = node.probe(ip(11))?;
    probe.wait_for_requests(SOME, PATIENCE)?;
    let path = node.agent.config_path();
    // In place: each part ends with a close.
    let seen = node.agent.logs()?.len();
    fs::write(&path, format!("attach: auto\n{FIRST}"))?;
    let waits = |line: &LogLine| line.message() == UNSETTLED;
    let line = node.agent.wait_for_log_after(seen, PATIENCE, "that the first part waits", waits)?;
    assert_eq!(line.field("vips_left_out").and_then(Value::as_u64), Some(1));
    let first = read_at(&node)?;
    thread::sleep(PAUSE);
    OpenOptions::new().append(true).open(&path)?.write_all(SECOND.as_bytes())?;
    wait_until(PATIENCE, "the second part to be read", || Ok(read_at(&node)? != first))?;
    probe.wait_for_requests(SOME, PATIENCE)?;
    let report = probe.stop()?;
    node.assert_answered_throughout(&report);
    Ok(())
}

#[test]
fn a_file_that_leaves_a_vip_out_is_applied_soon_and_at_once_by_sighup() -> Result<()> {
    let mut node = Node::start("removed", &format!("{FIRST}{SECOND}"))?;
    node.wait_until_answered(ip(11), NODE)?;
    let changed = Instant::now();
    node.write_config(HOLDS_ONE)?;
    wait_until_held(&node, 11, false)?;
    let after = changed.elapsed();
    assert!(after < SETTLED, "{after:?}");
    assert!(after > PAUSE, "{after:?}");

    let changed = Instant::now();
    node.write_config("vips: []\n")?;
    node.agent.signal(Signal::SIGHUP)?;
    wait_until_held(&node, 10, false)?;
    let after = changed.elapsed();
    assert!(after < PAUSE, "{after:?}");
    Ok(())
}
