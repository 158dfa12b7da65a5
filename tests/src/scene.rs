//! Ready scenes for end-to-end tests: a client, a node that runs the agent, and a rogue on one LAN.
//!
//! An agent of a scene is dropped before its scene, as locals are: its pins are in the scene's bpffs.

use std::net::{Ipv4Addr, UdpSocket};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use ipnet::Ipv4Net;
use serde_json::Value;

use crate::agent::{Agent, AgentOptions, LogLine};
use crate::arp::{Arp, Mac};
use crate::bpffs::Bpffs;
use crate::hook::Hooked;
use crate::lan::{Host, Lan, Nic};
use crate::process::output_of;
use crate::tools;
use crate::wire::Wire;

/// Longer than anything takes on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(20);
/// The client's MAC; its address is `ip(1)`.
pub const CLIENT: Mac = Mac([2, 0, 0, 0, 0, 1]);
/// The node's MAC; its address is `ip(2)`.
pub const NODE: Mac = Mac([2, 0, 0, 0, 0, 2]);
/// The rogue's MAC; its address is `ip(3)`.
pub const ROGUE: Mac = Mac([2, 0, 0, 0, 0, 3]);
/// The VIP that most tests are about.
pub const VIP: Ipv4Addr = ip(10);

/// The address of the test network 192.0.2.0/24 with this last byte.
pub const fn ip(last: u8) -> Ipv4Addr {
    Ipv4Addr::new(192, 0, 2, last)
}

/// The same with its prefix length.
pub fn net(last: u8) -> Ipv4Net {
    Ipv4Net::new(ip(last), 24).expect("24 is a prefix length")
}

/// A LAN with a client, a node and a rogue, each on eth0.
#[derive(Debug)]
pub struct Scene {
    /// Who asks.
    pub client: Host,
    /// Who runs the agent.
    pub node: Host,
    /// Who claims what is not its own.
    pub rogue: Host,
    /// The switch between them.
    pub lan: Lan,
    /// Where the agents pin.
    pub bpffs: Bpffs,
}

impl Scene {
    /// The scene without an agent.
    pub fn new(name: &str) -> Result<Self> {
        let lan = Lan::new(name)?;
        let client = lan.host("client", Nic::new(net(1)).mac(CLIENT))?;
        let node = lan.host("node", Nic::new(net(2)).mac(NODE))?;
        let rogue = lan.host("rogue", Nic::new(net(3)).mac(ROGUE))?;
        Ok(Self { client, node, rogue, lan, bpffs: Bpffs::mount()? })
    }

    /// An agent on the node, once it is running.
    pub fn agent(&self, yaml: &str) -> Result<Agent> {
        self.agent_on(&self.node, yaml)
    }

    /// An agent on any host, once it is running.
    pub fn agent_on(&self, host: &Host, yaml: &str) -> Result<Agent> {
        start_agent(host, yaml, AgentOptions::new(self.bpffs.pin_dir(host.name())))
    }
}

/// A client and a node at the two ends of one cable, on which native XDP works while the client runs a program too.
#[derive(Debug)]
pub struct Pair {
    /// Who asks.
    pub client: Host,
    /// Who runs the agent.
    pub node: Host,
    /// What makes native XDP work; without it the node's answers wait in the client's ring.
    pub pass: Option<Hooked>,
    /// Where the agent pins.
    pub bpffs: Bpffs,
}

impl Pair {
    /// The scene without an agent, with the client's program attached.
    pub fn new() -> Result<Self> {
        let (client, node) =
            Lan::pair(("client", Nic::new(net(1)).mac(CLIENT)), ("node", Nic::new(net(2)).mac(NODE)))?;
        let pass = Some(Hooked::xdp_pass(&client, "eth0")?);
        Ok(Self { client, node, pass, bpffs: Bpffs::mount()? })
    }

    /// An agent on the node, once it is running.
    pub fn agent(&self, yaml: &str) -> Result<Agent> {
        start_agent(&self.node, yaml, AgentOptions::new(self.bpffs.pin_dir("node")))
    }
}

/// Starts an agent and waits until it runs: entries and fence are written then, and what can be answered is, whose address
/// is free.
pub fn start_agent(host: &Host, yaml: &str, options: AgentOptions) -> Result<Agent> {
    let mut agent = Agent::start(host, yaml, options)?;
    wait_until_running(&mut agent, 0)?;
    Ok(agent)
}

/// Waits until an agent runs, passing over the first `seen` lines of its log.
pub fn wait_until_running(agent: &mut Agent, seen: usize) -> Result<()> {
    agent.wait_for_log_after(seen, PATIENCE, "that it runs", |line| line.message() == "agent is running")?;
    // What is held for the first time waits until nobody is known to have its address.
    let is_probing = |line: &LogLine| line.message().starts_with("addresses are being probed");
    if agent.logs()?.iter().skip(seen).any(is_probing) {
        let is_over = |line: &LogLine| line.message() == "addresses have been probed";
        agent.wait_for_log_after(seen, PATIENCE, "that addresses have been probed", is_over)?;
    }
    Ok(())
}

/// The count of an outcome, as `vipward status` reads it from the kernel.
pub fn counter(agent: &Agent, outcome: &str) -> Result<u64> {
    let status = agent.status()?;
    status["counters"][outcome].as_u64().with_context(|| format!("no counter {outcome} in {status:#}"))
}

/// What `vipward status` says about a VIP on an interface.
pub fn vip_status(agent: &Agent, vip: Ipv4Addr, interface: &str) -> Result<Value> {
    let status = agent.status()?;
    let is_it = |entry: &&Value| entry["address"] == vip.to_string() && entry["interface"] == interface;
    let found = status["vips"].as_array().and_then(|vips| vips.iter().find(is_it)).cloned();
    found.with_context(|| format!("{vip} on {interface} is not in {status:#}"))
}

/// A pinned map of an agent as `bpftool map dump` prints it with its type information: keys and values as objects.
pub fn map_dump(agent: &Agent, map: &str) -> Result<Vec<Value>> {
    let mut command = Command::new(tools::bpftool()?);
    command.args(["--json", "map", "dump", "pinned"]).arg(agent.options.pin_dir.join(map));
    let printed = output_of(command)?;
    let elements: Vec<Value> =
        serde_json::from_str(&printed).with_context(|| format!("bpftool printed: {printed}"))?;
    // Beside the formatted elements there are the raw bytes.
    Ok(elements.into_iter().map(|mut element| element["formatted"].take()).collect())
}

/// The MAC that a host believes an address to be at, through eth0.
pub fn belief(host: &Host, address: Ipv4Addr) -> Result<Option<Mac>> {
    Ok(host.neighbour("eth0", address)?.and_then(|entry| entry.mac))
}

/// Waits until the kernel of the host at `address` has handled all that this wire has sent: frames are handled in
/// order, and it answers this one. The sender that it asks with has no address, so no entry of the host changes.
pub fn wait_until_heard(wire: &Wire, address: Ipv4Addr) -> Result<()> {
    let request = Arp::probe(Mac::local(0xff01), address);
    wire.send(&request.to_bytes())?;
    let reply = wire.expect_arp(PATIENCE, "an answer to what was sent last", |arp| arp.tha == request.sha)?;
    ensure!(reply.spa == address, "another answer than for {address}: {reply}");
    Ok(())
}

/// Sends a request, and returns every answer to it that has come when the kernel of the host at `address` has answered
/// what was sent after it. Whoever answers on the way of a frame has answered by then, so that no answer is proof of
/// silence and takes no time.
pub fn answers_to(wire: &Wire, request: &Arp, address: Ipv4Addr) -> Result<Vec<Arp>> {
    wire.drain()?;
    wire.send(&request.to_bytes())?;
    let last = Arp::probe(Mac::local(0xff02), address);
    wire.send(&last.to_bytes())?;
    let mut answers = Vec::new();
    wire.expect_arp(PATIENCE, "an answer to what was sent last", |arp| {
        if arp.is_reply() && arp.spa == request.tpa && arp.tha == request.sha {
            answers.push(*arp);
        }
        arp.is_reply() && arp.tha == last.sha
    })?;
    Ok(answers)
}

/// A broadcast request of the client for an address.
pub fn clients_request(address: Ipv4Addr) -> Arp {
    Arp::request(CLIENT, ip(1), address)
}

/// Makes the kernel of a host send a datagram, and so ask for whom it does not know.
pub fn send_datagram(host: &Host, from: Ipv4Addr, to: Ipv4Addr) -> Result<()> {
    // The discard port (RFC 863): nobody listens.
    let sent = host.run(|| UdpSocket::bind((from, 0))?.send_to(&[0], (to, 9)));
    sent.map(drop).with_context(|| format!("failed to send from {from} to {to} on {}", host.name()))
}
