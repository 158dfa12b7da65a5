//! The announcements of a taken VIP, as a client receives them: their form and
//! times, and that they are true when they arrive.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::ops::Range;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result};
use bytemuck::bytes_of;
use ipnet::{IpNet, Ipv4Net};
use vipward_common::{Defence, LeaseDeadline, Policy};
use vipward_tests::{
    agent::{
        Agent, AgentOptions, NODE, PATIENCE, ROGUE, Scene, VIP, answers_to, belief, clients_request, ip,
        overwrite, vip_status,
    },
    frames::{
        Arp, Mac, Message,
        nd::{ADVERTISEMENT, ALL_NODES, ALL_ROUTERS, NONCE, SOLICITATION, SOURCE_MAC, TARGET_MAC},
    },
    kit::{output_of, wait_until},
    lan::{Frame, Wire},
};

/// Number of rounds after a VIP was taken, the first one included.
const ROUNDS: usize = 6;
/// Time between two rounds: 1.1 s, less the possible delay of the
/// first. It stays above Linux's lock time of 1 s.
const ROUND_GAP: Range<Duration> = Duration::from_millis(1_050)..Duration::from_millis(2_100);
/// Time between two refreshes of 2 s, a tenth more or less, with the same allowance.
const REFRESH_GAP: Range<Duration> = Duration::from_millis(1_750)..Duration::from_millis(3_200);

/// An announcement in both forms, as a client received it.
#[derive(Debug)]
struct Round {
    at: SystemTime,
    vip: Ipv4Addr,
    mac: Mac,
}

/// Returns the next announcement, checked byte by byte. Returns
/// `None` if none begins before `deadline`.
fn next_round(wire: &Wire, deadline: Instant) -> Result<Option<Round>> {
    let Some(first) = next_gratuitous(wire, deadline)? else { return Ok(None) };
    let Arp { sha: mac, spa: vip, .. } = first.arp().context("invariant: it is gratuitous ARP")?;
    assert_eq!(first.bytes, Arp::gratuitous_request(mac, vip, Mac::ZERO).to_bytes(), "the request form");
    let second = next_gratuitous(wire, Instant::now() + PATIENCE)?.context("the reply form is missing")?;
    assert_eq!(second.bytes, Arp::gratuitous_reply(mac, vip, mac).to_bytes(), "the reply form");
    Ok(Some(Round { at: first.at, vip, mac }))
}

fn next_gratuitous(wire: &Wire, deadline: Instant) -> Result<Option<Frame>> {
    while let Some(frame) = wire.receive(deadline)? {
        if frame.arp().is_some_and(|arp| arp.is_gratuitous()) {
            return Ok(Some(frame));
        }
    }
    Ok(None)
}

/// Returns the next announcement, which must come.
fn expect_round(wire: &Wire) -> Result<Round> {
    next_round(wire, Instant::now() + PATIENCE)?.context("waited in vain for an announcement")
}

/// Fails if an announcement comes within a time in which two
/// rounds, or a refresh of 2 s, would come.
fn assert_nothing_is_announced(wire: &Wire, why: &str) -> Result<()> {
    wire.drain()?;
    let received = next_gratuitous(wire, Instant::now() + Duration::from_millis(2_600))?;
    assert_eq!(received.and_then(|frame| frame.arp()), None, "{why}");
    Ok(())
}

#[test]
fn a_vip_is_announced_at_once_then_five_times_more_and_then_refreshed() -> Result<()> {
    let scene = Scene::new("schedule")?;
    let wire = Wire::open(&scene.client, "eth0")?;
    let config = format!("{{vips: [{{address: {VIP}}}], announce: {{refresh: 2s}}}}");
    let _agent = scene.agent(&config)?;
    let running = SystemTime::now();

    let rounds = (0..ROUNDS + 4).map(|_| expect_round(&wire)).collect::<Result<Vec<_>>>()?;
    assert!(rounds.iter().all(|round| (round.vip, round.mac) == (VIP, NODE)), "{rounds:?}");
    assert!(
        rounds[0].at <= running,
        "the first one leaves with the taking, before the agent says that it runs"
    );
    let gaps = rounds.windows(2).map(|pair| Ok(pair[1].at.duration_since(pair[0].at)?));
    let gaps = gaps.collect::<Result<Vec<_>>>()?;
    let (taking, refreshing) = gaps.split_at(ROUNDS - 1);
    assert!(taking.iter().all(|gap| ROUND_GAP.contains(gap)), "{taking:?}");
    assert!(refreshing.iter().all(|gap| REFRESH_GAP.contains(gap)), "{refreshing:?}");
    let spread = refreshing.iter().map(|gap| gap.abs_diff(refreshing[0])).max();
    assert!(spread > Some(Duration::from_millis(2)), "refreshes are not jittered: {refreshing:?}");
    Ok(())
}

/// Kind, source, destination and type of the only option of a message of Neighbour Discovery.
type Form = (u8, Ipv6Addr, Ipv6Addr, u8);

/// Returns the messages of a host's MAC about an address, until there are `count` of them.
fn messages_of(wire: &Wire, mac: Mac, about: Ipv6Addr, count: usize) -> Result<Vec<(SystemTime, Form)>> {
    let deadline = Instant::now() + PATIENCE;
    let mut messages = Vec::new();
    while messages.len() < count {
        let frame = wire.receive(deadline)?.with_context(|| format!("only {messages:?}"))?;
        if let Some(Message::Nd(nd)) = frame.message().filter(|message| message.eth_src() == mac)
            && nd.target == about
            && let [(option, _)] = nd.options[..]
        {
            messages.push((frame.at, (nd.kind, nd.source, nd.destination, option)));
        }
    }
    Ok(messages)
}

#[test]
fn an_ipv6_vip_is_probed_for_and_announced_to_all_nodes_and_routers_three_times() -> Result<()> {
    const VIP_6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0x10);
    const NOBODY: Ipv6Addr = Ipv6Addr::UNSPECIFIED;
    let scene = Scene::new("six")?;
    for (host, last) in [(&scene.client, 1), (&scene.node, 2)] {
        host.add_address("eth0", format!("2001:db8::{last}/64").parse::<IpNet>()?)?;
    }
    let ip = |args: &[&str]| {
        let mut command = scene.client.command("ip");
        command.arg("-6").args(args);
        output_of(command)
    };
    let wrong = "2001:db8::10 lladdr 02:00:00:00:00:66 dev eth0 nud reachable";
    ip(&[&["neighbour", "replace"][..], &wrong.split(' ').collect::<Vec<_>>()].concat())?;
    let wire = Wire::open_all(&scene.client, "eth0")?;
    let _agent = scene.agent("{vips: [{address: '2001:db8::10'}], probe: {repeat: 10s}}")?;

    let group = "ff02::1:ff00:10".parse()?;
    let probe = (SOLICITATION, NOBODY, group, NONCE);
    let round = [ALL_NODES, ALL_ROUTERS].map(|group| (ADVERTISEMENT, VIP_6, group, TARGET_MAC));
    // Three probes find the address free, and one follows the first announcement.
    let expected = [&[probe; 3][..], &round, &[probe], &round, &round].concat();
    let received = messages_of(&wire, NODE, VIP_6, expected.len())?;
    let (times, messages): (Vec<_>, Vec<_>) = received.into_iter().unzip();
    assert_eq!(messages, expected);
    for (first, second) in [(3, 6), (6, 8)] {
        assert!(ROUND_GAP.contains(&times[second].duration_since(times[first])?), "{times:?}");
    }
    let belief = ip(&["neighbour", "show", "2001:db8::10", "dev", "eth0"])?;
    assert!(belief.contains(&NODE.to_string()), "{belief}");

    // The agent requests a held VIP as a client does: a rival answers to the node alone.
    let (_, (kind, source, destination, option)) = messages_of(&wire, NODE, VIP_6, 1)?.remove(0);
    assert_eq!((kind, destination, option), (SOLICITATION, group, SOURCE_MAC));
    assert!(source.is_unicast_link_local(), "{source}");
    Ok(())
}

#[test]
fn a_client_inside_the_lock_time_switches_at_the_first_announcement() -> Result<()> {
    let scene = Scene::new("switch")?;
    let client = &scene.client;
    // The unit is a hundredth of a second. The lock lasts far longer than the test, so only frames
    // that override it move the entry.
    client.set_sysctl("net/ipv4/neigh/eth0/locktime", "6000")?;
    let vip = Ipv4Net::new(VIP, 32)?;
    scene.rogue.add_address("eth0", vip)?;
    assert_eq!(client.resolve(VIP)?, ROGUE);
    scene.rogue.delete_address("eth0", vip)?;
    let wire = Wire::open(client, "eth0")?;

    // Frames of other hosts are not enough.
    let far = Wire::open(&scene.rogue, "eth0")?;
    far.send(&Arp::gratuitous_reply(Mac::local(0x66), VIP, Mac::BROADCAST).to_bytes())?;
    assert_eq!(answers_to(&far, &Arp::probe(ROGUE, ip(1)), ip(1))?.len(), 1);
    assert_eq!(belief(client, VIP)?, Some(ROGUE), "a reply with tha broadcast is ignored");

    wire.drain()?;
    let options = AgentOptions::new(scene.bpffs.pin_dir("node"));
    let _agent = Agent::start(&scene.node, &format!("vips: [{{address: {VIP}}}]"), options)?;
    wait_until(PATIENCE, "the client to believe in the node", || Ok(belief(client, VIP)? == Some(NODE)))?;
    let is_about = |arp: &Arp| arp.spa == VIP;
    let received: Vec<_> = wire.drain()?.iter().filter_map(Frame::arp).filter(is_about).collect();
    assert_eq!(received.first(), Some(&Arp::gratuitous_request(NODE, VIP, Mac::ZERO)));
    assert!(received.len() <= 2, "one round was enough: {received:?}");
    Ok(())
}

#[test]
fn nothing_is_announced_while_the_vip_is_not_held_or_the_lease_deadline_has_passed() -> Result<()> {
    let scene = Scene::new("checked")?;
    let wire = Wire::open(&scene.client, "eth0")?;
    // No heartbeat comes while the test changes the maps.
    let config = format!(
        "{{vips: [{{address: {VIP}}}], fence: {{duration: 300s, heartbeat: 100s}}, announce: {{refresh: 2s}}}}"
    );
    let agent = scene.agent(&config)?;
    expect_round(&wire)?;
    let mut lease_deadline = LeaseDeadline {
        deadline_ns: 0,
        grace_until_ns: 0,
        yields_settled: 0,
        session: 0,
        notices_settled: 0,
        policy: Policy::Hold,
        defence: Defence::Match,
    };
    overwrite(&agent, "lease_deadline", &[0; 4], bytes_of(&lease_deadline))?;
    assert_nothing_is_announced(&wire, "the lease deadline has passed")?;
    // The grace period lasts for ever: the program answers on, and nothing is announced.
    lease_deadline.grace_until_ns = u64::MAX;
    overwrite(&agent, "lease_deadline", &[0; 4], bytes_of(&lease_deadline))?;
    assert_nothing_is_announced(&wire, "the grace period")?;
    assert_eq!(answers_to(&wire, &clients_request(VIP), ip(2))?.len(), 1, "grace period");
    // The lease deadline never passes, and the rounds continue. Then the entry is removed.
    lease_deadline.deadline_ns = u64::MAX;
    overwrite(&agent, "lease_deadline", &[0; 4], bytes_of(&lease_deadline))?;
    assert_eq!(expect_round(&wire)?.mac, NODE);
    let mut key = [0; 8];
    key[..4].copy_from_slice(&scene.node.link("eth0")?.index.to_ne_bytes());
    key[4..].copy_from_slice(&VIP.octets());
    overwrite(&agent, "vips_v4", &key, &[0; 24])?;
    assert_eq!(vip_status(&agent, VIP, "eth0")?["role"], "foreign");
    assert_nothing_is_announced(&wire, "the entry is foreign")
}
