//! Two hundred interfaces.

use std::fmt::Write as _;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use ipnet::Ipv4Net;
use vipward_tests::{
    agent::{Agent, AgentOptions, Bpffs, LogLine, PATIENCE, ask},
    frames::Mac,
    kit::wait_until,
    lan::{Host, Nic, connect},
};

const INTERFACES: u8 = 200;
/// Longest time from the agent's start until the program is on all
/// interfaces: many times that on an idle machine.
const ATTACH_LIMIT: Duration = Duration::from_mins(1);

fn name(number: u8) -> String {
    format!("lan{number}")
}

fn address(number: u8, last: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 99, number, last)
}

fn mac(number: u8, last: u8) -> Mac {
    Mac([2, 0, 0, 0, number, last])
}

fn nic(number: u8, last: u8) -> Result<Nic> {
    let subnet = Ipv4Net::new(address(number, last), 24)?;
    Ok(Nic::new(subnet).named(&name(number)).mac(mac(number, last)))
}

/// Makes two hosts with that many cables, each its own segment,
/// and a configuration with a VIP on each.
fn cables() -> Result<(Host, Host, String)> {
    let (far, host) = (Host::new("far")?, Host::new("node")?);
    let mut yaml = String::from("vips:\n");
    for number in 0..INTERFACES {
        connect((&far, nic(number, 1)?), (&host, nic(number, 2)?))?;
        writeln!(yaml, "  - address: {}", address(number, 10))?;
    }
    Ok((far, host, yaml))
}

fn attached(agent: &Agent) -> Result<usize> {
    let status = agent.status()?;
    let rows = status["interfaces"].as_array().context("status has no list of interfaces")?;
    Ok(rows.iter().filter(|row| row["attached"] == true).count())
}

fn wait_until_answered(far: &Host, number: u8, mac: Mac) -> Result<()> {
    let what = format!("an answer on {} that the VIP is at {mac}", name(number));
    wait_until(PATIENCE, &what, || Ok(ask(far, &name(number), address(number, 10))? == Some(mac)))
}

#[test]
fn two_hundred_interfaces_are_attached_and_answered_on() -> Result<()> {
    let (far, host, yaml) = cables()?;
    let bpffs = Bpffs::mount()?;
    let started = Instant::now();
    let mut agent = Agent::start(&host, &yaml, AgentOptions::new(bpffs.pin_dir("node")))?;
    agent.wait_for_log(ATTACH_LIMIT, "that it runs", |line| line.message() == "agent is running")?;
    println!("{INTERFACES} interfaces in {:?}", started.elapsed());
    assert_eq!(attached(&agent)?, usize::from(INTERFACES));
    let is_probed = |line: &LogLine| line.message() == "addresses have been probed";
    agent.wait_for_log(ATTACH_LIMIT, "that addresses have been probed", is_probed)?;
    // Every VIP has an entry on every interface, and is held on its own only.
    let status = agent.status()?;
    let vips = status["vips"].as_array().context("status has no list of VIPs")?;
    assert_eq!(vips.len(), usize::from(INTERFACES) * usize::from(INTERFACES));
    assert_eq!(vips.iter().filter(|row| row["role"] == "held").count(), usize::from(INTERFACES));

    for number in (0..INTERFACES).step_by(25).chain([INTERFACES - 1]) {
        wait_until_answered(&far, number, mac(number, 2))?;
        let elsewhere = name((number + 1) % INTERFACES);
        assert_eq!(ask(&far, &elsewhere, address(number, 10))?, None, "it is not on {elsewhere}");
    }

    // One of them goes, and comes back with another MAC. The others are not affected.
    host.delete_link(&name(7))?;
    wait_until(PATIENCE, "one interface less", || Ok(attached(&agent)? == usize::from(INTERFACES) - 1))?;
    connect((&far, nic(7, 1)?), (&host, nic(7, 3)?))?;
    wait_until_answered(&far, 7, mac(7, 3))?;
    wait_until_answered(&far, 8, mac(8, 2))?;
    assert!(agent.is_running()?);
    Ok(())
}
