//! The program while the agent does not run: the fence lapses, the
//! program holds over, yields, and stops.

use std::fs;
use std::thread;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result};
use nix::sys::signal::Signal;
use vipward_tests::agent::LogLine;
use vipward_tests::arp::{Arp, Mac};
use vipward_tests::lan::Nic;
use vipward_tests::node::Node;
use vipward_tests::probe::ArpProbe;
use vipward_tests::scene::{NODE, PATIENCE, VIP, ip, net};
use vipward_tests::wait::wait_until;
use vipward_tests::wire::Wire;

/// Number of requests that show silence.
const SOME: usize = 300;
/// Lag of the program's clock: up to a tick of 10 ms (at 100 Hz). `status` reads the same clock.
const CLOCK_TOLERANCE: Duration = Duration::from_millis(20);
/// Longest delay between the time stamp of a request and its sending, on a busy machine.
const SENDING_TOLERANCE: Duration = Duration::from_millis(100);
const PEER: Mac = Mac([2, 0, 0, 0, 0, 3]);
const STRANGER: Mac = Mac([2, 0, 0, 0, 0, 4]);

/// Asks until half a second after a limit of a stopped agent's fence. Checks that every request
/// before the limit was answered, and none after it.
fn assert_silent_from(node: &Node, probe: ArpProbe, left: &str) -> Result<()> {
    let start = SystemTime::now();
    let (earliest, latest) = node.fence_passes(left)?;
    let longer = Duration::from_millis(500);
    let until_then = latest.duration_since(SystemTime::now()).unwrap_or_default();
    // The test waits for the time itself.
    thread::sleep(until_then + CLOCK_TOLERANCE + longer);
    let report = probe.stop()?;
    let before = report.between(start, earliest - SENDING_TOLERANCE);
    node.assert_answered_throughout(&before);
    assert!(before.sent() > 0, "{report}");
    let after = report.between(latest + CLOCK_TOLERANCE, SystemTime::now());
    assert_eq!(after.answered(), 0, "{after}");
    assert!(after.sent() > 100, "the probe asked on: {after}");
    Ok(())
}

fn is_stopped(node: &Node) -> Result<bool> {
    let pid = node.agent.pid()?;
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let state = stat.rsplit(')').next().and_then(|rest| rest.split_ascii_whitespace().next());
    Ok(state.context("/proc has no state")? == "T")
}

fn stop(node: &mut Node) -> Result<()> {
    node.agent.signal(Signal::SIGSTOP)?;
    wait_until(PATIENCE, "the agent to be stopped", || is_stopped(node))
}

#[test]
fn a_stopped_agent_is_silent_from_the_deadline_on_when_the_policy_is_stop() -> Result<()> {
    let yaml = "fence: {duration: 3s, policy: stop}\nvips: [{address: 192.0.2.10}]\n";
    let mut node = Node::start("stop", yaml)?;
    node.wait_until_answered(VIP, NODE)?;
    let probe = node.probe(VIP)?;
    stop(&mut node)?;
    assert_silent_from(&node, probe, "left_seconds")?;
    assert!(is_stopped(&node)?, "the agent had no part in it");
    assert_eq!(node.agent.status()?["fence"]["state"], "over");
    let row = node.vip_status(VIP)?;
    assert_eq!((&row["role"], &row["answering"]), (&"silent".into(), &false.into()));

    let seen = node.agent.logs()?.len();
    node.agent.signal(Signal::SIGCONT)?;
    node.agent.wait_for_log_after(seen, PATIENCE, "by how much it is late", |line| {
        let late = line.field("late_by_ms").and_then(serde_json::Value::as_u64);
        line.message() == "heartbeat is late" && late.is_some_and(|late| late >= 1000)
    })?;
    node.wait_until_answered(VIP, NODE)
}

#[test]
fn holding_over_ends() -> Result<()> {
    let yaml = "fence: {duration: 2s, policy: hold, hold_for: 4s}\nvips: [{address: 192.0.2.10}]\n";
    let mut node = Node::start("hold-ends", yaml)?;
    node.wait_until_answered(VIP, NODE)?;
    let probe = node.probe(VIP)?;
    node.agent.kill9()?;
    assert_silent_from(&node, probe, "hold_left_seconds")?;
    assert_eq!(node.agent.status()?["fence"]["state"], "over");
    assert_eq!(node.vip_status(VIP)?["answering"], false);
    node.restart_agent()?;
    node.wait_until_answered(VIP, NODE)
}

/// A node with a stopped agent and a fence that is held over,
/// with a peer and a stranger on its LAN.
struct HeldOver {
    node: Node,
    peer: Wire,
    stranger: Wire,
}

fn held_over(name: &str) -> Result<HeldOver> {
    let yaml = "fence: {duration: 2s, policy: hold}\npeers: ['02:00:00:00:00:03']\n\
                vips: [{address: 192.0.2.10}, {address: 192.0.2.11}]\n";
    let mut node = Node::start(name, yaml)?;
    let on_lan = |mac: Mac| -> Result<Wire> {
        let host = node.lan()?.host("other", Nic::new(net(mac.0[5])).mac(mac))?;
        Wire::open(&host, "eth0")
    };
    let (peer, stranger) = (on_lan(PEER)?, on_lan(STRANGER)?);
    node.wait_until_answered(VIP, NODE)?;
    stop(&mut node)?;
    wait_until(PATIENCE, "the fence to be held over", || {
        Ok(node.agent.status()?["fence"]["state"] == "held over")
    })?;
    Ok(HeldOver { node, peer, stranger })
}

impl HeldOver {
    fn assert_silent(&self) -> Result<()> {
        let probe = self.node.probe(VIP)?;
        probe.wait_for_requests(SOME, PATIENCE)?;
        let report = probe.stop()?;
        assert_eq!(report.answered(), 0, "{report}");
        let row = self.node.vip_status(VIP)?;
        assert_eq!((&row["role"], &row["yielded"]), (&"foreign".into(), &true.into()), "{row}");
        assert_eq!(row["mac"], PEER.to_string());
        Ok(())
    }

    fn conflicts(&self) -> Result<u64> {
        self.node.vip_status(VIP)?["conflicts"].as_u64().context("status counts no conflicts")
    }

    fn peer_announces(&self) -> Result<()> {
        self.peer.send(&Arp::gratuitous_request(PEER, VIP, Mac::ZERO).to_bytes())?;
        self.node.wait_for_vip(VIP, "yielded", |row| row["yielded"] == true).map(drop)
    }
}

#[test]
fn a_held_over_vip_is_not_yielded_to_a_stranger() -> Result<()> {
    let scene = held_over("stranger")?;
    let probe = scene.node.probe(VIP)?;
    for frame in [
        Arp::gratuitous_request(STRANGER, VIP, Mac::ZERO),
        Arp::gratuitous_reply(STRANGER, VIP, STRANGER),
        Arp::reply(STRANGER, VIP, NODE, ip(2)),
    ] {
        let before = scene.conflicts()?;
        scene.stranger.send(&frame.to_bytes())?;
        wait_until(PATIENCE, "the claim to be counted", || Ok(scene.conflicts()? == before + 1))?;
        probe.wait_for_requests(50, PATIENCE)?;
    }
    assert!(is_stopped(&scene.node)?);
    let row = scene.node.vip_status(VIP)?;
    assert_eq!((&row["role"], &row["yielded"]), (&"held".into(), &false.into()), "{row}");
    scene.node.assert_answered_throughout(&probe.stop()?);
    Ok(())
}

#[test]
fn a_held_over_vip_is_yielded_to_a_peer_without_userspace_and_taken_back_on_sighup_only() -> Result<()> {
    let mut scene = held_over("peer")?;
    let probe = scene.node.probe(VIP)?;
    probe.wait_for_requests(SOME, PATIENCE)?;
    let before_the_peer = SystemTime::now() - SENDING_TOLERANCE;
    scene.peer_announces()?;
    let yielded = SystemTime::now();
    probe.wait_for_requests(SOME, PATIENCE)?;
    let report = probe.stop()?;
    scene.node.assert_answered_throughout(&report.between(SystemTime::UNIX_EPOCH, before_the_peer));
    assert_eq!(report.between(yielded, SystemTime::now()).answered(), 0, "{report}");
    assert!(is_stopped(&scene.node)?, "without userspace");
    scene.assert_silent()?;
    // The peer announced only the other VIP.
    scene.node.wait_until_answered(ip(11), NODE)?;

    // It stays yielded when the agent continues …
    scene.node.agent.signal(Signal::SIGCONT)?;
    let yielded =
        |line: &LogLine| line.has("kind", "yielded") && line.has("vip", VIP) && line.has("mac", PEER);
    scene.node.agent.wait_for_log(PATIENCE, "what was yielded", yielded)?;
    wait_until(PATIENCE, "the fence to be valid", || {
        Ok(scene.node.agent.status()?["fence"]["state"] == "valid")
    })?;
    scene.assert_silent()?;

    // … and after a restart …
    scene.node.agent.kill9()?;
    scene.node.restart_agent()?;
    scene.assert_silent()?;
    scene.node.wait_until_answered(ip(11), NODE)?;

    // … and through a change of the file …
    let seen = scene.node.agent.logs()?.len();
    scene.node.write_config(
        "fence: {duration: 4s, policy: hold}\npeers: ['02:00:00:00:00:03']\n\
         vips: [{address: 192.0.2.10}, {address: 192.0.2.11}]\n",
    )?;
    scene.node.agent.wait_for_log_after(seen, PATIENCE, "that the file is applied", |line| {
        line.message() == "configuration is applied"
    })?;
    scene.assert_silent()?;

    // … until SIGHUP tells the agent to take it back.
    scene.node.agent.signal(Signal::SIGHUP)?;
    scene.node.wait_until_answered(VIP, NODE)?;
    assert_eq!(scene.node.vip_status(VIP)?["yielded"], false);
    Ok(())
}
