//! The agent proves that the program sees the frames that the kernel receives, and reports where it does
//! not.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use vipward_tests::{
    agent::{Agent, NODE, PATIENCE, Scene, VIP, ip, net, vip_status},
    frames::{Arp, Family, Mac},
    kit::wait_until,
    lan::{
        Frame, Hook, Hooked, Host, Wire,
        http::{self, Answer, PAGES},
    },
    measure::{ArpProbe, ProbeMode},
};

use crate::doctor::{
    GREEN, NOT_APPLICABLE, RED,
    report::{ILL, Report, doctor_at},
};

const HOLDS: &str = "vips: [{address: 192.0.2.10}]\n";
/// Time within which blindness is found after a change of the links.
const FOUND_WITHIN: Duration = Duration::from_secs(5);
const BLIND: &str = "the program does not see the interface's frames";
const BYPASSED: &str = "requests for VIPs get past the program";

/// Makes the agent observe its host. The kernel does not report when a program comes to traffic control.
fn make_it_look(node: &Host, number: u8) -> Result<()> {
    node.add_address("lo", format!("198.51.100.{number}/32").parse::<ipnet::IpNet>()?)
}

/// Returns the finding about eth0, as `vipward status` has it.
fn proof(agent: &Agent) -> Result<String> {
    let status = agent.status()?;
    let proof = status["interfaces"][0]["proof"].as_str();
    proof.map(str::to_owned).with_context(|| format!("{status:#}"))
}

fn wait_for_proof(agent: &Agent, expected: &str) -> Result<()> {
    wait_until(PATIENCE, expected, || Ok(proof(agent)? == expected))
}

/// Waits until `status` reports why the VIP is not answered. Returns the time that took.
fn wait_for_silence(agent: &Agent, why: &str) -> Result<Duration> {
    let began = Instant::now();
    wait_until(PATIENCE, why, || Ok(vip_status(agent, VIP, "eth0")?["silent_because"] == why))?;
    Ok(began.elapsed())
}

fn doctor(scene: &Scene, agent: &Agent) -> Result<Report> {
    doctor_at(&scene.node, &agent.options.pin_dir, &[])
}

fn links(node: &Host) -> Result<Answer> {
    http::get(node, PAGES, "/readyz/links")
}

fn has_line(agent: &Agent, level: &str, message: &str) -> Result<bool> {
    Ok(agent.logs()?.iter().any(|line| line.level() == level && line.message() == message))
}

#[test]
fn where_a_gateway_answers_the_program_is_proven() -> Result<()> {
    let scene = Scene::new("proven")?;
    let wire = Wire::open(&scene.client, "eth0")?;
    let agent = scene.agent(HOLDS)?;
    wait_for_proof(&agent, "proven")?;
    let question = Arp::request(NODE, ip(2), ip(1));
    wire.expect_arp(PATIENCE, "the agent's question in its own name", |arp| *arp == question)?;
    assert!(has_line(&agent, "INFO", "the program sees the interface's frames")?);
    let report = doctor(&scene, &agent)?;
    report.assert("proof", Some("eth0"), GREEN, &["counts the frames"], &[]);
    let page = http::get(&scene.node, PAGES, "/metrics")?.good()?;
    assert!(page.contains("vipward_link_proof{interface=\"eth0\",proof=\"proven\"} 1.0"), "{page}");
    Ok(())
}

#[test]
fn where_no_host_answers_it_is_unproven_and_ready() -> Result<()> {
    let scene = Scene::new("unproven")?;
    scene.node.remove_gateway()?;
    let agent = scene.agent("vips: [{address: 192.0.2.10, force: true}]\n")?;
    let unproven = "no frame of ARP or neighbour discovery was received: whether the program sees the \
        interface's frames is unproven";
    wait_until(PATIENCE, "the line", || has_line(&agent, "INFO", unproven))?;
    assert_eq!(proof(&agent)?, "unproven");
    assert_eq!(vip_status(&agent, VIP, "eth0")?["answering"], true);
    assert_eq!(http::get(&scene.node, PAGES, "/readyz")?.status, 200);
    let report = doctor(&scene, &agent)?;
    report.assert("proof", Some("eth0"), NOT_APPLICABLE, &["unproven"], &[]);
    // Other hosts' requests prove it: the program answers, and the socket receives nothing.
    let _probe =
        ArpProbe::start(&scene.client, "eth0", VIP, Duration::from_millis(50), ProbeMode::Broadcast)?;
    scene.node.set_mac("eth0", Mac::local(7))?;
    wait_for_proof(&agent, "proven")
}

#[test]
fn a_program_that_takes_the_frames_before_it_makes_it_blind() -> Result<()> {
    let scene = Scene::new("blind")?;
    let mut agent = scene.agent(HOLDS)?;
    wait_for_proof(&agent, "proven")?;
    let taking = Hooked::attach(&scene.node, "eth0", Hook::TcxTakeAll, "takes_all")?;
    make_it_look(&scene.node, 1)?;
    let took = wait_for_silence(&agent, BLIND)?;
    assert!(took < FOUND_WITHIN, "it took {took:?}");
    assert_eq!(proof(&agent)?, "blind");
    let links_page = links(&scene.node)?;
    assert_eq!(links_page.status, 503);
    assert!(links_page.body.contains(&format!("eth0: {BLIND}")), "{}", links_page.body);
    let line = "bypassed: the kernel receives frames on the interface that the program does not see; no VIP is \
        answered";
    assert!(has_line(&agent, "ERROR", line)?);
    let report = doctor(&scene, &agent)?;
    report.assert("proof", Some("eth0"), RED, &["bypassed"], &["bpftool net show dev eth0"]);
    assert_eq!(report.code, ILL);
    let page = http::get(&scene.node, PAGES, "/metrics")?.good()?;
    assert!(page.contains("vipward_link_proof{interface=\"eth0\",proof=\"blind\"} 1.0"), "{page}");

    // The next agent does not forget it before it has looked.
    agent.kill9()?;
    agent.restart()?;
    assert_eq!(vip_status(&agent, VIP, "eth0")?["silent_because"], BLIND);

    drop(taking);
    make_it_look(&scene.node, 2)?;
    wait_for_proof(&agent, "proven")?;
    assert_eq!(vip_status(&agent, VIP, "eth0")?["answering"], true);
    wait_until(PATIENCE, "readiness", || Ok(http::get(&scene.node, PAGES, "/readyz")?.status == 200))
}

#[test]
fn a_segment_that_has_only_ipv6_is_proven_and_found_blind() -> Result<()> {
    let scene = Scene::new("only-six")?;
    for (host, last) in [(&scene.client, 1), (&scene.node, 2), (&scene.rogue, 3)] {
        host.delete_address("eth0", net(last))?;
        host.add_address("eth0", format!("2001:db8::{last}/64").parse::<ipnet::IpNet>()?)?;
    }
    scene.add_gateway(Family::V6)?;
    let wire = Wire::open(&scene.client, "eth0")?;
    let agent = scene.agent("vips: [{address: '2001:db8::10'}]\n")?;
    wait_for_proof(&agent, "proven")?;
    assert_eq!(wire.drain()?.iter().filter_map(Frame::arp).count(), 0, "ARP");

    let _taking = Hooked::attach(&scene.node, "eth0", Hook::TcxTakeAll, "takes_all")?;
    make_it_look(&scene.node, 1)?;
    wait_for_proof(&agent, "blind")
}

#[test]
fn a_program_that_takes_requests_makes_it_blind_too() -> Result<()> {
    let scene = Scene::new("bypassed")?;
    let agent = scene.agent(HOLDS)?;
    wait_for_proof(&agent, "proven")?;
    let _asking =
        ArpProbe::start(&scene.client, "eth0", VIP, Duration::from_millis(50), ProbeMode::Broadcast)?;
    let _taking = Hooked::attach(&scene.node, "eth0", Hook::TcxTakeRequests, "takes_requests")?;
    make_it_look(&scene.node, 1)?;
    let took = wait_for_silence(&agent, BYPASSED)?;
    assert!(took < FOUND_WITHIN, "it took {took:?}");
    assert_eq!(proof(&agent)?, "blind");
    assert!(has_line(&agent, "ERROR", "bypassed: a request for a VIP got past the program to the kernel")?);
    assert!(links(&scene.node)?.body.contains(BYPASSED));
    let explained = explained(&agent)?;
    for part in ["eth0 does not answer: bypassed", "requests for VIPs get past"] {
        assert!(explained.contains(part), "{part}: {explained}");
    }
    Ok(())
}

/// Returns the output of `vipward explain` about the VIP.
fn explained(agent: &Agent) -> Result<String> {
    let mut command = agent.vipward("explain")?;
    let output = command.arg("192.0.2.10").output().context("failed to run vipward explain")?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
