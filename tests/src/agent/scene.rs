//! Provides scenes for end-to-end tests: a client, a node with the agent, and a rogue on one LAN.
//! Drop the agent before its scene, which has the agent's pins in its bpffs.

use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use ipnet::Ipv4Net;
use serde_json::Value;

use crate::{
    agent::{Agent, AgentOptions, Bpffs, LogLine},
    frames::{Arp, Family, Mac, Message, OddArp},
    kit::{output_of, tools},
    lan::{Hooked, Host, Lan, Nic, Wire},
};

/// Time limit, long enough for a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(20);
/// MAC of the client, whose address is `ip(1)`.
pub const CLIENT: Mac = Mac([2, 0, 0, 0, 0, 1]);
/// MAC of the node, whose address is `ip(2)`.
pub const NODE: Mac = Mac([2, 0, 0, 0, 0, 2]);
/// MAC of the rogue, whose address is `ip(3)`.
pub const ROGUE: Mac = Mac([2, 0, 0, 0, 0, 3]);
/// VIP of most tests.
pub const VIP: Ipv4Addr = ip(10);

/// Returns the address of the test network 192.0.2.0/24 with this last byte.
pub const fn ip(last: u8) -> Ipv4Addr {
    Ipv4Addr::new(192, 0, 2, last)
}

/// Returns that address with its prefix length.
pub fn net(last: u8) -> Ipv4Net {
    Ipv4Net::new(ip(last), 24).expect("24 is a prefix length")
}

/// LAN with a client, a node and a rogue, each on eth0. The client is the others' gateway.
#[derive(Debug)]
pub struct Scene {
    pub client: Host,
    pub node: Host,
    pub rogue: Host,
    /// Switch between them.
    pub lan: Lan,
    pub bpffs: Bpffs,
}

impl Scene {
    /// Makes the scene without an agent.
    pub fn new(name: &str) -> Result<Self> {
        Self::new_in(Family::V4, name)
    }

    /// Makes the scene with addresses of a family. For IPv6 they come to those of IPv4.
    pub fn new_in(family: Family, name: &str) -> Result<Self> {
        let scene = Self::on(Lan::new(name)?, family)?;
        scene.add_gateway(Family::V4)?;
        Ok(scene)
    }

    /// Makes the scene on a LAN without hosts, with addresses of a family. Its hosts have no gateway.
    pub fn on(lan: Lan, family: Family) -> Result<Self> {
        let client = lan.host("client", Nic::new(net(1)).mac(CLIENT))?;
        let node = lan.host("node", Nic::new(net(2)).mac(NODE))?;
        let rogue = lan.host("rogue", Nic::new(net(3)).mac(ROGUE))?;
        add_addresses(family, &[&client, &node, &rogue])?;
        Ok(Self { client, node, rogue, lan, bpffs: Bpffs::mount()? })
    }

    /// Makes the client the others' gateway in a family.
    pub fn add_gateway(&self, family: Family) -> Result<()> {
        [&self.node, &self.rogue].into_iter().try_for_each(|host| host.add_gateway(family.ip(1)))
    }

    /// Starts an agent on the node, and waits until it runs.
    pub fn agent(&self, yaml: &str) -> Result<Agent> {
        self.agent_on(&self.node, yaml)
    }

    /// Starts an agent on a host, and waits until it runs.
    pub fn agent_on(&self, host: &Host, yaml: &str) -> Result<Agent> {
        start_agent(host, yaml, AgentOptions::new(self.bpffs.pin_dir(host.name())))
    }
}

/// Client and node at the ends of one cable, for native XDP. It needs a program on the client too.
#[derive(Debug)]
pub struct Pair {
    pub client: Host,
    pub node: Host,
    /// Client's program; without it the node's answers stay in the client's ring.
    pub pass: Option<Hooked>,
    pub bpffs: Bpffs,
}

impl Pair {
    /// Makes the scene with the client's program and without an agent.
    pub fn new() -> Result<Self> {
        let (client, node) =
            Lan::pair(("client", Nic::new(net(1)).mac(CLIENT)), ("node", Nic::new(net(2)).mac(NODE)))?;
        let pass = Some(Hooked::xdp_pass(&client, "eth0")?);
        node.add_gateway(ip(1))?;
        Ok(Self { client, node, pass, bpffs: Bpffs::mount()? })
    }

    /// Makes the scene with addresses of a family. For IPv6 they come to those of IPv4.
    pub fn new_in(family: Family) -> Result<Self> {
        let pair = Self::new()?;
        add_addresses(family, &[&pair.client, &pair.node])?;
        Ok(pair)
    }

    /// Starts an agent on the node, and waits until it runs.
    pub fn agent(&self, yaml: &str) -> Result<Agent> {
        start_agent(&self.node, yaml, AgentOptions::new(self.bpffs.pin_dir("node")))
    }
}

/// Gives hosts `2001:db8::1`, `2001:db8::2` and so on, when the family is IPv6, and has their `lo` take
/// addresses of it.
pub fn add_addresses(family: Family, hosts: &[&Host]) -> Result<()> {
    if family == Family::V6 {
        for (host, last) in hosts.iter().zip(1..) {
            host.namespace().set_ipv6("lo", true)?;
            host.add_address("eth0", family.net(last))?;
        }
    }
    Ok(())
}

/// Starts an agent and waits until it runs: it has written
/// entries and lease deadline, and answers for VIPs whose address is free.
pub fn start_agent(host: &Host, yaml: &str, options: AgentOptions) -> Result<Agent> {
    let mut agent = Agent::start(host, yaml, options)?;
    wait_until_running(&mut agent, 0)?;
    Ok(agent)
}

/// Waits until an agent runs, after the first `seen` lines of its log.
pub fn wait_until_running(agent: &mut Agent, seen: usize) -> Result<()> {
    agent.wait_for_log_after(seen, PATIENCE, "that it runs", |line| line.message() == "agent is running")?;
    // A new VIP waits until its address is known to be free.
    let is_probing = |line: &LogLine| line.message().starts_with("addresses are being probed");
    if agent.logs()?.iter().skip(seen).any(is_probing) {
        let is_over = |line: &LogLine| line.message() == "addresses have been probed";
        agent.wait_for_log_after(seen, PATIENCE, "that addresses have been probed", is_over)?;
    }
    Ok(())
}

/// Returns the counter of an outcome, as `vipward status` reads it from the kernel.
pub fn counter(agent: &Agent, outcome: &str) -> Result<u64> {
    let status = agent.status()?;
    status["counters"][outcome].as_u64().with_context(|| format!("no counter {outcome} in {status:#}"))
}

/// Returns the row of `vipward status` for a VIP on an interface.
pub fn vip_status(agent: &Agent, vip: impl Into<IpAddr>, interface: &str) -> Result<Value> {
    let vip = vip.into();
    let status = agent.status()?;
    let is_it = |entry: &&Value| entry["address"] == vip.to_string() && entry["interface"] == interface;
    let found = status["vips"].as_array().and_then(|vips| vips.iter().find(is_it)).cloned();
    found.with_context(|| format!("{vip} on {interface} is not in {status:#}"))
}

/// Returns a pinned map as `bpftool map dump` prints it
/// with type information: keys and values as objects.
pub fn map_dump(agent: &Agent, map: &str) -> Result<Vec<Value>> {
    let mut command = Command::new(tools::bpftool()?);
    command.args(["--json", "map", "dump", "pinned"]).arg(agent.options.pin_dir.join(map));
    let printed = output_of(command)?;
    let elements: Vec<Value> =
        serde_json::from_str(&printed).with_context(|| format!("bpftool printed: {printed}"))?;
    // The output also has the raw bytes.
    Ok(elements.into_iter().map(|mut element| element["formatted"].take()).collect())
}

/// Writes an element of a pinned map, or replaces it, with bpftool.
pub fn overwrite(agent: &Agent, map: &str, key: &[u8], value: &[u8]) -> Result<()> {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>();
    let mut command = Command::new(tools::bpftool()?);
    command.args(["map", "update", "pinned"]).arg(agent.options.pin_dir.join(map));
    command.args(["key", "hex"]).args(hex(key)).args(["value", "hex"]).args(hex(value));
    output_of(command).map(drop)
}

/// Removes every element of a pinned map with bpftool.
pub fn empty_map(agent: &Agent, map: &str) -> Result<()> {
    let path = agent.options.pin_dir.join(map);
    let bpftool = |args: [&str; 3]| -> Result<Command> {
        let mut command = Command::new(tools::bpftool()?);
        command.args(args).arg(&path);
        Ok(command)
    };
    let mut dump = bpftool(["map", "dump", "pinned"])?;
    dump.arg("--json");
    let elements: Vec<Value> = serde_json::from_str(&output_of(dump)?)?;
    for element in elements {
        let key = element["key"].as_array().with_context(|| format!("no key in {element}"))?;
        let mut delete = bpftool(["map", "delete", "pinned"])?;
        delete.arg("key").args(key.iter().filter_map(Value::as_str));
        output_of(delete)?;
    }
    Ok(())
}

/// Returns the MAC in a host's neighbour entry of an address on eth0.
pub fn belief(host: &Host, address: impl Into<IpAddr>) -> Result<Option<Mac>> {
    Ok(host.neighbour("eth0", address)?.and_then(|entry| entry.mac))
}

/// Waits until the kernel of the host at `address` has handled all frames
/// of this wire. It sends a probe and waits for the answer: the kernel
/// handles frames in order, and a probe changes no neighbour entry.
pub fn wait_until_received(wire: &Wire, address: Ipv4Addr) -> Result<()> {
    let request = Arp::probe(Mac::local(0xff01), address);
    wire.send(&request.to_bytes())?;
    let reply = wire.expect_arp(PATIENCE, "an answer to what was sent last", |arp| arp.tha == request.sha)?;
    ensure!(reply.spa == address, "another answer than for {address}: {reply}");
    Ok(())
}

/// Sends a request and then a probe for `address`. Returns every answer to the
/// request that arrives before the answer to the probe. An XDP program on the
/// way has answered by then, so that no answer proves silence without waiting.
pub fn answers_to(wire: &Wire, request: &Arp, address: Ipv4Addr) -> Result<Vec<Arp>> {
    answers_to_odd(wire, &OddArp::from(*request), address)
}

/// Does the same for any request.
pub fn answers_to_odd(wire: &Wire, request: &OddArp, address: Ipv4Addr) -> Result<Vec<Arp>> {
    wire.drain()?;
    wire.send(&request.to_bytes())?;
    let last = Arp::probe(Mac::local(0xff02), address);
    wire.send(&last.to_bytes())?;
    let mut answers = Vec::new();
    wire.expect_arp(PATIENCE, "an answer to what was sent last", |arp| {
        if arp.is_reply() && arp.spa == request.arp.tpa && arp.tha == request.arp.sha {
            answers.push(*arp);
        }
        arp.is_reply() && arp.tha == last.sha
    })?;
    Ok(answers)
}

/// Does the same in the address's family. The last probe's answer goes to all in IPv6.
pub fn answers_in(wire: &Wire, request: &Message, address: IpAddr) -> Result<Vec<Message>> {
    wire.drain()?;
    wire.send(&request.to_bytes())?;
    let last = Message::probe(Mac::local(0xff02), address);
    wire.send(&last.to_bytes())?;
    let mut answers = Vec::new();
    wire.expect(PATIENCE, "an answer to what was sent last", |message| {
        if message.answers(request) {
            answers.push(message.clone());
        }
        message.answers(&last)
    })?;
    Ok(answers)
}

/// Returns the client's request to all for an address.
pub fn request_of_client(address: IpAddr) -> Message {
    Message::request(CLIENT, Family::of(address).ip(1), address)
}

pub fn clients_request(address: Ipv4Addr) -> Arp {
    Arp::request(CLIENT, ip(1), address)
}

/// Makes the kernel of a host send a datagram, and so resolve the address.
pub fn send_datagram(host: &Host, from: impl Into<IpAddr>, to: impl Into<IpAddr>) -> Result<()> {
    let (from, to) = (from.into(), to.into());
    // The discard port (RFC 863), on which nothing listens.
    let sent = host.run(|| UdpSocket::bind((from, 0))?.send_to(&[0], (to, 9)));
    sent.map(drop).with_context(|| format!("failed to send from {from} to {to} on {}", host.name()))
}
