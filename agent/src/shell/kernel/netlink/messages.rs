//! Parses rtnetlink messages: only the attributes that the snapshot of the network needs.
//!
//! Other attributes are skipped unread. An attribute of a newer kernel or an odd driver must not
//! make the whole host unobservable.

use std::{
    collections::BTreeSet,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

use ipnet::IpNet;
use vipward_common::{ETHERTYPE_8021Q, MacAddr, VlanTag};

use vipward_core::{
    host::net::{ConnectedRoute, Interface},
    segment::failover::{Notice, NoticeKind},
};

#[cfg(test)]
mod tests;

const LINK_HEADER_LEN: usize = 16;
const ADDRESS_HEADER_LEN: usize = 8;
const ROUTE_HEADER_LEN: usize = 12;
/// `struct ndmsg`
const NEIGHBOUR_HEADER_LEN: usize = 12;
/// `struct tcmsg`
const FILTER_HEADER_LEN: usize = 20;
const MESSAGE_HEADER_LEN: usize = 16;
const ATTRIBUTE_HEADER_LEN: usize = 4;
/// `RTA_VIA` of <linux/rtnetlink.h>, which libc lacks for musl.
const RTA_VIA: u16 = 18;
/// The bits of an attribute's type that are flags (`NLA_F_NESTED`, `NLA_F_NET_BYTEORDER`).
const ATTRIBUTE_KIND: u16 = 0x3fff;

// From <linux/if_link.h>; libc lacks them.
const IFLA_XDP_DRV_PROG_ID: u16 = 5;
const IFLA_XDP_SKB_PROG_ID: u16 = 6;
const IFLA_XDP_HW_PROG_ID: u16 = 7;
const IFLA_BOND_ACTIVE_SLAVE: u16 = 2;
const IFLA_EVENT_BONDING_FAILOVER: u32 = 3;
const IFLA_EVENT_NOTIFY_PEERS: u32 = 4;
const IFLA_VLAN_ID: u16 = 1;
const IFLA_VLAN_PROTOCOL: u16 = 5;
// From <linux/if_addr.h>.
const IFA_PROTO: u16 = 11;
// From <linux/neighbour.h>.
const NDA_DST: u16 = 1;
const NDA_PROTOCOL: u16 = 12;
const NUD_REACHABLE: u16 = 0x02;
const NUD_STALE: u16 = 0x04;
const NTF_PROXY: u8 = 0x08;
// From <linux/rtnetlink.h> and <linux/pkt_cls.h>.
const TCA_KIND: u16 = 1;
const TCA_OPTIONS: u16 = 2;
const TCA_BPF_NAME: u16 = 7;
const TCA_BPF_ID: u16 = 11;
/// The handle of the clsact and ingress disciplines, their parent (`TC_H_CLSACT`), and that of filters at
/// their ingress.
const AT_INGRESS: [u32; 3] = [0xffff_0000, 0xffff_fff1, 0xffff_fff2];
/// `RTM_DELMULTICAST`, since Linux 6.14.
const RTM_DELMULTICAST: u16 = 57;

/// A message that contradicts the kernel's header files.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum Malformed {
    #[error("an rtnetlink {what} message of {length} bytes is too short")]
    Short { what: &'static str, length: usize },
    #[error("an rtnetlink {what} message about interface {index} has no {attribute}")]
    Missing {
        what: &'static str,
        index: u32,
        /// The attribute's name in the kernel.
        attribute: &'static str,
    },
    #[error("an rtnetlink {what} message carries the prefix length {prefix_len}")]
    PrefixLen { what: &'static str, prefix_len: u8 },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Message<'a> {
    /// `RTM_*` or `NLMSG_*`.
    pub(super) kind: u16,
    /// `NLM_F_*`.
    pub(super) flags: u16,
    /// The number of the request that the message answers.
    pub(super) sequence: u32,
    /// Everything after the netlink header.
    pub(super) payload: &'a [u8],
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Address {
    pub(crate) index: u32,
    pub(crate) net: IpNet,
    /// `IFA_LABEL` of an IPv4 address: the interface's name, unless another was set.
    pub(crate) label: String,
    /// `IFA_PROTO`: the number of the program that has added it; 0 for none, and before Linux 5.18.
    pub(crate) protocol: u8,
    /// True if another host may have it, or has it: the kernel has not ended its detection of
    /// duplicates, or has found one.
    pub(crate) is_doubtful: bool,
    /// True if it has a lifetime, as DHCP and routers give (not `IFA_F_PERMANENT`).
    pub(crate) is_leased: bool,
}

/// An entry of the kernel's list of neighbour proxies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Proxy {
    pub(crate) index: u32,
    pub(crate) address: Ipv6Addr,
    /// `NDA_PROTOCOL`: the number of the program that has added it; 0 for none.
    pub(crate) protocol: u8,
}

/// An interface's lower device, and its MTU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Lower {
    pub(crate) index: u32,
    /// The interface below it, or the other end of a veth.
    pub(crate) link: Option<u32>,
    /// True if the lower device is in another network namespace.
    pub(crate) elsewhere: bool,
    pub(crate) mtu_bytes: Option<u32>,
}

/// Returns the messages of a datagram, up to the first that does not fit.
pub(super) fn messages(mut datagram: &[u8]) -> impl Iterator<Item = Message<'_>> {
    std::iter::from_fn(move || {
        let length = usize::try_from(u32_at(datagram, 0)?).ok()?;
        let message = Message {
            kind: u16_at(datagram, 4)?,
            flags: u16_at(datagram, 6)?,
            sequence: u32_at(datagram, 8)?,
            payload: datagram.get(MESSAGE_HEADER_LEN..length)?,
        };
        datagram = datagram.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some(message)
    })
}

/// Returns the interface that an `RTM_NEWLINK` message describes, without its addresses.
pub(super) fn link(payload: &[u8]) -> Result<Interface, Malformed> {
    let short = || Malformed::Short { what: "link", length: payload.len() };
    let link_type = u16_at(payload, 2).ok_or_else(short)?;
    let index = u32_at(payload, 4).ok_or_else(short)?;
    let flags = u32_at(payload, 8).ok_or_else(short)?;
    let attributes = payload.get(LINK_HEADER_LEN..).ok_or_else(short)?;

    let mut name = None;
    let mut altnames = Vec::new();
    let mut mac = MacAddr::ZERO;
    let mut master = None;
    let (mut link, mut elsewhere) = (None, false);
    let mut kind = String::new();
    let mut port_kind = String::new();
    let mut data: &[u8] = &[];
    let mut xdp_programs = Vec::new();
    let mut carrier_losses = 0;
    for (attribute, value) in attributes_of(attributes) {
        match attribute {
            libc::IFLA_IFNAME => name = Some(text(value)),
            libc::IFLA_PROP_LIST => {
                let names = attributes_of(value).filter(|(attribute, _)| *attribute == libc::IFLA_ALT_IFNAME);
                altnames.extend(names.map(|(_, value)| text(value)));
            }
            libc::IFLA_ADDRESS => mac = value.try_into().map_or(MacAddr::ZERO, MacAddr),
            libc::IFLA_CARRIER_DOWN_COUNT => carrier_losses = u32_at(value, 0).unwrap_or_default(),
            libc::IFLA_MASTER => master = u32_at(value, 0),
            libc::IFLA_LINK => link = u32_at(value, 0),
            libc::IFLA_LINK_NETNSID => elsewhere = true,
            libc::IFLA_XDP => {
                // One attribute per mode; IFLA_XDP_PROG_ID repeats one of them when there is one
                // only.
                xdp_programs.extend(attributes_of(value).filter_map(|(attribute, value)| match attribute {
                    IFLA_XDP_DRV_PROG_ID | IFLA_XDP_SKB_PROG_ID | IFLA_XDP_HW_PROG_ID => u32_at(value, 0),
                    _ => None,
                }));
            }
            libc::IFLA_LINKINFO => {
                for (attribute, value) in attributes_of(value) {
                    match attribute {
                        libc::IFLA_INFO_KIND => kind = text(value),
                        libc::IFLA_INFO_SLAVE_KIND => port_kind = text(value),
                        libc::IFLA_INFO_DATA => data = value,
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
    // A VRF is a master too, but its members keep their own addresses.
    let master = master.filter(|_| port_kind != "vrf");
    // A veth's link is its other end, a tunnel's the interface of its outer packets.
    let has_lower = matches!(&*kind, "vlan" | "macvlan" | "macvtap" | "ipvlan" | "ipvtap") && !elsewhere;
    let lower = link.filter(|_| has_lower);
    let vlan = if kind == "vlan" { vlan(data) } else { None };
    let active = attributes_of(data).find(|(attribute, _)| *attribute == IFLA_BOND_ACTIVE_SLAVE);
    let active_port = active.filter(|_| kind == "bond").and_then(|(_, value)| u32_at(value, 0));

    Ok(Interface {
        index,
        name: name.ok_or(Malformed::Missing { what: "link", index, attribute: "IFLA_IFNAME" })?,
        altnames,
        mac,
        kind,
        ethernet: link_type == libc::ARPHRD_ETHER,
        loopback: has(flags, libc::IFF_LOOPBACK),
        up: has(flags, libc::IFF_UP),
        carrier: has(flags, libc::IFF_LOWER_UP),
        carrier_losses,
        master,
        lower,
        vlan,
        strips_tags: false,
        active_port,
        xdp_programs,
        tc_programs: None,
        addresses: Vec::new(),
        ours: BTreeSet::new(),
        leased: BTreeSet::new(),
        link_local: None,
        doubtful: BTreeSet::new(),
    })
}

fn vlan(data: &[u8]) -> Option<VlanTag> {
    let (mut id, mut protocol) = (None, ETHERTYPE_8021Q);
    for (attribute, value) in attributes_of(data) {
        match attribute {
            IFLA_VLAN_ID => id = u16_at(value, 0),
            IFLA_VLAN_PROTOCOL => protocol = u16_at(value, 0).map_or(protocol, u16::from_be),
            _ => {}
        }
    }
    id.map(|id| VlanTag::new(protocol, id))
}

pub(super) fn lower(payload: &[u8]) -> Result<Lower, Malformed> {
    let short = || Malformed::Short { what: "link", length: payload.len() };
    let index = u32_at(payload, 4).ok_or_else(short)?;
    let attributes = payload.get(LINK_HEADER_LEN..).ok_or_else(short)?;
    let mut found = Lower { index, link: None, elsewhere: false, mtu_bytes: None };
    for (attribute, value) in attributes_of(attributes) {
        match attribute {
            libc::IFLA_LINK => found.link = u32_at(value, 0),
            libc::IFLA_LINK_NETNSID => found.elsewhere = true,
            libc::IFLA_MTU => found.mtu_bytes = u32_at(value, 0),
            _ => {}
        }
    }
    Ok(found)
}

/// Returns the BPF program of the classifier that an `RTM_NEWTFILTER` message describes. Returns
/// `None` for every other kind.
pub(super) fn tc_program(payload: &[u8]) -> Result<Option<(u32, Option<String>)>, Malformed> {
    let short = || Malformed::Short { what: "filter", length: payload.len() };
    let attributes = payload.get(FILTER_HEADER_LEN..).ok_or_else(short)?;
    let is_bpf = attributes_of(attributes).any(|(kind, value)| kind == TCA_KIND && text(value) == "bpf");
    let options = attributes_of(attributes).find(|(kind, _)| *kind == TCA_OPTIONS);
    let (Some((_, options)), true) = (options, is_bpf) else { return Ok(None) };
    let mut id = None;
    let mut name = None;
    for (attribute, value) in attributes_of(options) {
        match attribute {
            TCA_BPF_ID => id = u32_at(value, 0),
            TCA_BPF_NAME => name = Some(text(value)),
            _ => {}
        }
    }
    // A classic BPF filter has no id.
    Ok(id.map(|id| (id, name)))
}

/// Returns the address that an `RTM_NEWADDR` message describes. Returns `None` for a multicast one, and
/// for a link-local one of IPv6 that another host may have.
pub(super) fn address(payload: &[u8]) -> Result<Option<Address>, Malformed> {
    let what = "address";
    let short = || Malformed::Short { what, length: payload.len() };
    let prefix_len = *payload.get(1).ok_or_else(short)?;
    // While another host may have it, or has it (`IFA_F_TENTATIVE`, `IFA_F_DADFAILED`).
    let flags = u32::from(*payload.get(2).ok_or_else(short)?);
    let is_doubtful = flags & (libc::IFA_F_TENTATIVE | libc::IFA_F_DADFAILED) != 0;
    let is_leased = flags & libc::IFA_F_PERMANENT == 0;
    let index = u32_at(payload, 4).ok_or_else(short)?;
    let attributes = payload.get(ADDRESS_HEADER_LEN..).ok_or_else(short)?;

    let (mut local, mut only) = (None, None);
    let mut label = String::new();
    let mut protocol = 0;
    for (attribute, value) in attributes_of(attributes) {
        match attribute {
            // IFA_ADDRESS is the peer's address on a point-to-point link. Elsewhere it is the same, and
            // IPv6 leaves IFA_LOCAL out.
            libc::IFA_LOCAL => local = ip(value),
            libc::IFA_ADDRESS => only = ip(value),
            IFA_PROTO => protocol = value.first().copied().unwrap_or(0),
            libc::IFA_LABEL => label = text(value),
            _ => {}
        }
    }
    let local = local.or(only).ok_or(Malformed::Missing { what, index, attribute: "IFA_LOCAL" })?;
    let net = IpNet::new(local, prefix_len).map_err(|_| Malformed::PrefixLen { what, prefix_len })?;
    let is_left_out = is_of_one_link(local) && (is_doubtful || !is_link_local(local));
    Ok((!is_left_out).then_some(Address { index, net, label, protocol, is_doubtful, is_leased }))
}

/// Returns the interface and the address of the neighbour that an `RTM_NEWNEIGH` message describes.
/// Returns `None` unless it has answered this host.
pub(super) fn neighbour(payload: &[u8]) -> Result<Option<(u32, IpAddr)>, Malformed> {
    let short = || Malformed::Short { what: "neighbour", length: payload.len() };
    let index = u32_at(payload, 4).ok_or_else(short)?;
    let state = u16_at(payload, 8).ok_or_else(short)?;
    let attributes = payload.get(NEIGHBOUR_HEADER_LEN..).ok_or_else(short)?;
    let has_answered = state & (NUD_REACHABLE | NUD_STALE) != 0;
    let address = attributes_of(attributes).find(|(attribute, _)| *attribute == NDA_DST);
    let address = address.and_then(|(_, value)| ip(value)).filter(|_| has_answered);
    Ok(address.map(|address| (index, address)))
}

/// Returns the IPv6 proxy that an `RTM_NEWNEIGH` message describes. Returns `None` for an entry of
/// another kind.
pub(super) fn proxy(payload: &[u8]) -> Result<Option<Proxy>, Malformed> {
    let short = || Malformed::Short { what: "neighbour", length: payload.len() };
    let index = u32_at(payload, 4).ok_or_else(short)?;
    let flags = *payload.get(10).ok_or_else(short)?;
    let attributes = payload.get(NEIGHBOUR_HEADER_LEN..).ok_or_else(short)?;
    let (mut address, mut protocol) = (None, 0);
    for (attribute, value) in attributes_of(attributes) {
        match attribute {
            NDA_DST => address = <[u8; 16]>::try_from(value).ok().map(Ipv6Addr::from),
            NDA_PROTOCOL => protocol = value.first().copied().unwrap_or(0),
            _ => {}
        }
    }
    let address = address.filter(|_| flags & NTF_PROXY != 0);
    Ok(address.map(|address| Proxy { index, address, protocol }))
}

/// Returns the connected route that an `RTM_NEWROUTE` or `RTM_DELROUTE` message describes. Returns
/// `None` for every other kind of route.
pub(super) fn connected_route(payload: &[u8]) -> Result<Option<ConnectedRoute>, Malformed> {
    let what = "route";
    let short = || Malformed::Short { what, length: payload.len() };
    let attributes = payload.get(ROUTE_HEADER_LEN..).ok_or_else(short)?;
    let [family, prefix_len, _, _, table, _, scope, kind] = payload[..8] else { return Err(short()) };

    let (any, scope_of_links) = match i32::from(family) {
        libc::AF_INET => (IpAddr::V4(Ipv4Addr::UNSPECIFIED), libc::RT_SCOPE_LINK),
        // Every route of IPv6 has this scope (`rt6_fill_node`).
        libc::AF_INET6 => (IpAddr::V6(Ipv6Addr::UNSPECIFIED), libc::RT_SCOPE_UNIVERSE),
        _ => return Ok(None),
    };
    let mut prefix = any;
    let mut interface = None;
    let mut metric = 0;
    let mut table = u32::from(table);
    let mut gateway = false;
    for (attribute, value) in attributes_of(attributes) {
        match attribute {
            libc::RTA_DST => prefix = ip(value).unwrap_or(prefix),
            libc::RTA_OIF => interface = u32_at(value, 0),
            libc::RTA_PRIORITY => metric = u32_at(value, 0).unwrap_or(metric),
            libc::RTA_TABLE => table = u32_at(value, 0).unwrap_or(table),
            libc::RTA_GATEWAY | RTA_VIA => gateway = true,
            _ => {}
        }
    }
    let connected = table == u32::from(libc::RT_TABLE_MAIN)
        && kind == libc::RTN_UNICAST
        && scope == scope_of_links
        && !gateway
        && !is_of_one_link(prefix);
    let Some(interface) = interface.filter(|_| connected) else { return Ok(None) };
    let prefix = IpNet::new(prefix, prefix_len).map_err(|_| Malformed::PrefixLen { what, prefix_len })?;
    Ok(Some(ConnectedRoute { prefix, interface, metric }))
}

/// Returns the next hops of the route that an `RTM_NEWROUTE` message describes; none if it is
/// connected.
pub(super) fn next_hops(payload: &[u8]) -> Vec<IpAddr> {
    /// `struct rtnexthop`, before its attributes.
    const NEXT_HOP_LEN: usize = 8;
    let Some(attributes) = payload.get(ROUTE_HEADER_LEN..) else { return Vec::new() };
    let gateways = |attributes| {
        attributes_of(attributes)
            .filter(|(attribute, _)| *attribute == libc::RTA_GATEWAY)
            .filter_map(|(_, value)| ip(value))
            .filter(|address| !is_of_one_link(*address))
    };
    let mut hops: Vec<IpAddr> = gateways(attributes).collect();
    for (_, mut rest) in attributes_of(attributes).filter(|(attribute, _)| *attribute == libc::RTA_MULTIPATH)
    {
        while let Some(length) = u16_at(rest, 0).map(usize::from).filter(|length| *length >= NEXT_HOP_LEN) {
            hops.extend(rest.get(NEXT_HOP_LEN..length).into_iter().flat_map(gateways));
            rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        }
    }
    hops
}

pub(super) fn notices(datagram: &[u8]) -> impl Iterator<Item = Notice> {
    messages(datagram).filter(|message| message.kind == libc::RTM_NEWLINK).filter_map(|message| {
        let attributes = attributes_of(message.payload.get(LINK_HEADER_LEN..)?);
        let (_, event) = attributes.into_iter().find(|(attribute, _)| *attribute == libc::IFLA_EVENT)?;
        let kind = match u32_at(event, 0)? {
            IFLA_EVENT_BONDING_FAILOVER => NoticeKind::Failover,
            IFLA_EVENT_NOTIFY_PEERS => NoticeKind::NotifyPeers,
            _ => return None,
        };
        Some(Notice { ifindex: u32_at(message.payload, 4)?, kind })
    })
}

/// Returns the interfaces that a notification reports as administratively down or without a carrier.
pub(super) fn downs(datagram: &[u8]) -> impl Iterator<Item = u32> {
    messages(datagram).filter(|message| message.kind == libc::RTM_NEWLINK).filter_map(|message| {
        let flags = u32_at(message.payload, 8)?;
        let is_up = has(flags, libc::IFF_UP) && has(flags, libc::IFF_LOWER_UP);
        u32_at(message.payload, 4).filter(|_| !is_up)
    })
}

/// Returns the interfaces at whose ingress a notification reports the end of a filter or of the discipline
/// of filters, and those that have left a multicast group.
pub(super) fn removals(datagram: &[u8]) -> impl Iterator<Item = u32> {
    messages(datagram).filter_map(|Message { kind, payload, .. }| match kind {
        libc::RTM_DELTFILTER | libc::RTM_DELQDISC => {
            u32_at(payload, 12).filter(|parent| AT_INGRESS.contains(parent)).and_then(|_| u32_at(payload, 4))
        }
        RTM_DELMULTICAST => u32_at(payload, 4),
        _ => None,
    })
}

/// Returns true if a notification must be followed by an observation. Of the routes, connected ones
/// and default routes count. Others only name gateways, which the next regular observation finds,
/// and a BGP router makes many. A message that cannot be parsed may be anything.
pub(super) fn is_relevant(datagram: &[u8]) -> bool {
    messages(datagram).any(|message| match message.kind {
        libc::RTM_NEWROUTE | libc::RTM_DELROUTE => {
            let is_default = message.payload.get(1) == Some(&0);
            is_default || !matches!(connected_route(message.payload), Ok(None))
        }
        _ => true,
    })
}

/// Returns the attributes of a message, or those nested in one, up to the first that does not fit.
fn attributes_of(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let length = usize::from(u16_at(bytes, 0)?);
        let kind = u16_at(bytes, 2)? & ATTRIBUTE_KIND;
        let value = bytes.get(ATTRIBUTE_HEADER_LEN..length)?;
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    })
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn ip(value: &[u8]) -> Option<IpAddr> {
    let v4 = <[u8; 4]>::try_from(value).map(IpAddr::from);
    v4.or_else(|_| <[u8; 16]>::try_from(value).map(IpAddr::from)).ok()
}

/// Returns true if an IPv6 address means another host, or none, on each link.
fn is_of_one_link(address: IpAddr) -> bool {
    is_link_local(address) || matches!(address, IpAddr::V6(v6) if v6.is_multicast())
}

/// Returns true if an IPv6 address means another host on each link.
pub(super) fn is_link_local(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(v6) if v6.is_unicast_link_local())
}

/// Returns the text up to the terminating zero. A name that is not UTF-8 is kept, with
/// replacements.
fn text(value: &[u8]) -> String {
    let end = value.iter().position(|&byte| byte == 0).unwrap_or(value.len());
    String::from_utf8_lossy(&value[..end]).into_owned()
}

fn has(flags: u32, flag: libc::c_int) -> bool {
    flags & flag.cast_unsigned() != 0
}
