//! Configurations that do not fit the host's network: the agent reports
//! that, waits for the network, and does the rest.

use std::net::IpAddr;

use anyhow::Result;
use vipward_tests::{
    agent::{Attachment, NODE, Node, PATIENCE, VIP, ask, ip},
    frames::Mac,
    kit::wait_until,
    lan::{Host, Nic, connect},
};

const SECOND_MAC: Mac = Mac([2, 0, 0, 0, 0, 0x22]);

#[test]
fn a_vip_in_no_subnet_is_reported_with_the_subnets_examined_and_the_others_are_held() -> Result<()> {
    let yaml = "vips: [{address: 203.0.113.10}, {address: 192.0.2.10}]\n";
    let mut node = Node::start("no-subnet", yaml)?;
    let far = Host::new("far")?;
    let nic = Nic::new("198.51.100.2/24".parse()?)
        .named("eth1")
        .address("198.51.101.2/25".parse::<ipnet::Ipv4Net>()?);
    connect((&node.host, nic), (&far, Nic::bare()))?;
    let looked_at = "looked at: eth0 (192.0.2.2/24), eth1 (198.51.100.2/24, 198.51.101.2/25)";
    let way_out = "Name one with `interface:`, or give an interface an address in its subnet";
    node.wait_for_problem(
        0,
        &["VIP 203.0.113.10 is in the subnet of no attached interface", looked_at, way_out],
    )?;
    node.wait_until_answered(VIP, NODE)
}

#[test]
fn an_interface_that_does_not_exist_is_reported_and_waited_for() -> Result<()> {
    let yaml =
        "interfaces: [eth0, eth7]\nvips: [{address: 192.0.2.10}, {address: 192.0.2.11, interface: eth8}]\n";
    let mut node = Node::start("no-interface", yaml)?;
    node.wait_for_problem(0, &["interface eth7 does not exist; waiting for it"])?;
    let problem =
        "VIP 192.0.2.11 belongs to interface eth8, which is not there or not attached; attached are: eth0";
    node.wait_for_problem(0, &[problem])?;
    node.wait_until_answered(VIP, NODE)?;
    assert_eq!(node.ask(ip(11))?, None);
    Ok(())
}

#[test]
fn a_glob_that_matches_nothing_is_reported_and_waited_for() -> Result<()> {
    let mut node = Node::start("glob", "interfaces: ['ens*', 'lan?']\nvips: [{address: 192.0.2.10}]\n")?;
    node.wait_for_problem(0, &["no up Ethernet interface matches ens*, lan?; waiting for one"])?;
    assert_eq!(node.programs()?.len(), 0);
    node.host.rename("eth0", "lan0")?;
    node.wait_until_answered(VIP, NODE)?;
    node.wait_for_end_of_problem(0, &["no up Ethernet interface"])?;
    Ok(())
}

#[test]
fn the_addresses_that_no_host_can_have_are_refused() -> Result<()> {
    let yaml = "vips: [{address: 192.0.2.0}, {address: 192.0.2.255}, {address: 192.0.2.10}]\n";
    let mut node = Node::start("network-address", yaml)?;
    node.wait_for_problem(0, &["VIP 192.0.2.0 is the network address of 192.0.2.0/24 on eth0"])?;
    node.wait_for_problem(0, &["VIP 192.0.2.255 is the broadcast address of 192.0.2.0/24 on eth0"])?;
    node.wait_until_answered(VIP, NODE)
}

#[test]
fn more_vips_than_the_map_holds_are_reported_with_the_limit_and_the_option_and_the_others_work() -> Result<()>
{
    let yaml = "vips: [{address: 192.0.2.10}, {address: 192.0.2.11}, {address: 192.0.2.12}, {address: 192.0.2.13}]\n";
    let mut node = Node::start_with("no-room", Attachment::Auto, yaml, |options| options.max_vips = Some(3))?;
    let problem = node.wait_for_problem(0, &["192.0.2.13 does not fit"])?;
    for part in ["1 VIPs are left out", "the map holds 3 entries", "--max-vips"] {
        assert!(problem.contains(part), "{part} in: {problem}");
    }
    for last in 10..=12 {
        node.wait_until_answered(ip(last), NODE)?;
    }
    assert_eq!(node.ask(ip(13))?, None);
    assert_eq!(node.agent.status()?["entries"], 3);

    // The named remedy works.
    node.agent.kill9()?;
    node.agent.options.max_vips = Some(4);
    node.restart_agent()?;
    node.wait_until_answered(ip(13), NODE)
}

#[test]
fn an_interface_that_is_down_is_reported_and_waited_for() -> Result<()> {
    let mut node = Node::start(
        "down",
        "interfaces: [eth0, eth1]\nvips: [{address: 192.0.2.10}, {address: 198.51.100.10}]\n",
    )?;
    let far = Host::new("far")?;
    let nic = Nic::new("198.51.100.2/24".parse()?).named("eth1").mac(SECOND_MAC);
    connect((&node.host, nic), (&far, Nic::new("198.51.100.1/24".parse()?)))?;
    let answered = || Ok(ask(&far, "eth0", "198.51.100.10".parse::<IpAddr>()?)? == Some(SECOND_MAC));
    wait_until(PATIENCE, "an answer on eth1", answered)?;
    node.host.set_up("eth1", false)?;
    node.wait_for_problem(0, &["interface eth1 is down; waiting for it to be set up"])?;
    node.wait_until_answered(VIP, NODE)?;
    node.host.set_up("eth1", true)?;
    wait_until(PATIENCE, "an answer on eth1", answered)
}
