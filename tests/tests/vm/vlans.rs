//! VLAN devices on real cards: each frame is decided in its own VLAN, by the lowest program that sees
//! its tag.

use std::net::Ipv4Addr;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use vipward_tests::agent::{Agent, LogLine};
use vipward_tests::arp::{Arp, Mac};
use vipward_tests::node::ask;
use vipward_tests::scene::{PATIENCE, VIP, counter, ip, vip_status};
use vipward_tests::vm::Machine;
use vipward_tests::wait::wait_until;
use vipward_tests::wire::Wire;

use crate::segment::{Kind, NICS, Segment};

const ROGUE: Mac = Mac([2, 0, 0, 0, 0, 0xee]);
/// A VIP of the card's untagged segment.
const UNTAGGED: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 10);
/// Requests between two events.
const SOME: usize = 100;

/// Returns a segment whose card also has an untagged subnet, and the lines of a file with a VIP there.
fn both() -> Result<(Segment, String)> {
    let segment = Segment::new(&Machine::here()?, Kind::Vlan)?;
    let net = |last: u8| format!("198.51.100.{last}/24").parse::<ipnet::IpNet>();
    segment.client.add_address(NICS[0], net(1)?)?;
    segment.node.add_address(NICS[0], net(2)?)?;
    let vips = format!("vips: [{{address: {VIP}}}, {{address: {UNTAGGED}}}]\n");
    Ok((segment, vips))
}

fn wait_until_answering(agent: &Agent, vip: Ipv4Addr, interface: &str) -> Result<()> {
    let answers = || Ok(vip_status(agent, vip, interface).is_ok_and(|row| row["answering"] == true));
    wait_until(PATIENCE, "status to say that the VIP is answered", answers)
        .with_context(|| format!("the agent's log:\n{}", agent.transcript()))
}

/// Returns the row of `status` for an interface.
fn interface(agent: &Agent, name: &str) -> Result<Value> {
    let status = agent.status()?;
    let rows = status["interfaces"].as_array().context("status has no interfaces")?;
    let row = rows.iter().find(|row| row["name"] == name).cloned();
    row.with_context(|| format!("{name} is not in {status:#}"))
}

#[test]
#[ignore = "runs in a virtual machine: `cargo xtask vm`"]
fn a_vip_is_answered_and_guarded_in_its_own_vlan_alone() -> Result<()> {
    let (segment, vips) = both()?;
    let mut agent = segment.launch(&vips)?;
    let vlan = segment.at_node;
    wait_until_answering(&agent, VIP, vlan)?;
    wait_until_answering(&agent, UNTAGGED, NICS[0])?;
    let client = &segment.client;
    let (in_vlan, untagged) = (segment.at_client, NICS[0]);
    assert_eq!(ask(client, in_vlan, VIP)?, Some(segment.node.mac(vlan)?));
    assert_eq!(ask(client, untagged, UNTAGGED)?, Some(segment.node.mac(NICS[0])?));
    assert_eq!(ask(client, untagged, VIP)?, None, "the VLAN's VIP, asked for without a tag");
    assert_eq!(ask(client, in_vlan, UNTAGGED)?, None, "the untagged VIP, asked for in the VLAN");

    let claim = |interface: &str, vip| {
        Wire::open(client, interface)?.send(&Arp::gratuitous_request(ROGUE, vip, Mac::ZERO).to_bytes())
    };
    let conflicts = counter(&agent, "claim_conflict")?;
    claim(untagged, VIP)?;
    claim(in_vlan, UNTAGGED)?;
    // Frames come in order: what is heard after them tells that they were decided.
    ask(client, untagged, UNTAGGED)?.context("the untagged VIP is answered")?;
    ask(client, in_vlan, VIP)?.context("the VLAN's VIP is answered")?;
    assert_eq!(counter(&agent, "claim_conflict")?, conflicts, "claims in the other segment");
    claim(in_vlan, VIP)?;
    wait_until(PATIENCE, "the conflict", || Ok(counter(&agent, "claim_conflict")? == conflicts + 1))?;
    let status = agent.status()?;
    let offender = &status["offenders"][0];
    assert_eq!((&offender["interface"], &offender["vlan"]), (&vlan.into(), &100.into()), "{status:#}");
    assert_eq!(offender["mac"], ROGUE.to_string(), "{status:#}");
    let is_told = |line: &LogLine| line.has("mac", ROGUE) && line.has("vlan", 100);
    agent.wait_for_log(PATIENCE, "the conflict in VLAN 100", is_told)?;
    Ok(())
}

#[test]
#[ignore = "runs in a virtual machine: `cargo xtask vm`"]
fn the_program_of_the_card_decides_for_its_vlan_devices() -> Result<()> {
    let (segment, vips) = both()?;
    let mut agent = segment.launch(&vips)?;
    let vlan = segment.at_node;
    let through_the_card = |agent: &Agent| Ok(interface(agent, vlan)?["through"] == NICS[0]);
    wait_until_answering(&agent, VIP, vlan)?;
    wait_until(PATIENCE, "the card's program to decide", || through_the_card(&agent))?;
    let (card, device) = (interface(&agent, NICS[0])?, interface(&agent, vlan)?);
    assert_eq!(card["program_id"], device["program_id"]);
    assert_eq!(device["vlan"], 100);

    let (vip, own) = (segment.probe(VIP)?, segment.probe(ip(2))?);
    vip.wait_for_requests(SOME, PATIENCE)?;
    agent.kill9()?;
    vip.wait_for_requests(SOME, PATIENCE)?;
    agent.restart()?;
    wait_until(PATIENCE, "the next agent", || {
        Ok(interface(&agent, NICS[0])?["program_id"] != card["program_id"] && through_the_card(&agent)?)
    })?;
    // Without the card, the device has a program of its own; and with it, none again.
    agent.write_config(&format!("interfaces: [{vlan}]\n{vips}"))?;
    wait_until(PATIENCE, "a program of its own", || Ok(interface(&agent, vlan)?["through"].is_null()))?;
    vip.wait_for_requests(SOME, PATIENCE)?;
    agent.write_config(&format!("interfaces: [{vlan}, {}]\n{vips}", NICS[0]))?;
    wait_until(PATIENCE, "the card's program to decide again", || through_the_card(&agent))?;
    vip.wait_for_requests(SOME, PATIENCE)?;
    let (vip, own) = (vip.stop()?, own.stop()?);
    ensure!(vip.unanswered().len() <= own.unanswered().len(), "the VIP: {vip}\nthe kernel's own: {own}");

    // Nothing answers for a device that is down.
    segment.node.set_up(vlan, false)?;
    wait_until(PATIENCE, "the card's program to leave the device", || {
        Ok(ask(&segment.client, segment.at_client, VIP)?.is_none())
    })?;
    segment.node.set_up(vlan, true)?;
    wait_until(PATIENCE, "an answer", || Ok(ask(&segment.client, segment.at_client, VIP)?.is_some()))?;
    Ok(())
}

#[test]
#[ignore = "runs in a virtual machine: `cargo xtask vm`"]
fn a_card_that_begins_to_take_tags_off_gets_tc() -> Result<()> {
    let (segment, vips) = both()?;
    let agent = segment.launch(&vips)?;
    wait_until_answering(&agent, VIP, segment.at_node)?;
    let strip = |on| segment.node.set_rx_vlan_offload(NICS[0], on);
    let mode = |mode: &'static str| {
        wait_until(PATIENCE, mode, || Ok(interface(&agent, NICS[0])?["mode"] == mode))?;
        let is_answered = || Ok(ask(&segment.client, segment.at_client, VIP)?.is_some());
        wait_until(PATIENCE, "an answer", is_answered)
    };
    if !strip(false)? || !strip(true)? {
        println!("skipped: the driver does not change rx-vlan-offload");
        return Ok(());
    }
    mode("tc")?;
    // The line is there only if the driver has native XDP. vmxnet3 has it since Linux 6.6, and e1000e
    // has none.
    let offers_native = |line: &LogLine| line.has("remedy", "ethtool -K nic0 rxvlan off");
    let offers_native = agent.logs()?.iter().any(offers_native);
    assert!(strip(false)?);
    if offers_native {
        mode("native")?;
        assert!(strip(true)?);
        mode("tc")?;
    }
    Ok(())
}
