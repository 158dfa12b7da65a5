//! Native XDP on a bond, which runs on the ports with the ifindex of a port.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde_json::Value;
use vipward_tests::{
    agent::{Agent, empty_map},
    frames::Family,
    kit::wait_until,
    lan::vm::Machine,
};

use crate::segment::{Kind, NICS, PATIENCE, Segment, holds_both};

/// Time within which blindness is found after attaching: 5 s, twice as much on an emulated machine.
const FOUND_WITHIN: Duration = Duration::from_secs(10);
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
    let mut agent = segment.agent("attach: native\n")?;
    let proof = |agent: &Agent| -> Result<Value> { Ok(agent.status()?["interfaces"][0]["proof"].clone()) };
    wait_until(PATIENCE, "proof", || Ok(proof(&agent)? == "proven"))?;
    assert_eq!(segment.modes(&agent)?, "native");

    // Each request is answered once, also while the agent is killed and restarted.
    let probing = segment.start_probing()?;
    probing.go_on()?;
    agent.kill9()?;
    probing.go_on()?;
    agent.restart()?;
    wait_until(PATIENCE, "proof by the next agent", || Ok(proof(&agent)? == "proven"))?;
    probing.go_on()?;
    let answers = probing.end()?;
    assert!(answers.reach_every_vip_once(), "{answers}");

    // The agent follows a failover.
    segment.node.set_up(NICS[0], false)?;
    segment.wait_until_answered()?;
    segment.node.set_up(NICS[0], true)?;

    // Without the entries of its ports, a bond is what it was before they were there: the program counts
    // nothing for it. A change of the stack begins a round.
    wait_until(PATIENCE, "proof after the failover", || Ok(proof(&agent)? == "proven"))?;
    empty_map(&agent, "vlans")?;
    segment.node.set_up(NICS[0], false)?;
    let changed = Instant::now();
    wait_until(PATIENCE, BLIND, || {
        let status = agent.status()?;
        let vips = status["vips"].as_array().context("status has no VIPs")?;
        Ok(vips.len() == 2 && vips.iter().all(|vip| vip["silent_because"] == BLIND))
    })?;
    let took = changed.elapsed();
    println!("blindness was found after {took:?}");
    assert!(took < FOUND_WITHIN, "it took {took:?}");
    for family in Family::BOTH {
        assert!(!segment.is_answered(family)?, "{family:?}: it is blind");
    }

    agent.write_config(&format!("attach: auto\n{}", holds_both()))?;
    wait_until(PATIENCE, "proof of tc", || Ok(segment.modes(&agent)? == "tc" && proof(&agent)? == "proven"))?;
    segment.wait_until_answered()
}
