//! A rogue forges claims on a held VIP. Where a client's datagrams arrive shows which host its
//! kernel believes, moment by moment.

use std::net::{IpAddr, SocketAddr};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use vipward_tests::{
    agent::{
        Agent, NODE, PATIENCE, ROGUE, Scene, VIP, counter, ip, net, wait_until_received, wait_until_running,
    },
    frames::{
        Arp, Family, Mac, Message,
        nd::{Nd, SOLICITATION},
    },
    kit::wait_until,
    lan::{Nic, Wire},
    measure::{Datagrams, Received, bind_locally},
};

/// Most datagrams that may go elsewhere than to the holder, of a hundred.
const MOST_PERCENT: usize = 5;
/// MAC of a second host that holds the VIP.
const OTHER: Mac = Mac([2, 0, 0, 0, 0, 4]);

/// Returns a configuration in which nothing but a defence announces the VIP after the first rounds,
/// and the node's kernel receives the VIP's datagrams.
fn config(vip: IpAddr, defend: &str) -> String {
    format!(
        "{{vips: [{{address: '{vip}', bind: lo}}], conflicts: {{defend: {defend}}}, \
         announce: {{refresh: 10m}}, probe: {{count: 0, repeat: 0s}}}}"
    )
}

/// Starts the agent and waits until it has announced the VIP for the last time. The rogue's kernel
/// receives the VIP's datagrams too, and answers no request for it.
fn scene(family: Family, name: &str, defend: &str) -> Result<(Scene, Agent)> {
    const ROUNDS: Duration = Duration::from_secs(6);

    let scene = Scene::new_in(family, name)?;
    scene.node.set_sysctl("net/ipv4/conf/all/arp_announce", "2")?;
    scene.rogue.set_sysctl("net/ipv4/conf/all/arp_ignore", "8")?;
    bind_locally(&scene.rogue, family.vip())?;
    let agent = scene.agent(&config(family.vip(), defend))?;
    thread::sleep(ROUNDS);
    Ok((scene, agent))
}

/// Claims the VIP by broadcast so often, for a while. Returns how many of a hundred of the client's
/// datagrams did not arrive at the node.
fn percent_elsewhere(scene: &Scene, claim: &Message, every: Duration, claims: u32) -> Result<usize> {
    let vip = claimed(claim);
    let rogue = Wire::open(&scene.rogue, "eth0")?;
    scene.client.flush_neighbours("eth0")?;
    let target = SocketAddr::from((vip, 4_000));
    let datagrams = Datagrams::start(&scene.client, target, &[&scene.node, &scene.rogue])?;
    datagrams.wait_until_received_by("node", PATIENCE)?;
    let first = datagrams.sent();
    for _ in 0..claims {
        let next = Instant::now() + every;
        rogue.send(&claim.to_bytes())?;
        thread::sleep(next.saturating_duration_since(Instant::now()));
    }
    let report = datagrams.stop()?;
    let at_node = |received: &&Received| received.number >= first && received.node == "node";
    let (sent, arrived) = (report.sent.len() - first, report.received.iter().filter(at_node).count());
    Ok(100 * sent.saturating_sub(arrived) / sent)
}

/// Returns the address that a forged claim is about.
fn claimed(claim: &Message) -> IpAddr {
    match claim {
        Message::Arp(arp) => arp.spa.into(),
        Message::Nd(nd) if nd.kind == SOLICITATION => nd.source.into(),
        Message::Nd(nd) => nd.target.into(),
    }
}

/// Returns forged claims of each kind, which Linux believes also within the second after a change.
fn claims(family: Family) -> Vec<(&'static str, Message)> {
    let IpAddr::V6(vip) = family.vip() else {
        return vec![
            ("request", Arp::gratuitous_request(ROGUE, VIP, Mac::ZERO).into()),
            ("reply", Arp::gratuitous_reply(ROGUE, VIP, ROGUE).into()),
        ];
    };
    let IpAddr::V6(client) = family.ip(1) else { unreachable!("invariant: the family is IPv6") };
    vec![
        ("advertisement", Nd::announcement(ROGUE, vip).into()),
        // Sends the client a request in the VIP's name.
        ("solicitation", Nd::solicitation(ROGUE, vip, client).into()),
    ]
}

fn assert_the_client_stays(family: Family, scene: &Scene) -> Result<()> {
    for (kind, claim) in claims(family) {
        for (every, count) in [(Duration::from_secs(1), 8), (Duration::from_millis(100), 40)] {
            let percent = percent_elsewhere(scene, &claim, every, count)?;
            assert!(percent <= MOST_PERCENT, "{percent} % went elsewhere: a {kind} every {every:?}");
        }
    }
    Ok(())
}

#[test]
fn a_client_stays_with_the_holder_while_a_rogue_claims_the_vip() -> Result<()> {
    for family in Family::BOTH {
        let (scene, agent) = scene(family, "forged", "match")?;
        assert_the_client_stays(family, &scene)?;
        let (dropped, defended) =
            (counter(&agent, "claim_conflict")?, agent.status()?["claims_defended"].clone());
        assert_eq!(defended, dropped, "each claim is met");
        let status = agent.status()?;
        let offender = &status["offenders"][0];
        assert_eq!(
            (&offender["mac"], &offender["address"]),
            (&ROGUE.to_string().into(), &family.vip().to_string().into()),
            "{status:#}"
        );
    }
    Ok(())
}

#[test]
fn a_client_stays_with_the_holder_while_a_rogue_claims_the_vip_and_no_agent_runs() -> Result<()> {
    for family in Family::BOTH {
        let (scene, mut agent) = scene(family, "forged-dead", "match")?;
        agent.kill9()?;
        assert_the_client_stays(family, &scene)?;
        let status = agent.status()?;
        assert_eq!(status["lease_deadline"]["state"], "grace period");
        assert_eq!(status["claims_defended"], status["counters"]["claim_conflict"], "each claim is met");
    }
    Ok(())
}

#[test]
fn a_client_goes_to_the_rogue_when_the_program_only_drops_the_claims() -> Result<()> {
    for family in Family::BOTH {
        let (scene, agent) = scene(family, "forged-always", "always")?;
        // An IPv6 client counts such an entry as stale, and solicits after 5 s at the latest.
        scene.client.set_sysctl(&family.neighbour_sysctl("eth0", "delay_first_probe_time"), "60")?;
        for (kind, claim) in claims(family) {
            let percent = percent_elsewhere(&scene, &claim, Duration::from_secs(1), 6)?;
            assert!(percent > 50, "{percent} % went elsewhere: a {kind} a second");
        }
        assert_eq!(agent.status()?["claims_defended"], 0);
    }
    Ok(())
}

#[test]
fn a_client_stays_with_the_holder_while_a_rogue_claims_the_vip_in_a_peers_name() -> Result<()> {
    let scene = Scene::new("forged-peer")?;
    let peer = Mac([2, 0, 0, 0, 0, 0x0a]);
    let held = format!("vips: [{{address: {VIP}, bind: lo}}], probe: {{count: 0}}, peers: ['{peer}']");
    let _agent = scene.agent(&format!("{{{held}}}"))?;
    scene.node.set_sysctl("net/ipv4/conf/all/arp_announce", "2")?;
    let rogue = Wire::open(&scene.rogue, "eth0")?;
    scene.client.flush_neighbours("eth0")?;
    let datagrams = Datagrams::start(&scene.client, (VIP, 4_000), &[&scene.node])?;
    datagrams.wait_until_received(PATIENCE)?;
    let sent = datagrams.sent();
    for _ in 0..20 {
        for eth_src in [ROGUE, peer] {
            let claim = Arp { eth_src, ..Arp::gratuitous_reply(peer, VIP, peer) };
            rogue.send(&claim.to_bytes())?;
        }
        thread::sleep(Duration::from_millis(200));
    }
    let report = datagrams.stop()?;
    let lost = report.lost().iter().filter(|number| **number >= sent).count();
    let sent = report.sent.len() - sent;
    assert!(lost * 100 <= sent * MOST_PERCENT, "{lost} of {sent} went to the peer");
    Ok(())
}

#[test]
fn two_hosts_that_defend_one_vip_against_each_other_stop_after_ten_announcements() -> Result<()> {
    const LATER: Duration = Duration::from_secs(8);

    let (scene, _agent) = scene(Family::V4, "two-defend", "match")?;
    let other = scene.lan.host("other", Nic::new(net(4)).mac(OTHER))?;
    let client = Wire::open(&scene.client, "eth0")?;
    let _other = scene.agent_on(&other, &config(VIP.into(), "match"))?;
    // The other's first announcements, six rounds of them, are met by defences, and those by others.
    thread::sleep(LATER);
    let received = client.drain()?;
    let by = |mac| {
        let announcement = Arp::gratuitous_request(mac, VIP, Mac::ZERO);
        received.iter().filter(|frame| frame.arp() == Some(announcement)).count()
    };
    for mac in [NODE, OTHER] {
        let count = by(mac);
        assert!(count >= 10, "{mac} has announced the VIP {count} times: it defends it");
        assert!(count <= 40, "{mac} has announced the VIP {count} times in {LATER:?}");
    }
    let before = by(NODE) + by(OTHER);
    assert!(before <= 60, "{before} announcements");
    thread::sleep(Duration::from_millis(500));
    let rest = client.drain()?.len();
    assert!(rest <= 4, "{rest} frames half a second later: they have stopped");
    Ok(())
}

/// Claims the VIP once. Returns true if the program defends it.
fn is_defended(agent: &Agent, rogue: &Wire) -> Result<bool> {
    let defended = || -> Result<Option<u64>> { Ok(agent.status()?["claims_defended"].as_u64()) };
    let before = defended()?;
    rogue.send(&Arp::gratuitous_reply(ROGUE, VIP, ROGUE).to_bytes())?;
    wait_until_received(rogue, ip(2))?;
    Ok(defended()? > before)
}

#[test]
fn the_program_defends_as_the_file_says_now_and_as_a_restarted_agent_says() -> Result<()> {
    let scene = Scene::new("defend-switch")?;
    let mut agent = scene.agent(&config(VIP.into(), "never"))?;
    let rogue = Wire::open(&scene.rogue, "eth0")?;
    assert!(!is_defended(&agent, &rogue)?, "never");
    agent.write_config(&config(VIP.into(), "match"))?;
    wait_until(PATIENCE, "a defence", || is_defended(&agent, &rogue))?;
    agent.kill9()?;
    agent.write_config(&config(VIP.into(), "once"))?;
    assert!(is_defended(&agent, &rogue)?, "without an agent");
    let seen = agent.logs()?.len();
    agent.restart()?;
    wait_until_running(&mut agent, seen)?;
    assert!(!is_defended(&agent, &rogue)?, "once");
    Ok(())
}
