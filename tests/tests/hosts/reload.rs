//! Changes of the configuration under requests: VIPs that are not concerned are not touched.

mod parts;
mod refused;

use std::fmt::Write as _;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use anyhow::{Context, Result};
use nix::sys::signal::Signal;
use serde_json::Value;
use vipward_tests::{
    agent::{Attachment, Capability, HOLDS_ONE, LogLine, NODE, Node, PATIENCE, VIP, ip, map_dump},
    kit::wait_until,
};

/// Number of requests that show a gap of milliseconds before and after a change.
const SOME: usize = 200;
const NOT_APPLIED: &str = "configuration is not applied; the running one stays in force";

/// Returns the map's entry of the VIP that the probe requests.
fn entry(node: &Node) -> Result<Value> {
    let octets: Value = VIP.octets().into_iter().map(Value::from).collect();
    let elements = map_dump(&node.agent, "vips_v4")?;
    elements.into_iter().find(|element| element["key"]["addr"] == octets).context("the VIP has no entry")
}

fn answered(node: &Node) -> Result<u64> {
    node.vip_status(VIP)?["answered"].as_u64().context("status does not count answers")
}

fn is_held(node: &Node, last: u8) -> Result<bool> {
    Ok(node.ask(ip(last))? == Some(NODE))
}

fn wait_until_held(node: &Node, last: u8, held: bool) -> Result<()> {
    let what = format!("{} to be {}", ip(last), if held { "held" } else { "left" });
    wait_until(PATIENCE, &what, || Ok(is_held(node, last)? == held))
}

/// Does `deeds` under a thousand requests a second for the VIP. Its entry must not change, its
/// counter must continue, and every request must be answered.
fn untouched(node: &mut Node, deeds: impl FnOnce(&mut Node) -> Result<()>) -> Result<()> {
    node.wait_until_answered(VIP, NODE)?;
    let (entry_before, answered_before) = (entry(node)?, answered(node)?);
    let probe = node.probe(VIP)?;
    probe.wait_for_requests(SOME, PATIENCE)?;
    deeds(node)?;
    probe.wait_for_requests(SOME, PATIENCE)?;
    let report = probe.stop()?;
    node.assert_answered_throughout(&report);
    assert_eq!(entry(node)?, entry_before, "the entry, its slot and its generation");
    assert_eq!(answered(node)? - answered_before, report.sent() as u64, "the counter, which was not reset");
    Ok(())
}

#[test]
fn a_changed_file_changes_what_it_names_and_no_other_answer_is_lost() -> Result<()> {
    let mut node = Node::start("change", "vips: [{address: 192.0.2.9}, {address: 192.0.2.10}]\n")?;
    untouched(&mut node, |node| {
        // This adds VIPs before and after it.
        node.write_config(
            "vips: [{address: 192.0.2.8}, {address: 192.0.2.9}, {address: 192.0.2.10}, {address: 192.0.2.11}]\n",
        )?;
        wait_until_held(node, 8, true)?;
        wait_until_held(node, 11, true)?;
        // This removes some, and changes all settings that are not about VIPs.
        node.write_config(
            "vips: [{address: 192.0.2.11}, {address: 192.0.2.10}]\npeers: ['02:00:00:00:00:77']\n\
             fence: {duration: 6s, policy: stop}\nannounce: {refresh: 10s}\nshutdown: withdraw\n",
        )?;
        wait_until_held(node, 8, false)?;
        wait_until_held(node, 9, false)?;
        wait_until_held(node, 11, true)?;
        let status = node.agent.status()?;
        assert_eq!(status["lease_deadline"]["policy"], "stop");
        assert_eq!(status["peers"][0]["mac"], "02:00:00:00:00:77");
        // This changes another VIP from held to guarded and back,
        // so that its slot is freed and taken.
        node.write_config(
            "vips: [{address: 192.0.2.10}, {address: 192.0.2.11, mac: '02:00:00:00:00:99'}]\n",
        )?;
        wait_until_held(node, 11, false)?;
        assert_eq!(node.vip_status(ip(11))?["mac"], "02:00:00:00:00:99");
        assert_eq!(node.agent.status()?["peers"], Value::Array(Vec::new()));
        node.write_config("vips: [{address: 192.0.2.10}, {address: 192.0.2.11}]\n")?;
        wait_until_held(node, 11, true)
    })
}

#[test]
fn a_thousand_other_vips_come_and_go_and_no_answer_is_lost() -> Result<()> {
    let mut node = Node::start("many", HOLDS_ONE)?;
    // These are in no subnet of the node, so the file names their interface.
    let mut many = format!("vips:\n  - address: {VIP}\n");
    for number in 0..1_000_u32 {
        let [_, _, high, low] = number.to_be_bytes();
        writeln!(many, "  - {{address: 10.1.{high}.{low}, interface: eth0}}")?;
    }
    untouched(&mut node, |node| {
        let entries = |node: &Node| Ok(node.agent.status()?["entries"] == 1_001);
        node.write_config(&many)?;
        wait_until(PATIENCE, "all to be there", || entries(node))?;
        node.write_config(HOLDS_ONE)?;
        wait_until(PATIENCE, "all to be gone", || Ok(node.agent.status()?["entries"] == 1))
    })
}

/// Waits for the log line with the reason why a file is not applied.
fn wait_for_refusal(node: &mut Node, seen: usize, parts: &[&str]) -> Result<()> {
    let refused = |line: &LogLine| {
        let error = line.field("error").and_then(Value::as_str).unwrap_or_default();
        line.message() == NOT_APPLIED
            && line.level() == "ERROR"
            && parts.iter().all(|part| error.contains(part))
    };
    node.agent.wait_for_log_after(seen, PATIENCE, &format!("a refusal with {parts:?}"), refused).map(drop)
}

#[test]
fn a_file_that_is_bad_gone_or_unreadable_changes_nothing_and_says_why_until_it_is_good_again() -> Result<()> {
    // Root with all capabilities can read any file.
    let kept = vec![Capability::Bpf, Capability::NetAdmin, Capability::NetRaw, Capability::Perfmon];
    let mut node = Node::start_with("bad", Attachment::Auto, HOLDS_ONE, |options| {
        options.only_capabilities = Some(kept);
    })?;
    untouched(&mut node, |node| {
        for (yaml, parts) in [
            ("vips: [{address: 192.0.2.11}]\nfences: 3s\n", &["`fences`", ":3:"][..]),
            ("vips: [{address: 192.0.2.11}, {address: fe80::1}]\n", &["fe80::1", "link-local"]),
            ("vips: [{address: 192.0.2.11}\n", &[":"]),
        ] {
            let seen = node.agent.logs()?.len();
            node.write_config(yaml)?;
            wait_for_refusal(node, seen, parts)?;
            assert_eq!(node.agent.status()?["entries"], 1);
            assert!(!is_held(node, 11)?);
        }
        // SIGHUP does not apply it either.
        let seen = node.agent.logs()?.len();
        node.agent.signal(Signal::SIGHUP)?;
        wait_for_refusal(node, seen, &[])?;
        assert!(!is_held(node, 11)?);

        let seen = node.agent.logs()?.len();
        let path = node.agent.config_path();
        let name = path.display().to_string();
        fs::remove_file(&path)?;
        wait_for_refusal(node, seen, &[&name, "No such file"])?;
        assert_eq!(node.agent.status()?["entries"], 1);
        node.write_config("vips: [{address: 192.0.2.10}, {address: 192.0.2.11}]\n")?;
        wait_until_held(node, 11, true)?;

        // A change of its mode is a change of the file, too.
        let seen = node.agent.logs()?.len();
        fs::set_permissions(&path, Permissions::from_mode(0o000))?;
        wait_for_refusal(node, seen, &[&name, "Permission denied"])?;
        fs::write(&path, "vips: [{address: 192.0.2.10}, {address: 192.0.2.12}]\n")?;
        fs::set_permissions(&path, Permissions::from_mode(0o600))?;
        wait_until_held(node, 12, true)
    })
}
