//! The tools that people use to send ARP requests, and the
//! kernel's own resolver: all get the node's MAC.

use anyhow::Result;
use vipward_tests::lan::Host;
use vipward_tests::process::output_of;
use vipward_tests::scene::{NODE, Pair, Scene, VIP};
use vipward_tests::tools;

use super::{HELD, HELD_NATIVE};

/// Asks for the VIP with every tool.
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

const SCAPY: &str = "
from scapy.layers.l2 import ARP, Ether
from scapy.sendrecv import srp1
frame = Ether(dst='ff:ff:ff:ff:ff:ff') / ARP(pdst='192.0.2.10')
answer = srp1(frame, iface='eth0', timeout=10, verbose=False)
print(answer[ARP].hwsrc, answer[Ether].src)
";

#[test]
fn every_tool_gets_the_right_mac_in_generic_mode() -> Result<()> {
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
