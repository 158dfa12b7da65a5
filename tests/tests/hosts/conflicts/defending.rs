//! The defence of a held VIP follows RFC 5227 (2.4 c), and probes find rivals that only answer.

use std::thread;
use std::time::{Duration, Instant, SystemTime};

use anyhow::Result;
use vipward_tests::{
    agent::{Agent, LogLine, NODE, PATIENCE, ROGUE, Scene, VIP, counter, ip, net, wait_until_heard},
    frames::{Arp, Mac},
    lan::{Frame, Nic, Responder, Wire},
};

use super::{begins, bound, conflicts_of, ends, forged};

/// `DEFEND_INTERVAL` of RFC 5227, 1.1.
const DEFEND_INTERVAL: Duration = Duration::from_secs(10);
/// Time in which all rounds of a taken VIP leave, six of them 1.1 s apart.
const ROUNDS: Duration = Duration::from_secs(6);

/// Returns a configuration in which only defences are announced after the first rounds.
fn config(defend: &str) -> String {
    format!(
        "{{vips: [{{address: {VIP}}}], conflicts: {{defend: {defend}}}, announce: {{refresh: 10m}}, \
         probe: {{repeat: 0s}}}}"
    )
}

/// Returns the times of the announcements of the VIP, counted by one form of each.
fn announcements(frames: &[Frame]) -> Vec<SystemTime> {
    let request = Arp::gratuitous_request(NODE, VIP, Mac::ZERO);
    frames.iter().filter(|frame| frame.arp() == Some(request)).map(|frame| frame.at).collect()
}

/// Claims the VIP twice a second for a time. Returns the time of the first
/// claim, and the frames that the client received.
fn claimed_for(scene: &Scene, duration: Duration) -> Result<(SystemTime, Vec<Frame>)> {
    let rogue = Wire::open(&scene.rogue, "eth0")?;
    let client = Wire::open(&scene.client, "eth0")?;
    let claim = Arp::gratuitous_reply(ROGUE, VIP, ROGUE).to_bytes();
    let (began, end) = (SystemTime::now(), Instant::now() + duration);
    while Instant::now() < end {
        rogue.send(&claim)?;
        thread::sleep(Duration::from_millis(500));
    }
    Ok((began, client.drain()?))
}

#[test]
fn rfc_5227_2_4_c_a_claim_is_answered_at_once_and_then_once_per_defend_interval() -> Result<()> {
    let scene = Scene::new("defend")?;
    let _agent = scene.agent(&config("always"))?;
    thread::sleep(ROUNDS);
    let (began, heard) = claimed_for(&scene, DEFEND_INTERVAL * 2 + Duration::from_secs(2))?;
    let defences = announcements(&heard);
    assert_eq!(defences.len(), 3, "{defences:?}");
    let first = defences[0].duration_since(began)?;
    assert!(first < Duration::from_millis(500), "answered after {first:?}");
    for pair in defences.windows(2) {
        let pause = pair[1].duration_since(pair[0])?;
        assert!(pause >= DEFEND_INTERVAL, "{pause:?} between two defences");
        assert!(pause < DEFEND_INTERVAL + Duration::from_secs(1), "{pause:?} between two defences");
    }
    Ok(())
}

#[test]
fn a_vip_is_defended_once_a_conflict_or_never_when_the_policy_says_so() -> Result<()> {
    for (policy, expected) in [("once", 1), ("never", 0)] {
        let scene = Scene::new(policy)?;
        let agent = scene.agent(&config(policy))?;
        thread::sleep(ROUNDS);
        let (_, heard) = claimed_for(&scene, DEFEND_INTERVAL + Duration::from_secs(2))?;
        assert_eq!(announcements(&heard).len(), expected, "{policy}");
        assert!(counter(&agent, "claim_conflict")? > 20, "the claims are dropped whatever the policy is");
    }
    Ok(())
}

/// Starts an agent that holds the VIP, and probes its held VIPs every second.
fn asking(scene: &Scene, quiet: &str) -> Result<Agent> {
    scene.agent(&format!(
        "{{vips: [{{address: {VIP}}}], probe: {{repeat: 1s}}, conflicts: {{quiet: {quiet}}}}}"
    ))
}

#[test]
fn a_rival_that_only_answers_by_unicast_is_found_named_and_reported_when_it_is_gone() -> Result<()> {
    let scene = Scene::new("silent")?;
    let mut agent = asking(&scene, "4s")?;
    // The kernel announces no address that is added in this way.
    scene.rogue.add_address("eth0", bound(VIP)?)?;
    agent.wait_for_log(PATIENCE, "the rival", |line| begins(line, "held", VIP, ROGUE))?;
    let status = agent.status()?;
    let offender = &status["offenders"][0];
    assert_eq!(
        (&offender["mac"], &offender["kind"]),
        (&ROGUE.to_string().into(), &"conflict".into()),
        "{status:#}"
    );
    scene.rogue.delete_address("eth0", bound(VIP)?)?;
    agent.wait_for_log(PATIENCE, "the end", |line| ends(line, VIP, "no claims any more"))?;
    let told = conflicts_of(&agent, VIP)?;
    assert_eq!(told.len(), 2, "one conflict: {told:?}");
    Ok(())
}

#[test]
fn several_rivals_that_answer_at_once_are_all_named() -> Result<()> {
    let scene = Scene::new("several")?;
    let mut agent = asking(&scene, "1m")?;
    let macs = [0x41, 0x42, 0x43].map(|last| Mac([2, 0, 0, 0, 0, last]));
    let rivals = macs
        .iter()
        .zip(30..)
        .map(|(mac, last)| {
            let host = scene.lan.host(&format!("rival{last}"), Nic::new(net(last)).mac(*mac))?;
            let responder = Responder::start(&host, "eth0", VIP, *mac)?;
            Ok((host, responder))
        })
        .collect::<Result<Vec<_>>>()?;
    for mac in macs {
        let names =
            |line: &LogLine| line.has("kind", "conflict") && line.has("vip", VIP) && line.has("mac", mac);
        agent.wait_for_log(PATIENCE, &format!("that {mac} answers too"), names)?;
    }
    drop(rivals);
    Ok(())
}

#[test]
fn a_claim_for_a_mac_that_no_host_can_have_is_a_conflict_too() -> Result<()> {
    for (name, mac) in [("zero-mac", Mac::ZERO), ("group-mac", Mac::BROADCAST)] {
        let scene = Scene::new(name)?;
        let mut agent = scene.agent(&config("always"))?;
        let rogue = Wire::open(&scene.rogue, "eth0")?;
        let claim = Arp { eth_src: ROGUE, ..Arp::gratuitous_request(mac, VIP, Mac::ZERO) };
        rogue.send(&claim.to_bytes())?;
        agent
            .wait_for_log(PATIENCE, &format!("the claim of {mac}"), |line| begins(line, "held", VIP, mac))?;
    }
    Ok(())
}

#[test]
fn two_conflicts_at_once_are_two() -> Result<()> {
    let scene = Scene::new("two-conflicts")?;
    let (one, two) = (ip(20), ip(21));
    let mut agent = scene
        .agent(&format!("{{vips: [{{address: {one}}}, {{address: {two}}}], conflicts: {{quiet: 3s}}}}"))?;
    let rogue = Wire::open(&scene.rogue, "eth0")?;
    for vip in [one, two] {
        rogue.send(&Arp::gratuitous_reply(ROGUE, vip, ROGUE).to_bytes())?;
    }
    for vip in [one, two] {
        agent.wait_for_log(PATIENCE, "its beginning", |line| begins(line, "held", vip, ROGUE))?;
        agent.wait_for_log(PATIENCE, "its end", |line| ends(line, vip, "no claims any more"))?;
    }
    Ok(())
}

#[test]
fn a_flood_of_claims_from_ever_new_macs_costs_a_few_lines_and_changes_no_cache() -> Result<()> {
    const CLAIMS: u32 = 30_000;
    let scene = Scene::new("storm")?;
    let mut agent = asking(&scene, "1m")?;
    let before = agent.resident_bytes()?;
    let rogue = Wire::open(&scene.rogue, "eth0")?;
    for number in 0..CLAIMS {
        let claim = Arp { eth_src: ROGUE, ..Arp::gratuitous_request(forged(number), VIP, Mac::ZERO) };
        rogue.send(&claim.to_bytes())?;
    }
    wait_until_heard(&rogue, ip(2))?;
    assert_eq!(counter(&agent, "claim_conflict")?, u64::from(CLAIMS));
    agent.wait_for_log(PATIENCE, "the conflict", |line| line.has("kind", "conflict"))?;
    thread::sleep(Duration::from_secs(2));
    let lines = conflicts_of(&agent, VIP)?.len();
    assert!(lines <= 17, "{lines} lines, of which one is the beginning and each of 15 a MAC");
    let grown = agent.resident_bytes()?.saturating_sub(before);
    assert!(grown < 8 << 20, "the agent has grown by {grown} bytes");
    scene.client.flush_neighbours("eth0")?;
    assert_eq!(scene.client.resolve(VIP)?, NODE, "and it is answered as ever");
    Ok(())
}
