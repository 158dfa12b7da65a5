//! The switch of a LAN, and the cables to it and between hosts.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use anyhow::{Context, Result};

use super::{
    host::{self, Host, Nic},
    links::FarEnd,
    managed::{ManagedSwitch, Port},
    named::{self, NamedNamespaces},
    netns::NetNs,
};
use crate::frames::Mac;

pub(super) const BRIDGE: &str = "switch";
/// IFNAMSIZ, less the NUL.
const MAX_NAME_LEN: usize = 15;

/// LAN: a switch and the hosts that are plugged into it.
#[derive(Debug)]
pub struct Lan {
    name: String,
    switch: NetNs,
    ports: AtomicU32,
    /// Switch in user space, in place of the bridge.
    managed: Option<ManagedSwitch>,
    hosts: Mutex<Vec<Weak<host::Inner>>>,
}

impl Lan {
    /// Makes a switch without hosts.
    pub fn new(name: &str) -> Result<Self> {
        let lan = Self::without_switch(name)?;
        lan.switch.add_bridge(BRIDGE)?;
        Ok(lan)
    }

    /// Makes a LAN whose switch is a thread of this process. Its ports take [`Rules`](super::Rules).
    /// It suits native XDP too. It passes a few thousand frames a second.
    pub fn managed(name: &str) -> Result<Self> {
        Ok(Self { managed: Some(ManagedSwitch::start()?), ..Self::without_switch(name)? })
    }

    fn without_switch(name: &str) -> Result<Self> {
        let switch = NetNs::new().with_context(|| format!("failed to make LAN {name}"))?;
        let (ports, hosts) = (AtomicU32::new(0), Mutex::default());
        Ok(Self { name: name.to_owned(), switch, ports, managed: None, hosts })
    }

    /// Makes a host and plugs it in with `nic`.
    pub fn host(&self, name: &str, nic: Nic) -> Result<Host> {
        let host = Host::new(name)?;
        self.plug(&host, nic)?;
        Ok(host)
    }

    /// Plugs another interface of a host into this switch. The host may be on other LANs too.
    pub fn plug(&self, host: &Host, nic: Nic) -> Result<()> {
        let mut port = format!("p{}-{}", self.ports.fetch_add(1, Ordering::Relaxed), host.name());
        port.truncate(port.floor_char_boundary(MAX_NAME_LEN));
        let Nic { name, mac, addresses } = nic;
        let far = FarEnd { namespace: host.namespace(), name: &name, mac };
        self.switch
            .add_veth(&port, None, &far)
            .and_then(|()| match &self.managed {
                Some(managed) => managed.add_port(&self.switch, &port),
                None => self.switch.set_master(&port, BRIDGE),
            })
            .and_then(|()| self.switch.set_up(&port, true))
            .with_context(|| format!("failed to plug {name} of {} into {}", host.name(), self.name))?;
        host.remember_cable(&name, self.switch.clone(), &port);
        if self.managed.is_some() {
            // The switch passes frames on as they are.
            host.namespace().finish_checksums(&name)?;
        }

        let mut hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        hosts.push(Arc::downgrade(&host.0));
        drop(hosts);
        bring_up(host, &name, &addresses)?;
        host.namespace().wait_until_ready(&name)?;
        self.switch.wait_until_ready(&port)
    }

    /// Makes two hosts with a cable between them and no switch, for native XDP.
    /// A veth delivers frames of a native XDP program
    /// only if its other end runs an XDP program too.
    pub fn pair(a: (&str, Nic), b: (&str, Nic)) -> Result<(Host, Host)> {
        let (host_a, host_b) = (Host::new(a.0)?, Host::new(b.0)?);
        connect((&host_a, a.1), (&host_b, b.1))?;
        Ok((host_a, host_b))
    }

    /// Returns the port of a managed switch to which an interface is plugged.
    pub fn port(&self, host: &Host, nic: &str) -> Result<Port> {
        let (_, interface) = host.far_end(nic)?;
        self.managed_switch()?.port(&interface).with_context(|| format!("{nic} of {}", host.name()))
    }

    /// Returns the MAC that a managed switch has learnt for an address.
    pub fn learnt(&self, address: IpAddr) -> Result<Option<Mac>> {
        Ok(self.managed_switch()?.learnt(address))
    }

    fn managed_switch(&self) -> Result<&ManagedSwitch> {
        self.managed.as_ref().with_context(|| format!("the switch of {} is a bridge", self.name))
    }

    pub fn switch(&self) -> &NetNs {
        &self.switch
    }

    /// Names the switch and the present hosts for `ip netns exec`: `vw-LAN-PID-HOST`.
    pub fn keep_named(&self) -> Result<NamedNamespaces> {
        let prefix = format!("{}{}", named::prefix(&self.name), std::process::id());
        let mut kept = NamedNamespaces::default();
        kept.add(format!("{prefix}-switch"), &self.switch)?;
        let hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for host in hosts.iter().filter_map(Weak::upgrade) {
            let name = format!("{prefix}-{}", host.name);
            // A host with two cables to this switch is in the list twice.
            if !kept.names().contains(&name) {
                kept.add(name, &host.namespace)?;
            }
        }
        Ok(kept)
    }
}

pub fn connect((host_a, nic_a): (&Host, Nic), (host_b, nic_b): (&Host, Nic)) -> Result<()> {
    let far = FarEnd { namespace: host_b.namespace(), name: &nic_b.name, mac: nic_b.mac };
    host_a
        .namespace()
        .add_veth(&nic_a.name, nic_a.mac, &far)
        .with_context(|| format!("failed to connect {} to {}", host_a.name(), host_b.name()))?;
    host_a.remember_cable(&nic_a.name, host_b.namespace().clone(), &nic_b.name);
    host_b.remember_cable(&nic_b.name, host_a.namespace().clone(), &nic_a.name);
    bring_up(host_a, &nic_a.name, &nic_a.addresses)?;
    bring_up(host_b, &nic_b.name, &nic_b.addresses)?;
    host_a.namespace().wait_until_ready(&nic_a.name)?;
    host_b.namespace().wait_until_ready(&nic_b.name)
}

fn bring_up(host: &Host, nic: &str, addresses: &[ipnet::IpNet]) -> Result<()> {
    for address in addresses {
        host.add_address(nic, *address)?;
    }
    host.set_up(nic, true)
}
