//! A client and a node on one segment, where the node has a link of one kind on its NICs.

use anyhow::{Context, Result};
use serde_json::Value;
use vipward_tests::agent::{Agent, AgentOptions};
use vipward_tests::bpffs::Bpffs;
use vipward_tests::lan::{BondMode, Host};
use vipward_tests::scene::{PATIENCE, VIP, net, start_agent, vip_status};
use vipward_tests::vm::{Machine, Plugged};
use vipward_tests::wait::wait_until;

/// VLAN of the VLAN device.
const VLAN: u16 = 100;
/// Names of the node's NICs. No default of `interfaces` excludes them.
const NICS: [&str; 2] = ["nic0", "nic1"];

/// Kind of the link that has the node's address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// The NIC itself.
    Plain,
    /// A bridge with the NIC as its port.
    Bridge,
    /// A VLAN device on the NIC.
    Vlan,
    /// A bond of two NICs, of which one is active.
    Bond,
    /// A macvlan device on the NIC.
    Macvlan,
    /// A VLAN device on a NIC that is attached already.
    VlanLater,
    /// A macvlan device on a NIC that is attached already.
    MacvlanLater,
}

impl Kind {
    /// Returns the name in the table.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Bridge => "bridge",
            Self::Vlan => "VLAN",
            Self::Bond => "bond",
            Self::Macvlan => "macvlan",
            Self::VlanLater => "VLAN, parent first",
            Self::MacvlanLater => "macvlan, parent first",
        }
    }
}

/// Client and node. Fields are in the order of dropping.
#[derive(Debug)]
pub(crate) struct Segment {
    /// Host that asks.
    pub(crate) client: Host,
    /// Interface of the client.
    pub(crate) at_client: &'static str,
    /// Host that holds the VIP.
    pub(crate) node: Host,
    /// Interface of the node that has its address.
    pub(crate) at_node: &'static str,
    parent_first: bool,
    bpffs: Bpffs,
    nics: Vec<Plugged>,
}

impl Segment {
    /// Makes the hosts, with the machine's NICs, and the link. The client has 192.0.2.1 and the
    /// node 192.0.2.2.
    pub(crate) fn new(machine: &Machine, kind: Kind) -> Result<Self> {
        let (client, node) = (Host::new("client")?, Host::new("node")?);
        let mut nics = vec![machine.plug_client(0, &client, NICS[0])?, machine.plug_node(0, &node, NICS[0])?];
        let (mut at_client, mut at_node) = (NICS[0], NICS[0]);
        let namespace = node.namespace();
        match kind {
            Kind::Plain => {}
            Kind::Bridge => {
                at_node = "bridge0";
                namespace.add_bridge(at_node)?;
                namespace.set_master(NICS[0], at_node)?;
            }
            Kind::Vlan | Kind::VlanLater => {
                (at_client, at_node) = ("vlan0", "vlan0");
                namespace.add_vlan(at_node, NICS[0], VLAN)?;
                client.namespace().add_vlan(at_client, NICS[0], VLAN)?;
            }
            Kind::Bond => {
                at_node = "bond0";
                nics.push(machine.plug_node(1, &node, NICS[1])?);
                namespace.add_bond(at_node, BondMode::ActiveBackup)?;
                NICS.iter().try_for_each(|nic| namespace.set_master(nic, at_node))?;
                node.set_up(NICS[1], true)?;
            }
            Kind::Macvlan | Kind::MacvlanLater => {
                at_node = "macvlan0";
                namespace.add_macvlan(at_node, NICS[0])?;
            }
        }
        for (host, nic, top, address) in
            [(&client, NICS[0], at_client, net(1)), (&node, NICS[0], at_node, net(2))]
        {
            host.set_up(nic, true)?;
            host.set_up(top, true)?;
            host.add_address(top, address)?;
            host.namespace().wait_until_ready(nic)?;
            host.namespace().wait_until_ready(top)?;
        }
        let parent_first = matches!(kind, Kind::VlanLater | Kind::MacvlanLater);
        Ok(Self { client, at_client, node, at_node, parent_first, bpffs: Bpffs::mount()?, nics })
    }

    /// Starts an agent that is to hold the VIP, with more lines of its file, and does not wait.
    pub(crate) fn launch(&self, more: &str) -> Result<Agent> {
        let options = AgentOptions::new(self.bpffs.pin_dir("node"));
        Agent::start(&self.node, &format!("{more}vips: [{{address: {VIP}}}]\n"), options)
    }

    /// Starts an agent that holds the VIP, with more lines of its file. Waits until `status` says
    /// that the VIP is answered, or, where it never is, until that takes too long.
    pub(crate) fn agent(&self, more: &str) -> Result<Agent> {
        let options = AgentOptions::new(self.bpffs.pin_dir("node"));
        let yaml = format!("{more}vips: [{{address: {VIP}}}]\n");
        let agent = if self.parent_first {
            let nic = NICS[0];
            let agent = start_agent(&self.node, &format!("interfaces: [{nic}]\nvips: []\n"), options)?;
            agent.write_config(&format!("interfaces: [{nic}, {}]\n{yaml}", self.at_node))?;
            agent
        } else {
            start_agent(&self.node, &yaml, options)?
        };
        let answers = || Ok(vip_status(&agent, VIP, self.at_node).is_ok_and(|row| row["answering"] == true));
        if let Err(error) = wait_until(PATIENCE, "status to say that the VIP is answered", answers) {
            eprintln!("{error:#}");
        }
        Ok(agent)
    }

    /// Returns the node's first card.
    pub(crate) fn card(&self) -> &Plugged {
        &self.nics[1]
    }

    /// Returns the mode in which the program runs on each interface, in one line.
    pub(crate) fn modes(&self, agent: &Agent) -> Result<String> {
        let status = agent.status()?;
        let interfaces = status["interfaces"].as_array().context("status has no interfaces")?;
        let mode = |interface: &Value| {
            let mode = interface["mode"].as_str().unwrap_or("none");
            let name = interface["name"].as_str().unwrap_or("?");
            if interfaces.len() == 1 && name == self.at_node {
                mode.to_owned()
            } else {
                format!("{name} {mode}")
            }
        };
        Ok(interfaces.iter().map(mode).collect::<Vec<_>>().join(", "))
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        // A VLAN device would follow its NIC to another namespace, and be in the way there.
        for (host, top) in [(&self.client, self.at_client), (&self.node, self.at_node)] {
            if !NICS.contains(&top)
                && let Err(error) = host.delete_link(top)
            {
                eprintln!("{error:#}");
            }
        }
        self.nics.clear();
    }
}

/// Returns the row of a report, for text or numbers that are shown as they are.
pub(crate) fn row(machine: &Machine, kernel: &str, kind: Kind, cells: [&str; 4]) -> Value {
    let [mode, vip, own, result] = cells;
    serde_json::json!({
        "kernel": kernel, "nic": machine.model(), "link": kind.name(),
        "mode": mode, "vip": vip, "own": own, "result": result,
    })
}
