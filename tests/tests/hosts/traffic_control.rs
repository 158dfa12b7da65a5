//! The program in traffic control: beside the programs of others, and with frames as they come there.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;
use vipward_common::maps;

use vipward_tests::{
    agent::{
        Agent, AgentOptions, CLIENT, NODE, PATIENCE, Scene, VIP, answers_to, answers_to_odd, ask,
        clients_request, counter, ip, net, start_agent,
    },
    frames::{Arp, OddArp},
    kit::{output_of, tools::bpftool, wait_until},
    lan::{Frame, Hook, Hooked, Host, Lan, Nic, Wire},
};

const HOLDS: &str = "attach: tc\nvips: [{address: 192.0.2.10}]\n";

/// Waits until the node answers for the VIP. Its own address is not answered.
fn wait_for_the_vip_alone(client: &Host) -> Result<()> {
    wait_until(PATIENCE, "the VIP to be answered", || Ok(ask(client, "eth0", VIP)? == Some(NODE)))?;
    assert_eq!(ask(client, "eth0", ip(2))?, None, "the other program drops what is not the VIP's");
    Ok(())
}

#[test]
fn the_program_is_the_first_also_where_others_were_there_before() -> Result<()> {
    let scene = Scene::new("tc-first")?;
    let _dropping = Hooked::attach(&scene.node, "eth0", Hook::TcxDrop, "drop")?;
    let mut agent = scene.agent(HOLDS)?;
    wait_for_the_vip_alone(&scene.client)?;
    // The next agent replaces the program in its place.
    agent.kill9()?;
    agent.restart()?;
    wait_for_the_vip_alone(&scene.client)
}

#[test]
fn the_programs_of_others_see_every_frame_that_the_program_passes() -> Result<()> {
    let scene = Scene::new("tc-next")?;
    let _agent = scene.agent(HOLDS)?;
    assert_eq!(ask(&scene.client, "eth0", ip(2))?, Some(NODE));
    let _dropping = Hooked::attach(&scene.node, "eth0", Hook::TcxDrop, "drop")?;
    wait_for_the_vip_alone(&scene.client)
}

#[test]
fn a_detached_link_is_attached_again_and_unload_leaves_no_program() -> Result<()> {
    let scene = Scene::new("tc-unload")?;
    let mut agent = scene.agent(HOLDS)?;
    wait_until(PATIENCE, "the VIP to be answered", || Ok(ask(&scene.client, "eth0", VIP)? == Some(NODE)))?;
    let ifindex = scene.node.link("eth0")?.index;
    let pin = agent.options.pin_dir.join(format!("link_{ifindex}_tc"));
    std::fs::remove_file(&pin).with_context(|| format!("failed to remove {}", pin.display()))?;
    agent.kill9()?;
    assert_eq!(ask(&scene.client, "eth0", VIP)?, None, "the link has ended with its pin and its agent");
    agent.restart()?;
    wait_until(PATIENCE, "the VIP to be answered", || Ok(ask(&scene.client, "eth0", VIP)? == Some(NODE)))?;
    agent.terminate()?;
    assert_eq!(ask(&scene.client, "eth0", VIP)?, Some(NODE), "without an agent");
    agent.unload()?;
    assert_eq!(ask(&scene.client, "eth0", VIP)?, None);
    assert!(!agent.options.pin_dir.exists());
    Ok(())
}

#[test]
fn a_frame_of_a_vlan_without_a_device_is_passed_and_one_with_a_priority_alone_is_answered() -> Result<()> {
    let scene = Scene::new("tc-tags")?;
    let agent = scene.agent(HOLDS)?;
    let wire = Wire::open(&scene.client, "eth0")?;
    let tagged = |tags: &[(u16, u16)]| OddArp { tags: tags.to_vec(), ..clients_request(VIP).into() };
    let rows = [
        ("VLAN 10", vec![(0x8100, 0x000a)], false),
        ("VLAN 10 with a priority", vec![(0x8100, 0xa00a)], false),
        ("VLAN 10 of a provider", vec![(0x88a8, 0x000a)], false),
        ("a priority, and VLAN 10 behind it", vec![(0x8100, 0xa000), (0x8100, 0x000a)], false),
        ("a priority", vec![(0x8100, 0xa000)], true),
    ];
    for (what, tags, is_answered) in rows {
        let answered = counter(&agent, "answered")?;
        let expected = if is_answered { vec![clients_request(VIP).answered_by(NODE)] } else { Vec::new() };
        assert_eq!(answers_to_odd(&wire, &tagged(&tags), ip(2))?, expected, "{what}");
        assert_eq!(counter(&agent, "answered")? - answered, u64::from(is_answered), "{what}");
    }
    Ok(())
}

#[test]
fn a_capture_on_the_host_shows_requests_and_answers_and_changes_neither() -> Result<()> {
    let scene = Scene::new("tc-capture")?;
    let _agent = scene.agent(HOLDS)?;
    let capture = Wire::open_all(&scene.node, "eth0")?;
    let wire = Wire::open(&scene.client, "eth0")?;
    let request = clients_request(VIP);
    let answer = request.answered_by(NODE);
    assert_eq!(answers_to(&wire, &request, ip(2))?, [answer]);
    let captured = capture.capture(Duration::from_millis(100))?;
    let is = |outgoing: bool, arp: Arp| {
        captured.iter().any(|frame: &Frame| frame.outgoing == outgoing && frame.arp() == Some(arp))
    };
    assert!(is(false, request) && is(true, answer), "{captured:?}");
    Ok(())
}

/// Sets the largest packet of a host's interface.
fn set_mtu(host: &Host, bytes: u32) -> Result<()> {
    let mut ip = host.command("ip");
    ip.args(["link", "set", "eth0", "mtu", &bytes.to_string()]);
    output_of(ip).map(drop)
}

#[test]
fn a_request_whose_bytes_are_in_several_pieces_is_answered_whole() -> Result<()> {
    /// A packet socket makes a buffer of one piece up to a page.
    const LEN: usize = 6_000;
    let (client, node) =
        Lan::pair(("client", Nic::new(net(1)).mac(CLIENT)), ("node", Nic::new(net(2)).mac(NODE)))?;
    set_mtu(&client, 9_000)?;
    set_mtu(&node, 9_000)?;
    let bpffs = vipward_tests::agent::Bpffs::mount()?;
    node.add_gateway(ip(1))?;
    let _agent = start_agent(&node, HOLDS, AgentOptions::new(bpffs.pin_dir("node")))?;
    let wire = Wire::open(&client, "eth0")?;
    let long = OddArp { len: LEN, padding: 0x5a, ..clients_request(VIP).into() };
    wire.send(&long.to_bytes())?;
    let expected = OddArp { len: LEN, padding: 0x5a, ..clients_request(VIP).answered_by(NODE).into() };
    let received = wire.capture(Duration::from_millis(200))?;
    assert!(received.iter().any(|frame| frame.bytes == expected.to_bytes()), "{} frames", received.len());
    Ok(())
}

/// Returns the names of the programs that use an agent's maps.
fn loaded(agent: &Agent) -> Result<Vec<String>> {
    let bpftool = |arguments: &[&str]| -> Result<Value> {
        let mut command = Command::new(bpftool()?);
        command.arg("--json").args(arguments);
        serde_json::from_str(&output_of(command)?).context("bpftool printed no JSON")
    };
    let pin = agent.options.pin_dir.join(maps::VIPS_V4).display().to_string();
    let map = bpftool(&["map", "show", "pinned", &pin])?["id"].take();
    let programs = bpftool(&["prog", "show"])?;
    let uses_it = |program: &&Value| program["map_ids"].as_array().is_some_and(|ids| ids.contains(&map));
    let mine = programs.as_array().into_iter().flatten().filter(uses_it);
    Ok(mine.filter_map(|program| program["name"].as_str().map(str::to_owned)).collect())
}

#[test]
fn the_verifier_gets_only_the_program_that_runs() -> Result<()> {
    let scene = Scene::new("tc-alone")?;
    let agent = scene.agent(HOLDS)?;
    assert_eq!(loaded(&agent)?, ["vipward_tc"]);
    agent.write_config(&HOLDS.replace("tc", "native"))?;
    wait_until(PATIENCE, "the program of XDP to be loaded, too", || {
        Ok(loaded(&agent)?.contains(&"vipward".to_owned()))
    })
}
