//! VIPs that are held elsewhere: this node does not answer, even where the kernel would.

use anyhow::{Context, Result};
use ipnet::Ipv4Net;
use vipward_tests::agent::Agent;
use vipward_tests::arp::{Arp, Mac};
use vipward_tests::lan::Nic;
use vipward_tests::scene::{
    NODE, ROGUE, Scene, VIP, answers_to, clients_request, counter, ip, net, vip_status,
};
use vipward_tests::wire::Wire;

/// Returns the VIP in the form in which an operator or kube-proxy binds it.
fn bound() -> Result<Ipv4Net> {
    Ok(Ipv4Net::new(VIP, 32)?)
}

#[test]
fn a_kernel_that_has_the_address_bound_stays_silent_for_another_holder() -> Result<()> {
    for interface in ["lo", "eth0"] {
        let scene = Scene::new("bound")?;
        scene.node.add_address(interface, bound()?)?;
        let wire = Wire::open(&scene.client, "eth0")?;
        let requests =
            [clients_request(VIP), clients_request(VIP).to(NODE), Arp::probe(Mac::local(0x55), VIP)];
        for request in requests {
            let answers = answers_to(&wire, &request, ip(2))?;
            assert_eq!(answers, [request.answered_by(NODE)], "bound to {interface}, without the agent");
        }

        let agent = scene.agent(&format!("vips: [{{address: {VIP}, mac: '{ROGUE}'}}]"))?;
        for request in requests {
            assert_eq!(answers_to(&wire, &request, ip(2))?, [], "bound to {interface}: {request}");
        }
        assert_eq!(counter(&agent, "suppressed_foreign")?, 3);
        let status = vip_status(&agent, VIP, "eth0")?;
        assert_eq!((&status["role"], &status["suppressed"]), (&"foreign".into(), &3.into()), "{status}");

        // Only the program keeps it silent.
        drop(agent);
        let answers = answers_to(&wire, &clients_request(VIP), ip(2))?;
        assert_eq!(answers, [clients_request(VIP).answered_by(NODE)], "unloaded again");
    }
    Ok(())
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
    assert_eq!((&second["role"], &second["mac"]), (&"foreign".into(), &serde_json::Value::Null), "{second}");
    assert_eq!(suppressed(&agent)? - before, 2, "the broadcast and the unicast one");
    Ok(())
}

/// Returns the number of requests for the VIP that were dropped on the second interface.
fn suppressed(agent: &Agent) -> Result<u64> {
    vip_status(agent, VIP, "eth1")?["suppressed"].as_u64().context("it has no counters")
}

#[test]
fn a_vip_can_be_named_for_the_interface_that_has_no_such_subnet() -> Result<()> {
    const SECOND: Mac = Mac([2, 0, 0, 0, 0, 0x12]);
    let scene = Scene::new("named-nic")?;
    scene.lan.plug(&scene.node, Nic::new("198.51.100.2/24".parse()?).named("eth1").mac(SECOND))?;
    let agent = scene.agent(&format!("vips: [{{address: {VIP}, interface: eth1}}]"))?;
    let wire = Wire::open(&scene.client, "eth0")?;
    let answers = answers_to(&wire, &clients_request(VIP), ip(2))?;
    assert_eq!(answers, [clients_request(VIP).answered_by(SECOND)]);
    assert_eq!(vip_status(&agent, VIP, "eth0")?["role"], "foreign");
    assert!(net(10).contains(&VIP), "eth0 is where its subnet is");
    Ok(())
}
