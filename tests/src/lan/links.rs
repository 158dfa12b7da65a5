//! Manages links and addresses of a namespace with rtnetlink.

use std::fs;
use std::net::{IpAddr, Ipv6Addr};
use std::os::fd::AsRawFd;
use std::time::Duration;

use anyhow::{Context, Result};
use futures::TryStreamExt;
use ipnet::IpNet;
use rtnetlink::packet_route::address::{AddressAttribute, AddressHeaderFlags};
use rtnetlink::packet_route::link::{
    BridgePortState, BridgeStpState, InfoBridgePort, InfoData, InfoPortData, InfoVeth, LinkAttribute,
    LinkFlags, LinkInfo, LinkMessage,
};
use rtnetlink::{LinkBond, LinkBridge, LinkMessageBuilder, LinkUnspec, LinkVeth};

use super::netns::NetNs;
use crate::{frames::Mac, kit::wait_until};

/// Unit of a bridge's times (`USER_HZ`).
const TICKS_PER_SECOND: u64 = 100;
/// Time limit for a link to become ready: the kernel's link watcher may be a second late.
const READY_LIMIT: Duration = Duration::from_secs(10);

/// Interface as the kernel reports it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Link {
    /// ifindex.
    pub index: u32,
    pub name: String,
    /// Hardware address; zero if it has none.
    pub mac: Mac,
    /// True if it is administratively up.
    pub up: bool,
    pub carrier: bool,
    /// True if it is ready for traffic. A bridge port must forward. Any other interface needs
    /// carrier and a running queue, which the kernel starts a little after carrier.
    pub ready: bool,
}

impl From<LinkMessage> for Link {
    fn from(message: LinkMessage) -> Self {
        let mut link = Self {
            index: message.header.index,
            name: String::new(),
            mac: Mac::ZERO,
            up: message.header.flags.contains(LinkFlags::Up),
            carrier: message.header.flags.contains(LinkFlags::LowerUp),
            ready: message.header.flags.contains(LinkFlags::Running),
        };
        for attribute in message.attributes {
            match attribute {
                LinkAttribute::IfName(name) => link.name = name,
                LinkAttribute::Address(bytes) => link.mac = bytes.try_into().map(Mac).unwrap_or_default(),
                LinkAttribute::LinkInfo(infos) if link.ready => {
                    link.ready = infos.iter().all(lets_traffic_pass);
                }
                _ => {}
            }
        }
        link
    }
}

/// Returns true if an attribute allows traffic. The state of a bridge port may not.
fn lets_traffic_pass(info: &LinkInfo) -> bool {
    let LinkInfo::PortData(InfoPortData::BridgePort(attributes)) = info else { return true };
    attributes.iter().all(|attribute| match attribute {
        InfoBridgePort::State(state) => *state == BridgePortState::Forwarding,
        _ => true,
    })
}

pub(super) struct FarEnd<'a> {
    pub namespace: &'a NetNs,
    pub name: &'a str,
    pub mac: Option<Mac>,
}

impl NetNs {
    pub fn links(&self) -> Result<Vec<Link>> {
        self.netlink(async |handle| handle.link().get().execute().map_ok(Link::from).try_collect().await)
            .context("failed to list the interfaces")
    }

    pub fn link(&self, name: &str) -> Result<Link> {
        self.netlink(async |handle| handle.link().get().match_name(name).execute().try_next().await)
            .and_then(|message| message.context("the kernel's answer is empty"))
            .map(Link::from)
            .with_context(|| format!("failed to look up interface {name}"))
    }

    /// Sets an interface administratively up or down.
    pub fn set_up(&self, name: &str, up: bool) -> Result<()> {
        self.change(name, |link| if up { link.up() } else { link.down() })
            .with_context(|| format!("failed to set {name} {}", if up { "up" } else { "down" }))
    }

    /// Waits until an interface is ready for traffic. Earlier frames would be lost.
    pub fn wait_until_ready(&self, name: &str) -> Result<()> {
        wait_until(READY_LIMIT, &format!("{name} to be ready for traffic"), || Ok(self.link(name)?.ready))
    }

    pub fn set_mac(&self, name: &str, mac: Mac) -> Result<()> {
        self.change(name, |link| link.address(mac.0.to_vec()))
            .with_context(|| format!("failed to give {name} the address {mac}"))
    }

    pub fn rename(&self, name: &str, new: &str) -> Result<()> {
        self.change(name, |link| link.name(new)).with_context(|| format!("failed to rename {name} to {new}"))
    }

    /// Makes an interface a port of a bridge.
    pub fn set_master(&self, name: &str, bridge: &str) -> Result<()> {
        let bridge_index = self.link(bridge)?.index;
        self.change(name, |link| link.controller(bridge_index))
            .with_context(|| format!("failed to make {name} a port of {bridge}"))
    }

    /// Takes an interface out of its bridge, bond or team.
    pub fn leave_master(&self, name: &str) -> Result<()> {
        self.change(name, LinkMessageBuilder::nocontroller)
            .with_context(|| format!("failed to take {name} from its master"))
    }

    pub fn set_active_port(&self, bond: &str, port: &str) -> Result<()> {
        let message = LinkBond::new(bond).active_port(self.link(port)?.index);
        let message = message.build();
        self.netlink(async |handle| handle.link().change(message).execute().await)
            .with_context(|| format!("failed to make {port} the active port of {bond}"))
    }

    pub fn set_mtu(&self, name: &str, bytes: u32) -> Result<()> {
        self.change(name, |link| link.mtu(bytes))
            .with_context(|| format!("failed to give {name} an MTU of {bytes} bytes"))
    }

    /// Deletes an interface. A veth's other end goes with it.
    pub fn delete_link(&self, name: &str) -> Result<()> {
        let index = self.link(name)?.index;
        self.netlink(async |handle| handle.link().del(index).execute().await)
            .with_context(|| format!("failed to delete {name}"))
    }

    /// Adds an address to an interface. For one of IPv6 it switches IPv6 on there, skips Duplicate
    /// Address Detection, and waits until an interface that is ready for traffic receives solicitations.
    pub fn add_address(&self, name: &str, address: impl Into<IpNet>) -> Result<()> {
        let (link, address) = (self.link(name)?, address.into());
        if address.addr().is_ipv6() {
            self.set_ipv6(name, true)?;
        }
        self.netlink(async |handle| {
            let mut add = handle.address().add(link.index, address.addr(), address.prefix_len());
            if address.addr().is_ipv6() {
                add.message_mut().header.flags |= AddressHeaderFlags::Nodad;
            }
            add.execute().await
        })
        .with_context(|| format!("failed to add {address} to {name}"))?;
        match address.addr() {
            // The loopback interface has no MAC and joins no group.
            IpAddr::V6(v6) if link.ready && link.mac != Mac::ZERO => self.wait_until_solicited(name, v6),
            IpAddr::V4(_) | IpAddr::V6(_) => Ok(()),
        }
    }

    /// Waits until an interface has joined the group of an address. The kernel joins it later, in a
    /// work item that waits for other namespaces' changes too.
    fn wait_until_solicited(&self, name: &str, address: Ipv6Addr) -> Result<()> {
        let [.., high, middle, low] = address.octets();
        let group = format!("ff0200000000000000000001ff{high:02x}{middle:02x}{low:02x}");
        wait_until(READY_LIMIT, &format!("{name} to receive solicitations for {address}"), || {
            let groups = self.run(|| fs::read_to_string("/proc/thread-self/net/igmp6"))?;
            Ok(groups.lines().any(|line| line.contains(&format!(" {name} ")) && line.contains(&group)))
        })
    }

    pub fn delete_address(&self, name: &str, address: impl Into<IpNet>) -> Result<()> {
        let (index, address) = (self.link(name)?.index, address.into());
        self.netlink(async |handle| {
            let mut found = handle
                .address()
                .get()
                .set_link_index_filter(index)
                .set_address_filter(address.addr())
                .set_prefix_length_filter(address.prefix_len())
                .execute();
            match found.try_next().await? {
                Some(message) => handle.address().del(message).execute().await.map(|()| true),
                None => Ok(false),
            }
        })
        .and_then(|found| found.then_some(()).context("it is not there"))
        .with_context(|| format!("failed to remove {address} from {name}"))
    }

    /// Returns the IPv4 addresses of an interface.
    pub fn addresses(&self, name: &str) -> Result<Vec<IpNet>> {
        let index = self.link(name)?.index;
        let messages: Vec<_> = self
            .netlink(async |handle| {
                handle.address().get().set_link_index_filter(index).execute().try_collect().await
            })
            .with_context(|| format!("failed to list the addresses of {name}"))?;
        let local = |attribute: &AddressAttribute| match attribute {
            AddressAttribute::Local(address @ IpAddr::V4(_))
            | AddressAttribute::Address(address @ IpAddr::V6(_)) => Some(*address),
            _ => None,
        };
        Ok(messages
            .iter()
            .filter_map(|message| {
                let address = message.attributes.iter().find_map(local)?;
                IpNet::new(address, message.header.prefix_len).ok()
            })
            .collect())
    }

    /// Makes a bridge that forwards from the first frame
    /// on: no STP, forward delay or multicast snooping.
    pub fn add_bridge(&self, name: &str) -> Result<()> {
        let bridge = LinkBridge::new(name)
            .stp_state(BridgeStpState::Disabled)
            .forward_delay(0)
            .mcast_snooping(false)
            .build();
        self.netlink(async |handle| handle.link().add(bridge).execute().await)
            .with_context(|| format!("failed to make bridge {name}"))
    }

    /// Turns the spanning tree of a bridge on. Its ports pass frames when they have listened and learnt
    /// for `forward_delay` each, which is 2 s to 30 s.
    pub fn span_tree(&self, bridge: &str, forward_delay: Duration) -> Result<()> {
        let delay =
            u32::try_from(forward_delay.as_secs() * TICKS_PER_SECOND).context("the delay is too long")?;
        let change =
            LinkBridge::new(bridge).stp_state(BridgeStpState::KernelStp).forward_delay(delay).build();
        self.netlink(async |handle| handle.link().change(change).execute().await)
            .with_context(|| format!("failed to turn on the spanning tree of {bridge}"))
    }

    /// Makes a veth from here to `far`. Each end is created
    /// in its namespace, so that names cannot clash.
    pub(super) fn add_veth(&self, name: &str, mac: Option<Mac>, far: &FarEnd<'_>) -> Result<()> {
        let peer = LinkUnspec::new_with_name(far.name).setns_by_fd(far.namespace.as_fd().as_raw_fd());
        let peer = with_mac(peer, far.mac).build();
        let veth = LinkVeth::new(name, far.name).set_info_data(InfoData::Veth(InfoVeth::Peer(peer)));
        let veth = with_mac(veth, mac).build();
        self.netlink(async |handle| handle.link().add(veth).execute().await)
            .with_context(|| format!("failed to make the veth {name} to {}", far.name))
    }

    fn change(
        &self,
        name: &str,
        change: impl FnOnce(LinkMessageBuilder<LinkUnspec>) -> LinkMessageBuilder<LinkUnspec>,
    ) -> Result<()> {
        let message = change(LinkUnspec::new_with_index(self.link(name)?.index)).build();
        self.netlink(async |handle| handle.link().set(message).execute().await)
    }
}

fn with_mac<T>(link: LinkMessageBuilder<T>, mac: Option<Mac>) -> LinkMessageBuilder<T> {
    match mac {
        Some(mac) => link.address(mac.0.to_vec()),
        None => link,
    }
}
