//! A client and a node on one segment, where the node has a link of one kind on its NICs.

use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;
use vipward_tests::{
    agent::{Agent, AgentOptions, Bpffs, ask, start_agent, vip_status},
    frames::Family,
    kit::wait_until,
    lan::{
        BondMode, Host, NetNs, VlanProtocol,
        vm::{Machine, Plugged},
    },
};

pub(crate) use crate::probing::PATIENCE;
use crate::probing::Probing;

/// VLAN of a VLAN device, or the inner of two.
const VLAN: u16 = 100;
const OUTER_VLAN: u16 = 7;
/// Names of the node's NICs. No default of `interfaces` excludes them.
pub(crate) const NICS: [&str; 2] = ["nic0", "nic1"];

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
    /// A VLAN device on a bond.
    VlanOnBond,
    /// A VLAN device on a bridge with the NIC as its port.
    VlanOnBridge,
    /// A VLAN device of customer tags (802.1Q) on one of service tags (802.1ad).
    Qinq,
    /// A bridge with a VLAN device as its port.
    BridgeOnVlan,
    /// A macvlan device on a VLAN device.
    MacvlanOnVlan,
}

/// A device on the one below it.
#[derive(Clone, Copy, Debug)]
enum Layer {
    /// A bond of both NICs.
    Bond,
    Bridge,
    Vlan(u16, VlanProtocol),
    Macvlan,
}

impl Layer {
    fn name(self) -> &'static str {
        match self {
            Self::Bond => "bond0",
            Self::Bridge => "bridge0",
            Self::Vlan(OUTER_VLAN, _) => "vlan1",
            Self::Vlan(..) => "vlan0",
            Self::Macvlan => "macvlan0",
        }
    }

    /// Makes the device on the one below, or of the NICs.
    fn add(self, namespace: &NetNs, below: &str) -> Result<()> {
        match self {
            Self::Bond => {
                namespace.add_bond(self.name(), BondMode::ActiveBackup)?;
                NICS.iter().try_for_each(|nic| namespace.set_master(nic, self.name()))
            }
            Self::Bridge => {
                namespace.add_bridge(self.name())?;
                namespace.set_master(below, self.name())
            }
            Self::Vlan(id, protocol) => namespace.add_vlan(self.name(), below, id, protocol),
            Self::Macvlan => namespace.add_macvlan(self.name(), below),
        }
    }
}

impl Kind {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Bridge => "bridge",
            Self::Vlan => "VLAN",
            Self::Bond => "bond",
            Self::Macvlan => "macvlan",
            Self::VlanLater => "VLAN, parent first",
            Self::MacvlanLater => "macvlan, parent first",
            Self::VlanOnBond => "VLAN on bond",
            Self::VlanOnBridge => "VLAN on bridge",
            Self::Qinq => "VLAN in VLAN",
            Self::BridgeOnVlan => "bridge on VLAN",
            Self::MacvlanOnVlan => "macvlan on VLAN",
        }
    }

    /// Returns the devices of the node above its NIC, from below.
    const fn layers(self) -> &'static [Layer] {
        const CUSTOMER: Layer = Layer::Vlan(VLAN, VlanProtocol::Ieee8021Q);
        const SERVICE: Layer = Layer::Vlan(OUTER_VLAN, VlanProtocol::Ieee8021Ad);
        match self {
            Self::Plain => &[],
            Self::Bridge => &[Layer::Bridge],
            Self::Vlan | Self::VlanLater => &[CUSTOMER],
            Self::Bond => &[Layer::Bond],
            Self::Macvlan | Self::MacvlanLater => &[Layer::Macvlan],
            Self::VlanOnBond => &[Layer::Bond, CUSTOMER],
            Self::VlanOnBridge => &[Layer::Bridge, CUSTOMER],
            Self::Qinq => &[SERVICE, CUSTOMER],
            Self::BridgeOnVlan => &[CUSTOMER, Layer::Bridge],
            Self::MacvlanOnVlan => &[CUSTOMER, Layer::Macvlan],
        }
    }
}

/// Returns the line of a file that holds the VIPs of both families.
pub(crate) fn holds_both() -> String {
    let [v4, v6] = Family::BOTH.map(Family::vip);
    format!("vips: [{{address: {v4}}}, {{address: '{v6}'}}]\n")
}

/// Gives an interface its address of each family. Those of IPv6 outlive its being down, as those of IPv4
/// do.
pub(crate) fn add_addresses(host: &Host, interface: &str, last: u8) -> Result<()> {
    host.set_sysctl(&format!("net/ipv6/conf/{interface}/keep_addr_on_down"), "1")?;
    Family::BOTH.into_iter().try_for_each(|family| host.add_address(interface, family.net(last)))
}

/// Makes devices on a host's NIC, sets everything up, and returns the name of the topmost.
fn build(host: &Host, layers: &[Layer]) -> Result<&'static str> {
    let mut top = NICS[0];
    for layer in layers {
        layer.add(host.namespace(), top)?;
        top = layer.name();
    }
    for device in [NICS[0]].into_iter().chain(layers.iter().map(|layer| layer.name())) {
        host.set_up(device, true)?;
        host.namespace().wait_until_ready(device)?;
    }
    Ok(top)
}

/// Client and node. Fields are in the order of dropping.
#[derive(Debug)]
pub(crate) struct Segment {
    /// Host that sends the requests.
    pub(crate) client: Host,
    pub(crate) at_client: &'static str,
    /// Host that holds the VIP.
    pub(crate) node: Host,
    /// Interface of the node that has its address.
    pub(crate) at_node: &'static str,
    layers: &'static [Layer],
    parent_first: bool,
    bpffs: Bpffs,
    nics: Vec<Plugged>,
}

impl Segment {
    /// Makes the hosts, with the machine's NICs, and the link. The client has 192.0.2.1 and
    /// `2001:db8::1`, and the node 192.0.2.2 and `2001:db8::2`.
    pub(crate) fn new(machine: &Machine, kind: Kind) -> Result<Self> {
        let (client, node) = (Host::new("client")?, Host::new("node")?);
        let mut nics = vec![machine.plug_client(0, &client, NICS[0])?, machine.plug_node(0, &node, NICS[0])?];
        let layers = kind.layers();
        if layers.iter().any(|layer| matches!(layer, Layer::Bond)) {
            nics.push(machine.plug_node(1, &node, NICS[1])?);
        }
        let tagged: Vec<Layer> =
            layers.iter().copied().filter(|layer| matches!(layer, Layer::Vlan(..))).collect();
        let at_client = build(&client, &tagged)?;
        let at_node = build(&node, layers)?;
        if nics.len() > 2 {
            node.set_up(NICS[1], true)?;
        }
        add_addresses(&client, at_client, 1)?;
        add_addresses(&node, at_node, 2)?;
        node.add_gateway(std::net::Ipv4Addr::new(192, 0, 2, 1))?;
        let parent_first = matches!(kind, Kind::VlanLater | Kind::MacvlanLater);
        Ok(Self { client, at_client, node, at_node, layers, parent_first, bpffs: Bpffs::mount()?, nics })
    }

    /// Makes the client's NIC the port of a bridge with a spanning tree, which gets the client's
    /// addresses. The port comes up anew, and listens and learns for the delay each.
    pub(crate) fn make_client_a_bridge(&mut self, forward_delay: Duration) -> Result<()> {
        let (host, nic, bridge) = (&self.client, self.at_client, Layer::Bridge.name());
        for family in Family::BOTH {
            host.delete_address(nic, family.net(1))?;
        }
        host.set_up(nic, false)?;
        // A port of a switch says nothing of its own.
        host.namespace().set_ipv6(nic, false)?;
        Layer::Bridge.add(host.namespace(), nic)?;
        host.namespace().span_tree(bridge, forward_delay)?;
        host.set_up(bridge, true)?;
        host.set_up(nic, true)?;
        self.at_client = bridge;
        add_addresses(host, bridge, 1)
    }

    /// Starts an agent with a file, and does not wait.
    pub(crate) fn launch(&self, yaml: &str) -> Result<Agent> {
        Agent::start(&self.node, yaml, AgentOptions::new(self.bpffs.pin_dir("node")))
    }

    /// Starts an agent that holds a VIP of each family, with more lines of its file. Waits until
    /// `status` reports them answered, or, where they never are, until that takes too long.
    pub(crate) fn agent(&self, more: &str) -> Result<Agent> {
        let options = AgentOptions::new(self.bpffs.pin_dir("node"));
        let yaml = format!("{more}{}", holds_both());
        let agent = if self.parent_first {
            let nic = NICS[0];
            let agent = start_agent(&self.node, &format!("interfaces: [{nic}]\nvips: []\n"), options)?;
            agent.write_config(&format!("interfaces: [{nic}, {}]\n{yaml}", self.at_node))?;
            agent
        } else {
            start_agent(&self.node, &yaml, options)?
        };
        for family in Family::BOTH {
            let row = || vip_status(&agent, family.vip(), self.at_node);
            let answers = || Ok(row().is_ok_and(|row| row["answering"] == true));
            if let Err(error) = wait_until(PATIENCE, "status to say that the VIP is answered", answers) {
                eprintln!("{}: {error:#}", family.vip());
            }
        }
        Ok(agent)
    }

    /// Returns the node's first card.
    pub(crate) fn card(&self) -> &Plugged {
        &self.nics[1]
    }

    pub(crate) fn start_probing(&self) -> Result<Probing> {
        Probing::begin(&self.client, self.at_client, self.node.mac(self.at_node)?)
    }

    /// Sends one request for the VIP of a family. Returns true if the node answers.
    pub(crate) fn is_answered(&self, family: Family) -> Result<bool> {
        let answer = ask(&self.client, self.at_client, family.vip())?;
        Ok(answer == Some(self.node.mac(self.at_node)?))
    }

    /// Waits until the node answers for the VIPs of both families.
    pub(crate) fn wait_until_answered(&self) -> Result<()> {
        Family::BOTH.into_iter().try_for_each(|family| {
            let what = format!("an answer for {}", family.vip());
            wait_until(PATIENCE, &what, || self.is_answered(family))
        })
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
        for host in [&self.client, &self.node] {
            for layer in self.layers.iter().rev() {
                if host.link(layer.name()).is_ok()
                    && let Err(error) = host.delete_link(layer.name())
                {
                    eprintln!("{error:#}");
                }
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
