//! A program that is attached and sees nothing, as native XDP on a bond: it runs on the ports, with the
//! ifindex of a port.

use std::time::{Duration, Instant};

use anyhow::Result;
use vipward_tests::agent::Agent;
use vipward_tests::node::ask;
use vipward_tests::process::output_of;
use vipward_tests::scene::{PATIENCE, VIP, vip_status};
use vipward_tests::vm::Machine;
use vipward_tests::wait::wait_until;

use crate::segment::{Kind, Segment};

/// Time within which blindness is found after attaching.
const FOUND_WITHIN: Duration = Duration::from_secs(5);
const BLIND: &str = "the program does not see the interface's frames";
/// NICs whose driver has native XDP.
const NATIVE: &str = "virtio-net";

#[test]
#[ignore = "runs in a virtual machine: `cargo xtask vm`"]
fn native_on_a_bond_is_found_to_be_blind_and_tc_to_see() -> Result<()> {
    let machine = Machine::here()?;
    // The version that has this fault is built for amd64 alone.
    if machine.model() != NATIVE || cfg!(target_arch = "aarch64") {
        return Ok(());
    }
    let segment = Segment::new(&machine, Kind::Bond)?;
    let mut route = segment.node.command("ip");
    route.args(["route", "add", "default", "via", "192.0.2.1"]);
    output_of(route)?;
    let mut agent = segment.launch_with(
        Some(Agent::next_binary()?),
        &format!("attach: native\nprobe: {{count: 0}}\nvips: [{{address: {VIP}}}]\n"),
    )?;
    agent.wait_for_log(PATIENCE, "that it is attached", |line| line.message() == "attached")?;
    let attached = Instant::now();
    let silence = || vip_status(&agent, VIP, segment.at_node).map(|row| row["silent_because"].clone());
    wait_until(PATIENCE, BLIND, || Ok(silence().is_ok_and(|why| why == BLIND)))?;
    let took = attached.elapsed();
    println!("blindness was found after {took:?}");
    assert!(took < FOUND_WITHIN, "it took {took:?}");
    let status = agent.status()?;
    let interface = &status["interfaces"][0];
    assert_eq!((&interface["mode"], &interface["attached"]), (&"native".into(), &true.into()), "{status:#}");
    assert_eq!(interface["proof"], "blind", "{status:#}");
    assert_eq!(ask(&segment.client, segment.at_client, VIP)?, None, "it is blind");

    agent.write_config(&format!("attach: auto\nprobe: {{count: 0}}\nvips: [{{address: {VIP}}}]\n"))?;
    wait_until(PATIENCE, "proof of tc", || {
        let status = agent.status()?;
        let interface = &status["interfaces"][0];
        Ok(interface["mode"] == "tc" && interface["proof"] == "proven")
    })?;
    let mac = segment.node.mac(segment.at_node)?;
    assert_eq!(ask(&segment.client, segment.at_client, VIP)?, Some(mac));
    Ok(())
}
