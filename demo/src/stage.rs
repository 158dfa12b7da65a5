//! Owns the LAN of the story and its agent.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::left_up::{self, LanLeftUp};
use vipward_tests::{
    agent::{Agent, AgentOptions, Bpffs, LogLine},
    frames::Mac,
    kit::interrupt,
    lan::{Host, Lan, Nic},
};

/// Name of the LAN, part of its namespaces' names if it is left up.
pub(super) const LAN: &str = "demo";
pub(super) const NIC: &str = "eth0";
/// VIP of the agent on node A.
pub(super) const VIP: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 10);
/// Ordinary address of node B, for which its kernel answers.
pub(super) const ORDINARY: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 20);
/// The same of IPv6.
pub(super) const VIP_6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0x10);
pub(super) const ORDINARY_6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0x20);
/// VIP that the printer uses until the agent on node A takes it.
pub(super) const SECOND_VIP: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 11);
/// Address that the agent on node A guards.
pub(super) const GATEWAY: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 254);
/// MAC in a range that the IEEE has assigned to a vendor.
const PRINTER: Mac = Mac([0x3c, 0xd9, 0x2b, 0, 0, 0x1e]);
const IS_RUNNING: &str = "agent is running";
/// Time limit. On an idle machine an agent is ready in a fraction of a second.
const READY_LIMIT: Duration = Duration::from_secs(15);

/// Hosts on one switch, each in a network namespace.
pub(super) struct Stage {
    pub(super) client: Host,
    pub(super) node_a: Host,
    pub(super) node_b: Host,
    pub(super) gateway: Host,
    pub(super) rogue: Host,
    pub(super) printer: Host,
    /// Agent on node A, once it is started.
    agent: Option<Agent>,
    bpffs: Bpffs,
    lan: Lan,
    keep: bool,
}

impl Stage {
    pub(super) fn new(keep: bool) -> Result<Self> {
        let lan = Lan::new(LAN)?;
        let nic = |last: u16| -> Result<Nic> {
            Ok(Nic::new(format!("198.18.0.{last}/16").parse()?).mac(Mac::local(last)))
        };
        let client = lan.host("client", nic(1)?)?;
        let node_a = lan.host("node-a", nic(2)?)?;
        let node_b =
            lan.host("node-b", nic(3)?.address(format!("{ORDINARY}/32").parse::<ipnet::IpNet>()?))?;
        for (host, address) in [(&client, "2001:db8::1/64"), (&node_a, "2001:db8::2/64")] {
            host.add_address(NIC, address.parse::<ipnet::IpNet>()?)?;
        }
        node_b.add_address(NIC, format!("{ORDINARY_6}/64").parse::<ipnet::IpNet>()?)?;
        let gateway = lan.host("gateway", nic(254)?)?;
        node_a.add_gateway(Ipv4Addr::new(198, 18, 0, 1))?;
        // The rogue has the address that it claims, which
        // `arping -U` needs, but does not answer for it.
        let rogue = lan.host("rogue", nic(66)?)?;
        rogue.set_sysctl("net/ipv4/conf/all/arp_ignore", "8")?;
        for claimed in [VIP, GATEWAY] {
            rogue.add_address(NIC, format!("{claimed}/32").parse::<ipnet::IpNet>()?)?;
        }
        let printer = Nic::new("198.18.0.30/16".parse()?).mac(PRINTER);
        let printer = lan.host("printer", printer)?;
        let bpffs = Bpffs::mount()?;
        Ok(Self { client, node_a, node_b, gateway, rogue, printer, agent: None, bpffs, lan, keep })
    }

    /// Starts the agent on node A, and waits until it has probed the VIP and answers for it.
    pub(super) fn start_agent(&mut self) -> Result<()> {
        let yaml = self.plain_config()?;
        let mut options = AgentOptions::new(self.bpffs.pin_dir("node-a"));
        options.can_be_left = self.keep;
        self.agent = Some(Agent::start(&self.node_a, &yaml, options)?);
        self.wait_until_running(0)
    }

    /// Starts the agent on node A again after a kill, with its first configuration.
    pub(super) fn revive_agent(&mut self) -> Result<()> {
        let yaml = self.plain_config()?;
        let seen = self.agent()?.logs()?.len();
        self.agent()?.write_config(&yaml)?;
        self.agent()?.restart()?;
        self.wait_until_running(seen)
    }

    /// Returns the VIPs in the configuration of node A.
    pub(super) fn plain_config(&self) -> Result<String> {
        let gateway = self.gateway.mac(NIC)?;
        Ok(format!(
            "vips:\n  - address: {VIP}    # held: answered by the program\n  - address: {VIP_6}\n  \
             - address: {GATEWAY}   # guarded: lives elsewhere\n    mac: {gateway}\n"
        ))
    }

    /// Replaces the configuration of node A, and waits until it is applied.
    pub(super) fn configure(&mut self, yaml: &str) -> Result<()> {
        let seen = self.agent()?.logs()?.len();
        self.agent()?.write_config(yaml)?;
        self.wait_for_log(seen, "its new configuration", |line| line.message() == "configuration is applied")
            .map(drop)
    }

    /// Starts an agent on node B, and waits until it runs. Dropping the value ends it.
    pub(super) fn agent_on_node_b(&self, yaml: &str) -> Result<Agent> {
        let mut agent = Agent::start(&self.node_b, yaml, AgentOptions::new(self.bpffs.pin_dir("node-b")))?;
        wait_for_log(&mut agent, 0, "that it runs", |line| line.message() == IS_RUNNING)?;
        Ok(agent)
    }

    pub(super) fn no_pins(&self) -> PathBuf {
        self.bpffs.pin_dir("none")
    }

    /// Returns where the pins of all agents are.
    pub(super) fn bpffs(&self) -> &Path {
        self.bpffs.path()
    }

    fn wait_until_running(&mut self, seen: usize) -> Result<()> {
        self.wait_for_log(seen, "that it runs", |line| line.message() == IS_RUNNING)?;
        self.wait_until_answering(VIP)
    }

    /// Waits until the program on node A answers for a VIP.
    pub(super) fn wait_until_answering(&mut self, vip: Ipv4Addr) -> Result<()> {
        interrupt::wait(READY_LIMIT, "the VIP to be answered for", || {
            let status = self.agent()?.status()?;
            let vips = status.get("vips").and_then(Value::as_array).context("status lists no VIPs")?;
            let is_answered =
                |found: &Value| found["address"] == vip.to_string() && found["answering"] == true;
            Ok(vips.iter().any(is_answered).then_some(()))
        })
    }

    pub(super) fn agent(&mut self) -> Result<&mut Agent> {
        self.agent.as_mut().context("invariant: the story starts the agent before it speaks of it")
    }

    /// Waits for a line of the agent's log after the first `seen` lines.
    pub(super) fn wait_for_log(
        &mut self,
        seen: usize,
        what: &str,
        matches: impl Fn(&LogLine) -> bool,
    ) -> Result<LogLine> {
        wait_for_log(self.agent()?, seen, what, matches)
    }

    /// Returns the program's counter of `outcome` on node A.
    pub(super) fn counter(&mut self, outcome: &str) -> Result<u64> {
        let status = self.agent()?.status()?;
        let count = status.get("counters").and_then(|counters| counters.get(outcome)?.as_u64());
        count.with_context(|| format!("`vipward status` has no counter {outcome}: {status}"))
    }

    /// Leaves everything up, and records it.
    pub(super) fn keep(mut self) -> Result<LanLeftUp> {
        let agent = self.agent.take().context("invariant: the story has started the agent")?;
        let named = self.lan.keep_named()?;
        let log = agent.log_path();
        let lan = LanLeftUp {
            lan: LAN.to_owned(),
            namespaces: named.names().to_vec(),
            agent_pid: agent.pid()?,
            agent_directory: log.parent().map_or_else(PathBuf::new, Path::to_owned),
            vipward: agent.options.binary.clone().unwrap_or_else(Agent::default_binary),
            pin_dir: agent.options.pin_dir.clone(),
            bpffs: self.bpffs.path().to_owned(),
            log,
        };
        left_up::write(&lan)?;
        agent.leave()?;
        self.bpffs.leave();
        named.leave();
        Ok(lan)
    }
}

fn wait_for_log(
    agent: &mut Agent,
    seen: usize,
    what: &str,
    matches: impl Fn(&LogLine) -> bool,
) -> Result<LogLine> {
    let what = format!("the agent on {} to log {what}", agent.host().name());
    let found = interrupt::wait(READY_LIMIT, &what, || {
        let running = agent.is_running()?;
        let line = agent.logs()?.into_iter().skip(seen).find(|line| matches(line));
        ensure!(running || line.is_some(), "the agent has ended");
        Ok(line)
    });
    found.with_context(|| format!("the agent's log:\n{}", agent.transcript()))
}
