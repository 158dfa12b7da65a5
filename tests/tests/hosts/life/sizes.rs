//! Pinned maps of another size: their contents are taken over, and no request goes unanswered.

use anyhow::{Context, Result};
use serde_json::Value;
use vipward_common::maps;
use vipward_tests::agent::{NODE, Node, PATIENCE, VIP, ip, map_dump};

/// Number of requests that show a gap of milliseconds before and after a change.
const SOME: usize = 300;

/// Returns key and value of a VIP, with bpftool's names of the fields.
fn entry(node: &Node, vip: std::net::Ipv4Addr) -> Result<Value> {
    let elements = map_dump(&node.agent, maps::VIPS_V4)?;
    let octets: Value = vip.octets().into_iter().map(Value::from).collect();
    let found = elements.into_iter().find(|element| element["key"]["addr"] == octets);
    found.map(|mut element| element["value"].take()).with_context(|| format!("{vip} has no entry"))
}

#[test]
fn entries_go_over_to_a_map_of_another_size_and_no_request_goes_unanswered() -> Result<()> {
    let yaml = "vips: [{address: 192.0.2.10}, {address: 192.0.2.9, mac: '02:00:00:00:00:99'}]\n";
    let mut node = Node::start("resize", yaml)?;
    node.wait_until_answered(VIP, NODE)?;
    let before = entry(&node, VIP)?;
    assert_eq!(node.agent.status()?["max_vips"], 65_536);

    let probe = node.probe(VIP)?;
    for (from, to) in [(65_536, 1_000), (1_000, 2_000)] {
        probe.wait_for_requests(SOME, PATIENCE)?;
        let seen = node.agent.logs()?.len();
        node.agent.kill9()?;
        node.agent.options.max_vips = Some(to);
        node.restart_agent()?;
        node.agent.wait_for_log_after(seen, PATIENCE, "that it resized", |line| {
            line.message() == "data plane resized"
                && line.has("from", from)
                && line.has("to", to)
                && line.has("dropped", 0)
        })?;
        probe.wait_for_requests(SOME, PATIENCE)?;
        let status = node.agent.status()?;
        assert_eq!((&status["max_vips"], &status["entries"]), (&to.into(), &2.into()));
        for key in ["generation", "mac", "role"] {
            assert_eq!(entry(&node, VIP)?[key], before[key], "{key} of the entry");
        }
        assert_eq!(node.vip_status(ip(9))?["mac"], "02:00:00:00:00:99");
    }
    node.assert_answered_throughout(&probe.stop()?);
    Ok(())
}
