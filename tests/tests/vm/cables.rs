//! A client and a node with two cables, whose ends are ports of a bond or team.

use std::time::Duration;

use anyhow::{Context as _, Result};
use vipward_tests::{
    agent::{Agent, AgentOptions, Bpffs, ask, ip, start_agent},
    frames::Mac,
    kit::{output_of, wait_until},
    lan::{
        BondMode, Host,
        vm::{Machine, Plugged},
    },
};

use crate::segment::{PATIENCE, add_addresses};

/// Names of the NICs on either side, by cable.
pub(crate) const NICS: [&str; 2] = ["nic0", "nic1"];
/// The node's bond or team.
pub(crate) const BOND: &str = "bond0";
/// The client's bridge, bond or team.
pub(crate) const FAR: &str = "far0";
/// Time in which a driver notices that the carrier is gone.
const NOTICED: Duration = Duration::from_millis(500);
/// The node's NIC in each cable.
const AT_NODE: [usize; 2] = [0, 2];

/// The device that the cables are plugged into.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Top {
    Bond(BondMode),
    Team(&'static str),
}

impl Top {
    /// Returns true if one port is active. The client's end is a bridge then, which learns like a
    /// switch; else it is like the node's.
    fn has_one_active_port(self) -> bool {
        matches!(self, Self::Bond(BondMode::ActiveBackup) | Self::Team("activebackup"))
    }

    fn make(self, host: &Host, name: &str) -> Result<()> {
        match self {
            Self::Bond(mode) => host.namespace().add_bond(name, mode),
            Self::Team(mode) => host.namespace().add_team(name, mode),
        }
    }
}

/// Client and node. Fields are in the order of dropping.
#[derive(Debug)]
pub(crate) struct Cables {
    pub(crate) client: Host,
    pub(crate) node: Host,
    bpffs: Bpffs,
    /// The ends of each cable: the client's and the node's.
    ends: Vec<[Plugged; 2]>,
}

impl Cables {
    /// Makes the hosts, with 192.0.2.1 and `2001:db8::1`, and 192.0.2.2 and `2001:db8::2`.
    pub(crate) fn new(machine: &Machine, kind: Top) -> Result<Self> {
        let (client, node) = (Host::new("client")?, Host::new("node")?);
        let mut ends = Vec::new();
        for (number, name) in NICS.into_iter().enumerate() {
            ends.push([
                machine.plug_client(number, &client, name)?,
                machine.plug_node(AT_NODE[number], &node, name)?,
            ]);
        }
        kind.make(&node, BOND)?;
        if kind.has_one_active_port() {
            client.namespace().add_bridge(FAR)?;
        } else {
            kind.make(&client, FAR)?;
        }
        for (host, top) in [(&client, FAR), (&node, BOND)] {
            for nic in NICS {
                host.namespace().set_master(nic, top)?;
                host.set_up(nic, true)?;
            }
            host.set_up(top, true)?;
        }
        for nic in NICS {
            node.namespace().wait_until_ready(nic)?;
        }
        add_addresses(&client, FAR, 1)?;
        add_addresses(&node, BOND, 2)?;
        if kind == Top::Bond(BondMode::ActiveBackup) {
            // The port that was ready first may be the other one. The bond refuses a port whose carrier
            // it has not seen yet.
            let is_active = || Ok(node.namespace().set_active_port(BOND, NICS[0]).is_ok());
            wait_until(PATIENCE, "the first port to be active", is_active)?;
        } else if kind == Top::Team("activebackup") {
            // No port is active at first.
            node.namespace().fail_team_over(BOND, NICS[1], NICS[0])?;
        }
        let cables = Self { client, node, bpffs: Bpffs::mount()?, ends };
        cables.wait_for_kernel()?;
        Ok(cables)
    }

    /// Starts an agent, and waits until it runs.
    pub(crate) fn agent(&self, yaml: &str) -> Result<Agent> {
        start_agent(&self.node, yaml, AgentOptions::new(self.bpffs.pin_dir("node")))
    }

    /// Connects or cuts a cable: both ends have carrier, or neither. Where the driver does not notice
    /// the loss, as QEMU's e1000e may not, the node's port is set down.
    pub(crate) fn connect(&self, cable: usize, connected: bool) -> Result<()> {
        self.ends[cable].iter().try_for_each(|end| end.set_carrier(connected))?;
        let nic = NICS[cable];
        if connected {
            return self.node.set_up(nic, true);
        }
        let is_lost = || Ok(!self.node.link(nic)?.carrier);
        if wait_until(NOTICED, "the loss of carrier", is_lost).is_err() {
            println!("{nic} has not noticed that its carrier is gone");
            self.node.set_up(nic, false)?;
        }
        Ok(())
    }

    /// Returns the MAC of the node's bond.
    pub(crate) fn mac(&self) -> Result<Mac> {
        self.node.mac(BOND)
    }

    fn wait_for_kernel(&self) -> Result<()> {
        let is_answered = || Ok(ask(&self.client, FAR, ip(2))?.is_some());
        wait_until(PATIENCE, "the node's kernel to answer", is_answered).with_context(|| {
            let mut cat = self.node.command("cat");
            cat.arg(format!("/proc/net/bonding/{BOND}"));
            output_of(cat).unwrap_or_else(|error| format!("{error:#}"))
        })
    }
}

impl Drop for Cables {
    fn drop(&mut self) {
        for (host, top) in [(&self.client, FAR), (&self.node, BOND)] {
            if let Err(error) = host.delete_link(top) {
                eprintln!("{error:#}");
            }
        }
        for end in self.ends.iter().flatten() {
            if let Err(error) = end.set_carrier(true) {
                eprintln!("{error:#}");
            }
        }
    }
}
