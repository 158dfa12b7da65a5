//! Binds VIPs as local addresses, removes them, and recognizes them after a crash.
//!
//! The mark is the address label: the kernel keeps it, every tool shows it, and it outlives the
//! agent.

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;

use rtnetlink::packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use rtnetlink::packet_route::address::{AddressAttribute, AddressMessage, AddressScope};
use rtnetlink::packet_route::{AddressFamily, RouteNetlinkMessage};
use vipward_core::net::NetView;

use super::netlink::{self, Exchange, ExchangeError, NetlinkError};

#[cfg(test)]
mod tests;

/// `IFA_LABEL` of every address that the agent adds (`ip address show label vipward`).
pub const LABEL: &str = "vipward";

const PREFIX_LEN: u8 = 32;
const CONF: &str = "/proc/sys/net/ipv4/conf";
/// "Always use the best local address for this target" (ip-sysctl): never the VIP.
const ARP_ANNOUNCE_BEST: u8 = 2;

/// A failed change of an address.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// The interface does not exist.
    #[error("cannot bind {vip} to {interface}: there is no such interface")]
    NoInterface {
        /// The address.
        vip: Ipv4Addr,
        /// The interface.
        interface: String,
    },
    /// The address was there before, without the agent's label.
    #[error(
        "{vip}/32 is on {interface} already, and Vipward did not bind it (its label is not {LABEL:?}); \
         remove it (ip address del {vip}/32 dev {interface}) or drop `bind` for it"
    )]
    NotOurs {
        /// The address.
        vip: Ipv4Addr,
        /// The interface.
        interface: String,
    },
    /// The kernel refused to add it.
    #[error("failed to bind {vip} to {interface}")]
    Add {
        /// The address.
        vip: Ipv4Addr,
        /// The interface.
        interface: String,
        /// The cause.
        #[source]
        source: ExchangeError,
    },
    /// The kernel refused to remove it.
    #[error("failed to remove {vip} from {interface}")]
    Remove {
        /// The address.
        vip: Ipv4Addr,
        /// The interface.
        interface: String,
        /// The cause.
        #[source]
        source: ExchangeError,
    },
    /// The addresses cannot be read.
    #[error(transparent)]
    Observe(#[from] NetlinkError),
}

/// Puts `vip`/32 on `interface`. Succeeds if it is there already with the agent's label.
///
/// Its scope is `host`, so the kernel never chooses it as the source of the host's own connections.
pub async fn add(view: &NetView, interface: &str, vip: Ipv4Addr) -> Result<(), BindError> {
    let Some(link) = view.by_name(interface) else {
        return Err(BindError::NoInterface { vip, interface: interface.to_owned() });
    };
    let request = RouteNetlinkMessage::NewAddress(message(link.index, vip));
    let added = Exchange::open().and_then(|mut kernel| kernel.change(request, NLM_F_CREATE | NLM_F_EXCL));
    match added {
        Ok(()) => Ok(()),
        Err(error) if error.refusal() == Some(libc::EEXIST) => {
            if is_ours(link.index, vip).await? {
                Ok(())
            } else {
                Err(BindError::NotOurs { vip, interface: interface.to_owned() })
            }
        }
        Err(source) => Err(BindError::Add { vip, interface: interface.to_owned(), source }),
    }
}

/// Removes `vip`/32 with the agent's label from `interface`. Succeeds if it, or the interface, is
/// gone already. Leaves addresses with another label alone.
pub fn remove(view: &NetView, interface: &str, vip: Ipv4Addr) -> Result<(), BindError> {
    let Some(link) = view.by_name(interface) else { return Ok(()) };
    let request = RouteNetlinkMessage::DelAddress(message(link.index, vip));
    match Exchange::open().and_then(|mut kernel| kernel.change(request, 0)) {
        Ok(()) => Ok(()),
        Err(error) if matches!(error.refusal(), Some(libc::EADDRNOTAVAIL | libc::ENODEV)) => Ok(()),
        Err(source) => Err(BindError::Remove { vip, interface: interface.to_owned(), source }),
    }
}

/// Returns every address with the agent's label, by interface name. Leftovers of a killed agent are
/// included.
pub async fn observe_binds(view: &NetView) -> Result<BTreeSet<(String, Ipv4Addr)>, BindError> {
    let addresses = netlink::addresses().await?;
    let ours = addresses.into_iter().filter(|address| address.label == LABEL);
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
    /// Its name.
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

async fn is_ours(index: u32, vip: Ipv4Addr) -> Result<bool, BindError> {
    let addresses = netlink::addresses().await?;
    let same = |net: ipnet::Ipv4Net| net.addr() == vip && net.prefix_len() == PREFIX_LEN;
    Ok(addresses.iter().any(|found| found.index == index && same(found.net) && found.label == LABEL))
}

fn message(index: u32, vip: Ipv4Addr) -> AddressMessage {
    let mut message = AddressMessage::default();
    message.header.family = AddressFamily::Inet;
    message.header.prefix_len = PREFIX_LEN;
    message.header.scope = AddressScope::Host;
    message.header.index = index;
    message.attributes = vec![
        AddressAttribute::Local(IpAddr::V4(vip)),
        AddressAttribute::Address(IpAddr::V4(vip)),
        AddressAttribute::Label(LABEL.to_owned()),
    ];
    message
}
