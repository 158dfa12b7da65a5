//! Owns a host on a LAN: its interfaces, addresses, neighbour table, sysctls and processes.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use ipnet::{IpNet, Ipv4Net};

use super::{
    links::Link,
    neighbours::{Neighbour, NeighbourState},
    netns::NetNs,
};
use crate::{
    frames::{Family, Mac},
    kit::{Process, SpawnOptions, output_of, wait_for},
};

/// Time for the kernel to resolve a neighbour: it sends three requests, a second apart.
const RESOLVE_LIMIT: Duration = Duration::from_secs(5);
/// The discard port (RFC 863), on which nothing listens.
const DISCARD: u16 = 9;

/// Interface to create on a host.
#[derive(Clone, Debug)]
pub struct Nic {
    pub(super) name: String,
    pub(super) mac: Option<Mac>,
    pub(super) addresses: Vec<IpNet>,
}

impl Nic {
    /// Returns eth0 with this address and a hardware address that the kernel chooses.
    pub fn new(address: Ipv4Net) -> Self {
        Self::bare().address(address)
    }

    /// Returns eth0 without an IP address.
    pub fn bare() -> Self {
        Self { name: "eth0".to_owned(), mac: None, addresses: Vec::new() }
    }

    #[must_use]
    pub fn named(self, name: &str) -> Self {
        Self { name: name.to_owned(), ..self }
    }

    #[must_use]
    pub fn mac(self, mac: Mac) -> Self {
        Self { mac: Some(mac), ..self }
    }

    /// Adds an address. With one of IPv6, the host has IPv6 on the interface.
    #[must_use]
    pub fn address(mut self, address: impl Into<IpNet>) -> Self {
        self.addresses.push(address.into());
        self
    }
}

/// Host: a network namespace with cables to switches or other hosts. Clones are the same host.
#[derive(Clone, Debug)]
pub struct Host(pub(super) Arc<Inner>);

#[derive(Debug)]
pub(super) struct Inner {
    pub(super) name: String,
    pub(super) namespace: NetNs,
    /// Far end of each cable, namespace and interface, by the first name of the NIC.
    cables: Mutex<BTreeMap<String, (NetNs, String)>>,
}

impl Host {
    /// Makes a host without a cable.
    pub fn new(name: &str) -> Result<Self> {
        let namespace = NetNs::new().with_context(|| format!("failed to make host {name}"))?;
        Ok(Self(Arc::new(Inner { name: name.to_owned(), namespace, cables: Mutex::default() })))
    }

    pub fn name(&self) -> &str {
        &self.0.name
    }

    pub fn namespace(&self) -> &NetNs {
        &self.0.namespace
    }

    /// Runs `work` on a thread in the host's network namespace, and waits for it.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        self.0.namespace.run(work)
    }

    /// Returns a command whose process will run on this host.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        self.0.namespace.adopt(&mut command);
        command
    }

    /// Starts a command of [`Host::command`]. Dropping the process kills it.
    pub fn spawn(&self, command: Command) -> Result<Process> {
        Process::spawn(command, &SpawnOptions::default()).with_context(|| format!("on host {}", self.name()))
    }

    pub fn link(&self, interface: &str) -> Result<Link> {
        self.here(self.0.namespace.link(interface))
    }

    pub fn mac(&self, interface: &str) -> Result<Mac> {
        Ok(self.link(interface)?.mac)
    }

    /// Returns the first IPv4 address of an interface.
    pub fn address(&self, interface: &str) -> Result<Ipv4Addr> {
        match self.address_in(interface, Family::V4)? {
            IpAddr::V4(address) => Ok(address),
            IpAddr::V6(_) => unreachable!("invariant: the family is IPv4"),
        }
    }

    /// Returns the first address of an interface in a family. Link-local addresses of IPv6 do not count.
    pub fn address_in(&self, interface: &str, family: Family) -> Result<IpAddr> {
        let addresses = self.here(self.0.namespace.addresses(interface))?;
        let is_one = |address: &IpAddr| match address {
            IpAddr::V4(_) => family == Family::V4,
            IpAddr::V6(address) => family == Family::V6 && !address.is_unicast_link_local(),
        };
        let first = addresses.iter().map(IpNet::addr).find(is_one);
        self.here(first.with_context(|| format!("{interface} has no address of {family:?}")))
    }

    /// Adds an address. For one of IPv6 it switches IPv6 on, and skips Duplicate Address Detection.
    pub fn add_address(&self, interface: &str, address: impl Into<IpNet>) -> Result<()> {
        self.here(self.0.namespace.add_address(interface, address))
    }

    /// Adds a default route. An agent asks the gateway in its rounds of listening, so that its segment
    /// is heard at once.
    pub fn add_gateway(&self, gateway: impl Into<IpAddr>) -> Result<()> {
        self.route(&["add", "default", "via", &gateway.into().to_string()])
    }

    pub fn remove_gateway(&self) -> Result<()> {
        self.route(&["del", "default"])
    }

    fn route(&self, arguments: &[&str]) -> Result<()> {
        let mut route = self.command("ip");
        route.arg("route").args(arguments);
        self.here(output_of(route)).map(drop)
    }

    pub fn delete_address(&self, interface: &str, address: impl Into<IpNet>) -> Result<()> {
        self.here(self.0.namespace.delete_address(interface, address))
    }

    /// Changes the hardware address of an interface, while it is up.
    pub fn set_mac(&self, interface: &str, mac: Mac) -> Result<()> {
        self.here(self.0.namespace.set_mac(interface, mac))
    }

    /// Sets an interface administratively up or down.
    pub fn set_up(&self, interface: &str, up: bool) -> Result<()> {
        self.here(self.0.namespace.set_up(interface, up))
    }

    /// Renames an interface. [`Host::set_carrier`] still takes the first name.
    pub fn rename(&self, interface: &str, new: &str) -> Result<()> {
        self.here(self.0.namespace.rename(interface, new))
    }

    /// Deletes an interface with its cable and the port at the other end.
    pub fn delete_link(&self, interface: &str) -> Result<()> {
        self.here(self.0.namespace.delete_link(interface))
    }

    /// Gives or takes carrier by setting the other end of the cable up or
    /// down. Returns when an interface that is up is ready for traffic.
    pub fn set_carrier(&self, nic: &str, carrier: bool) -> Result<()> {
        let (namespace, port) = self.far_end(nic)?;
        self.here(namespace.set_up(&port, carrier))?;
        let up_again = carrier && self.0.namespace.links()?.iter().any(|link| link.name == nic && link.up);
        if up_again { self.here(namespace.wait_until_ready(&port)) } else { Ok(()) }
    }

    pub fn neighbours(&self, interface: &str) -> Result<Vec<Neighbour>> {
        self.here(self.0.namespace.neighbours(interface))
    }

    pub fn neighbour(&self, interface: &str, address: impl Into<IpAddr>) -> Result<Option<Neighbour>> {
        self.here(self.0.namespace.neighbour(interface, address))
    }

    /// Adds or replaces a neighbour entry.
    pub fn set_neighbour(
        &self,
        interface: &str,
        address: impl Into<IpAddr>,
        mac: Mac,
        state: NeighbourState,
    ) -> Result<()> {
        self.here(self.0.namespace.set_neighbour(interface, address, mac, state))
    }

    pub fn flush_neighbours(&self, interface: &str) -> Result<()> {
        self.here(self.0.namespace.flush_neighbours(interface))
    }

    /// Makes the host's kernel resolve `address` with a datagram, and returns the MAC.
    pub fn resolve(&self, address: impl Into<IpAddr>) -> Result<Mac> {
        let address = address.into();
        let what = format!("{} to resolve {address}", self.name());
        let interface = self.interface_towards(address)?;
        wait_for(RESOLVE_LIMIT, &what, || {
            let neighbour = self.neighbour(&interface, address)?;
            let asking = neighbour.as_ref().is_some_and(|entry| entry.state == NeighbourState::Incomplete);
            let known = neighbour.and_then(|entry| entry.mac);
            if known.is_none() && !asking {
                self.run(|| {
                    UdpSocket::bind((Family::of(address).unspecified(), 0))?.send_to(&[0], (address, DISCARD))
                })
                .with_context(|| format!("failed to send to {address}"))?;
            }
            Ok(known)
        })
    }

    pub fn set_sysctl(&self, key: &str, value: &str) -> Result<()> {
        let written = self.run(|| fs::write(format!("/proc/sys/{key}"), value));
        self.here(written.with_context(|| format!("failed to set sysctl {key} to {value}")))
    }

    pub(super) fn remember_cable(&self, nic: &str, far: NetNs, port: &str) {
        self.cables().insert(nic.to_owned(), (far, port.to_owned()));
    }

    /// Returns the far end of a cable: its namespace and interface.
    pub(super) fn far_end(&self, nic: &str) -> Result<(NetNs, String)> {
        let far = self.cables().get(nic).cloned();
        self.here(far.with_context(|| format!("no cable was plugged into {nic}")))
    }

    fn cables(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, (NetNs, String)>> {
        self.0.cables.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn interface_towards(&self, address: IpAddr) -> Result<String> {
        for link in self.here(self.0.namespace.links())? {
            if self.0.namespace.addresses(&link.name)?.iter().any(|subnet| subnet.contains(&address)) {
                return Ok(link.name);
            }
        }
        self.here(Err(anyhow::anyhow!("no interface has a subnet that contains {address}")))
    }

    /// Adds the host's name to an error.
    fn here<T>(&self, result: Result<T>) -> Result<T> {
        result.with_context(|| format!("on host {}", self.name()))
    }
}
