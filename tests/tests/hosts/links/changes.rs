//! VIPs whose interface changes.

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use anyhow::Result;
use vipward_tests::{
    agent::{Attachment, HOLDS_ONE, NODE, Node, PATIENCE, VIP, net, vip_status},
    frames::{Arp, Mac},
    kit::{output_of, wait_until},
    lan::{Nic, Wire},
};

const OTHER_MAC: Mac = Mac([2, 0, 0, 0, 0, 0x77]);

/// Longest time from the start of an agent to answers with a MAC that changed before.
const CORRECTED_WITHIN: Duration = Duration::from_secs(5);
/// Number of rounds for a taken VIP: one at once and five more.
const ROUNDS: usize = 6;

fn announces(vip: Ipv4Addr, mac: Mac) -> impl Fn(&Arp) -> bool {
    move |arp| arp.is_gratuitous() && arp.spa == vip && arp.sha == mac
}

#[test]
fn a_vip_is_answered_and_announced_again_when_the_carrier_returns() -> Result<()> {
    let mut node = Node::launch("carrier", Attachment::Auto, "vips: []\n", |_| {})?;
    let wire = Wire::open(&node.client, "eth0")?;
    node.write_config(HOLDS_ONE)?;
    // This waits for the rounds of a taken VIP. The next announcement is a refresh, a minute later.
    for _ in 0..ROUNDS {
        wire.expect_arp(PATIENCE, "an announcement", |arp| announces(VIP, NODE)(arp) && arp.is_request())?;
    }
    let carrier =
        |node: &Node| Ok::<_, anyhow::Error>(node.agent.status()?["interfaces"][0]["carrier"] == true);
    node.host.set_carrier("eth0", false)?;
    wait_until(PATIENCE, "status to say that the carrier is lost", || Ok(!carrier(&node)?))?;
    assert_eq!(node.ask(VIP)?, None, "no host can be asked");
    let silent = node.vip_status(VIP)?;
    let role = (&silent["role"], &silent["silent_because"]);
    assert_eq!(role, (&"silent".into(), &"no carrier".into()), "the entry stays");
    wire.drain()?;

    node.host.set_carrier("eth0", true)?;
    wire.expect_arp(PATIENCE, "an announcement", announces(VIP, NODE))?;
    assert!(carrier(&node)?);
    node.wait_until_answered(VIP, NODE)?;
    assert!(node.agent.is_running()?);
    Ok(())
}

#[test]
fn entry_answers_and_announcements_follow_the_mac_of_the_interface() -> Result<()> {
    let node = Node::start("mac", HOLDS_ONE)?;
    node.wait_until_answered(VIP, NODE)?;
    // The client's kernel has an entry for the VIP, and must learn the new MAC without a request.
    assert_eq!(node.client.resolve(VIP)?, NODE);
    let wire = Wire::open(&node.client, "eth0")?;

    node.host.set_mac("eth0", OTHER_MAC)?;
    let announced = wire.expect_arp(PATIENCE, "an announcement", announces(VIP, OTHER_MAC))?;
    assert_eq!(announced.eth_src, OTHER_MAC);
    let believed = || Ok(node.client.neighbour("eth0", VIP)?.and_then(|entry| entry.mac) == Some(OTHER_MAC));
    wait_until(PATIENCE, "the client to believe it", believed)?;
    node.wait_until_answered(VIP, OTHER_MAC)?;
    assert_eq!(node.vip_status(VIP)?["mac"], OTHER_MAC.to_string());
    assert_eq!(node.agent.status()?["interfaces"][0]["mac"], OTHER_MAC.to_string());
    Ok(())
}

#[test]
fn an_agent_that_starts_after_a_change_of_mac_corrects_the_answers_at_once() -> Result<()> {
    let mut node = Node::start("mac-while-dead", HOLDS_ONE)?;
    node.wait_until_answered(VIP, NODE)?;
    assert_eq!(node.client.resolve(VIP)?, NODE);
    node.agent.kill9()?;
    node.host.set_mac("eth0", OTHER_MAC)?;
    assert_eq!(node.ask(VIP)?, Some(NODE), "the program cannot know");

    let wire = Wire::open(&node.client, "eth0")?;
    let began = Instant::now();
    node.restart_agent()?;
    wire.expect_arp(PATIENCE, "an announcement", announces(VIP, OTHER_MAC))?;
    node.wait_until_answered(VIP, OTHER_MAC)?;
    let took = began.elapsed();
    assert!(took <= CORRECTED_WITHIN, "{took:?}");
    println!("answered with the new MAC {took:?} after the start");
    Ok(())
}

#[test]
fn an_interface_that_is_deleted_is_waited_for_and_held_on_again() -> Result<()> {
    let yaml = "interfaces: [eth0]\nvips: [{address: 192.0.2.10}]\n";
    let mut node = Node::start("deleted", yaml)?;
    node.wait_until_answered(VIP, NODE)?;
    for mac in [NODE, OTHER_MAC] {
        let seen = node.agent.logs()?.len();
        node.host.delete_link("eth0")?;
        node.wait_for_problem(seen, &["eth0", "does not exist", "waiting"])?;
        wait_until(PATIENCE, "status to have no interface", || {
            let status = node.agent.status()?;
            Ok(status["interfaces"].as_array().is_some_and(Vec::is_empty) && status["entries"] == 0)
        })?;
        node.lan()?.plug(&node.host, Nic::new(net(2)).mac(mac))?;
        node.wait_until_answered(VIP, mac)?;
        node.wait_for_end_of_problem(seen, &["eth0", "does not exist"])?;
    }
    assert_eq!(node.programs()?.len(), 1);
    Ok(())
}

#[test]
fn an_interface_that_is_renamed_goes_on_and_no_request_goes_unanswered() -> Result<()> {
    let node = Node::start("rename", HOLDS_ONE)?;
    node.wait_until_answered(VIP, NODE)?;
    let probe = node.probe(VIP)?;
    probe.wait_for_requests(200, PATIENCE)?;
    node.host.rename("eth0", "lan0")?;
    wait_until(PATIENCE, "the new name in status", || {
        Ok(node.agent.status()?["interfaces"][0]["name"] == "lan0")
    })?;
    probe.wait_for_requests(200, PATIENCE)?;
    node.assert_answered_throughout(&probe.stop()?);
    let row = vip_status(&node.agent, VIP, "lan0")?;
    assert_eq!((&row["role"], &row["answering"]), (&"held".into(), &true.into()));
    Ok(())
}

/// Calls an interface by another name too, or no longer.
fn altname(node: &Node, what: &str, interface: &str, name: &str) -> Result<()> {
    let mut ip = node.host.command("ip");
    ip.args(["link", "property", what, "dev", interface, "altname", name]);
    output_of(ip).map(drop)
}

fn wait_for_name(node: &Node, name: &str) -> Result<()> {
    wait_until(PATIENCE, "the interface in status", || {
        Ok(node.agent.status()?["interfaces"][0]["name"] == name)
    })
}

#[test]
fn an_interface_is_found_by_an_alternative_name_and_no_request_goes_unanswered_when_its_own_changes()
-> Result<()> {
    let yaml = "interfaces: [lan-old]\nvips: [{address: 192.0.2.10, interface: lan-old, bind: lan-old}]\n";
    let mut node = Node::launch("altname", Attachment::Auto, yaml, |_| {})?;
    node.wait_for_problem(0, &["lan-old", "does not exist", "waiting"])?;
    altname(&node, "add", "eth0", "lan-old")?;
    node.wait_until_answered(VIP, NODE)?;
    wait_for_name(&node, "eth0")?;
    node.wait_for_end_of_problem(0, &["lan-old", "does not exist"])?;
    let probe = node.probe(VIP)?;
    probe.wait_for_requests(200, PATIENCE)?;
    node.host.rename("eth0", "enp6s0")?;
    wait_for_name(&node, "enp6s0")?;
    probe.wait_for_requests(200, PATIENCE)?;
    node.assert_answered_throughout(&probe.stop()?);
    let row = vip_status(&node.agent, VIP, "enp6s0")?;
    assert_eq!((&row["role"], &row["answering"]), (&"held".into(), &true.into()));
    assert!(node.host.link("enp6s0").is_ok(), "renamed");
    // The altname is the only thing that names it.
    let seen = node.agent.logs()?.len();
    altname(&node, "del", "enp6s0", "lan-old")?;
    node.wait_for_problem(seen, &["lan-old", "does not exist"])?;
    Ok(())
}

/// As an upgrade does: the card has a new name, and its old one beside it. The MAC is a name that stays.
#[test]
fn a_file_goes_on_with_an_old_name_of_an_interface_or_with_its_mac() -> Result<()> {
    let mut node = Node::start("old-name", "interfaces: [eth0]\nvips: [{address: 192.0.2.10}]\n")?;
    node.wait_until_answered(VIP, NODE)?;
    node.host.rename("eth0", "enp6s0")?;
    altname(&node, "add", "enp6s0", "eth0")?;
    wait_for_name(&node, "enp6s0")?;
    node.wait_until_answered(VIP, NODE)?;
    let probe = node.probe(VIP)?;
    probe.wait_for_requests(200, PATIENCE)?;
    node.write_config(&format!("interfaces: ['{NODE}']\nvips: [{{address: 192.0.2.10}}]\n"))?;
    node.agent.wait_for_log(PATIENCE, "the new file", |line| line.message() == "configuration is applied")?;
    altname(&node, "del", "enp6s0", "eth0")?;
    node.host.rename("enp6s0", "lan0")?;
    wait_for_name(&node, "lan0")?;
    probe.wait_for_requests(200, PATIENCE)?;
    node.assert_answered_throughout(&probe.stop()?);
    Ok(())
}

/// A port speaks through its master: the program moves with the address, without a restart.
#[test]
fn a_program_leaves_an_interface_that_becomes_a_port() -> Result<()> {
    let node = Node::start("enslaved", HOLDS_ONE)?;
    node.wait_until_answered(VIP, NODE)?;
    let mut add = node.host.command("ip");
    add.args(["link", "add", "br0", "address", &NODE.to_string(), "type", "bridge"]);
    output_of(add)?;
    node.host.set_up("br0", true)?;
    node.host.namespace().set_master("eth0", "br0")?;
    node.host.delete_address("eth0", net(2))?;
    node.host.add_address("br0", net(2))?;
    wait_until(PATIENCE, "the program on the bridge alone", || {
        let status = node.agent.status()?;
        let interfaces = status["interfaces"].as_array().map_or(&[][..], Vec::as_slice);
        Ok(interfaces.iter().map(|row| &row["name"]).eq([&"br0"]))
    })?;
    wait_until(PATIENCE, "the VIP to be answered", || Ok(node.ask(VIP)? == Some(NODE)))?;
    assert_eq!(node.programs()?.len(), 1);
    Ok(())
}

#[test]
fn native_mode_goes_on_after_a_change_of_mac_and_a_loss_of_carrier() -> Result<()> {
    let node = Node::start_with("native-links", Attachment::Native, HOLDS_ONE, |_| {})?;
    node.wait_until_answered(VIP, NODE)?;
    node.host.set_mac("eth0", OTHER_MAC)?;
    node.wait_until_answered(VIP, OTHER_MAC)?;
    node.host.set_carrier("eth0", false)?;
    wait_until(PATIENCE, "status to say that the carrier is lost", || {
        Ok(node.agent.status()?["interfaces"][0]["carrier"] == false)
    })?;
    node.host.set_carrier("eth0", true)?;
    node.wait_until_answered(VIP, OTHER_MAC)?;
    assert_eq!(node.agent.status()?["interfaces"][0]["mode"], "native");
    Ok(())
}
