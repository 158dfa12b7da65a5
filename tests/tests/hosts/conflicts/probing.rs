//! Changes while an agent probes an address: its file changes, its carrier goes, a peer answers.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use nix::sys::signal::Signal;
use vipward_tests::{
    agent::{
        Agent, AgentOptions, LogLine, NODE, PATIENCE, ROGUE, Scene, VIP, answers_to, clients_request, ip,
        map_dump,
    },
    frames::Arp,
    kit::wait_until,
    lan::{Frame, Responder, Wire},
};

use super::{TAKEN_AFTER, conflicts_of, has_role, wait_until_held};

/// Time between two probes: long enough to act before the second.
const INTERVAL: Duration = Duration::from_secs(1);

/// Returns a configuration that holds the VIP after `count` probes, and then has it on `lo`.
fn holds_after(count: u32) -> String {
    format!("{{vips: [{{address: {VIP}, bind: lo}}], {}}}", probes(count))
}

fn probes(count: u32) -> String {
    format!("probe: {{count: {count}, interval: {}s}}", INTERVAL.as_secs())
}

/// The client's end of the segment, and an agent that has begun to
/// probe the VIP: its first probe has come.
struct Asked {
    wire: Wire,
    agent: Agent,
    /// Number of probes since then.
    probes: usize,
}

impl Asked {
    fn start(scene: &Scene, yaml: &str) -> Result<Self> {
        let wire = Wire::open(&scene.client, "eth0")?;
        let agent = Agent::start(&scene.node, yaml, AgentOptions::new(scene.bpffs.pin_dir("node")))?;
        let mut asked = Self { wire, agent, probes: 0 };
        asked.wait_for_probe()?;
        Ok(asked)
    }

    fn wait_for_probe(&mut self) -> Result<()> {
        self.wire.expect_arp(PATIENCE, "a probe", |arp| *arp == Arp::probe(NODE, VIP))?;
        self.probes += 1;
        Ok(())
    }

    /// Replaces the file, and waits until the agent applies it.
    fn apply(&mut self, yaml: &str) -> Result<()> {
        let seen = self.agent.logs()?.len();
        self.agent.write_config(yaml)?;
        self.wait_until_applied(seen)
    }

    fn wait_until_applied(&mut self, seen: usize) -> Result<()> {
        let applied = |line: &LogLine| line.message() == "configuration is applied";
        self.agent.wait_for_log_after(seen, PATIENCE, "that the file is applied", applied).map(drop)
    }

    /// Waits until the VIP is announced. Returns the number of all probes.
    fn probes_until_announced(&mut self) -> Result<usize> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let frame = self.wire.receive(deadline)?.with_context(|| {
                format!("it was not announced; the agent's log:\n{}", self.agent.transcript())
            })?;
            match frame.arp() {
                Some(arp) if arp == Arp::probe(NODE, VIP) => self.probes += 1,
                Some(arp) if arp.is_gratuitous() && arp.spa == VIP && arp.sha == NODE => {
                    return Ok(self.probes);
                }
                Some(_) | None => {}
            }
        }
    }

    /// Returns the agent's frames about the VIP within `duration`.
    fn sends_within(&self, duration: Duration) -> Result<Vec<Arp>> {
        let heard = self.wire.capture(duration)?;
        let about = |arp: &Arp| arp.sha == NODE && (arp.spa == VIP || arp.tpa == VIP);
        Ok(heard.iter().filter_map(Frame::arp).filter(about).collect())
    }
}

/// Returns true if the node's kernel has the VIP, on `lo`.
fn is_bound(scene: &Scene) -> Result<bool> {
    Ok(scene.node.namespace().addresses("lo")?.iter().any(|address| address.addr() == VIP))
}

/// Removes the VIP from the file by `remove` during its probes,
/// and checks that nothing of it is left.
fn is_gone_when_removed(name: &str, remove: impl FnOnce(&mut Asked) -> Result<()>) -> Result<()> {
    let scene = Scene::new(name)?;
    let mut asked = Asked::start(&scene, &holds_after(3))?;
    assert!(has_role(&asked.agent, VIP, "foreign")?, "it is being asked about");
    remove(&mut asked)?;
    asked.wire.drain()?;
    // This is as long as the probes would have taken, and a retry.
    let sent = asked.sends_within(INTERVAL * 3 + TAKEN_AFTER)?;
    assert_eq!(sent, [], "neither probed nor announced any more");
    let answers = answers_to(&Wire::open(&scene.client, "eth0")?, &clients_request(VIP), ip(2))?;
    assert_eq!(answers, [], "nor answered");
    assert_eq!(map_dump(&asked.agent, "vips_v4")?.len(), 0, "no entry");
    assert!(!is_bound(&scene)?, "no address");
    assert_eq!(asked.agent.status()?["vips"].as_array().map(Vec::len), Some(0));
    let over = |line: &LogLine| line.message() == "addresses have been probed";
    assert!(asked.agent.logs()?.iter().any(over), "{}", asked.agent.transcript());

    // When the VIP comes back, its probes begin anew.
    asked.probes = 0;
    asked.apply(&holds_after(2))?;
    assert_eq!(asked.probes_until_announced()?, 2);
    wait_until_held(&asked.agent, VIP, PATIENCE)?;
    assert!(is_bound(&scene)?);
    Ok(())
}

#[test]
fn a_vip_that_leaves_the_file_while_it_is_probed_leaves_nothing_behind() -> Result<()> {
    is_gone_when_removed("unlisted", |asked| asked.apply(&format!("{{vips: [], {}}}", probes(3))))
}

#[test]
fn a_vip_that_leaves_the_file_by_sighup_while_it_is_probed_leaves_nothing_behind() -> Result<()> {
    is_gone_when_removed("unlisted-hup", |asked| {
        let seen = asked.agent.logs()?.len();
        asked.agent.write_config(&format!("{{vips: [], {}}}", probes(3)))?;
        asked.agent.signal(Signal::SIGHUP)?;
        asked.wait_until_applied(seen)
    })
}

#[test]
fn sighup_takes_no_vip_that_is_still_being_probed() -> Result<()> {
    let scene = Scene::new("hup-probed")?;
    let mut asked = Asked::start(&scene, &holds_after(3))?;
    let seen = asked.agent.logs()?.len();
    asked.agent.signal(Signal::SIGHUP)?;
    asked.wait_until_applied(seen)?;
    assert!(has_role(&asked.agent, VIP, "foreign")?, "it is asked about still");
    assert_eq!(asked.probes_until_announced()?, 3, "and neither taken early nor asked about anew");
    Ok(())
}

#[test]
fn an_interface_that_loses_its_carrier_while_it_asks_begins_anew_when_it_has_one() -> Result<()> {
    let scene = Scene::new("probed-carrier")?;
    let mut asked = Asked::start(&scene, &holds_after(3))?;
    asked.wait_for_probe()?;
    scene.node.set_carrier("eth0", false)?;
    // This is longer than the remaining probes would take: without carrier, silence is no answer.
    let sent = asked.sends_within(INTERVAL * 3)?;
    assert_eq!(sent, []);
    assert!(has_role(&asked.agent, VIP, "foreign")?, "no host was asked, and nothing is taken");
    assert!(!is_bound(&scene)?);

    asked.probes = 0;
    scene.node.set_carrier("eth0", true)?;
    assert_eq!(asked.probes_until_announced()?, 3, "asked from the beginning");
    wait_until_held(&asked.agent, VIP, PATIENCE)?;
    assert_eq!(scene.client.resolve(VIP)?, NODE);
    Ok(())
}

#[test]
fn who_takes_the_address_while_the_carrier_is_away_keeps_it() -> Result<()> {
    let scene = Scene::new("probed-taken")?;
    let mut asked = Asked::start(&scene, &holds_after(3))?;
    scene.node.set_carrier("eth0", false)?;
    let responder = Responder::start(&scene.rogue, "eth0", VIP, ROGUE)?;
    scene.node.set_carrier("eth0", true)?;
    let said = |line: &LogLine| super::begins(line, "in_use", VIP, ROGUE);
    asked.agent.wait_for_log(PATIENCE, "that the address is in use", said)?;
    assert!(has_role(&asked.agent, VIP, "foreign")?);
    responder.set_answering(false);
    wait_until_held(&asked.agent, VIP, PATIENCE).map(drop)
}

#[test]
fn another_number_of_probes_holds_for_what_is_being_probed_and_it_comes_to_a_result() -> Result<()> {
    // The counts before and after the change, and the resulting number of probes.
    for (from, to, expected) in [(20, 3, 3), (2, 4, 4), (20, 1, 1), (3, 0, 1)] {
        let scene = Scene::new("count")?;
        let mut asked = Asked::start(&scene, &holds_after(from))?;
        asked.apply(&holds_after(to))?;
        let probes = asked.probes_until_announced()?;
        ensure!(probes == expected, "{probes} probes, not {expected}, when {from} became {to}");
        wait_until_held(&asked.agent, VIP, PATIENCE)?;
    }
    Ok(())
}

#[test]
fn an_address_that_a_peer_answers_for_waits_without_a_conflict_and_is_taken_when_it_is_free() -> Result<()> {
    let scene = Scene::new("probed-peer")?;
    let responder = Responder::start(&scene.rogue, "eth0", VIP, ROGUE)?;
    let mut agent = scene.agent(&format!("{{vips: [{{address: {VIP}}}], peers: ['{ROGUE}']}}"))?;
    let said = |line: &LogLine| line.has("kind", "moved") && line.has("vip", VIP) && line.has("mac", ROGUE);
    agent.wait_for_log(PATIENCE, "that a peer has it", said)?;
    assert!(has_role(&agent, VIP, "foreign")?, "it is the peer's");
    // The address is probed again, and answered again.
    let before = responder.counts().answered;
    wait_until(PATIENCE, "another attempt", || Ok(responder.counts().answered > before))?;
    assert!(has_role(&agent, VIP, "foreign")?, "it is the peer's still");
    assert_eq!(scene.client.resolve(VIP)?, ROGUE);
    assert_eq!(agent.logs()?.iter().filter(|line| said(line)).count(), 1, "{}", agent.transcript());
    let begun = |line: &&LogLine| line.message().starts_with("addresses are being probed");
    assert_eq!(
        agent.logs()?.iter().filter(begun).count(),
        1,
        "an attempt is no news: {}",
        agent.transcript()
    );

    responder.set_answering(false);
    let taken = wait_until_held(&agent, VIP, PATIENCE)?;
    assert!(taken <= TAKEN_AFTER, "taken {taken:?} after it was free");
    assert_eq!(conflicts_of(&agent, VIP)?, [], "a peer is no stranger");
    scene.client.flush_neighbours("eth0")?;
    assert_eq!(scene.client.resolve(VIP)?, NODE);
    Ok(())
}

#[test]
fn an_ipv6_address_that_a_kernel_has_is_not_taken_until_it_is_free() -> Result<()> {
    let scene = Scene::new("probed-six")?;
    let net = |last: u8| format!("2001:db8::{last:x}/64").parse::<ipnet::IpNet>();
    scene.node.add_address("eth0", net(2)?)?;
    scene.rogue.add_address("eth0", net(0x10)?)?;
    let agent = Agent::start(
        &scene.node,
        "vips: [{address: '2001:db8::10'}]",
        AgentOptions::new(scene.bpffs.pin_dir("node")),
    )?;
    let in_use = "conflict: the address is in use by a stranger; the VIP waits until it is free";
    wait_until(PATIENCE, in_use, || Ok(agent.logs()?.iter().any(|line| line.message() == in_use)))?;
    let is_answering = || Ok(agent.status()?["vips"][0]["answering"] == true);
    assert!(!is_answering()?, "the rogue has it");
    scene.rogue.delete_address("eth0", net(0x10)?)?;
    wait_until(PATIENCE, "the VIP to be held", is_answering)
}
