//! Binds VIPs as local addresses, removes them, and recognizes them after a crash.
//!
//! The mark of an IPv4 address is its label. The mark of an IPv6 address is its protocol, since IPv6
//! has no labels. The kernel keeps them, tools show them, and they outlive the agent.

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::net::IpAddr;
use std::path::Path;

use ipnet::IpNet;
use rtnetlink::packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use rtnetlink::packet_route::address::{
    AddressAttribute, AddressFlags, AddressMessage, AddressScope, CacheInfo,
};
use rtnetlink::packet_route::{AddressFamily, RouteNetlinkMessage};
use vipward_core::host::{net::NetView, owner::Owner};

use super::netlink::{self, Address, Exchange, ExchangeError, LABEL, NetlinkError, PROTOCOL};

#[cfg(test)]
mod tests;

const CONF: &str = "/proc/sys/net/ipv4/conf";
/// "Always use the best local address for this target" (ip-sysctl): never the VIP.
const ARP_ANNOUNCE_BEST: u8 = 2;

#[derive(Debug, thiserror::Error)]
pub enum BindError {
    #[error("cannot bind {vip} to {interface}: there is no such interface")]
    NoInterface { vip: IpAddr, interface: String },
    #[error(
        "{net} is on {interface} already, and Vipward did not bind it ({}): drop `bind` for it; or {}",
        lacks(.net), .owner.remedy("this host", .net, .interface)
    )]
    NotOurs { net: IpNet, interface: String, owner: Owner },
    #[error("failed to bind {vip} to {interface}")]
    Add {
        vip: IpAddr,
        interface: String,
        #[source]
        source: ExchangeError,
    },
    #[error("failed to remove {vip} from {interface}")]
    Remove {
        vip: IpAddr,
        interface: String,
        #[source]
        source: ExchangeError,
    },
    #[error(transparent)]
    Observe(#[from] NetlinkError),
}

/// Puts `vip` on `interface` as one address. Succeeds if it is there already with the agent's mark.
///
/// The kernel never chooses it as the source of the host's own connections: in IPv4 its scope is
/// `host`, and in IPv6 it is deprecated (RFC 6724, rule 3). The kernel does not probe for it: entries
/// are in front of it, and other nodes have it too.
pub async fn add(view: &NetView, interface: &str, vip: IpAddr) -> Result<(), BindError> {
    let Some(link) = view.by_name(interface) else {
        return Err(BindError::NoInterface { vip, interface: interface.to_owned() });
    };
    let request = RouteNetlinkMessage::NewAddress(message(link.index, vip));
    let added = Exchange::open().and_then(|mut kernel| kernel.change(request, NLM_F_CREATE | NLM_F_EXCL));
    match added {
        Ok(()) => Ok(()),
        Err(error) if error.refusal() == Some(libc::EEXIST) => {
            if is_bound(link.index, vip).await? {
                Ok(())
            } else {
                let owner = view.owner_of(link.index, &vip.into());
                Err(BindError::NotOurs { net: vip.into(), interface: interface.to_owned(), owner })
            }
        }
        Err(source) => Err(BindError::Add { vip, interface: interface.to_owned(), source }),
    }
}

/// Removes `vip` from `interface`. Succeeds if it, or the interface, is gone already.
pub fn remove(view: &NetView, interface: &str, vip: IpAddr) -> Result<(), BindError> {
    let Some(link) = view.by_name(interface) else { return Ok(()) };
    let request = RouteNetlinkMessage::DelAddress(message(link.index, vip));
    match Exchange::open().and_then(|mut kernel| kernel.change(request, 0)) {
        Ok(()) => Ok(()),
        Err(error) if matches!(error.refusal(), Some(libc::EADDRNOTAVAIL | libc::ENODEV)) => Ok(()),
        Err(source) => Err(BindError::Remove { vip, interface: interface.to_owned(), source }),
    }
}

/// Returns every address with the agent's mark, by interface name. Leftovers of a killed agent are
/// included.
pub async fn observe_binds(view: &NetView) -> Result<BTreeSet<(String, IpAddr)>, BindError> {
    let addresses = netlink::addresses().await?;
    let ours = addresses.into_iter().filter(Address::is_ours);
    Ok(ours
        .filter_map(|address| {
            let interface = view.interfaces.get(&address.index)?;
            Some((interface.name.clone(), address.net.addr()))
        })
        .collect())
}

/// An interface on which the kernel may send ARP requests with a bound VIP as sender.
///
/// Such a request claims the VIP, even if this node does not hold it. XDP does not see frames that
/// the kernel sends.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ArpAnnounce {
    pub interface: String,
    /// The effective value: the larger of `all` and the interface's own.
    pub value: u8,
}

impl fmt::Display for ArpAnnounce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { interface, value } = self;
        // sysctl(8) writes a dot in a name as a slash.
        let key = interface.replace('.', "/");
        write!(
            f,
            "arp_announce is {value} on {interface}: the kernel may send ARP requests there with a bound VIP as \
             sender; set it to {ARP_ANNOUNCE_BEST}: sysctl -w net.ipv4.conf.{key}.arp_announce=\
             {ARP_ANNOUNCE_BEST} (or net.ipv4.conf.all.arp_announce={ARP_ANNOUNCE_BEST} for all interfaces)"
        )
    }
}

/// Returns an interface whose `arp_announce` is wrong on a host that binds VIPs. Returns `None` if
/// it is right, or if the interface is gone.
pub fn check_arp_announce(interface: &str) -> Option<ArpAnnounce> {
    let own = read_arp_announce(interface).ok()?;
    let value = own.max(read_arp_announce("all").unwrap_or(0));
    (value < ARP_ANNOUNCE_BEST).then(|| ArpAnnounce { interface: interface.to_owned(), value })
}

/// Reads the value in the calling thread's network namespace.
fn read_arp_announce(conf: &str) -> io::Result<u8> {
    let text = std::fs::read_to_string(Path::new(CONF).join(conf).join("arp_announce"))?;
    text.trim().parse().map_err(io::Error::other)
}

async fn is_bound(index: u32, vip: IpAddr) -> Result<bool, BindError> {
    let addresses = netlink::addresses().await?;
    Ok(addresses.iter().any(|found| found.index == index && found.net == vip.into() && found.is_ours()))
}

fn lacks(net: &IpNet) -> String {
    match net {
        IpNet::V4(_) => format!("its label is not {LABEL:?}"),
        IpNet::V6(_) => format!("its protocol is not {PROTOCOL:#x}"),
    }
}

fn message(index: u32, vip: IpAddr) -> AddressMessage {
    let mut message = AddressMessage::default();
    message.header.prefix_len = IpNet::from(vip).prefix_len();
    message.header.index = index;
    message.attributes = vec![AddressAttribute::Local(vip), AddressAttribute::Address(vip)];
    match vip {
        IpAddr::V4(_) => {
            message.header.family = AddressFamily::Inet;
            message.header.scope = AddressScope::Host;
            message.attributes.push(AddressAttribute::Label(LABEL.to_owned()));
        }
        IpAddr::V6(_) => {
            message.header.family = AddressFamily::Inet6;
            let mut lifetimes = CacheInfo::default();
            (lifetimes.ifa_preferred, lifetimes.ifa_valid) = (0, u32::MAX);
            message.attributes.extend([
                AddressAttribute::Flags(AddressFlags::Nodad | AddressFlags::Noprefixroute),
                AddressAttribute::CacheInfo(lifetimes),
                AddressAttribute::Protocol(PROTOCOL.into()),
            ]);
        }
    }
    message
}
