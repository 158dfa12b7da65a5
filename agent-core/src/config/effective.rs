//! The effective configuration: every value of the file, and the defaults of the others.

use std::{collections::BTreeMap, net::IpAddr};

use serde::Serialize;
use vipward_common::MacAddr;

use super::sections;
use crate::{
    base::pattern::{InterfaceName, InterfacePattern},
    host::{
        attaching::Attach,
        heartbeat,
        interfaces::Selection,
        placement::{Entry, Wanted},
    },
    segment::{announce, conflict, probing},
};

#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Config {
    /// This node's name in logs.
    pub node: String,
    /// The interfaces to attach to. If empty: every Ethernet interface that is up and not excluded.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub interfaces: Vec<InterfacePattern>,
    /// The VIPs, in the file's order.
    pub vips: Vec<VipConfig>,
    /// MACs of hosts that may take a VIP over once the lease deadline has passed.
    #[serde(serialize_with = "sections::macs")]
    pub peers: Vec<MacAddr>,
    pub attach: Attach,
    #[serde(serialize_with = "sections::fence")]
    pub fence: heartbeat::Settings,
    #[serde(serialize_with = "sections::announce")]
    pub announce: announce::Settings,
    #[serde(serialize_with = "sections::probe")]
    pub probe: probing::Settings,
    #[serde(serialize_with = "sections::conflicts")]
    pub conflicts: conflict::Settings,
    #[serde(rename = "yield")]
    pub yields: OnYield,
    pub shutdown: Shutdown,
}

/// An entry of `vips`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct VipConfig {
    pub address: IpAddr,
    /// Its interface. If none: the interface whose subnet contains the VIP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interface: Option<Box<InterfacePattern>>,
    /// The ID of its VLAN, whose device it is on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vlan: Option<u16>,
    /// The interface that gets the address, for local delivery.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bind: Option<InterfaceName>,
    /// The holder's MAC, for a VIP that this node guards for another host.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "sections::mac")]
    pub mac: Option<MacAddr>,
    /// True to take the VIP without probing, even if its address is in use.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub force: bool,
}

impl<'a> From<&'a VipConfig> for Wanted<'a> {
    fn from(vip: &'a VipConfig) -> Self {
        Self {
            address: vip.address,
            interface: vip.interface.as_deref(),
            vlan: vip.vlan,
            bind: vip.bind.as_ref(),
            entry: vip.mac.map_or(Entry::Held, |mac| Entry::Foreign { mac }),
            is_guarded: vip.mac.is_some(),
        }
    }
}

/// The fate of a VIP that the program has yielded under the policy `hold`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum OnYield {
    /// The agent probes the VIP, and takes it back if no peer answers.
    #[default]
    Ask,
    /// The VIP stays with the peer until an operator takes it back.
    Keep,
}

/// The fate of the VIPs when the agent ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Shutdown {
    /// The pinned program goes on answering, under its policy (`hold` or `stop`).
    #[default]
    Keep,
    Withdraw,
}

impl Config {
    pub fn selection(&self) -> Selection<'_> {
        let named = self.vips.iter().filter_map(|vip| vip.interface.as_ref()?.literal()).collect();
        Selection { interfaces: &self.interfaces, named, peers: &self.peers }
    }

    /// Returns true if this is `other` with more VIPs, or with the same in another order.
    pub fn only_adds_to(&self, other: &Self) -> bool {
        let Self {
            node,
            interfaces,
            vips,
            peers,
            attach,
            fence,
            announce,
            probe,
            conflicts,
            yields,
            shutdown,
        } = other;
        let is_as_before = self.node == *node
            && self.interfaces == *interfaces
            && self.peers == *peers
            && self.attach == *attach
            && self.fence == *fence
            && self.announce == *announce
            && self.probe == *probe
            && self.conflicts == *conflicts
            && self.yields == *yields
            && self.shutdown == *shutdown;
        let own: BTreeMap<IpAddr, &VipConfig> = self.vips.iter().map(|vip| (vip.address, vip)).collect();
        is_as_before && vips.iter().all(|vip| own.get(&vip.address) == Some(&vip))
    }

    /// Returns the effective configuration, with every default.
    /// Parsing it again gives the same configuration.
    pub fn to_yaml(&self) -> String {
        serde_saphyr::to_string(self).expect("invariant: nothing in a configuration is beyond YAML")
    }
}
