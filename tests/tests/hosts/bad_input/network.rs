//! Configurations that do not fit the host's network: the agent reports
//! that, waits for the network, and does the rest.

use anyhow::Result;
use vipward_tests::agent::{Attachment, NODE, Node, VIP, ip};

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
