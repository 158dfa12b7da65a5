//! The program while the agent does not run: the lease deadline passes, the
//! program answers in its grace period, yields, and stops.

use std::fs;
use std::net::IpAddr;
use std::thread;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result};
use ipnet::IpNet;
use nix::sys::signal::Signal;
use vipward_tests::{
    agent::{Attachment, LogLine, NODE, Node, PATIENCE, VIP, counter, ip, net},
    frames::{Arp, Family, Mac, Message},
    kit::wait_until,
    lan::{Frame, Host, Nic, Wire},
    measure::ArpProbe,
};

/// Number of requests that show silence.
const SOME: usize = 300;
/// Lag of the program's clock: up to a tick of 10 ms (at 100 Hz). `status` reads the same clock.
const CLOCK_TOLERANCE: Duration = Duration::from_millis(20);
/// Longest delay between the time stamp of a request and its sending, on a busy machine.
const SENDING_TOLERANCE: Duration = Duration::from_millis(100);
const PEER: Mac = Mac([2, 0, 0, 0, 0, 3]);
const UNKNOWN_HOST: Mac = Mac([2, 0, 0, 0, 0, 4]);

/// Sends requests until half a second after a stopped agent's lease deadline, or the end of its grace
/// period. Checks that every request before that time was answered, and none after it.
fn assert_silent_from(node: &Node, probe: ArpProbe, left: &str) -> Result<()> {
    let start = SystemTime::now();
    let (earliest, latest) = node.deadline_passes(left)?;
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
    for family in Family::BOTH {
        let vip = family.vip();
        let yaml = format!("fence: {{duration: 3s, policy: stop}}\nvips: [{{address: '{vip}'}}]\n");
        let mut node = Node::start_in(family, "stop", Attachment::Auto, &yaml)?;
        node.wait_until_answered(vip, NODE)?;
        let probe = node.probe(vip)?;
        stop(&mut node)?;
        assert_silent_from(&node, probe, "left_seconds")?;
        assert!(is_stopped(&node)?, "the agent had no part in it");
        assert_eq!(node.agent.status()?["lease_deadline"]["state"], "over");
        let row = node.vip_status(vip)?;
        assert_eq!((&row["role"], &row["answering"]), (&"silent".into(), &false.into()));

        let seen = node.agent.logs()?.len();
        node.agent.signal(Signal::SIGCONT)?;
        node.agent.wait_for_log_after(seen, PATIENCE, "by how much it is late", |line| {
            let late = line.field("late_by_ms").and_then(serde_json::Value::as_u64);
            line.message() == "heartbeat is late" && late.is_some_and(|late| late >= 1000)
        })?;
        node.wait_until_answered(vip, NODE)?;
    }
    Ok(())
}

#[test]
fn the_grace_period_ends() -> Result<()> {
    let yaml = "fence: {duration: 2s, policy: hold, hold_for: 4s}\nvips: [{address: 192.0.2.10}]\n";
    let mut node = Node::start("hold-ends", yaml)?;
    node.wait_until_answered(VIP, NODE)?;
    let probe = node.probe(VIP)?;
    node.agent.kill9()?;
    assert_silent_from(&node, probe, "hold_left_seconds")?;
    assert_eq!(node.agent.status()?["lease_deadline"]["state"], "over");
    assert_eq!(node.vip_status(VIP)?["answering"], false);
    node.restart_agent()?;
    node.wait_until_answered(VIP, NODE)
}

/// A node with a stopped agent in its grace period, with a peer and an unknown host on its LAN.
struct Grace {
    vip: IpAddr,
    node: Node,
    peers_host: Host,
    peer: Wire,
    unknown_host: Wire,
}

/// The file of a node with two VIPs and a peer.
fn with_a_peer(family: Family, more: &str) -> String {
    format!(
        "fence: {{duration: 2s, policy: hold}}\npeers: ['{PEER}']\n{more}\
         vips: [{{address: '{}'}}, {{address: '{}'}}]\n",
        family.vip(),
        family.ip(11)
    )
}

fn grace(family: Family, name: &str, more: &str) -> Result<Grace> {
    let vip = family.vip();
    let mut node = Node::start_in(family, name, Attachment::Auto, &with_a_peer(family, more))?;
    let on_lan = |mac: Mac| -> Result<Host> { node.lan()?.host("other", Nic::new(net(mac.0[5])).mac(mac)) };
    let (peers_host, unknown_hosts_host) = (on_lan(PEER)?, on_lan(UNKNOWN_HOST)?);
    let (peer, unknown_host) = (Wire::open(&peers_host, "eth0")?, Wire::open(&unknown_hosts_host, "eth0")?);
    node.wait_until_answered(vip, NODE)?;
    stop(&mut node)?;
    wait_until(PATIENCE, "the grace period to begin", || {
        Ok(node.agent.status()?["lease_deadline"]["state"] == "grace period")
    })?;
    Ok(Grace { vip, node, peers_host, peer, unknown_host })
}

impl Grace {
    fn assert_silent(&self) -> Result<()> {
        let probe = self.node.probe(self.vip)?;
        probe.wait_for_requests(SOME, PATIENCE)?;
        let report = probe.stop()?;
        assert_eq!(report.answered(), 0, "{report}");
        let row = self.node.vip_status(self.vip)?;
        assert_eq!((&row["role"], &row["yielded"]), (&"foreign".into(), &true.into()), "{row}");
        assert_eq!(row["mac"], PEER.to_string());
        Ok(())
    }

    fn dropped_claims(&self) -> Result<u64> {
        Ok(counter(&self.node.agent, "claim_conflict")? + counter(&self.node.agent, "claim_contested")?)
    }

    fn peer_announces(&self) -> Result<()> {
        self.peer.send(&Message::announcement(PEER, self.vip).to_bytes())?;
        self.node.wait_for_vip(self.vip, "yielded", |row| row["yielded"] == true).map(drop)
    }
}

/// Returns an unknown host's claims on a VIP, some of them in the peer's name.
fn claims_of_unknown_host(vip: IpAddr) -> Vec<Message> {
    let mut claims = vec![
        Message::announcement(UNKNOWN_HOST, vip),
        Message::request(NODE, Family::of(vip).ip(2), vip).answered_by(UNKNOWN_HOST),
        Message::announcement(PEER, vip).sent_by(UNKNOWN_HOST),
    ];
    if vip.is_ipv4() {
        claims.push(Arp::gratuitous_reply(UNKNOWN_HOST, VIP, UNKNOWN_HOST).into());
        claims.push(Arp { eth_src: UNKNOWN_HOST, ..Arp::gratuitous_reply(PEER, VIP, PEER) }.into());
    }
    claims
}

#[test]
fn a_vip_in_its_grace_period_is_not_yielded_to_an_unknown_host() -> Result<()> {
    for family in Family::BOTH {
        let scene = grace(family, "unknown-host", "")?;
        let probe = scene.node.probe(scene.vip)?;
        for claim in claims_of_unknown_host(scene.vip) {
            let before = scene.dropped_claims()?;
            scene.unknown_host.send(&claim.to_bytes())?;
            wait_until(PATIENCE, "the claim to be dropped", || Ok(scene.dropped_claims()? == before + 1))
                .with_context(|| claim.to_string())?;
            probe.wait_for_requests(50, PATIENCE)?;
        }
        assert!(is_stopped(&scene.node)?);
        let row = scene.node.vip_status(scene.vip)?;
        assert_eq!((&row["role"], &row["yielded"]), (&"held".into(), &false.into()), "{row}");
        scene.node.assert_answered_throughout(&probe.stop()?);
    }
    Ok(())
}

#[test]
fn a_vip_in_its_grace_period_is_yielded_to_a_peer_without_userspace_and_kept_there_until_sighup() -> Result<()>
{
    const KEEP: &str = "yield: keep\n";
    let mut scene = grace(Family::V4, "peer", KEEP)?;
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
    wait_until(PATIENCE, "the lease deadline to lie ahead", || {
        Ok(scene.node.agent.status()?["lease_deadline"]["state"] == "valid")
    })?;
    scene.assert_silent()?;

    // … and after a restart …
    scene.node.agent.kill9()?;
    scene.node.restart_agent()?;
    scene.assert_silent()?;
    scene.node.wait_until_answered(ip(11), NODE)?;

    // … until SIGHUP makes the agent take it back.
    scene.node.agent.signal(Signal::SIGHUP)?;
    scene.node.wait_until_answered(VIP, NODE)?;
    assert_eq!(scene.node.vip_status(VIP)?["yielded"], false);
    Ok(())
}

/// Returns true for the line that reports that this node takes the VIP back.
fn takes_back(line: &LogLine) -> bool {
    line.message().starts_with("no peer answers") && line.has("mac", PEER)
}

#[test]
fn a_vip_that_was_announced_in_a_peers_name_is_taken_back_when_no_peer_answers() -> Result<()> {
    let mut scene = grace(Family::V4, "forged", "")?;
    scene.peer_announces()?;
    scene.assert_silent()?;

    let (probe, woken) = (scene.node.probe(VIP)?, SystemTime::now());
    scene.node.agent.signal(Signal::SIGCONT)?;
    // The forger goes on announcing, and not so often that the program holds events back. Only an
    // answer would show that a peer has the VIP.
    let forgery = Arp::gratuitous_request(PEER, VIP, Mac::ZERO).to_bytes();
    wait_until(PATIENCE, "the agent to ask", || {
        scene.peer.send(&forgery)?;
        thread::sleep(Duration::from_millis(150));
        Ok(scene.node.agent.logs()?.iter().any(takes_back))
    })?;
    scene.node.wait_until_answered(VIP, NODE)?;
    let row = scene.node.vip_status(VIP)?;
    assert_eq!((&row["role"], &row["yielded"]), (&"held".into(), &false.into()), "{row}");
    let report = probe.stop()?;
    let answered = report.requests.iter().find(|request| request.is_answered());
    let silent = answered.context("it is answered")?.sent_at.duration_since(woken)?;
    assert!(silent >= Duration::from_secs(2), "a peer has two seconds: {report}");
    Ok(())
}

#[test]
fn a_yielded_vip_stays_with_a_peer_that_answers() -> Result<()> {
    for family in Family::BOTH {
        let mut scene = grace(family, "answers", "")?;
        let (vip, transcript) = (scene.vip, |scene: &Grace| scene.node.agent.transcript());
        scene.peers_host.add_address("eth0", IpNet::from(vip))?;
        scene.peer_announces()?;
        let wire = Wire::open_in(&scene.peers_host, "eth0", family)?;
        // Rounds of announcements are overdue.
        scene.node.agent.signal(Signal::SIGCONT)?;
        scene.node.wait_for_vip(vip, "asked about, and the peer's", |row| row["mac"] == PEER.to_string())?;
        // Longer than a peer has to answer.
        thread::sleep(Duration::from_secs(4));
        let row = scene.node.vip_status(vip)?;
        assert_eq!(
            (&row["role"], &row["yielded"]),
            (&"foreign".into(), &true.into()),
            "{row}\n{}",
            transcript(&scene)
        );
        assert_eq!(row["mac"], PEER.to_string(), "{row}");
        assert!(!scene.node.agent.logs()?.iter().any(takes_back), "{}", transcript(&scene));
        let sent: Vec<_> = wire.drain()?.iter().filter_map(Frame::message).collect();
        let is_by_node = |message: &&Message| message.sender() == NODE && message.is_announcement();
        let mut announced = sent.iter().filter(is_by_node).filter_map(Message::answers_for);
        assert!(announced.all(|address| address != vip), "{sent:?}");
        // The peer lost it while the agent was away: a restart sends probes again.
        scene.node.agent.kill9()?;
        scene.peers_host.delete_address("eth0", IpNet::from(vip))?;
        scene.node.restart_agent()?;
        scene.node.wait_until_answered(vip, NODE)?;
    }
    Ok(())
}
