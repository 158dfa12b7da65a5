//! The virtual machine that a test runs in: its NICs, and the report that leaves it.
//! `cargo xtask vm` boots the machine, and describes its devices in variables.

mod control;

use std::env;
use std::ffi::OsStr;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::Value;

pub use self::control::Control;

use crate::{
    frames::Mac,
    lan::{Host, NetNs},
};

/// Model of the NICs; set in machines only.
const MODEL: &str = "VIPWARD_VM";
/// MACs of the NICs for a client, and of those for a node. The client's first and the node's first two
/// are on one segment, and the last ones on another.
const CLIENT: &str = "VIPWARD_VM_CLIENT";
const NODE: &str = "VIPWARD_VM_NODE";
/// File for the rows of the report.
const REPORT: &str = "VIPWARD_VM_REPORT";

#[derive(Clone, Debug)]
pub struct Machine {
    model: String,
    client: Vec<Mac>,
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
            client: macs(&variable(CLIENT)?)?,
            node: macs(&variable(NODE)?)?,
            report: variable(REPORT)?.into(),
        })
    }

    /// Returns the model of the node's NICs.
    pub fn model(&self) -> &str {
        &self.model
    }

    /// Moves a NIC of the client to a host, down and under this name. `number` counts from 0.
    pub fn plug_client(&self, number: usize, host: &Host, name: &str) -> Result<Plugged> {
        let mac = self.client.get(number).with_context(|| format!("the client has no NIC {number}"))?;
        Plugged::new(*mac, host, name)
    }

    /// Moves a NIC of the node to a host, down and under this name. `number` counts from 0.
    pub fn plug_node(&self, number: usize, host: &Host, name: &str) -> Result<Plugged> {
        let mac = self.node.get(number).with_context(|| format!("the node has no NIC {number}"))?;
        Plugged::new(*mac, host, name)
    }

    pub fn report(&self, row: &Value) -> Result<()> {
        let file = OpenOptions::new().create(true).append(true).open(&self.report);
        file.and_then(|mut file| writeln!(file, "{row}"))
            .with_context(|| format!("failed to write {}", self.report.display()))
    }
}

fn macs(list: &str) -> Result<Vec<Mac>> {
    list.split(',').map(str::parse).collect()
}

/// Returns the directory of the PCI device of a NIC in this process's namespace.
fn pci_device(nic: Mac) -> Result<PathBuf> {
    const NICS: &str = "/sys/class/net";
    let nics = fs::read_dir(NICS).with_context(|| format!("failed to list {NICS}"))?;
    let is_it = |dir: &fs::DirEntry| {
        let address = fs::read_to_string(dir.path().join("address"));
        address.is_ok_and(|address| address.trim_end() == nic.to_string())
    };
    let dir = nics.flatten().find(is_it).with_context(|| format!("there is no NIC {nic}"))?.path();
    let device = fs::canonicalize(dir.join("device")).context("the NIC is no device")?;
    // A virtio device is a child of the PCI device.
    let is_pci = |path: &&Path| path.join("vendor").exists() && path.join("class").exists();
    device.ancestors().find(is_pci).map(Path::to_owned).context("the NIC is no PCI device")
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
    /// Directory of the PCI device.
    device: PathBuf,
}

impl Plugged {
    fn new(mac: Mac, host: &Host, name: &str) -> Result<Self> {
        let device = pci_device(mac)?;
        NetNs::own()?
            .move_nic(mac, host.namespace(), name)
            .with_context(|| format!("failed to plug a NIC into {}", host.name()))?;
        Ok(Self { mac, host: host.clone(), device })
    }

    /// Takes the card from its driver and gives it back. It is a new interface then, in the same host,
    /// down and under this name.
    pub fn rebind(&self, name: &str) -> Result<()> {
        let write = |path: PathBuf, device: &OsStr| {
            fs::write(&path, device.as_bytes()).with_context(|| format!("failed to write {}", path.display()))
        };
        let device = self.device.file_name().context("invariant: a PCI device has a name")?;
        let driver = fs::canonicalize(self.device.join("driver")).context("the card has no driver")?;
        write(driver.join("unbind"), device)?;
        write(driver.join("bind"), device)?;
        NetNs::own()?.move_nic(self.mac, self.host.namespace(), name)
    }

    /// Returns its permanent MAC, which names it.
    pub fn mac(&self) -> Mac {
        self.mac
    }

    /// Gives or takes its carrier, as a cable would.
    pub fn set_carrier(&self, carrier: bool) -> Result<()> {
        Control::open()?.set_carrier(self.mac, carrier)
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
