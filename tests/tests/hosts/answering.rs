//! The XDP program answers for held VIPs, once and with the right MAC, for every client and form of
//! request. No host answers for a VIP that is held elsewhere.

mod binding;
mod elsewhere;
mod maps;
mod with_tools;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use vipward_tests::agent::Agent;
use vipward_tests::arp::{Arp, Mac};
use vipward_tests::lan::{Host, NeighbourState};
use vipward_tests::probe::{Answerer, ArpProbe, ProbeMode};
use vipward_tests::scene::{
    CLIENT, NODE, PATIENCE, Pair, Scene, VIP, answers_to, belief, clients_request, counter, ip,
    send_datagram, vip_status,
};
use vipward_tests::wait::wait_until;
use vipward_tests::wire::{Frame, Wire};

const HELD: &str = "vips: [{address: 192.0.2.10}]";
const HELD_NATIVE: &str = "{vips: [{address: 192.0.2.10}], attach: native}";

/// Returns true if it is an answer about the VIP. Announcements have a reply form too.
fn is_answer(arp: &Arp) -> bool {
    arp.is_reply() && arp.spa == VIP && !arp.is_gratuitous()
}

/// Returns the mode of the program on eth0, from `vipward status`.
fn mode(agent: &Agent) -> Result<String> {
    let status = agent.status()?;
    let mode = status["interfaces"][0]["mode"].as_str();
    mode.map(str::to_owned).with_context(|| format!("no mode in {status:#}"))
}

#[test]
fn a_veth_is_attached_to_traffic_control_unless_the_file_says_otherwise() -> Result<()> {
    let scene = Scene::new("auto")?;
    let agent = scene.agent(HELD)?;
    assert_eq!(mode(&agent)?, "tc");
    agent.write_config("{vips: [{address: 192.0.2.10}], attach: generic}")?;
    wait_until(PATIENCE, "generic mode", || Ok(mode(&agent).is_ok_and(|mode| mode == "generic")))?;
    let pair = Pair::new()?;
    assert_eq!(mode(&pair.agent(HELD_NATIVE)?)?, "native");
    Ok(())
}

#[test]
fn native_answers_on_a_veth_reach_no_host_until_the_far_end_runs_a_program() -> Result<()> {
    let mut pair = Pair::new()?;
    pair.pass = None;
    let agent = pair.agent(HELD_NATIVE)?;
    let wire = Wire::open(&pair.client, "eth0")?;
    wire.send(&clients_request(VIP).to_bytes())?;
    wait_until(PATIENCE, "the program to answer", || Ok(counter(&agent, "answered")? == 1))?;
    // This is a thousand times the usual time of an answer.
    let heard = wire.capture(Duration::from_millis(500))?;
    assert!(
        heard.iter().filter_map(Frame::arp).all(|arp| !is_answer(&arp)),
        "an answer came through: {heard:?}"
    );

    // So `auto` does not attach in this mode.
    agent.write_config(HELD)?;
    wait_until(PATIENCE, "mode tc", || Ok(mode(&agent).is_ok_and(|mode| mode == "tc")))?;
    wire.send(&clients_request(VIP).to_bytes())?;
    let answer = wire.expect_arp(PATIENCE, "an answer in mode tc", is_answer)?;
    assert_eq!(answer, clients_request(VIP).answered_by(NODE));
    Ok(())
}

#[test]
fn every_request_is_answered_once_by_the_program_alone() -> Result<()> {
    let scene = Scene::new("once")?;
    let agent = scene.agent(HELD)?;
    every_request_is_answered_once(&scene.client, &scene.node, &agent)
}

#[test]
fn every_request_is_answered_once_in_native_mode() -> Result<()> {
    let pair = Pair::new()?;
    let agent = pair.agent(HELD_NATIVE)?;
    every_request_is_answered_once(&pair.client, &pair.node, &agent)
}

fn every_request_is_answered_once(client: &Host, node: &Host, agent: &Agent) -> Result<()> {
    // The neighbour tables are empty: the kernel would have to learn the client before it answers.
    node.flush_neighbours("eth0")?;
    let mut answered = counter(agent, "answered")?;
    for how in [ProbeMode::Broadcast, ProbeMode::Unicast(NODE)] {
        let probe = ArpProbe::start(client, "eth0", VIP, Duration::from_millis(1), how)?;
        probe.wait_for_requests(300, PATIENCE)?;
        let report = probe.stop()?;
        assert_eq!((report.unanswered(), report.doubles()), (vec![], 0), "{how:?}: {report}");
        let only_the_node = BTreeMap::from([(Answerer { sha: NODE, eth_src: NODE }, report.sent())]);
        assert_eq!(report.answers_by(), only_the_node, "{how:?}");
        answered += u64::try_from(report.sent())?;
        assert_eq!(counter(agent, "answered")?, answered, "{how:?}");
    }
    assert_eq!(vip_status(agent, VIP, "eth0")?["answered"], answered);
    assert_eq!(node.neighbours("eth0")?, [], "the kernel was asked too");
    for interface in ["lo", "eth0"] {
        let addresses = node.namespace().addresses(interface)?;
        assert!(addresses.iter().all(|address| address.addr() != VIP), "{interface} has {addresses:?}");
    }
    Ok(())
}

#[test]
fn a_request_is_answered_in_every_field_as_a_kernel_would() -> Result<()> {
    let scene = Scene::new("fields")?;
    let _agent = scene.agent(HELD)?;
    let wire = Wire::open(&scene.client, "eth0")?;
    let rows = [
        ("broadcast", clients_request(VIP)),
        ("unicast to the node", clients_request(VIP).to(NODE)),
        ("probe of one who has no address yet", Arp::probe(CLIENT, VIP)),
        // Bonds and bridges send such frames. The answer goes to sha.
        ("Ethernet source other than sha", Arp { eth_src: Mac::local(0x99), ..clients_request(VIP) }),
    ];
    for (description, request) in rows {
        assert_eq!(answers_to(&wire, &request, ip(2))?, [request.answered_by(NODE)], "{description}");
    }
    let rows = [
        ("unicast to another host", clients_request(VIP).to(Mac::local(0x99))),
        ("asker with a zero address", Arp { sha: Mac::ZERO, ..clients_request(VIP) }),
        ("asker with a group address", Arp { sha: Mac::BROADCAST, ..clients_request(VIP) }),
        ("another address", clients_request(ip(11))),
    ];
    for (description, request) in rows {
        assert_eq!(answers_to(&wire, &request, ip(2))?, [], "{description}");
    }
    Ok(())
}

#[test]
fn an_entry_that_is_stale_is_validated_by_unicast() -> Result<()> {
    let scene = Scene::new("stale")?;
    let agent = scene.agent(HELD)?;
    let client = &scene.client;
    // The unit is a second. The kernel waits that long for other evidence before it asks.
    client.set_sysctl("net/ipv4/neigh/eth0/delay_first_probe_time", "1")?;
    assert_eq!(client.resolve(VIP)?, NODE);
    client.set_neighbour("eth0", VIP, NODE, NeighbourState::Stale)?;
    let answered = counter(&agent, "answered")?;

    let wire = Wire::open_all(client, "eth0")?;
    send_datagram(client, ip(1), VIP)?;
    let request = wire.expect_arp(PATIENCE, "the kernel's request", |arp| arp.spa == ip(1) && arp.tpa == VIP);
    assert_eq!(request?, clients_request(VIP).to(NODE));
    let answer = wire.expect_arp(PATIENCE, "the answer", |arp| arp.is_reply() && arp.tpa == ip(1))?;
    assert_eq!(answer, clients_request(VIP).answered_by(NODE));
    wait_until(PATIENCE, "the entry to be valid again", || {
        let entry = client.neighbour("eth0", VIP)?;
        Ok(entry.is_some_and(|entry| entry.state == NeighbourState::Reachable))
    })?;
    assert_eq!(belief(client, VIP)?, Some(NODE));
    assert_eq!(counter(&agent, "answered")?, answered + 1, "one question was enough");
    Ok(())
}

#[test]
fn four_thousand_askers_are_all_answered() -> Result<()> {
    const ASKERS: u16 = 4_096;
    /// Number of requests under way: far fewer than the receive buffer holds.
    const BATCH: u16 = 512;
    let scene = Scene::new("askers")?;
    let agent = scene.agent(HELD)?;
    scene.node.flush_neighbours("eth0")?;
    let wire = Wire::open(&scene.client, "eth0")?;
    let before = counter(&agent, "answered")?;
    let asker = |number: u16| {
        let [high, low] = number.to_be_bytes();
        Arp { eth_src: CLIENT, ..Arp::request(Mac([6, 1, 0, 0, high, low]), [10, 77, high, low].into(), VIP) }
    };
    let mut answers = BTreeMap::new();
    for first in (0..ASKERS).step_by(BATCH.into()) {
        for number in first..first + BATCH {
            wire.send(&asker(number).to_bytes())?;
        }
        let deadline = Instant::now() + PATIENCE;
        while answers.len() < usize::from(first + BATCH) {
            let frame = wire.receive(deadline)?;
            let frame = frame.with_context(|| format!("only {} answers came", answers.len()))?;
            let Some(reply) = frame.arp().filter(is_answer) else { continue };
            answers.entry(reply.tha).or_insert_with(Vec::new).push(reply);
        }
    }
    for number in 0..ASKERS {
        let request = asker(number);
        let got = answers.get(&request.sha).map(Vec::as_slice);
        assert_eq!(got, Some([request.answered_by(NODE)].as_slice()), "asker {number}");
    }
    assert_eq!(counter(&agent, "answered")?, before + u64::from(ASKERS));
    assert_eq!(scene.node.neighbours("eth0")?, [], "the kernel's table has no part in it");
    Ok(())
}
