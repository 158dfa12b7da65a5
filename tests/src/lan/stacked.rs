//! Makes devices on top of others, and moves NICs between namespaces.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::sync::Arc;

use anyhow::{Context, Result};
use futures::TryStreamExt;
use rtnetlink::packet_route::link::{
    BondLacpRate, BondMode, LinkAttribute, LinkMessage, MacVlanMode, VlanProtocol,
};
use rtnetlink::{LinkBond, LinkMacVlan, LinkUnspec, LinkVlan};

use super::netns::NetNs;
use crate::frames::Mac;

/// Interval in which a bond checks the carrier of its ports.
const MIIMON_MS: u32 = 100;

impl NetNs {
    /// Returns the namespace of this process.
    pub fn own() -> Result<Self> {
        const PATH: &str = "/proc/self/ns/net";
        Ok(Self::from(Arc::new(File::open(PATH).with_context(|| format!("failed to open {PATH}"))?)))
    }

    /// Moves the NIC with this permanent address to another namespace, where it is down.
    pub fn move_nic(&self, permanent: Mac, to: &Self, name: &str) -> Result<()> {
        let messages: Vec<LinkMessage> = self
            .netlink(async |handle| handle.link().get().execute().try_collect().await)
            .context("failed to list the interfaces")?;
        let address = LinkAttribute::PermAddress(permanent.0.to_vec());
        let nic = messages.iter().find(|message| message.attributes.contains(&address));
        let index = nic.with_context(|| format!("there is no NIC {permanent}"))?.header.index;
        let moved = LinkUnspec::new_with_index(index).name(name.to_owned());
        let moved = moved.setns_by_fd(to.as_fd().as_raw_fd()).build();
        self.netlink(async |handle| handle.link().set(moved).execute().await)
            .with_context(|| format!("failed to move the NIC {permanent} as {name}"))
    }

    /// Makes a VLAN device on an interface, for tags of a kind.
    pub fn add_vlan(&self, name: &str, parent: &str, id: u16, protocol: VlanProtocol) -> Result<()> {
        let vlan = LinkVlan::new(name, self.link(parent)?.index, id).protocol(protocol).build();
        self.netlink(async |handle| handle.link().add(vlan).execute().await)
            .with_context(|| format!("failed to make VLAN {id} of {parent}"))
    }

    /// Makes a macvlan device in bridge mode on an interface.
    pub fn add_macvlan(&self, name: &str, parent: &str) -> Result<()> {
        let macvlan = LinkMacVlan::new(name, self.link(parent)?.index, MacVlanMode::Bridge).build();
        self.netlink(async |handle| handle.link().add(macvlan).execute().await)
            .with_context(|| format!("failed to make macvlan {name} on {parent}"))
    }

    /// Makes a bond. Ports must be down to join.
    pub fn add_bond(&self, name: &str, mode: BondMode) -> Result<()> {
        let mut bond = LinkBond::new(name).mode(mode).miimon(MIIMON_MS);
        if mode == BondMode::Ieee8023Ad {
            bond = bond.ad_lacp_rate(BondLacpRate::Fast);
        }
        let bond = bond.build();
        self.netlink(async |handle| handle.link().add(bond).execute().await)
            .with_context(|| format!("failed to make bond {name}"))
    }
}
