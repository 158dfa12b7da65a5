//! VLAN devices on real cards: each frame is decided in its own VLAN, by the lowest program that sees
//! its tag.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use anyhow::{Context, Result};
use ipnet::IpNet;
use serde_json::Value;
use vipward_tests::{
    agent::{Agent, LogLine, ask, counter, vip_status},
    frames::{Family, Mac, Message},
    kit::wait_until,
    lan::{Wire, vm::Machine},
};

use crate::segment::{Kind, NICS, PATIENCE, Segment};

const ROGUE: Mac = Mac([2, 0, 0, 0, 0, 0xee]);

/// Returns an address of the card's untagged segment.
fn untagged(family: Family, last: u8) -> IpAddr {
    match family {
        Family::V4 => Ipv4Addr::new(198, 51, 100, last).into(),
        Family::V6 => Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, last.into()).into(),
    }
}

/// Returns a segment whose card also has untagged subnets, and the lines of a file with VIPs there and in
/// the VLAN.
fn both() -> Result<(Segment, String)> {
    let segment = Segment::new(&Machine::here()?, Kind::Vlan)?;
    let mut vips = Vec::new();
    for family in Family::BOTH {
        for (host, last) in [(&segment.client, 1), (&segment.node, 2)] {
            let address = untagged(family, last);
            host.add_address(NICS[0], IpNet::new(address, family.net(last).prefix_len())?)?;
        }
        vips.extend([family.vip(), untagged(family, 10)].map(|vip| format!("{{address: '{vip}'}}")));
    }
    Ok((segment, format!("vips: [{}]\n", vips.join(", "))))
}

/// Waits until `status` reports every VIP answered.
fn wait_until_answering(agent: &Agent, segment: &Segment) -> Result<()> {
    for family in Family::BOTH {
        for (vip, interface) in [(family.vip(), segment.at_node), (untagged(family, 10), NICS[0])] {
            let answers = || Ok(vip_status(agent, vip, interface).is_ok_and(|row| row["answering"] == true));
            wait_until(PATIENCE, &format!("status to say that {vip} is answered"), answers)
                .with_context(|| format!("the agent's log:\n{}", agent.transcript()))?;
        }
    }
    Ok(())
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
    wait_until_answering(&agent, &segment)?;
    let client = &segment.client;
    let (in_vlan, without_tag) = (segment.at_client, NICS[0]);
    for family in Family::BOTH {
        let (vip, other) = (family.vip(), untagged(family, 10));
        assert_eq!(ask(client, in_vlan, vip)?, Some(segment.node.mac(segment.at_node)?), "{vip}");
        assert_eq!(ask(client, without_tag, other)?, Some(segment.node.mac(NICS[0])?), "{other}");
        assert_eq!(ask(client, without_tag, vip)?, None, "the VLAN's {vip}, asked for without a tag");
        assert_eq!(ask(client, in_vlan, other)?, None, "the untagged {other}, asked for in the VLAN");

        let claim = |interface: &str, vip| {
            Wire::open(client, interface)?.send(&Message::announcement(ROGUE, vip).to_bytes())
        };
        let conflicts = counter(&agent, "claim_conflict")?;
        claim(without_tag, vip)?;
        claim(in_vlan, other)?;
        // Frames come in order: a later frame that is received proves that they were decided.
        ask(client, without_tag, other)?.with_context(|| format!("{other} is answered"))?;
        ask(client, in_vlan, vip)?.with_context(|| format!("{vip} is answered"))?;
        assert_eq!(counter(&agent, "claim_conflict")?, conflicts, "{family:?}: claims in the other segment");
        claim(in_vlan, vip)?;
        wait_until(PATIENCE, "the conflict", || Ok(counter(&agent, "claim_conflict")? == conflicts + 1))?;
        let status = agent.status()?;
        let offenders = status["offenders"].as_array().context("status has no offenders")?;
        let offender = offenders.iter().find(|row| row["address"] == vip.to_string());
        let offender = offender.with_context(|| format!("no offender of {vip} in {status:#}"))?;
        let place = (&offender["interface"], &offender["vlan"], &offender["mac"]);
        let expected = (&segment.at_node.into(), &100.into(), &ROGUE.to_string().into());
        assert_eq!(place, expected, "{offender:#}");
        let is_notified =
            |line: &LogLine| line.has("vip", vip) && line.has("mac", ROGUE) && line.has("vlan", 100);
        agent.wait_for_log(PATIENCE, "the conflict in VLAN 100", is_notified)?;
    }
    Ok(())
}

#[test]
#[ignore = "runs in a virtual machine: `cargo xtask vm`"]
fn the_program_of_the_card_decides_for_its_vlan_devices() -> Result<()> {
    let (segment, vips) = both()?;
    let mut agent = segment.launch(&vips)?;
    let vlan = segment.at_node;
    let through_the_card = |agent: &Agent| Ok(interface(agent, vlan)?["through"] == NICS[0]);
    wait_until_answering(&agent, &segment)?;
    wait_until(PATIENCE, "the card's program to decide", || through_the_card(&agent))?;
    let (card, device) = (interface(&agent, NICS[0])?, interface(&agent, vlan)?);
    assert_eq!(card["program_id"], device["program_id"]);
    assert_eq!(device["vlan"], 100);

    let probing = segment.start_probing()?;
    probing.go_on()?;
    agent.kill9()?;
    probing.go_on()?;
    agent.restart()?;
    wait_until(PATIENCE, "the next agent", || {
        Ok(interface(&agent, NICS[0])?["program_id"] != card["program_id"] && through_the_card(&agent)?)
    })?;
    // Without the card, the device has a program of its own; and with it, none again.
    agent.write_config(&format!("interfaces: [{vlan}]\n{vips}"))?;
    // The status is read in steps, while the device goes from one list to another.
    let has_own = || interface(&agent, vlan).is_ok_and(|device| device["through"].is_null());
    wait_until(PATIENCE, "a program of its own", || Ok(has_own()))?;
    probing.go_on()?;
    agent.write_config(&format!("interfaces: [{vlan}, {}]\n{vips}", NICS[0]))?;
    wait_until(PATIENCE, "the card's program to decide again", || through_the_card(&agent))?;
    probing.go_on()?;
    let answers = probing.end()?;
    assert!(!answers.are_dark(0), "{answers}");

    // Nothing answers for a device that is down.
    segment.node.set_up(vlan, false)?;
    for family in Family::BOTH {
        wait_until(PATIENCE, "the card's program to leave the device", || Ok(!segment.is_answered(family)?))?;
    }
    segment.node.set_up(vlan, true)?;
    segment.wait_until_answered()
}

#[test]
#[ignore = "runs in a virtual machine: `cargo xtask vm`"]
fn a_card_that_begins_to_take_tags_off_gets_tc() -> Result<()> {
    let (segment, vips) = both()?;
    let agent = segment.launch(&vips)?;
    wait_until_answering(&agent, &segment)?;
    let strip = |on| segment.node.set_rx_vlan_offload(NICS[0], on);
    let mode = |mode: &'static str| {
        wait_until(PATIENCE, mode, || Ok(interface(&agent, NICS[0])?["mode"] == mode))?;
        segment.wait_until_answered()
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
