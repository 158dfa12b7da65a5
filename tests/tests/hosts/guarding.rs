//! No host on the segment can move a VIP in the neighbour table of the
//! agent's host, and every attacker is named.
//!
//! Every attack runs first without the agent, where it must succeed.

mod unverified;

use std::fmt;
use std::net::IpAddr;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use ipnet::{IpNet, Ipv4Net};
use vipward_tests::{
    agent::{
        CLIENT, LogLine, NODE, PATIENCE, ROGUE, Scene, belief, counter, ip, send_datagram, vip_status,
        wait_until_received,
    },
    frames::{Family, Mac},
    kit::{output_of, tools, wait_until},
    lan::{NeighbourState, Wire},
};

/// The false MAC in forged frames.
const FORGED: Mac = Mac([2, 0, 0, 0, 0, 0xf0]);

/// The expected report of an attack.
#[derive(Clone, Copy)]
struct Claim {
    mac: Mac,
    eth_source: Mac,
    oper: &'static str,
}

impl Claim {
    /// Returns a claim of the rogue with its own MAC.
    const fn by_rogue(oper: &'static str) -> Self {
        Self { mac: ROGUE, eth_source: ROGUE, oper }
    }

    fn is_notified_by(&self, line: &LogLine, vip: impl fmt::Display) -> bool {
        line.has("kind", "conflict")
            && line.has("vip", vip)
            && line.has("interface", "eth0")
            && line.has("mac", self.mac)
            && line.has("eth_source", self.eth_source)
            && line.has("oper", self.oper)
    }
}

impl fmt::Display for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} for {} from {}", self.oper, self.mac, self.eth_source)
    }
}

/// An attack: its name, its steps to win this address, and its expected report.
type Attack = (&'static str, fn(&Scene, IpAddr) -> Result<()>, Claim);

const ATTACKS: &[Attack] = &[
    ("the kernel of a host that has it too asks the node", rogue_kernel_requests, Claim::by_rogue("request")),
    ("iputils arping -U", |scene, vip| iputils(scene, "-U", vip), Claim::by_rogue("request")),
    ("iputils arping -A", |scene, vip| iputils(scene, "-A", vip), Claim::by_rogue("reply")),
    ("Habets arping -U", |scene, vip| habets(scene, &["-U"], vip), Claim::by_rogue("request")),
    ("Habets arping -U -P", |scene, vip| habets(scene, &["-U", "-P"], vip), Claim::by_rogue("reply")),
    ("scapy: unicast reply", |scene, vip| scapy(scene, (1, 2), vip), forgery("reply")),
    ("scapy: unicast request", |scene, vip| scapy(scene, (1, 1), vip), forgery("request")),
    ("scapy: reply with htype 6", |scene, vip| scapy(scene, (6, 2), vip), forgery("reply")),
    ("scapy: request with htype 6", |scene, vip| scapy(scene, (6, 1), vip), forgery("request")),
];
/// Attacks of neighbour discovery, as scapy sends them.
const DISCOVERIES: &[Attack] = &[
    (
        "unsolicited advertisement to all",
        |scene, vip| {
            scapy_6(scene, "IPv6(src=VIP, dst='ff02::1') / ICMPv6ND_NA(tgt=VIP, R=0, S=0, O=1) / TARGET", vip)
        },
        forgery("advertisement"),
    ),
    (
        "unsolicited advertisement to the node alone",
        |scene, vip| {
            scapy_6(
                scene,
                "IPv6(src=VIP, dst='2001:db8::2') / ICMPv6ND_NA(tgt=VIP, R=0, S=0, O=1) / TARGET",
                vip,
            )
        },
        forgery("advertisement"),
    ),
    (
        "solicited advertisement by another address",
        |scene, vip| {
            scapy_6(
                scene,
                "IPv6(src='2001:db8::3', dst='2001:db8::2') / ICMPv6ND_NA(tgt=VIP, R=0, S=1, O=1) / TARGET",
                vip,
            )
        },
        forgery("advertisement"),
    ),
    (
        "solicitation in the VIP's name",
        |scene, vip| {
            scapy_6(
                scene,
                "IPv6(src=VIP, dst='ff02::1:ff00:2') / ICMPv6ND_NS(tgt='2001:db8::2') / SOURCE",
                vip,
            )
        },
        forgery("solicitation"),
    ),
    (
        "unicast solicitation in the VIP's name",
        |scene, vip| {
            scapy_6(scene, "IPv6(src=VIP, dst='2001:db8::2') / ICMPv6ND_NS(tgt='2001:db8::2') / SOURCE", vip)
        },
        forgery("solicitation"),
    ),
    (
        "router solicitation in the VIP's name",
        |scene, vip| scapy_6(scene, "IPv6(src=VIP, dst='ff02::2') / ICMPv6ND_RS() / SOURCE", vip),
        forgery("router solicitation"),
    ),
];

/// Returns the report of a forged frame of the rogue.
const fn forgery(oper: &'static str) -> Claim {
    Claim { mac: FORGED, eth_source: ROGUE, oper }
}

/// Returns the VIP of a row of the attacks. Each row has its
/// own, so that its report has its own line.
fn vip_of(family: Family, row: usize) -> Result<IpAddr> {
    Ok(family.ip(u8::try_from(20 + row)?))
}

fn rogue_kernel_requests(scene: &Scene, vip: IpAddr) -> Result<()> {
    scene.rogue.flush_neighbours("eth0")?;
    send_datagram(&scene.rogue, vip, ip(2))?;
    // Its request has been sent. The fate of the datagram depends on the neighbour entry.
    Ok(())
}

fn iputils(scene: &Scene, form: &str, vip: IpAddr) -> Result<()> {
    let vip = vip.to_string();
    let mut arping = scene.rogue.command(tools::arping()?);
    arping.args([form, "-c", "1", "-w", "5", "-I", "eth0", "-s", &vip, &vip]);
    output_of(arping).map(drop)
}

fn habets(scene: &Scene, form: &[&str], vip: IpAddr) -> Result<()> {
    let vip = vip.to_string();
    let mut arping = scene.rogue.command(tools::habets_arping()?);
    arping.args(form).args(["-c", "1", "-W", "0.05", "-i", "eth0", "-S", &vip, &vip]);
    // No host answers, for which it has its own exit code.
    let output = arping.output().context("failed to start Habets' arping")?;
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(
        printed.contains("1 packets transmitted"),
        "{printed}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(())
}

fn scapy(scene: &Scene, (htype, oper): (u8, u8), vip: IpAddr) -> Result<()> {
    let program = format!(
        "from scapy.layers.l2 import ARP, Ether\n\
         from scapy.packet import Raw\n\
         from scapy.sendrecv import sendp\n\
         arp = ARP(op={oper}, hwsrc='{FORGED}', psrc='{vip}', hwdst='{NODE}', pdst='192.0.2.2')\n\
         frame = bytearray(bytes(Ether(src='{ROGUE}', dst='{NODE}') / arp))\n\
         frame[14:16] = ({htype}).to_bytes(2, 'big')\n\
         sendp(Raw(bytes(frame)), iface='eth0', verbose=False)"
    );
    let mut python = scene.rogue.command(tools::scapy_python()?);
    python.args(["-c", &program]);
    output_of(python).map(drop)
}

fn scapy_6(scene: &Scene, layers: &str, vip: IpAddr) -> Result<()> {
    let program = format!(
        "from scapy.layers.l2 import Ether\n\
         from scapy.layers.inet6 import *\n\
         from scapy.sendrecv import sendp\n\
         VIP = '{vip}'\n\
         SOURCE = ICMPv6NDOptSrcLLAddr(lladdr='{FORGED}')\n\
         TARGET = ICMPv6NDOptDstLLAddr(lladdr='{FORGED}')\n\
         sendp(Ether(src='{ROGUE}', dst='{NODE}') / {layers}, iface='eth0', verbose=False)"
    );
    let mut python = scene.rogue.command(tools::scapy_python()?);
    python.args(["-c", &program]);
    output_of(python).map(drop)
}

/// Makes a scene in which the node's entries have the MAC `CLIENT`, and every attack can succeed.
fn battlefield(family: Family, name: &str) -> Result<Scene> {
    let scene = Scene::new_in(family, name)?;
    match family {
        Family::V4 => {
            // Without a lock time every effective claim takes effect.
            scene.node.set_sysctl("net/ipv4/neigh/eth0/locktime", "0")?;
            // The rogue's kernel has every address that it will claim.
            for row in 0..ATTACKS.len() {
                scene.rogue.add_address("eth0", IpNet::from(vip_of(family, row)?))?;
            }
        }
        // A kernel reads router solicitations as a router only.
        Family::V6 => scene.node.set_sysctl("net/ipv6/conf/eth0/forwarding", "1")?,
    }
    Ok(scene)
}

/// Returns the node's MAC for `vip` after an attack on a valid entry.
fn belief_after(scene: &Scene, wire: &Wire, attack: &Attack, vip: IpAddr) -> Result<Option<Mac>> {
    scene.node.set_neighbour("eth0", vip, CLIENT, NeighbourState::Reachable)?;
    // This is at least one tick of the kernel's clock, so that the entry is old.
    thread::sleep(Duration::from_millis(20));
    let (description, attack, _) = attack;
    attack(scene, vip).context(*description)?;
    wait_until_received(wire, ip(2))?;
    belief(&scene.node, vip)
}

/// Makes all attacks of a family without and then with an agent that has `entry` for each VIP.
fn withstands_all(family: Family, name: &str, entry: fn(IpAddr) -> String) -> Result<()> {
    let attacks = match family {
        Family::V4 => ATTACKS,
        Family::V6 => DISCOVERIES,
    };
    let scene = battlefield(family, name)?;
    let wire = Wire::open(&scene.rogue, "eth0")?;
    for (row, attack) in attacks.iter().enumerate() {
        let (description, _, claim) = attack;
        let believed = belief_after(&scene, &wire, attack, vip_of(family, row)?)?;
        assert_eq!(believed, Some(claim.mac), "{description}: it must succeed without the agent");
    }

    let entries = (0..attacks.len()).map(|row| Ok(entry(vip_of(family, row)?)));
    let mut agent = scene.agent(&format!("vips: [{}]", entries.collect::<Result<Vec<_>>>()?.join(", ")))?;
    for (row, attack) in attacks.iter().enumerate() {
        let (description, _, claim) = attack;
        let vip = vip_of(family, row)?;
        assert_eq!(belief_after(&scene, &wire, attack, vip)?, Some(CLIENT), "{description}");
        let what = format!("{claim} on {vip} ({description})");
        let line = agent.wait_for_log(PATIENCE, &what, |line| claim.is_notified_by(line, vip))?;
        assert_eq!(line.level(), "WARN", "{line}");
        assert!(vip_status(&agent, vip, "eth0")?["conflicts"].as_u64() >= Some(1), "{description}");
    }
    Ok(())
}

#[test]
fn no_attack_moves_a_guarded_address() -> Result<()> {
    withstands_all(Family::V4, "guarded", |vip| format!("{{address: {vip}, mac: '{CLIENT}'}}"))
}

#[test]
fn no_attack_moves_a_held_vip() -> Result<()> {
    // The rival has the addresses already.
    withstands_all(Family::V4, "held", |vip| format!("{{address: {vip}, force: true}}"))
}

#[test]
fn no_attack_by_neighbour_discovery_moves_a_guarded_address() -> Result<()> {
    withstands_all(Family::V6, "guarded-six", |vip| format!("{{address: '{vip}', mac: '{CLIENT}'}}"))
}

#[test]
fn no_attack_by_neighbour_discovery_moves_a_held_vip() -> Result<()> {
    withstands_all(Family::V6, "held-six", |vip| format!("{{address: '{vip}'}}"))
}

#[test]
fn a_kernel_that_has_the_gateways_address_too_is_never_believed() -> Result<()> {
    let scene = Scene::new("gateway")?;
    let gateway = ip(1);
    scene.rogue.add_address("eth0", Ipv4Net::new(gateway, 32)?)?;
    // The true host is away, so the rogue wins every race.
    scene.client.set_carrier("eth0", false)?;
    assert_eq!(scene.node.resolve(gateway)?, ROGUE, "without the agent");

    let mut agent = scene.agent(&format!("vips: [{{address: {gateway}, mac: '{CLIENT}'}}]"))?;
    scene.node.flush_neighbours("eth0")?;
    send_datagram(&scene.node, ip(2), gateway)?;
    let claim = Claim::by_rogue("reply");
    agent.wait_for_log(PATIENCE, "the rogue's answer", |line| claim.is_notified_by(line, gateway))?;
    assert_eq!(belief(&scene.node, gateway)?, None, "no host is believed");

    // Now both answer, and only the true answer passes.
    scene.client.set_carrier("eth0", true)?;
    assert_eq!(scene.node.resolve(gateway)?, CLIENT);
    wait_until(PATIENCE, "the rogue to have answered too", || {
        scene.node.flush_neighbours("eth0")?;
        assert_eq!(scene.node.resolve(gateway)?, CLIENT);
        Ok(counter(&agent, "claim_conflict")? >= 5)
    })
}
