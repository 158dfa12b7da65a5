//! An address that another host uses: the agent does not take it before it is free.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::thread::sleep;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result};
use tempfile::TempDir;
use vipward_tests::{
    agent::{
        Agent, AgentOptions, CLIENT, NODE, PATIENCE, ROGUE, Scene, VIP, belief, ip, net, wait_until_running,
    },
    frames::{Arp, Mac},
    kit::{Process, tools, wait_until},
    lan::{Frame, Nic, Responder, Wire},
};

use super::{TAKEN_AFTER, begins, bound, conflicts_of, ends, has_role, wait_until_held, wait_until_in_use};

fn config() -> String {
    format!("vips: [{{address: {VIP}}}]")
}

/// Checks that an address in use is not held, announced or answered, that its user is named, and
/// that it is taken after `free`.
fn is_left_alone_until_it_is_free(
    scene: &Scene,
    rival: Mac,
    free: impl FnOnce() -> Result<()>,
) -> Result<Agent> {
    wait_until_in_use(&scene.client, rival)?;
    let wire = Wire::open(&scene.client, "eth0")?;
    let mut agent = scene.agent(&config())?;
    let said = |line: &_| begins(line, "in_use", VIP, rival);
    agent.wait_for_log(PATIENCE, "that the address is in use", said)?;
    assert!(has_role(&agent, VIP, "foreign")?, "it is not held");
    assert_eq!(scene.client.resolve(VIP)?, rival, "its user is not disturbed");
    let by_us = |arp: &Arp| arp.spa == VIP && arp.sha == NODE;
    let heard: Vec<Arp> = wire.drain()?.iter().filter_map(Frame::arp).collect();
    assert!(!heard.iter().any(by_us), "{heard:?}");

    free()?;
    let taken = wait_until_held(&agent, VIP, PATIENCE)?;
    assert!(taken <= TAKEN_AFTER, "taken {taken:?} after it was free");
    agent.wait_for_log(PATIENCE, "that it is over", |line| ends(line, VIP, "the address is free"))?;
    scene.client.flush_neighbours("eth0")?;
    assert_eq!(scene.client.resolve(VIP)?, NODE);
    let told = conflicts_of(&agent, VIP)?;
    assert_eq!(told.len(), 2, "one conflict, with a beginning and an end: {told:?}");
    Ok(agent)
}

#[test]
fn an_address_that_a_hosts_kernel_has_is_left_alone_until_it_is_free() -> Result<()> {
    let scene = Scene::new("in-use-kernel")?;
    scene.rogue.add_address("eth0", bound(VIP)?)?;
    is_left_alone_until_it_is_free(&scene, ROGUE, || scene.rogue.delete_address("eth0", bound(VIP)?))
        .map(drop)
}

#[test]
fn an_address_that_was_in_use_for_long_is_taken_as_soon_as_one_that_was_not() -> Result<()> {
    /// Time of more than ten attempts.
    const LONG: Duration = Duration::from_secs(25);
    let scene = Scene::new("in-use-long")?;
    scene.rogue.add_address("eth0", bound(VIP)?)?;
    let free = || {
        sleep(LONG);
        scene.rogue.delete_address("eth0", bound(VIP)?)
    };
    is_left_alone_until_it_is_free(&scene, ROGUE, free).map(drop)
}

#[test]
fn an_address_that_a_program_answers_for_is_left_alone_until_it_is_free() -> Result<()> {
    const ELSEWHERE: Mac = Mac([2, 0, 0, 0, 0, 0x77]);
    let scene = Scene::new("in-use-program")?;
    // It only answers requests by unicast, with another MAC than its interface's.
    let responder = Responder::start(&scene.rogue, "eth0", VIP, ELSEWHERE)?;
    is_left_alone_until_it_is_free(&scene, ELSEWHERE, || {
        responder.set_answering(false);
        Ok(())
    })
    .map(drop)
}

#[test]
fn who_only_asks_about_an_address_in_use_is_not_said_to_use_it() -> Result<()> {
    let scene = Scene::new("in-use-asked")?;
    let responder = Responder::start(&scene.rogue, "eth0", VIP, ROGUE)?;
    let mut agent = scene.agent(&config())?;
    agent.wait_for_log(PATIENCE, "that the address is in use", |line| begins(line, "in_use", VIP, ROGUE))?;
    // This is between two attempts, as most of the time. At
    // least two seconds of the pause are left.
    let client = Wire::open(&scene.client, "eth0")?;
    client.send(&Arp::probe(CLIENT, VIP).to_bytes())?;
    let answered = responder.counts().answered;
    wait_until(PATIENCE, "another attempt", || Ok(responder.counts().answered > answered + 1))?;
    let probed = agent.status()?["offenders"].as_array().cloned().unwrap_or_default();
    assert!(probed.iter().any(|row| row["mac"] == CLIENT.to_string()), "it was heard: {probed:?}");
    let told = conflicts_of(&agent, VIP)?;
    assert!(!told.iter().any(|line| line.has("mac", CLIENT)), "{told:?}");
    Ok(())
}

#[test]
fn an_address_that_keepalived_has_is_left_alone_until_it_is_free() -> Result<()> {
    let scene = Scene::new("keepalived")?;
    let directory = TempDir::new()?;
    let path = directory.path().join("keepalived.conf");
    let text = format!(
        "global_defs {{\n  vrrp_startup_delay 0\n}}\nvrrp_instance one {{\n  state MASTER\n  interface eth0\n  \
         virtual_router_id 7\n  priority 200\n  advert_int 1\n  \
         virtual_ipaddress {{\n    {VIP}/32 dev eth0\n  }}\n}}\n"
    );
    fs::write(&path, text)?;
    let mut command = scene.rogue.command(tools::keepalived()?);
    command.args(["--dont-fork", "--vrrp", "--log-console", "--use-file"]).arg(&path);
    for (option, name) in [("--pid", "pid"), ("--vrrp_pid", "vrrp")] {
        command.arg(option).arg(directory.path().join(name));
    }
    let mut keepalived = scene.rogue.spawn(command)?;
    is_left_alone_until_it_is_free(&scene, ROGUE, || end(&mut keepalived)).map(drop)
}

#[test]
fn an_address_that_ucarp_has_is_left_alone_until_it_is_free() -> Result<()> {
    let scene = Scene::new("ucarp")?;
    let directory = TempDir::new()?;
    let script = |name: &str, verb: &str| {
        let path = directory.path().join(name);
        fs::write(&path, format!("#!/bin/sh\nexec ip address {verb} {VIP}/32 dev eth0\n"))?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
        anyhow::Ok(path)
    };
    let (up, down) = (script("up", "add")?, script("down", "del")?);
    let mut command = scene.rogue.command(tools::ucarp()?);
    command.args([
        "--interface=eth0",
        "--srcip=192.0.2.3",
        "--vhid=7",
        "--pass=secret",
        "--shutdown",
        "--preempt",
    ]);
    command.arg(format!("--addr={VIP}"));
    command.arg(format!("--upscript={}", up.display())).arg(format!("--downscript={}", down.display()));
    let mut ucarp = scene.rogue.spawn(command)?;
    is_left_alone_until_it_is_free(&scene, ROGUE, || end(&mut ucarp)).map(drop)
}

/// Ends a daemon properly, so that it removes its address.
fn end(daemon: &mut Process) -> Result<()> {
    daemon.signal(nix::sys::signal::Signal::SIGTERM)?;
    daemon.wait(PATIENCE).map(drop).context("it was asked to end")
}

#[test]
fn a_host_that_probes_for_the_address_at_the_same_time_and_again_comes_first() -> Result<()> {
    let scene = Scene::new("prober")?;
    let wire = Wire::open(&scene.rogue, "eth0")?;
    let options = AgentOptions::new(scene.bpffs.pin_dir("node"));
    // The intervals of the RFC leave time enough to be second.
    let config = format!("{{vips: [{{address: {VIP}}}], probe: {{interval: rfc5227}}}}");
    let mut agent = Agent::start(&scene.node, &config, options)?;
    let is_probe = |arp: &Arp| *arp == Arp::probe(NODE, VIP);
    let said = |line: &_| begins(line, "in_use", VIP, ROGUE);
    wire.expect_arp(PATIENCE, "the first probe", is_probe)?;
    wire.send(&Arp::probe(ROGUE, VIP).to_bytes())?;
    // The host may be a node that starts at the same time. It gets the time to say so.
    let frames = wire.capture(Duration::from_millis(1_800))?;
    assert!(!frames.iter().filter_map(Frame::arp).any(|arp| is_probe(&arp)), "the attempt is put off");
    assert!(!agent.logs()?.iter().any(said), "it is no rival yet");

    wire.expect_arp(PATIENCE, "the next probe", is_probe)?;
    wire.send(&Arp::probe(ROGUE, VIP).to_bytes())?;
    agent.wait_for_log(PATIENCE, "that a host probes for it again", said)?;
    assert!(has_role(&agent, VIP, "foreign")?);
    wait_until_held(&agent, VIP, Duration::from_secs(15)).map(drop)
}

#[test]
fn the_address_is_probed_three_times_within_seven_hundred_milliseconds() -> Result<()> {
    let scene = Scene::new("probes")?;
    let wire = Wire::open(&scene.client, "eth0")?;
    let began = SystemTime::now();
    let _agent = scene.agent(&config())?;
    let is_announced = |arp: &Arp| arp.is_gratuitous();
    let mut probes = Vec::new();
    let announced = loop {
        let frame = wire.receive(std::time::Instant::now() + PATIENCE)?.context("no announcement came")?;
        match frame.arp() {
            Some(arp) if arp == Arp::probe(NODE, VIP) => probes.push(frame.at),
            Some(arp) if is_announced(&arp) => break frame.at,
            Some(_) | None => {}
        }
    };
    assert_eq!(probes.len(), 3, "PROBE_NUM");
    let first = probes.first().context("no probe")?;
    let took = announced.duration_since(*first)?;
    assert!((Duration::from_millis(590)..Duration::from_millis(750)).contains(&took), "{took:?}");
    assert!(first.duration_since(began)? < PATIENCE);
    Ok(())
}

#[test]
fn what_was_held_before_is_not_probed_again() -> Result<()> {
    let scene = Scene::new("no-probe")?;
    let mut agent = scene.agent(&config())?;
    agent.kill9()?;
    let wire = Wire::open(&scene.client, "eth0")?;
    let seen = agent.logs()?.len();
    agent.restart()?;
    wait_until_running(&mut agent, seen)?;
    let frames = wire.capture(Duration::from_secs(2))?;
    let probes = frames.iter().filter_map(Frame::arp).filter(|arp| arp.spa.is_unspecified());
    assert_eq!(probes.count(), 0, "a restart does not ask");
    assert!(has_role(&agent, VIP, "held")?);
    Ok(())
}

#[test]
fn a_vip_that_is_forced_is_taken_from_who_has_it() -> Result<()> {
    let scene = Scene::new("forced")?;
    scene.rogue.add_address("eth0", bound(VIP)?)?;
    wait_until_in_use(&scene.client, ROGUE)?;
    let agent = scene.agent(&format!("vips: [{{address: {VIP}, force: true}}]"))?;
    assert!(has_role(&agent, VIP, "held")?);
    assert_eq!(belief(&scene.client, VIP)?, Some(NODE), "it was announced at once");
    Ok(())
}

#[test]
fn of_two_addresses_only_the_one_in_use_waits() -> Result<()> {
    let scene = Scene::new("two")?;
    let third = scene.lan.host("third", Nic::new(net(4)).mac(Mac([2, 0, 0, 0, 0, 4])))?;
    let (one, two, free) = (ip(20), ip(21), ip(22));
    scene.rogue.add_address("eth0", bound(one)?)?;
    third.add_address("eth0", bound(two)?)?;
    let mut agent =
        scene.agent(&format!("vips: [{{address: {one}}}, {{address: {two}}}, {{address: {free}}}]"))?;
    agent.wait_for_log(PATIENCE, "the first conflict", |line| begins(line, "in_use", one, ROGUE))?;
    let third_mac = third.mac("eth0")?;
    agent.wait_for_log(PATIENCE, "the second one", |line| begins(line, "in_use", two, third_mac))?;
    for (vip, role) in [(one, "foreign"), (two, "foreign"), (free, "held")] {
        assert!(has_role(&agent, vip, role)?, "{vip}");
    }
    Ok(())
}
