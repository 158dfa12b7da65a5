//! The tools that people use to send requests and solicitations, and the
//! kernel's own resolver: all get the node's MAC.

use anyhow::Result;
use vipward_tests::{
    agent::{NODE, Pair, Scene, VIP},
    frames::Family,
    kit::{output_of, tools},
    lan::Host,
};

use super::{HELD, HELD_NATIVE, held};

fn ask_with_everything(client: &Host) -> Result<()> {
    let node = NODE.to_string();

    // The first request is broadcast. The second goes to the MAC of the first answer.
    let mut arping = client.command(tools::arping()?);
    arping.args(["-c", "2", "-w", "10", "-I", "eth0", "192.0.2.10"]);
    let printed = output_of(arping)?;
    let answers = printed.matches("Unicast reply from 192.0.2.10 [02:00:00:00:00:02]").count();
    assert_eq!(answers, 2, "{printed}");
    assert!(printed.contains("Received 2 response(s)"), "{printed}");

    // This is duplicate address detection: the address is taken,
    // which iputils reports with its exit code.
    let mut arping = client.command(tools::arping()?);
    arping.args(["-D", "-c", "1", "-w", "10", "-I", "eth0", "192.0.2.10"]);
    let refused = output_of(arping).map(drop).expect_err("the address is taken").to_string();
    assert!(refused.contains(&node), "{refused}");

    let mut habets = client.command(tools::habets_arping()?);
    habets.args(["-c", "2", "-C", "2", "-W", "0.1", "-i", "eth0", "192.0.2.10"]);
    let printed = output_of(habets)?;
    assert_eq!(printed.matches(&format!("from {node} (192.0.2.10)")).count(), 2, "{printed}");

    let mut arp_scan = client.command(tools::arp_scan()?);
    arp_scan.args(["-I", "eth0", "-q", "-x", "192.0.2.10"]);
    assert_eq!(output_of(arp_scan)?.trim(), format!("192.0.2.10\t{node}"));

    let mut scapy = client.command(tools::scapy_python()?);
    scapy.args(["-c", SCAPY]);
    assert_eq!(output_of(scapy)?.trim(), format!("{node} {node}"));

    assert_eq!(client.resolve(VIP)?, NODE, "the kernel's own resolver");
    Ok(())
}

/// Solicits the IPv6 VIP with every tool.
fn solicit_with_everything(client: &Host) -> Result<()> {
    let (node, vip) = (NODE.to_string(), Family::V6.vip().to_string());

    let mut ndisc6 = client.command(tools::ndisc6()?);
    ndisc6.args(["-1", "-n", "-w", "10000", &vip, "eth0"]);
    let printed = output_of(ndisc6)?.to_lowercase();
    assert!(printed.contains(&format!("target link-layer address: {node}")), "{printed}");

    let mut scapy = client.command(tools::scapy_python()?);
    scapy.args(["-c", SCAPY_V6]);
    assert_eq!(output_of(scapy)?.trim(), format!("{node} {node} 0 1 1"));

    assert_eq!(client.resolve(Family::V6.vip())?, NODE, "the kernel's own resolver");
    let mut neighbour = client.command("ip");
    neighbour.args(["-6", "neighbour", "show", &vip, "dev", "eth0"]);
    let printed = output_of(neighbour)?;
    assert!(printed.contains(&format!("lladdr {node} REACHABLE")), "{printed}");
    Ok(())
}

const SCAPY_V6: &str = "
from scapy.layers.l2 import Ether
from scapy.layers.inet6 import *
from scapy.sendrecv import srp1
option = ICMPv6NDOptSrcLLAddr(lladdr='02:00:00:00:00:01')
solicitation = IPv6(src='2001:db8::1', dst='ff02::1:ff00:10') / ICMPv6ND_NS(tgt='2001:db8::10') / option
frame = Ether(src='02:00:00:00:00:01', dst='33:33:ff:00:00:10') / solicitation
answer = srp1(frame, iface='eth0', timeout=10, verbose=False)
na, option = answer[ICMPv6ND_NA], answer[ICMPv6NDOptDstLLAddr]
print(option.lladdr, answer[Ether].src, na.R, na.S, na.O)
";

const SCAPY: &str = "
from scapy.layers.l2 import ARP, Ether
from scapy.sendrecv import srp1
frame = Ether(dst='ff:ff:ff:ff:ff:ff') / ARP(pdst='192.0.2.10')
answer = srp1(frame, iface='eth0', timeout=10, verbose=False)
print(answer[ARP].hwsrc, answer[Ether].src)
";

#[test]
fn every_tool_gets_the_right_mac() -> Result<()> {
    let scene = Scene::new("tools")?;
    let _agent = scene.agent(HELD)?;
    ask_with_everything(&scene.client)
}

#[test]
fn every_tool_gets_the_right_mac_in_native_mode() -> Result<()> {
    let pair = Pair::new()?;
    let _agent = pair.agent(HELD_NATIVE)?;
    ask_with_everything(&pair.client)
}

#[test]
fn every_tool_of_ipv6_gets_the_right_mac() -> Result<()> {
    let scene = Scene::new_in(Family::V6, "tools-six")?;
    let _agent = scene.agent(&held(Family::V6))?;
    solicit_with_everything(&scene.client)
}

#[test]
fn every_tool_of_ipv6_gets_the_right_mac_in_native_mode() -> Result<()> {
    let pair = Pair::new_in(Family::V6)?;
    let _agent = pair.agent(&format!("attach: native\n{}", held(Family::V6)))?;
    solicit_with_everything(&pair.client)
}
