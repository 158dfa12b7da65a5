//! Files that take VIPs away: the first part of a longer one, and one that is meant so.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use nix::sys::signal::Signal;
use vipward_tests::agent::{HOLDS_ONE, NODE, Node, PATIENCE, ip};

use super::{SOME, wait_until_held};

const FIRST: &str = "vips:\n- {address: 192.0.2.10}\n";
const SECOND: &str = "- {address: 192.0.2.11}\n";
/// Time between two parts of a file.
const PAUSE: Duration = Duration::from_millis(1_500);
/// Time in which a file that takes a VIP away is applied.
const SETTLED: Duration = Duration::from_secs(3);

#[test]
fn no_request_is_lost_while_a_file_is_written_in_two_parts() -> Result<()> {
    let node = Node::start("parts", &format!("{FIRST}{SECOND}"))?;
    node.wait_until_answered(ip(11), NODE)?;
    let probe = node.probe(ip(11))?;
    probe.wait_for_requests(SOME, PATIENCE)?;
    let path = node.agent.config_path();
    // In place: each part ends with a close.
    fs::write(&path, format!("attach: auto\n{FIRST}"))?;
    thread::sleep(PAUSE);
    OpenOptions::new().append(true).open(&path)?.write_all(SECOND.as_bytes())?;
    thread::sleep(SETTLED);
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
