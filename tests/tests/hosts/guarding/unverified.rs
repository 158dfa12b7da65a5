//! Claims that Linux believes and the program cannot verify: they move no VIP, in any mode, and prove
//! nothing about their sender.

use std::net::{IpAddr, Ipv6Addr};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use vipward_tests::{
    agent::{CLIENT, PATIENCE, Pair, belief, counter, ip, wait_until_received},
    frames::{
        Arp, Family, Mac, OddArp,
        nd::{Nd, TARGET_MAC},
    },
    kit::wait_until,
    lan::{GuestWire, NeighbourState, Wire},
};

use super::FORGED;

/// `EtherType` of a customer tag, and a tag of VLAN 0.
const PRIORITY: (u16, u16) = (0x8100, 0xe000);
/// The message begins here in an untagged frame.
const MESSAGE: usize = 54;
/// Types of extension headers.
const HOP_BY_HOP: u8 = 0;
const DESTINATION: u8 = 60;

/// Client's ways to send a frame.
struct Attacker {
    wire: Wire,
    guest: GuestWire,
}

/// An attack: its name, the family of the VIP, and its step to win this address.
type Attack = (&'static str, Family, fn(&Attacker, IpAddr) -> Result<()>);

const ATTACKS: &[Attack] = &[
    ("a checksum that the sender left unfinished", Family::V6, |attacker, vip| {
        let mut frame = claim(vip)?;
        frame[56..58].copy_from_slice(&[0xde, 0xad]);
        attacker.guest.send_unfinished(&frame, MESSAGE, 2)
    }),
    ("an unfinished checksum elsewhere", Family::V6, |attacker, vip| {
        let mut frame = claim(vip)?;
        frame[56..58].copy_from_slice(&[0xde, 0xad]);
        attacker.guest.send_unfinished(&frame, MESSAGE + 8, 4)
    }),
    ("a message of 6,152 bytes", Family::V6, |attacker, vip| attacker.wire.send(&long_claim(vip)?)),
    ("hop-by-hop options", Family::V6, |attacker, vip| attacker.wire.send(&behind(&[HOP_BY_HOP], vip)?)),
    ("destination options", Family::V6, |attacker, vip| attacker.wire.send(&behind(&[DESTINATION], vip)?)),
    ("a chain of options", Family::V6, |attacker, vip| {
        attacker.wire.send(&behind(&[HOP_BY_HOP, DESTINATION, DESTINATION], vip)?)
    }),
    ("a chain of eight options", Family::V6, |attacker, vip| {
        attacker.wire.send(&behind(&[DESTINATION; 8], vip)?)
    }),
    ("three tags of VLAN 0", Family::V6, |attacker, vip| {
        let mut frame = claim(vip)?;
        frame.splice(
            12..12,
            [PRIORITY; 3].iter().flat_map(|(kind, tci)| [*kind, *tci]).flat_map(u16::to_be_bytes),
        );
        attacker.wire.send(&frame)
    }),
    ("three tags of VLAN 0, ARP", Family::V4, |attacker, vip| {
        let IpAddr::V4(vip) = vip else { anyhow::bail!("{vip} is not of IPv4") };
        let claim = Arp::gratuitous_request(FORGED, vip, Mac::ZERO);
        attacker.wire.send(&OddArp { tags: vec![PRIORITY; 3], ..claim.into() }.to_bytes())
    }),
];

fn v6(vip: IpAddr) -> Result<Ipv6Addr> {
    let IpAddr::V6(vip) = vip else { anyhow::bail!("{vip} is not of IPv6") };
    Ok(vip)
}

/// Returns the advertisement of a VIP to all nodes.
fn claim(vip: IpAddr) -> Result<Vec<u8>> {
    Ok(Nd::announcement(FORGED, v6(vip)?).to_bytes())
}

/// Returns a claim with options that fill more than the first buffer, before the one that counts.
fn long_claim(vip: IpAddr) -> Result<Vec<u8>> {
    let mut claim = Nd::announcement(FORGED, v6(vip)?);
    let other = (200, [0; 6]);
    claim.options = [vec![other; 765], vec![(TARGET_MAC, FORGED.0)]].concat();
    Ok(claim.to_bytes())
}

/// Returns a claim behind extension headers of eight bytes, which contain padding alone.
fn behind(kinds: &[u8], vip: IpAddr) -> Result<Vec<u8>> {
    let mut frame = claim(vip)?;
    for kind in kinds.iter().rev() {
        let next = std::mem::replace(&mut frame[20], *kind);
        frame.splice(MESSAGE..MESSAGE, [next, 0, 1, 4, 0, 0, 0, 0]);
        frame[19] += 8;
    }
    Ok(frame)
}

/// Returns the guarded and the held VIP of an attack.
fn vips_of(attack: usize) -> Result<[IpAddr; 2]> {
    let (_, family, _) = ATTACKS[attack];
    let last = u8::try_from(attack)?;
    Ok([family.ip(20 + last), family.ip(60 + last)])
}

/// Returns the node's MAC for a VIP after an attack on a valid entry.
fn belief_after(pair: &Pair, attacker: &Attacker, attack: usize, vip: IpAddr) -> Result<Option<Mac>> {
    let (what, _, attack) = ATTACKS[attack];
    pair.node.set_neighbour("eth0", vip, CLIENT, NeighbourState::Reachable)?;
    // This is at least one tick of the kernel's clock, so that the entry is old.
    thread::sleep(Duration::from_millis(20));
    attack(attacker, vip).context(what)?;
    wait_until_received(&attacker.wire, ip(2))?;
    belief(&pair.node, vip)
}

/// Makes all attacks without and then with an agent in this mode.
fn withstands(mode: &str) -> Result<()> {
    let mut pair = Pair::new_in(Family::V6)?;
    // Its program takes no frames of several buffers, and the node's kernel answers every request.
    pair.pass = None;
    for host in [&pair.client, &pair.node] {
        // A process that another test is starting holds the program's link until it executes.
        let grows = || Ok(host.namespace().set_mtu("eth0", 9_000).is_ok());
        wait_until(PATIENCE, "frames of 9000 bytes to be possible", grows)?;
    }
    // Without a lock time every effective claim takes effect.
    pair.node.set_sysctl("net/ipv4/neigh/eth0/locktime", "0")?;
    let attacker =
        Attacker { wire: Wire::open(&pair.client, "eth0")?, guest: GuestWire::open(&pair.client, "eth0")? };
    for (attack, (what, ..)) in ATTACKS.iter().enumerate() {
        for vip in vips_of(attack)? {
            let believed = belief_after(&pair, &attacker, attack, vip)?;
            assert_eq!(believed, Some(FORGED), "{what} on {vip}: it must succeed without the agent");
        }
    }

    let mut entries = Vec::new();
    for attack in 0..ATTACKS.len() {
        let [guarded, held] = vips_of(attack)?;
        entries.push(format!("{{address: '{guarded}', mac: '{CLIENT}'}}, {{address: '{held}'}}"));
    }
    let agent = pair.agent(&format!("attach: {mode}\nvips: [{}]", entries.join(", ")))?;
    let mut dropped = 0;
    for (attack, (what, ..)) in ATTACKS.iter().enumerate() {
        for vip in vips_of(attack)? {
            let believed = belief_after(&pair, &attacker, attack, vip)?;
            assert_eq!(believed, Some(CLIENT), "{mode}: {what} on {vip}");
            // Traffic control reads the whole message, and so names who sent it.
            dropped += u64::from(!(mode == "tc" && what.contains("6,152")));
            assert_eq!(counter(&agent, "unverified")?, dropped, "{mode}: {what} on {vip}");
        }
    }
    let reported = agent.logs()?.iter().filter(|line| line.has("kind", "conflict")).count();
    ensure!(reported == if mode == "tc" { 2 } else { 0 }, "{mode}: {}", agent.transcript());
    Ok(())
}

#[test]
fn no_claim_that_cannot_be_verified_moves_a_vip_in_native_mode() -> Result<()> {
    withstands("native")
}

#[test]
fn no_claim_that_cannot_be_verified_moves_a_vip_in_generic_mode() -> Result<()> {
    withstands("generic")
}

#[test]
fn no_claim_that_cannot_be_verified_moves_a_vip_in_traffic_control() -> Result<()> {
    withstands("tc")
}
