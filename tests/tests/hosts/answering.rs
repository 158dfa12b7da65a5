//! The XDP program answers for held VIPs, once and with the right MAC, for every client and form of
//! request. No host answers for a VIP that is held elsewhere.

mod binding;
mod discovery;
mod elsewhere;
mod maps;
mod with_tools;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use vipward_tests::{
    agent::{
        Agent, CLIENT, NODE, PATIENCE, Pair, Scene, VIP, answers_in, belief, clients_request, counter,
        request_of_client, send_datagram, vip_status,
    },
    frames::{Arp, Family, Mac, Message, nd::Nd},
    kit::wait_until,
    lan::{Frame, Host, NeighbourState, Wire},
    measure::{Answerer, ArpProbe, ProbeMode},
};

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
    let received = wire.capture(Duration::from_millis(500))?;
    assert!(
        received.iter().filter_map(Frame::arp).all(|arp| !is_answer(&arp)),
        "an answer came through: {received:?}"
    );

    // So `auto` does not attach in this mode.
    agent.write_config(HELD)?;
    wait_until(PATIENCE, "mode tc", || Ok(mode(&agent).is_ok_and(|mode| mode == "tc")))?;
    wire.send(&clients_request(VIP).to_bytes())?;
    let answer = wire.expect_arp(PATIENCE, "an answer in mode tc", is_answer)?;
    assert_eq!(answer, clients_request(VIP).answered_by(NODE));
    Ok(())
}

/// Returns a configuration that holds the VIP of a family.
fn held(family: Family) -> String {
    format!("vips: [{{address: '{}'}}]", family.vip())
}

#[test]
fn every_request_is_answered_once_by_the_program_alone() -> Result<()> {
    for family in Family::BOTH {
        let scene = Scene::new_in(family, "once")?;
        let agent = scene.agent(&held(family))?;
        every_request_is_answered_once(family, &scene.client, &scene.node, &agent)?;
    }
    Ok(())
}

#[test]
fn every_request_is_answered_once_in_native_mode() -> Result<()> {
    for family in Family::BOTH {
        let pair = Pair::new_in(family)?;
        let agent = pair.agent(&format!("attach: native\n{}", held(family)))?;
        every_request_is_answered_once(family, &pair.client, &pair.node, &agent)?;
    }
    Ok(())
}

fn every_request_is_answered_once(family: Family, client: &Host, node: &Host, agent: &Agent) -> Result<()> {
    let vip = family.vip();
    // The neighbour tables are empty: the kernel would have to learn the client before it answers.
    node.flush_neighbours("eth0")?;
    let mut answered = counter(agent, "answered")?;
    for how in [ProbeMode::Broadcast, ProbeMode::Unicast(NODE)] {
        let probe = ArpProbe::start(client, "eth0", vip, Duration::from_millis(1), how)?;
        probe.wait_for_requests(300, PATIENCE)?;
        let report = probe.stop()?;
        assert_eq!((report.unanswered(), report.doubles()), (vec![], 0), "{vip} {how:?}: {report}");
        let only_the_node = BTreeMap::from([(Answerer { sha: NODE, eth_src: NODE }, report.sent())]);
        assert_eq!(report.answers_by(), only_the_node, "{vip} {how:?}");
        answered += u64::try_from(report.sent())?;
        assert_eq!(counter(agent, "answered")?, answered, "{vip} {how:?}");
    }
    assert_eq!(vip_status(agent, vip, "eth0")?["answered"], answered);
    assert_eq!(node.neighbour("eth0", family.ip(1))?, None, "the kernel was asked too");
    for interface in ["lo", "eth0"] {
        let addresses = node.namespace().addresses(interface)?;
        assert!(addresses.iter().all(|address| address.addr() != vip), "{interface} has {addresses:?}");
    }
    Ok(())
}

#[test]
fn a_request_is_answered_in_every_field_as_a_kernel_would() -> Result<()> {
    for family in Family::BOTH {
        let vip = family.vip();
        let scene = Scene::new_in(family, "fields")?;
        let _agent = scene.agent(&held(family))?;
        let wire = Wire::open_in(&scene.client, "eth0", family)?;
        wait_out_the_rounds(family, &wire)?;
        let request = || request_of_client(vip);
        let rows = [
            ("to all", request()),
            ("unicast to the node", request().to(NODE)),
            ("probe of one who has no address yet", Message::probe(CLIENT, vip)),
            // Bonds and bridges send such frames. The answer goes to the sender that is named.
            ("another Ethernet source than the sender", request().sent_by(Mac::local(0x99))),
        ];
        for (description, request) in rows.into_iter().chain(of_ipv6(vip)) {
            let answers = answers_in(&wire, &request, family.ip(2))?;
            assert_eq!(answers, [request.answered_by(NODE)], "{vip}: {description}");
        }
        let asker = |mac| Message::request(mac, family.ip(1), vip).sent_by(CLIENT);
        let rows = [
            ("unicast to another host", request().to(Mac::local(0x99))),
            ("asker with a zero address", asker(Mac::ZERO)),
            ("asker with a group address", asker(Mac::BROADCAST)),
            ("another address", request_of_client(family.ip(11))),
        ];
        for (description, request) in rows {
            assert_eq!(answers_in(&wire, &request, family.ip(2))?, [], "{vip}: {description}");
        }
    }
    Ok(())
}

/// Returns the forms of a solicitation that a request of ARP does not have.
fn of_ipv6(vip: IpAddr) -> Vec<(&'static str, Message)> {
    let (Message::Nd(request), Message::Nd(probe)) = (request_of_client(vip), Message::probe(CLIENT, vip))
    else {
        return Vec::new();
    };
    let bare = |nd: Nd| Nd { options: Vec::new(), ..nd };
    vec![
        ("unicast without an option: is the neighbour still there?", bare(request.clone().to(NODE)).into()),
        ("to the group without an option (RFC 4429)", bare(request).into()),
        ("probe without a nonce", bare(probe).into()),
    ]
}

/// Waits until the announcements of a taken VIP are over. In IPv6 they look like answers to a probe.
fn wait_out_the_rounds(family: Family, wire: &Wire) -> Result<()> {
    /// Longer than the time between two rounds.
    const QUIET: Duration = Duration::from_millis(1_600);
    if family == Family::V6 {
        while wire.capture(QUIET)?.iter().filter_map(Frame::message).any(|message| message.is_announcement())
        {
        }
    }
    Ok(())
}

#[test]
fn an_entry_that_is_stale_is_validated_by_unicast() -> Result<()> {
    for family in Family::BOTH {
        let vip = family.vip();
        let scene = Scene::new_in(family, "stale")?;
        let agent = scene.agent(&held(family))?;
        let client = &scene.client;
        // The unit is a second. The kernel waits that long for other evidence before it sends a request.
        client.set_sysctl(&family.neighbour_sysctl("eth0", "delay_first_probe_time"), "1")?;
        assert_eq!(client.resolve(vip)?, NODE);
        client.set_neighbour("eth0", vip, NODE, NeighbourState::Stale)?;
        let answered = counter(&agent, "answered")?;

        let wire = Wire::open_all(client, "eth0")?;
        send_datagram(client, family.ip(1), vip)?;
        let asks = |message: &Message| message.asks_for() == Some(vip) && message.eth_src() == CLIENT;
        let request = wire.expect(PATIENCE, "the kernel's request", asks)?;
        assert_eq!(request.eth_dst(), NODE, "{request}");
        let answer = wire.expect(PATIENCE, "the answer", |message| message.answers(&request))?;
        assert_eq!(answer, request.answered_by(NODE));
        wait_until(PATIENCE, "the entry to be valid again", || {
            let entry = client.neighbour("eth0", vip)?;
            Ok(entry.is_some_and(|entry| entry.state == NeighbourState::Reachable))
        })?;
        assert_eq!(belief(client, vip)?, Some(NODE));
        assert_eq!(counter(&agent, "answered")?, answered + 1, "one question was enough");
    }
    Ok(())
}

#[test]
fn four_thousand_requesters_are_all_answered() -> Result<()> {
    const ASKERS: u16 = 4_096;
    /// Number of requests under way: far fewer than the receive buffer holds.
    const BATCH: u16 = 512;
    for family in Family::BOTH {
        let vip = family.vip();
        let scene = Scene::new_in(family, "askers")?;
        let agent = scene.agent(&held(family))?;
        scene.node.flush_neighbours("eth0")?;
        let wire = Wire::open_in(&scene.client, "eth0", family)?;
        let before = counter(&agent, "answered")?;
        let asker = |number: u16| {
            let [high, low] = number.to_be_bytes();
            let from: IpAddr = match family {
                Family::V4 => [10, 77, high, low].into(),
                Family::V6 => [0x2001, 0xdb8, 0, 0, 0, 0, 77, number].into(),
            };
            Message::request(Mac([6, 1, 0, 0, high, low]), from, vip).sent_by(CLIENT)
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
                let Some(message) = frame.message() else { continue };
                if message.answers_for() == Some(vip) && !message.is_announcement() {
                    answers.entry(message.eth_dst()).or_insert_with(Vec::new).push(message);
                }
            }
        }
        for number in 0..ASKERS {
            let request = asker(number);
            let got = answers.get(&request.sender()).map(Vec::as_slice);
            assert_eq!(got, Some([request.answered_by(NODE)].as_slice()), "asker {number} of {vip}");
        }
        assert_eq!(counter(&agent, "answered")?, before + u64::from(ASKERS));
        let known = scene.node.neighbours("eth0")?;
        assert!(known.len() < 4, "the kernel's table has no part in it: {known:?}");
    }
    Ok(())
}
