//! The virtual machine that a test runs in: its NICs, and the report that leaves it.
//! `cargo xtask vm` boots the machine, and tells it in variables what it has.

use std::env;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::PathBuf;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::arp::Mac;
use crate::lan::{Host, NetNs};

/// Model of the NICs; set in machines only.
const MODEL: &str = "VIPWARD_VM";
/// MAC of the NIC for a client, and MACs of those for a node on the same segment.
const CLIENT: &str = "VIPWARD_VM_CLIENT";
const NODE: &str = "VIPWARD_VM_NODE";
/// File for the rows of the report.
const REPORT: &str = "VIPWARD_VM_REPORT";

/// Virtual machine.
#[derive(Clone, Debug)]
pub struct Machine {
    model: String,
    client: Mac,
    node: Vec<Mac>,
    report: PathBuf,
}

impl Machine {
    /// Returns the machine that this test runs in. Fails outside of one.
    pub fn here() -> Result<Self> {
        let variable = |name: &str| {
            env::var(name).with_context(|| {
                format!("{name} is not set, so this is no virtual machine of the tests: run `cargo xtask vm`")
            })
        };
        Ok(Self {
            model: variable(MODEL)?,
            client: variable(CLIENT)?.parse()?,
            node: variable(NODE)?.split(',').map(str::parse).collect::<Result<_, _>>()?,
            report: variable(REPORT)?.into(),
        })
    }

    /// Returns the model of the node's NICs.
    pub fn model(&self) -> &str {
        &self.model
    }

    /// Moves the client's NIC to a host, down and under this name.
    pub fn plug_client(&self, host: &Host, name: &str) -> Result<Plugged> {
        Plugged::new(self.client, host, name)
    }

    /// Moves a NIC of the node to a host, down and under this name. `number` counts from 0.
    pub fn plug_node(&self, number: usize, host: &Host, name: &str) -> Result<Plugged> {
        let mac = self.node.get(number).with_context(|| format!("the machine has no NIC {number}"))?;
        Plugged::new(*mac, host, name)
    }

    /// Adds a row to the report.
    pub fn report(&self, row: &Value) -> Result<()> {
        let file = OpenOptions::new().create(true).append(true).open(&self.report);
        file.and_then(|mut file| writeln!(file, "{row}"))
            .with_context(|| format!("failed to write {}", self.report.display()))
    }
}

/// NIC in a host. Dropping it takes the NIC back for the next test.
///
/// The kernel would return the NICs of a namespace that ends. But a namespace with virtio-net may
/// not end: the driver keeps the last frame that was sent, the frame its socket, and the socket the
/// namespace.
#[derive(Debug)]
pub struct Plugged {
    mac: Mac,
    host: Host,
}

impl Plugged {
    fn new(mac: Mac, host: &Host, name: &str) -> Result<Self> {
        NetNs::own()?
            .move_nic(mac, host.namespace(), name)
            .with_context(|| format!("failed to plug a NIC into {}", host.name()))?;
        Ok(Self { mac, host: host.clone() })
    }

    fn unplug(&self) -> Result<()> {
        let [.., last] = self.mac.0;
        self.host.namespace().move_nic(self.mac, &NetNs::own()?, &format!("free{last}"))
    }
}

impl Drop for Plugged {
    fn drop(&mut self) {
        if let Err(error) = self.unplug() {
            eprintln!("failed to take a NIC back from {}: {error:#}", self.host.name());
        }
    }
}
