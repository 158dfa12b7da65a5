//! A host receives the neighbour solicitations for its IPv6 VIPs behind a switch that snoops MLD, with
//! and without its agent.

use std::net::Ipv6Addr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use vipward_tests::{
    agent::{Agent, CLIENT, PATIENCE, Scene, ip, wait_until_running},
    frames::{
        Arp, Message,
        nd::{ADVERTISEMENT, Nd, SOLICITATION},
    },
    kit::{output_of, wait_until},
    lan::{Frame, Wire},
};

const CLIENTS_ADDRESS: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
const VIP: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0x10);
const SECOND_VIP: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0x20);
const ONE: &str = "vips: [{address: '2001:db8::10'}]";
const OTHER: &str = "vips: [{address: '2001:db8::20'}]";
const NONE: &str = "vips: []";
/// A second until the agent looks, and one for a busy machine.
const SOON: Duration = Duration::from_secs(2);

/// Offset of the `ICMPv6` type in an MLD message, behind the hop-by-hop options.
const MLD_AT: usize = 14 + 40 + 8;
const MLD_QUERY: u8 = 130;

/// A client and a node, and a switch that passes multicast to members only.
struct Snooped {
    scene: Scene,
    client: Wire,
    node: Wire,
}

impl Snooped {
    fn new(name: &str) -> Result<Self> {
        let scene = Scene::new(name)?;
        let subnet: ipnet::Ipv6Net = "2001:db8::2/64".parse()?;
        scene.node.add_address("eth0", subnet)?;
        scene.lan.snoop_mld()?;
        let client = Wire::open_all(&scene.client, "eth0")?;
        let node = Wire::open_all(&scene.node, "eth0")?;
        let snooped = Self { scene, client, node };
        wait_until(PATIENCE, "the switch to snoop", || Ok(snooped.receives(VIP)? == Some(false)))?;
        Ok(snooped)
    }

    /// Solicits an address. Returns true if the solicitation reaches the node. Returns none if a request
    /// that is sent afterwards does not: the link has just come up.
    fn receives(&self, target: Ipv6Addr) -> Result<Option<bool>> {
        self.node.drain()?;
        self.client.send(&Nd::solicitation(CLIENT, CLIENTS_ADDRESS, target).to_bytes())?;
        // The switch keeps the order.
        let last = Arp::request(CLIENT, ip(1), ip(99));
        self.client.send(&last.to_bytes())?;
        let deadline = Instant::now() + Duration::from_secs(1);
        let mut received = false;
        loop {
            let Some(frame) = self.node.receive(deadline)? else { return Ok(None) };
            received |= is_about(&frame, SOLICITATION, target) && !frame.outgoing;
            if frame.arp() == Some(last) {
                return Ok(Some(received));
            }
        }
    }

    fn wait_until_received(&self, target: Ipv6Addr, expected: bool) -> Result<()> {
        let what = if expected { "the node to receive" } else { "the node not to receive" };
        wait_until(PATIENCE, what, || Ok(self.receives(target)? == Some(expected)))
            .with_context(|| format!("solicitations for {target}"))
    }

    /// Solicits an address. Fails unless the node answers.
    fn is_answered(&self, target: Ipv6Addr) -> Result<()> {
        self.client.drain()?;
        self.client.send(&Nd::solicitation(CLIENT, CLIENTS_ADDRESS, target).to_bytes())?;
        let deadline = Instant::now() + PATIENCE;
        loop {
            let frame = self.client.receive(deadline)?.with_context(|| format!("no answer for {target}"))?;
            if is_about(&frame, ADVERTISEMENT, target) && !frame.outgoing {
                return Ok(());
            }
        }
    }

    /// Waits until the switch has queried its ports for members so often that it has forgotten each port
    /// that does not report.
    fn wait_for_queries(&self) -> Result<()> {
        self.node.drain()?;
        let deadline = Instant::now() + PATIENCE;
        let mut queries = 0;
        while queries < 6 {
            let frame = self.node.receive(deadline)?.context("the switch sends no queries")?;
            queries += usize::from(!frame.outgoing && frame.bytes.get(MLD_AT) == Some(&MLD_QUERY));
        }
        Ok(())
    }

    fn agent(&self, yaml: &str) -> Result<Agent> {
        self.scene.agent(yaml)
    }
}

fn is_about(frame: &Frame, kind: u8, target: Ipv6Addr) -> bool {
    matches!(frame.message(), Some(Message::Nd(nd)) if nd.kind == kind && nd.target == target)
}

#[test]
fn solicitations_are_received_before_and_after_the_agent_is_killed_until_the_vip_is_released() -> Result<()> {
    let snooped = Snooped::new("hearing")?;
    let mut agent = snooped.agent(ONE)?;
    snooped.wait_until_received(VIP, true)?;
    snooped.is_answered(VIP)?;
    assert_eq!(snooped.receives(SECOND_VIP)?, Some(false), "the switch passes on what no VIP wants");

    agent.kill9()?;
    assert_eq!(snooped.receives(VIP)?, Some(true), "a killed agent takes the membership with it");
    snooped.wait_for_queries()?;
    assert_eq!(snooped.receives(VIP)?, Some(true), "the kernel no longer reports the group");
    snooped.is_answered(VIP)?;

    let seen = agent.logs()?.len();
    agent.restart()?;
    wait_until_running(&mut agent, seen)?;
    assert_eq!(snooped.receives(VIP)?, Some(true));
    agent.write_config(OTHER)?;
    snooped.wait_until_received(SECOND_VIP, true)?;
    snooped.wait_until_received(VIP, false)?;

    // What a killed agent left is left by the next one.
    agent.kill9()?;
    agent.write_config(NONE)?;
    agent.restart()?;
    snooped.wait_until_received(SECOND_VIP, false)
}

#[test]
fn a_stopped_agent_leaves_groups_as_it_leaves_vips() -> Result<()> {
    let snooped = Snooped::new("receiving-stop")?;
    let mut agent = snooped.agent(ONE)?;
    snooped.wait_until_received(VIP, true)?;
    agent.terminate()?;
    snooped.wait_for_queries()?;
    assert_eq!(snooped.receives(VIP)?, Some(true), "the pinned program answers on");
    let said = output_of(agent.vipward("unload")?)?;
    assert!(said.contains("removed group ff02::1:ff00:10 from eth0"), "{said}");
    snooped.wait_until_received(VIP, false)?;

    let seen = agent.logs()?.len();
    agent.write_config("{vips: [{address: '2001:db8::10'}], shutdown: withdraw}")?;
    agent.restart()?;
    wait_until_running(&mut agent, seen)?;
    snooped.wait_until_received(VIP, true)?;
    agent.terminate()?;
    snooped.wait_until_received(VIP, false)
}

/// The next regular reading would be too late for this test's patience.
#[test]
fn an_interface_that_was_down_receives_again_soon() -> Result<()> {
    let snooped = Snooped::new("receiving-down")?;
    let _agent = snooped.agent(ONE)?;
    snooped.wait_until_received(VIP, true)?;
    snooped.scene.node.set_up("eth0", false)?;
    snooped.scene.node.set_up("eth0", true)?;
    snooped.wait_until_received(VIP, true)
}

/// The next regular reading would be too late for this test's patience.
#[test]
fn a_membership_that_another_program_removes_is_joined_again_soon() -> Result<()> {
    let snooped = Snooped::new("receiving-removed")?;
    let _agent = snooped.agent(ONE)?;
    snooped.wait_until_received(VIP, true)?;
    let ip = |arguments: &[&str]| {
        let mut command = snooped.scene.node.command("ip");
        command.args(["-6", "neigh"]).args(arguments).args(["dev", "eth0"]);
        output_of(command)
    };
    // The membership is gone when the command ends. So one that is there afterwards is the agent's.
    ip(&["del", "proxy", "ff02::1:ff00:10"])?;
    wait_until(SOON, "the membership", || Ok(ip(&["show", "proxy"])?.contains("ff02::1:ff00:10")))?;
    snooped.wait_until_received(VIP, true)
}
