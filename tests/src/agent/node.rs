//! Runs a node under test: a host with an agent that holds VIPs, and a client that requests them.

use std::net::IpAddr;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, ensure};
use aya::programs::{SchedClassifier, TcAttachType};
use nix::net::if_::if_nameindex;
use serde_json::Value;

use crate::{
    agent::{Agent, AgentOptions, Bpffs, CLIENT, LogLine, NODE, PATIENCE, net, scene},
    frames::{Family, Mac, Message},
    kit::{output_of, tools::bpftool, wait_for, wait_until},
    lan::{Hooked, Host, Lan, Nic, Wire},
    measure::{Answerer, ArpProbe, ProbeMode, ProbeReport},
};

/// Interval of [`Node::probe`].
const PROBE_INTERVAL: Duration = Duration::from_millis(1);
/// Configuration that holds [`scene::VIP`].
pub const HOLDS_ONE: &str = "vips: [{address: 192.0.2.10}]\n";

/// Hook of the program on the node's interface, a veth.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Attachment {
    /// Traffic control, which `auto` takes: client and node are on a switch.
    Auto,
    /// Generic XDP: client and node are on a switch.
    Generic,
    /// Native XDP: client and node share a cable, with an XDP program at the client's end.
    Native,
}

impl Attachment {
    /// Returns the value of `attach`.
    const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Generic => "generic",
            Self::Native => "native",
        }
    }
}

/// Node, client and LAN. Fields are in the order of dropping.
#[derive(Debug)]
pub struct Node {
    pub agent: Agent,
    pub client: Host,
    pub host: Host,
    /// Switch between them, if there is one.
    pub lan: Option<Lan>,
    pub bpffs: Bpffs,
    attachment: Attachment,
    _at_client: Option<Hooked>,
}

impl Node {
    /// Starts a node on a switch, and waits until its agent runs with this configuration.
    pub fn start(name: &str, yaml: &str) -> Result<Self> {
        Self::start_with(name, Attachment::Auto, yaml, |_| {})
    }

    /// Starts a node with changed options of the agent, and waits until the agent runs.
    pub fn start_with(
        name: &str,
        attachment: Attachment,
        yaml: &str,
        change: impl FnOnce(&mut AgentOptions),
    ) -> Result<Self> {
        let mut node = Self::launch(name, attachment, yaml, change)?;
        node.wait_until_running(0)?;
        Ok(node)
    }

    /// Starts a node whose LAN has addresses of a family, and waits until its agent runs.
    pub fn start_in(family: Family, name: &str, attachment: Attachment, yaml: &str) -> Result<Self> {
        let mut node = Self::launch_in(family, name, attachment, yaml, |_| {})?;
        node.wait_until_running(0)?;
        Ok(node)
    }

    /// Starts a node without waiting for the agent, which may refuse to run.
    pub fn launch(
        name: &str,
        attachment: Attachment,
        yaml: &str,
        change: impl FnOnce(&mut AgentOptions),
    ) -> Result<Self> {
        Self::launch_in(Family::V4, name, attachment, yaml, change)
    }

    fn launch_in(
        family: Family,
        name: &str,
        attachment: Attachment,
        yaml: &str,
        change: impl FnOnce(&mut AgentOptions),
    ) -> Result<Self> {
        let at_client = Nic::new(net(1)).mac(CLIENT);
        let at_node = Nic::new(net(2)).mac(NODE);
        let (lan, client, host, at_client) = match attachment {
            Attachment::Auto | Attachment::Generic => {
                let lan = Lan::new(name)?;
                let (client, host) = (lan.host("client", at_client)?, lan.host("node", at_node)?);
                (Some(lan), client, host, None)
            }
            Attachment::Native => {
                let (client, host) = Lan::pair(("client", at_client), ("node", at_node))?;
                let at_client = Hooked::xdp_pass(&client, "eth0")?;
                (None, client, host, Some(at_client))
            }
        };
        scene::add_addresses(family, &[&client, &host])?;
        host.add_gateway(scene::ip(1))?;
        let bpffs = Bpffs::mount()?;
        let mut options = AgentOptions::new(bpffs.pin_dir("node"));
        change(&mut options);
        let agent = Agent::start(&host, &format!("attach: {}\n{yaml}", attachment.name()), options)?;
        Ok(Self { agent, client, host, lan, bpffs, attachment, _at_client: at_client })
    }

    /// Returns the switch of a node on a switch.
    pub fn lan(&self) -> Result<&Lan> {
        self.lan.as_ref().context("client and node share a cable")
    }

    /// Replaces the configuration, with the line that [`Node::launch`] put before the first one.
    pub fn write_config(&self, yaml: &str) -> Result<()> {
        self.agent.write_config(&format!("attach: {}\n{yaml}", self.attachment.name()))
    }

    /// Waits until the agent logs that it runs, after the first `seen` lines of its log.
    pub fn wait_until_running(&mut self, seen: usize) -> Result<()> {
        scene::wait_until_running(&mut self.agent, seen)
    }

    /// Starts the agent again, and waits until it runs.
    pub fn restart_agent(&mut self) -> Result<()> {
        let seen = self.agent.logs()?.len();
        self.agent.restart()?;
        self.wait_until_running(seen)
    }

    /// Waits for a problem with all of `parts` in its text, and returns the text.
    pub fn wait_for_problem(&mut self, seen: usize, parts: &[&str]) -> Result<String> {
        self.wait_for_problem_line(seen, "a problem has begun", parts)
    }

    /// Waits until no problem has all of `parts` in its text.
    pub fn wait_for_end_of_problem(&mut self, seen: usize, parts: &[&str]) -> Result<String> {
        self.wait_for_problem_line(seen, "the problem is over", parts)
    }

    fn wait_for_problem_line(&mut self, seen: usize, message: &str, parts: &[&str]) -> Result<String> {
        let text =
            |line: &LogLine| line.field("problem").and_then(Value::as_str).unwrap_or_default().to_owned();
        let found =
            |line: &LogLine| line.message() == message && parts.iter().all(|part| text(line).contains(part));
        let what = format!("{message}: {parts:?}");
        Ok(text(&self.agent.wait_for_log_after(seen, PATIENCE, &what, found)?))
    }

    /// Starts to send a thousand requests a second for `vip` from the client.
    pub fn probe(&self, vip: impl Into<IpAddr>) -> Result<ArpProbe> {
        ArpProbe::start(&self.client, "eth0", vip, PROBE_INTERVAL, ProbeMode::Broadcast)
    }

    /// Sends one request and returns the MAC in the answer. Returns `None`
    /// without an answer in 200 ms, a hundred times the usual time.
    pub fn ask(&self, vip: impl Into<IpAddr>) -> Result<Option<Mac>> {
        ask(&self.client, "eth0", vip)
    }

    pub fn wait_until_answered(&self, vip: impl Into<IpAddr>, mac: Mac) -> Result<()> {
        let vip = vip.into();
        let what = format!("an answer that {vip} is at {mac}");
        wait_until(PATIENCE, &what, || Ok(self.ask(vip)? == Some(mac)))
            .with_context(|| format!("the agent's log:\n{}", self.agent.transcript()))
    }

    /// Returns the row of `status` for a VIP on eth0.
    pub fn vip_status(&self, vip: impl Into<IpAddr>) -> Result<Value> {
        scene::vip_status(&self.agent, vip, "eth0")
    }

    /// Waits until the row of `status` for a VIP on eth0 `matches`.
    pub fn wait_for_vip(
        &self,
        vip: impl Into<IpAddr>,
        what: &str,
        matches: impl Fn(&Value) -> bool,
    ) -> Result<Value> {
        let vip = vip.into();
        let row = || Ok(self.vip_status(vip).ok().filter(|row| matches(row)));
        wait_for(PATIENCE, &format!("status of {vip}: {what}"), row)
            .with_context(|| format!("the agent's log:\n{}", self.agent.transcript()))
    }

    /// Returns the earliest and latest time at which the lease deadline (`left_seconds`) or its grace period
    /// (`hold_left_seconds`) ends, by the kernel's maps. Returns `None` if it has passed.
    pub fn deadline_passes(&self, left: &str) -> Result<(SystemTime, SystemTime)> {
        let before = SystemTime::now();
        let status = self.agent.status()?;
        let after = SystemTime::now();
        let seconds = status["lease_deadline"][left]
            .as_f64()
            .context("status has no such time of the lease deadline")?;
        ensure!(seconds > 0.0, "{left} has passed already");
        let left = Duration::from_secs_f64(seconds);
        Ok((before + left, after + left))
    }

    /// Fails unless the node, and no other, answered every request of `report`.
    pub fn assert_answered_throughout(&self, report: &ProbeReport) {
        assert_eq!(report.unanswered(), [], "{report}\nthe agent's log:\n{}", self.agent.transcript());
        let node = Answerer { sha: NODE, eth_src: NODE };
        assert!(report.answers_by().keys().eq([&node]), "{report}");
        assert_eq!(report.doubles(), 0, "{report}");
    }

    /// Returns the ids of the programs at the hooks of the agent, on all interfaces: XDP and tcx.
    pub fn programs(&self) -> Result<Vec<u64>> {
        let mut programs = self.xdp_programs()?;
        self.host.run(|| -> Result<()> {
            for interface in &if_nameindex()? {
                let name = interface.name().to_str()?;
                let (_, tcx) = SchedClassifier::query_tcx(name, TcAttachType::Ingress)
                    .with_context(|| format!("failed to ask for the programs of tcx on {name}"))?;
                programs.extend(tcx.iter().map(|program| u64::from(program.id())));
            }
            Ok(())
        })?;
        Ok(programs)
    }

    /// Returns the ids of the XDP programs on the host, from `bpftool net`.
    pub fn xdp_programs(&self) -> Result<Vec<u64>> {
        let mut command = self.host.command(bpftool()?);
        command.args(["-j", "net", "show"]);
        let printed = output_of(command)?;
        let net: Value = serde_json::from_str(&printed).context("bpftool printed no JSON")?;
        let programs = net[0]["xdp"].as_array().context("bpftool lists no XDP programs")?;
        Ok(programs.iter().filter_map(|program| program["id"].as_u64()).collect())
    }
}

/// Sends one request for `address` from an interface and returns the MAC in
/// the first answer. Returns `None` without an answer in 200 ms.
pub fn ask(host: &Host, interface: &str, address: impl Into<IpAddr>) -> Result<Option<Mac>> {
    const LIMIT: Duration = Duration::from_millis(200);
    let address = address.into();
    let family = Family::of(address);
    let wire = Wire::open_in(host, interface, family)?;
    let sender = host.mac(interface)?;
    let request = match host.address_in(interface, family) {
        Ok(own) => Message::request(sender, own, address),
        Err(_) => Message::probe(sender, address),
    };
    wire.send(&request.to_bytes())?;
    let deadline = Instant::now() + LIMIT;
    while let Some(frame) = wire.receive(deadline)? {
        if let Some(answer) = frame.message().filter(|message| message.answers(&request)) {
            return Ok(Some(answer.sender()));
        }
    }
    Ok(None)
}
