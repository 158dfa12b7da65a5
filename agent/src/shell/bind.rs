//! VIPs as local addresses: puts them on an interface, takes them away, and knows them again after a crash.
//!
//! The mark is the address label: the kernel keeps it, every tool shows it, and it survives the agent.

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;

use rtnetlink::packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use rtnetlink::packet_route::address::{AddressAttribute, AddressMessage, AddressScope};
use rtnetlink::packet_route::{AddressFamily, RouteNetlinkMessage};

use super::netlink::{self, Exchange, ExchangeError, NetlinkError};
use crate::core::net::NetView;

#[cfg(test)]
mod tests;

/// `IFA_LABEL` of every address that the agent adds (`ip address show label vipward`).
pub const LABEL: &str = "vipward";

const PREFIX_LEN: u8 = 32;
const CONF: &str = "/proc/sys/net/ipv4/conf";
/// "Always use the best local address for this target" (ip-sysctl): never the VIP.
const ARP_ANNOUNCE_BEST: u8 = 2;

/// What failed, and why.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// There is nothing to bind to.
    #[error("cannot bind {vip} to {interface}: there is no such interface")]
    NoInterface {
        /// The address.
        vip: Ipv4Addr,
        /// Where it should go.
        interface: String,
    },
    /// Somebody else's address.
    #[error(
        "{vip}/32 is on {interface} already and is not ours (its label is not {LABEL:?}); \
         remove it (ip address del {vip}/32 dev {interface}) or drop `bind` for it"
    )]
    NotOurs {
        /// The address.
        vip: Ipv4Addr,
        /// Where it is.
        interface: String,
    },
    /// The kernel refused to add it.
    #[error("failed to bind {vip} to {interface}")]
    Add {
        /// The address.
        vip: Ipv4Addr,
        /// Where it should go.
        interface: String,
        /// Why.
        #[source]
        source: ExchangeError,
    },
    /// The kernel refused to remove it.
    #[error("failed to remove {vip} from {interface}")]
    Remove {
        /// The address.
        vip: Ipv4Addr,
        /// Where it is.
        interface: String,
        /// Why.
        #[source]
        source: ExchangeError,
    },
    /// The addresses cannot be read.
    #[error(transparent)]
    Observe(#[from] NetlinkError),
}

/// Puts `vip`/32 on `interface`; that it is there already is fine if it is ours.
///
/// Its scope is `host`, so that the kernel never chooses it as the source of the host's own connections.
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

/// Takes our `vip`/32 from `interface`; that it, or the interface, is gone already is fine. An address with
/// another label is not touched.
pub fn remove(view: &NetView, interface: &str, vip: Ipv4Addr) -> Result<(), BindError> {
    let Some(link) = view.by_name(interface) else { return Ok(()) };
    let request = RouteNetlinkMessage::DelAddress(message(link.index, vip));
    match Exchange::open().and_then(|mut kernel| kernel.change(request, 0)) {
        Ok(()) => Ok(()),
        Err(error) if matches!(error.refusal(), Some(libc::EADDRNOTAVAIL | libc::ENODEV)) => Ok(()),
        Err(source) => Err(BindError::Remove { vip, interface: interface.to_owned(), source }),
    }
}

/// Every address that carries our label, by interface name: what is bound now, left-overs of a killed agent
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

/// An interface on which the kernel may ask with a bound VIP as sender.
///
/// That question is a claim: it tells the segment that the VIP is here, also when it is not, and XDP does not
/// see what the kernel sends.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ArpAnnounce {
    /// Its name.
    pub interface: String,
    /// The value in effect: the larger one of `all` and the interface's own.
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

/// What is wrong with `arp_announce` on an attached interface of a host that binds VIPs; `None` if nothing is,
/// or if the interface is gone.
pub fn check_arp_announce(interface: &str) -> Option<ArpAnnounce> {
    let own = read_arp_announce(interface).ok()?;
    let value = own.max(read_arp_announce("all").unwrap_or(0));
    (value < ARP_ANNOUNCE_BEST).then(|| ArpAnnounce { interface: interface.to_owned(), value })
}

/// `/proc/sys/net` is that of the reading thread's network namespace.
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
