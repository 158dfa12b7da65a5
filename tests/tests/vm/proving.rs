//! Native XDP on a bond, which runs on the ports with the ifindex of a port.

use std::time::{Duration, Instant};

use anyhow::Result;
use serde_json::Value;
use vipward_tests::agent::Agent;
use vipward_tests::node::ask;
use vipward_tests::process::output_of;
use vipward_tests::scene::{PATIENCE, VIP, empty_map, vip_status};
use vipward_tests::vm::Machine;
use vipward_tests::wait::wait_until;

use crate::segment::{Kind, NICS, Segment};

/// Requests between two events.
const SOME: usize = 100;
/// Time within which blindness is found after attaching.
const FOUND_WITHIN: Duration = Duration::from_secs(5);
const BLIND: &str = "the program does not see the interface's frames";
/// NICs whose driver has native XDP.
const NATIVE: &str = "virtio-net";

#[test]
#[ignore = "runs in a virtual machine: `cargo xtask vm`"]
fn native_xdp_runs_on_a_bonds_ports_and_is_found_blind_without_their_entries() -> Result<()> {
    let machine = Machine::here()?;
    if machine.model() != NATIVE {
        return Ok(());
    }
    let segment = Segment::new(&machine, Kind::Bond)?;
    let mut route = segment.node.command("ip");
    route.args(["route", "add", "default", "via", "192.0.2.1"]);
    output_of(route)?;
    let mut agent = segment.agent("attach: native\n")?;
    let proof = |agent: &Agent| -> Result<Value> { Ok(agent.status()?["interfaces"][0]["proof"].clone()) };
    wait_until(PATIENCE, "proof", || Ok(proof(&agent)? == "proven"))?;
    assert_eq!(segment.modes(&agent)?, "native");
    let mac = segment.node.mac(segment.at_node)?;
    let is_answered = || Ok(ask(&segment.client, segment.at_client, VIP)? == Some(mac));

    // Each request is answered once, also while the agent is killed and restarted.
    let probe = segment.probe(VIP)?;
    probe.wait_for_requests(SOME, PATIENCE)?;
    agent.kill9()?;
    probe.wait_for_requests(SOME, PATIENCE)?;
    agent.restart()?;
    wait_until(PATIENCE, "proof by the next agent", || Ok(proof(&agent)? == "proven"))?;
    probe.wait_for_requests(SOME, PATIENCE)?;
    let report = probe.stop()?;
    assert_eq!((report.unanswered().len(), report.doubles()), (0, 0), "{report}");

    // The agent follows a failover.
    segment.node.set_up(NICS[0], false)?;
    wait_until(PATIENCE, "an answer by the other port", is_answered)?;
    segment.node.set_up(NICS[0], true)?;

    // Without the entries of its ports, a bond is what it was before they were there: the program counts
    // nothing for it. A change of the stack begins a round.
    wait_until(PATIENCE, "proof after the failover", || Ok(proof(&agent)? == "proven"))?;
    empty_map(&agent, "vlans")?;
    segment.node.set_up(NICS[0], false)?;
    let changed = Instant::now();
    let silence = || vip_status(&agent, VIP, segment.at_node).map(|row| row["silent_because"].clone());
    wait_until(PATIENCE, BLIND, || Ok(silence().is_ok_and(|why| why == BLIND)))?;
    let took = changed.elapsed();
    println!("blindness was found after {took:?}");
    assert!(took < FOUND_WITHIN, "it took {took:?}");
    assert_eq!(ask(&segment.client, segment.at_client, VIP)?, None, "it is blind");

    agent.write_config(&format!("attach: auto\nvips: [{{address: {VIP}}}]\n"))?;
    wait_until(PATIENCE, "proof of tc", || Ok(segment.modes(&agent)? == "tc" && proof(&agent)? == "proven"))?;
    wait_until(PATIENCE, "an answer by tc", is_answered)?;
    Ok(())
}
