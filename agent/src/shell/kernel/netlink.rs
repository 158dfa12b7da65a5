//! rtnetlink: observes this network namespace's interfaces, addresses and connected routes.
//!
//! A notification only means that something changed. Then everything is observed again, so no state has
//! to be kept in step, and lost notifications cost nothing. The exception is a failover, which an
//! observation need not show. There is no background task. [`Netlink::changed`] and
//! [`Netlink::observe`] are cancel-safe.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::IpAddr;
use std::time::Duration;

use rtnetlink::constants::{
    RTMGRP_IPV4_IFADDR, RTMGRP_IPV4_ROUTE, RTMGRP_IPV6_IFADDR, RTMGRP_IPV6_ROUTE, RTMGRP_LINK,
};
use rtnetlink::packet_route::address::AddressMessage;
use rtnetlink::packet_route::link::{LinkAttribute, LinkExtentMask, LinkMessage};
use rtnetlink::packet_route::neighbour::{NeighbourAttribute, NeighbourFlags, NeighbourMessage};
use rtnetlink::packet_route::route::{RouteHeader, RouteMessage, RouteType};
use rtnetlink::packet_route::{AddressFamily, RouteNetlinkMessage};
use rtnetlink::sys::Socket;
use tokio::io::unix::AsyncFd;
use tokio::time::{Instant, timeout_at};

use vipward_core::{
    agent::Changed,
    host::net::{ConnectedRoute, Interface, NetView},
    segment::proving::MOST_ASKED,
};

use self::{dump::dump, removals::Removals, subscribing::subscribe};
use super::ethtool;

mod dump;
mod exchange;
mod mark;
mod messages;
mod removals;
mod subscribing;
mod traffic_control;

#[cfg(test)]
mod tests;

pub use self::{dump::NetlinkError, exchange::ExchangeError, messages::Malformed};
pub(crate) use self::{
    exchange::Exchange,
    mark::{LABEL, PROTOCOL},
    messages::{Address, Lower, Proxy},
    traffic_control::{Direction, filters, tcx_programs},
};

/// Least time between two reported changes. The first is reported at once, a burst as a few. Failovers
/// are sooner.
const MIN_INTERVAL: Duration = Duration::from_millis(50);
/// Time to the report of a failover, in which the kernel's other notifications of it come.
const TOGETHER: Duration = Duration::from_millis(15);
/// The notifications that call for an observation.
const GROUPS: u32 =
    RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV4_ROUTE | RTMGRP_IPV6_IFADDR | RTMGRP_IPV6_ROUTE;
const FAMILIES: [AddressFamily; 2] = [AddressFamily::Inet, AddressFamily::Inet6];

/// A subscription to changes of this network namespace. It precedes the first observation, so no
/// change falls between the two.
pub struct Netlink {
    notifications: AsyncFd<Socket>,
    removals: Removals,
    datagram: Vec<u8>,
    pending: Option<Changed>,
    not_before: Instant,
}

impl Netlink {
    /// Subscribes to links, addresses and routes of the calling thread's network namespace. Needs a
    /// tokio runtime.
    pub fn connect() -> Result<Self, NetlinkError> {
        Ok(Self {
            notifications: subscribe(GROUPS).map_err(NetlinkError::Subscribe)?,
            removals: Removals::subscribe().map_err(NetlinkError::Subscribe)?,
            datagram: Vec::with_capacity(exchange::DATAGRAM_BYTES),
            pending: None,
            not_before: Instant::now(),
        })
    }

    /// Reports removals from these interfaces, and from no others.
    pub(crate) fn watch_removals(&mut self, interfaces: impl Iterator<Item = u32>) {
        self.removals.watch(interfaces);
    }

    /// Returns true if the kernel notifies of groups that it leaves.
    pub(crate) fn notifies_of_groups(&self) -> bool {
        self.removals.include_groups()
    }

    pub async fn observe(&self) -> Result<NetView, NetlinkError> {
        let mut view = links().await?;
        for address in all_addresses().await? {
            // An interface that came after the links were read has a notification pending.
            if let Some(interface) = view.interfaces.get_mut(&address.index) {
                match address.net.addr() {
                    IpAddr::V6(v6) if v6.is_unicast_link_local() => {
                        interface.link_local.get_or_insert(v6);
                        continue;
                    }
                    IpAddr::V4(_) | IpAddr::V6(_) => interface.addresses.push(address.net),
                }
                if address.is_doubtful {
                    interface.doubtful.insert(address.net.addr());
                }
                if address.is_leased {
                    interface.leased.insert(address.net.addr());
                }
                if address.is_ours() {
                    interface.ours.insert(address.net.addr());
                }
            }
        }
        for interface in view.interfaces.values_mut().filter(|interface| interface.ethernet) {
            traffic_control::read_programs(interface).await;
        }
        let carriers: BTreeSet<u32> =
            view.interfaces.values().filter(|it| it.vlan.is_some()).filter_map(|it| it.lower).collect();
        let is_asked = |it: &&mut Interface| {
            carriers.contains(&it.index) || it.master.is_some_and(|master| carriers.contains(&master))
        };
        for interface in view.interfaces.values_mut().filter(is_asked) {
            // If the driver does not answer, it may strip them.
            interface.strips_tags = ethtool::takes_tags_off(&interface.name).unwrap_or(true);
        }
        routes(&mut view).await?;
        Ok(view)
    }

    /// Waits for a change since the last return. Cancel-safe.
    pub async fn changed(&mut self) -> Result<Changed, NetlinkError> {
        loop {
            let now = Instant::now();
            if self.not_before <= now
                && let Some(changed) = self.pending.take()
            {
                self.not_before = now + MIN_INTERVAL;
                return Ok(changed);
            }
            let readable = async {
                tokio::select! {
                    ready = self.notifications.readable() => ready,
                    ready = self.removals.readable() => ready,
                }
            };
            // A failover that comes while a change waits is reported sooner than that.
            let until = self.pending.as_ref().map(|_| self.not_before);
            let ready = match until {
                Some(until) => timeout_at(until, readable).await.ok(),
                None => Some(readable.await),
            };
            if let Some(ready) = ready {
                ready.map_err(NetlinkError::Receive)?.clear_ready();
            }
            self.drain()?;
        }
    }

    /// Empties the queue.
    ///
    /// After an overrun the kernel drops notifications until the queue is empty, so an observation
    /// begun afterwards misses nothing.
    fn drain(&mut self) -> Result<(), NetlinkError> {
        if let Some(from) = self.removals.drain(&mut self.datagram).map_err(NetlinkError::Receive)? {
            self.pending.get_or_insert_default().may_have_left.extend(from);
        }
        loop {
            self.datagram.clear();
            match self.notifications.get_ref().recv(&mut self.datagram, 0) {
                Ok(_) if messages::is_relevant(&self.datagram) => {
                    let changed = self.pending.get_or_insert_default();
                    changed.may_have_left.extend(messages::downs(&self.datagram));
                    let had_none = changed.notices.is_empty();
                    changed.notices.extend(messages::notices(&self.datagram));
                    if had_none && !changed.notices.is_empty() {
                        self.not_before = Instant::now() + TOGETHER;
                    }
                }
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => {
                    self.pending.get_or_insert_default().overrun = true;
                }
                Err(error) => return Err(NetlinkError::Receive(error)),
            }
        }
    }
}

/// Returns the addresses of this network namespace, without link-local ones of IPv6: such an address
/// means another host on each interface.
pub(crate) async fn addresses() -> Result<Vec<Address>, NetlinkError> {
    let mut addresses = all_addresses().await?;
    addresses.retain(|address| !messages::is_link_local(address.net.addr()));
    Ok(addresses)
}

async fn all_addresses() -> Result<Vec<Address>, NetlinkError> {
    let mut addresses = Vec::new();
    for family in FAMILIES {
        let mut request = AddressMessage::default();
        request.header.family = family;
        let found = dump("addresses", &RouteNetlinkMessage::GetAddress(request), messages::address).await?;
        // A kernel without IPv6 (`ipv6.disable=1`) answers a query about IPv6 with its other addresses.
        let is_asked = |address: &Address| address.net.addr().is_ipv6() == (family == AddressFamily::Inet6);
        addresses.extend(found.into_iter().flatten().filter(is_asked));
    }
    Ok(addresses)
}

/// Returns the lower device of each link of this network namespace.
pub(crate) async fn lowers() -> Result<Vec<Lower>, NetlinkError> {
    all_links(messages::lower).await
}

/// Returns the hosts on an interface's segment that have answered this host, some of them.
pub(crate) async fn neighbours(ifindex: u32) -> Result<Vec<IpAddr>, NetlinkError> {
    let mut neighbours = Vec::new();
    for family in FAMILIES {
        let mut request = NeighbourMessage::default();
        request.header.family = family;
        request.attributes.push(NeighbourAttribute::IfIndex(ifindex));
        let found =
            dump("neighbours", &RouteNetlinkMessage::GetNeighbour(request), messages::neighbour).await?;
        let here = found.into_iter().flatten().filter(|(index, _)| *index == ifindex);
        neighbours.extend(here.map(|(_, address)| address).take(MOST_ASKED));
    }
    Ok(neighbours)
}

/// Returns the IPv6 addresses that the kernel answers for as a proxy of other hosts.
pub(crate) async fn proxies() -> Result<Vec<Proxy>, NetlinkError> {
    let mut request = NeighbourMessage::default();
    request.header.family = AddressFamily::Inet6;
    request.header.flags = NeighbourFlags::Proxy;
    let found =
        dump("neighbour proxies", &RouteNetlinkMessage::GetNeighbour(request), messages::proxy).await?;
    Ok(found.into_iter().flatten().collect())
}

async fn all_links<T>(parse: fn(&[u8]) -> Result<T, Malformed>) -> Result<Vec<T>, NetlinkError> {
    let mut request = LinkMessage::default();
    request.attributes.push(LinkAttribute::ExtMask(vec![LinkExtentMask::SkipStats]));
    dump("links", &RouteNetlinkMessage::GetLink(request), parse).await
}

async fn links() -> Result<NetView, NetlinkError> {
    let links = all_links(messages::link).await?;
    let interfaces: BTreeMap<_, _> = links.into_iter().map(|link| (link.index, link)).collect();
    Ok(NetView { interfaces, ..NetView::default() })
}

async fn routes(view: &mut NetView) -> Result<(), NetlinkError> {
    let mut routes = Vec::new();
    for family in FAMILIES {
        routes.extend(routes_of(family).await?);
    }
    view.next_hops = routes.iter().flat_map(|(_, hops)| hops).copied().collect();
    keep_routes(view, routes.into_iter().filter_map(|(connected, _)| connected));
    Ok(())
}

async fn routes_of(
    family: AddressFamily,
) -> Result<Vec<(Option<ConnectedRoute>, Vec<IpAddr>)>, NetlinkError> {
    let mut request = RouteMessage::default();
    request.header.address_family = family;
    // Policy rules and VRFs have gateways in tables of their own.
    request.header.table = RouteHeader::RT_TABLE_UNSPEC;
    request.header.kind = RouteType::Unicast;
    let parse = |payload: &[u8]| Ok((messages::connected_route(payload)?, messages::next_hops(payload)));
    match dump("routes", &RouteNetlinkMessage::GetRoute(request), parse).await {
        // A namespace that never had a route has no table.
        Err(NetlinkError::Observe { source, .. }) if source.refusal() == Some(libc::ENOENT) => Ok(Vec::new()),
        found => found,
    }
}

/// Keeps the routes of interfaces that are up. The kernel first reports that an interface is down, and
/// then flushes its routes without a notification.
fn keep_routes(view: &mut NetView, routes: impl Iterator<Item = ConnectedRoute>) {
    let up = |index| view.interfaces.get(&index).is_some_and(|interface| interface.up);
    view.routes = routes.filter(|route| up(route.interface)).collect();
}
