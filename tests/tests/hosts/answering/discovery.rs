//! Cases that only neighbour discovery has: hosts that look for duplicates, optimistic ones, addresses with
//! several spellings, and nodes without an address of IPv6.

use std::net::{IpAddr, Ipv6Addr};

use anyhow::{Context, Result};
use vipward_tests::{
    agent::{Agent, LogLine, NODE, PATIENCE, ROGUE, Scene, counter, send_datagram, vip_status},
    frames::{
        Family, Message,
        nd::{NONCE, Nd},
    },
    kit::{output_of, wait_until},
    lan::{Host, NeighbourState, Wire},
};

use super::{held, wait_out_the_rounds};

const SIX: Family = Family::V6;

/// Runs `ip -6` on a host.
fn ip_6(host: &Host, args: &str) -> Result<String> {
    let mut ip = host.command("ip");
    ip.arg("-6").args(args.split(' '));
    output_of(ip)
}

/// Makes a kernel look for duplicates, which the hosts of the tests do not otherwise.
fn looks_for_duplicates(host: &Host) -> Result<()> {
    host.set_sysctl("net/ipv6/conf/eth0/accept_dad", "1")?;
    host.set_sysctl("net/ipv6/conf/eth0/dad_transmits", "1")
}

#[test]
fn a_host_that_wants_the_vip_for_itself_sees_that_it_is_in_use() -> Result<()> {
    // An optimistic host (RFC 4429) uses the address during detection, and solicits without its MAC.
    for optimistic in ["0", "1"] {
        let scene = Scene::new_in(SIX, "dad")?;
        let agent = scene.agent(&held(SIX))?;
        looks_for_duplicates(&scene.rogue)?;
        scene.rogue.set_sysctl("net/ipv6/conf/eth0/optimistic_dad", optimistic)?;
        scene.rogue.set_sysctl("net/ipv6/conf/eth0/use_optimistic", optimistic)?;
        ip_6(&scene.rogue, "address add 2001:db8::10/64 dev eth0")?;
        wait_until(PATIENCE, "the rogue to see the duplicate", || {
            Ok(ip_6(&scene.rogue, "address show dev eth0")?.contains("dadfailed"))
        })?;
        assert_eq!(scene.client.resolve(SIX.vip())?, NODE, "optimistic: {optimistic}");
        assert_eq!(counter(&agent, "claim_conflict")?, 0, "a question is no claim");
    }
    Ok(())
}

#[test]
fn a_host_that_looks_for_a_duplicate_of_a_vip_elsewhere_is_not_answered_by_a_kernel_that_has_it() -> Result<()>
{
    let scene = Scene::new_in(SIX, "dad-foreign")?;
    scene.node.add_address("eth0", ipnet::IpNet::from(SIX.vip()))?;
    let _agent = scene.agent(&format!("vips: [{{address: '{}', mac: '{ROGUE}'}}]", SIX.vip()))?;
    looks_for_duplicates(&scene.client)?;
    ip_6(&scene.client, "address add 2001:db8::10/64 dev eth0")?;
    wait_until(PATIENCE, "the client to have the address", || {
        let shown = ip_6(&scene.client, "address show dev eth0")?;
        assert!(!shown.contains("dadfailed"), "{shown}");
        Ok(shown.contains("2001:db8::10/64") && !shown.contains("tentative"))
    })
}

#[test]
fn a_neighbour_stays_reachable_while_it_is_used() -> Result<()> {
    let scene = Scene::new_in(SIX, "reachable")?;
    let agent = scene.agent("vips: [{address: '2001:db8::10', bind: lo}]")?;
    // Half to three halves of it, in milliseconds; then a unicast question each time.
    scene.client.set_sysctl("net/ipv6/neigh/eth0/base_reachable_time_ms", "1000")?;
    scene.client.set_sysctl("net/ipv6/neigh/eth0/delay_first_probe_time", "1")?;
    scene.client.flush_neighbours("eth0")?;
    let before = counter(&agent, "answered")?;
    wait_until(PATIENCE, "the kernel to ask again, twice", || {
        // Unlike ping, this confirms nothing.
        send_datagram(&scene.client, SIX.ip(1), SIX.vip())?;
        let entry = scene.client.neighbour("eth0", SIX.vip())?;
        assert!(entry.is_none_or(|entry| entry.mac.is_none_or(|mac| mac == NODE)), "it is at another MAC");
        Ok(counter(&agent, "answered")? >= before + 3)
    })?;
    wait_until(PATIENCE, "the entry to be valid again", || {
        let entry = scene.client.neighbour("eth0", SIX.vip())?;
        Ok(entry.is_some_and(|entry| entry.state == NeighbourState::Reachable))
    })
}

/// RFC 7527: a network that sends a host's probe back to it has no rival.
#[test]
fn a_probe_that_comes_back_is_no_rival() -> Result<()> {
    let scene = Scene::new_in(SIX, "loop")?;
    let wire = Wire::open_in(&scene.client, "eth0", SIX)?;
    let options = vipward_tests::agent::AgentOptions::new(scene.bpffs.pin_dir("node"));
    let config = "{vips: [{address: '2001:db8::10'}], probe: {count: 3, interval: 1s}}";
    let mut agent = Agent::start(&scene.node, config, options)?;
    // The client reflects every probe of the agent, unchanged.
    for number in 0..3 {
        let probe = wire.expect(PATIENCE, "a probe", |message| is_probe_of_node(message, SIX.vip()))?;
        let Message::Nd(nd) = &probe else { unreachable!("invariant: it is about an IPv6 address") };
        assert!(nd.options.iter().any(|(kind, _)| *kind == NONCE), "{probe}");
        wire.send(&probe.to_bytes()).with_context(|| format!("reflection {number}"))?;
    }
    let over = |line: &LogLine| line.message() == "addresses have been probed";
    agent.wait_for_log(PATIENCE, "that the address is free", over)?;
    assert_eq!(vip_status(&agent, SIX.vip(), "eth0")?["role"], "held", "{}", agent.transcript());

    // A probe of the takeover, or a later one, comes back as well.
    wire.send(&Nd::probe(NODE, vip(), Some([1; 6])).to_bytes())?;
    wait_out_the_rounds(SIX, &wire)?;
    assert_eq!(counter(&agent, "claim_conflict")?, 0);
    let notified: Vec<_> = agent.logs()?.into_iter().filter(|line| line.level() == "WARN").collect();
    assert_eq!(notified, [], "{}", agent.transcript());
    Ok(())
}

fn vip() -> Ipv6Addr {
    Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0x10)
}

fn is_probe_of_node(message: &Message, vip: IpAddr) -> bool {
    let Message::Nd(nd) = message else { return false };
    message.asks_for() == Some(vip) && nd.source.is_unspecified() && nd.eth_src == NODE
}
