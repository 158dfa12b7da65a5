//! VIPs that are held elsewhere: this node does not answer, even where the kernel would.

use std::net::IpAddr;
use std::{thread, time::Duration};

use anyhow::{Context, Result};
use ipnet::{IpNet, Ipv4Net};
use serde_json::Value;
use vipward_tests::{
    agent::{
        Agent, NODE, PATIENCE, ROGUE, Scene, VIP, answers_to, clients_request, counter, ip,
        request_of_client, vip_status,
    },
    frames::{Family, Mac, Message, OddArp},
    kit::wait_until,
    lan::{Nic, Wire},
    measure::{ArpProbe, ProbeMode},
};

/// Returns the VIP in the form in which an operator or kube-proxy binds it.
fn bound() -> Result<Ipv4Net> {
    Ok(Ipv4Net::new(VIP, 32)?)
}

/// Returns the requests for a VIP that a kernel answers, in every form that it takes.
fn requests(vip: IpAddr) -> Vec<Vec<u8>> {
    let requests =
        [request_of_client(vip), request_of_client(vip).to(NODE), Message::probe(Mac::local(0x55), vip)];
    let of_ieee_802 = requests.iter().filter_map(|request| match request {
        Message::Arp(arp) => Some(OddArp::of_ieee_802(arp).to_bytes()),
        Message::Nd(_) => None,
    });
    requests.iter().map(Message::to_bytes).chain(of_ieee_802).collect()
}

/// Returns the MACs in the answers about a VIP to a request. The node answers what comes last.
fn answerers(wire: &Wire, request: &[u8], vip: IpAddr) -> Result<Vec<Mac>> {
    wire.drain()?;
    wire.send(request)?;
    let last = Message::probe(Mac::local(0xff02), Family::of(vip).ip(2));
    wire.send(&last.to_bytes())?;
    let mut answerers = Vec::new();
    wire.expect(PATIENCE, "an answer to what was sent last", |message| {
        if message.answers_for() == Some(vip) {
            answerers.push(message.sender());
        }
        message.answers(&last)
    })?;
    Ok(answerers)
}

#[test]
fn a_kernel_that_has_the_address_bound_stays_silent_for_another_holder() -> Result<()> {
    for (family, interface) in Family::BOTH.into_iter().flat_map(|family| [(family, "lo"), (family, "eth0")])
    {
        let vip = family.vip();
        let scene = Scene::new_in(family, "bound")?;
        scene.node.add_address(interface, IpNet::from(vip))?;
        let wire = Wire::open_in(&scene.client, "eth0", family)?;
        for request in requests(vip) {
            // An IPv6 kernel answers only for the addresses of the interface, on any of them.
            let expected: &[Mac] = if family == Family::V6 && interface == "lo" { &[] } else { &[NODE] };
            let found = answerers(&wire, &request, vip)?;
            assert_eq!(found, expected, "{vip} on {interface}, without the agent: {request:x?}");
        }

        let agent = scene.agent(&format!("vips: [{{address: '{vip}', mac: '{ROGUE}'}}]"))?;
        let sent = requests(vip).len();
        for request in requests(vip) {
            assert_eq!(answerers(&wire, &request, vip)?, [], "{vip} on {interface}: {request:x?}");
        }
        assert_eq!(counter(&agent, "suppressed_foreign")?, u64::try_from(sent)?);
        let status = vip_status(&agent, vip, "eth0")?;
        assert_eq!((&status["role"], &status["suppressed"]), (&"foreign".into(), &sent.into()), "{status}");

        // Only the program keeps it from answering.
        drop(agent);
        if interface == "eth0" {
            let found = answerers(&wire, &request_of_client(vip).to_bytes(), vip)?;
            assert_eq!(found, [NODE], "unloaded again");
        }
    }
    Ok(())
}

#[test]
fn an_address_that_another_program_has_on_the_interface_is_left_to_it_until_it_is_gone() -> Result<()> {
    let scene = Scene::new("left-to-it")?;
    scene.node.add_address("eth0", bound()?)?;
    let probe = ArpProbe::start(&scene.client, "eth0", VIP, Duration::from_millis(1), ProbeMode::Broadcast)?;
    let mut agent = scene.agent(&format!("vips: [{{address: {VIP}}}]"))?;
    agent.wait_for_log(PATIENCE, "that the VIP waits", |line| {
        let problem = line.field("problem").and_then(Value::as_str).unwrap_or_default();
        problem.contains(&format!("VIP {VIP} waits: this host has it as {VIP}/32 on eth0"))
    })?;
    // Longer than an address is probed.
    thread::sleep(Duration::from_secs(2));
    assert_eq!(counter(&agent, "suppressed_foreign")?, 0);
    let report = probe.stop()?;
    assert_eq!(report.answered(), report.sent(), "its kernel answers: {report}");
    assert!(vip_status(&agent, VIP, "eth0").is_err(), "it has no entry");

    scene.node.delete_address("eth0", bound()?)?;
    wait_until(PATIENCE, "the VIP to be held", || {
        Ok(vip_status(&agent, VIP, "eth0").is_ok_and(|status| status["role"] == "held"))
    })
}

#[test]
fn a_vip_is_held_on_one_interface_and_silent_on_the_other() -> Result<()> {
    const SECOND: Mac = Mac([2, 0, 0, 0, 0, 0x12]);
    let scene = Scene::new("two-nics")?;
    let second = Nic::new("198.51.100.2/24".parse()?).named("eth1").mac(SECOND);
    scene.lan.plug(&scene.node, second)?;
    for conf in ["all", "eth0", "eth1"] {
        // Otherwise the kernel would not answer hosts behind eth0 on
        // eth1, and the test would show nothing.
        scene.node.set_sysctl(&format!("net/ipv4/conf/{conf}/rp_filter"), "0")?;
    }
    let wire = Wire::open(&scene.client, "eth0")?;

    // A kernel answers for each of its addresses on each of its interfaces.
    scene.node.add_address("lo", bound()?)?;
    let mut macs: Vec<_> =
        answers_to(&wire, &clients_request(VIP), ip(2))?.iter().map(|answer| answer.sha).collect();
    macs.sort();
    assert_eq!(macs, [NODE, SECOND], "without the agent");
    scene.node.delete_address("lo", bound()?)?;

    let agent = scene.agent(&format!("vips: [{{address: {VIP}, bind: lo}}]"))?;
    // The agent's own probes arrived there too.
    let before = suppressed(&agent)?;
    let answers = answers_to(&wire, &clients_request(VIP), ip(2))?;
    assert_eq!(answers, [clients_request(VIP).answered_by(NODE)]);
    assert_eq!(answers_to(&wire, &clients_request(VIP).to(SECOND), ip(2))?, []);
    assert_eq!(vip_status(&agent, VIP, "eth0")?["role"], "held");
    let second = vip_status(&agent, VIP, "eth1")?;
    assert_eq!((&second["role"], &second["mac"]), (&"foreign".into(), &Value::Null), "{second}");
    assert_eq!(suppressed(&agent)? - before, 2, "the broadcast and the unicast one");
    Ok(())
}

/// Returns the number of requests for the VIP that were dropped on the second interface.
fn suppressed(agent: &Agent) -> Result<u64> {
    vip_status(agent, VIP, "eth1")?["suppressed"].as_u64().context("it has no counters")
}
