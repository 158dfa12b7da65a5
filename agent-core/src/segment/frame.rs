//! The frames by which hosts request and claim addresses: ARP for IPv4 (RFC 826, RFC 5227), and
//! Neighbour Discovery for IPv6 (RFC 4861).

use std::net::{IpAddr, Ipv4Addr};

use vipward_common::{
    ALL_NODES, ALL_ROUTERS, ArpFrame, ETHERTYPE_ARP, ETHERTYPE_IPV6, FRAME_LEN, MacAddr, ND_OVERRIDE,
    ND_SOLICITED, NdFrame, OPER_REPLY, OPER_REQUEST, group_mac,
};

#[cfg(test)]
mod tests;

/// A number that distinguishes a probe of Neighbour Discovery from other hosts' (RFC 7527).
pub type Nonce = [u8; 6];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Frame {
    Arp(ArpFrame),
    Nd(NdFrame),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Said {
    /// The MAC of the sender, as the message gives it.
    pub mac: MacAddr,
    pub source: MacAddr,
    /// The address that the sender claims. None in a probe.
    pub claimed: Option<IpAddr>,
    /// The address that the sender requests or probes.
    pub asked: Option<IpAddr>,
    /// True if it answers one host's question.
    pub is_answer: bool,
}

impl Frame {
    /// Returns the question for `address` from `own`. Without a `source` it is a probe, which changes
    /// no host's cache. `source` is of the same family.
    pub fn question(own: MacAddr, source: Option<IpAddr>, address: IpAddr, nonce: Nonce) -> Self {
        match (address, source) {
            (IpAddr::V4(address), source) => {
                let sender = match source {
                    Some(IpAddr::V4(source)) => source,
                    Some(IpAddr::V6(_)) | None => Ipv4Addr::UNSPECIFIED,
                };
                let (everybody, zero) = (MacAddr::BROADCAST, MacAddr::ZERO);
                let (sender, address) = (sender.octets(), address.octets());
                Self::Arp(ArpFrame::new(everybody, own, OPER_REQUEST, own, sender, zero, address))
            }
            (IpAddr::V6(address), Some(IpAddr::V6(source))) => {
                Self::Nd(NdFrame::solicitation(own, source.octets(), address.octets()))
            }
            (IpAddr::V6(address), Some(IpAddr::V4(_)) | None) => {
                Self::Nd(NdFrame::probe(own, address.octets(), nonce))
            }
        }
    }

    /// Returns the question for `address` from `source` at `own`, for the host with the MAC `to` alone.
    /// Both are of one family.
    pub fn question_to(to: MacAddr, own: MacAddr, source: IpAddr, address: IpAddr) -> Option<Self> {
        match (source, address) {
            (IpAddr::V4(source), IpAddr::V4(address)) => {
                let (source, address) = (source.octets(), address.octets());
                let (oper, zero) = (OPER_REQUEST, MacAddr::ZERO);
                Some(Self::Arp(ArpFrame::new(to, own, oper, own, source, zero, address)))
            }
            (IpAddr::V6(source), IpAddr::V6(address)) => {
                Some(Self::Nd(NdFrame::solicitation_to(to, own, source.octets(), address.octets())))
            }
            (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => None,
        }
    }

    /// Returns the address that the frame answers, if it answers the question of one host.
    pub fn answers(&self) -> Option<IpAddr> {
        let to = match self {
            Self::Arp(frame) => IpAddr::from(frame.tpa()),
            Self::Nd(frame) => IpAddr::from(frame.destination()),
        };
        self.said().filter(|said| said.is_answer).map(|_| to)
    }

    /// Returns the questions for `address` to the host with the MAC `to` alone. Without a `source` the
    /// question is a probe. Returns none for an IPv6 address without a source: the answer would go to
    /// all hosts.
    ///
    /// In IPv6 one goes to the address, as of a host that verifies that a neighbour is reachable (RFC
    /// 4861, 7.3.1), and one to its group. Only the answer to the second has the MAC (7.2.4), and an
    /// ND proxy of Linux may forward the first.
    pub fn questions_to(to: MacAddr, own: MacAddr, source: Option<IpAddr>, address: IpAddr) -> Vec<Self> {
        match (Self::question(own, source, address, Nonce::default()), address, source) {
            (Self::Arp(mut frame), ..) => {
                frame.dst = to;
                vec![Self::Arp(frame)]
            }
            (Self::Nd(mut to_group), IpAddr::V6(address), Some(IpAddr::V6(source))) => {
                to_group.dst = to;
                let to_address = NdFrame::solicitation_to(to, own, source.octets(), address.octets());
                [to_address, to_group].map(Self::Nd).into()
            }
            (Self::Nd(_), ..) => Vec::new(),
        }
    }

    /// Returns the frames of one round that announces "`vip` is at `mac`".
    ///
    /// ARP has two: the request form and the reply form. In the reply, tha is sha: Linux ignores a
    /// gratuitous reply with another tha within its lock time. Neighbour Discovery's go to all
    /// nodes (RFC 4861, 7.2.6) and to all routers (RFC 9131).
    pub fn announcements(mac: MacAddr, vip: IpAddr) -> [Self; 2] {
        match vip {
            IpAddr::V4(vip) => [(OPER_REQUEST, MacAddr::ZERO), (OPER_REPLY, mac)].map(|(oper, tha)| {
                let vip = vip.octets();
                Self::Arp(ArpFrame::new(MacAddr::BROADCAST, mac, oper, mac, vip, tha, vip))
            }),
            IpAddr::V6(vip) => [ALL_NODES, ALL_ROUTERS].map(|group| {
                let dst = group_mac(group);
                Self::Nd(NdFrame::advertisement(dst, mac, group, vip.octets(), mac, ND_OVERRIDE))
            }),
        }
    }

    /// Returns a frame that announces "`vip` is at `mac`" to the host with the MAC `to` alone.
    pub fn announcement_to(to: MacAddr, mac: MacAddr, vip: IpAddr) -> Self {
        match vip {
            IpAddr::V4(vip) => {
                let vip = vip.octets();
                Self::Arp(ArpFrame::new(to, mac, OPER_REQUEST, mac, vip, MacAddr::ZERO, vip))
            }
            IpAddr::V6(vip) => {
                Self::Nd(NdFrame::advertisement(to, mac, ALL_NODES, vip.octets(), mac, ND_OVERRIDE))
            }
        }
    }

    /// Returns the frame in `bytes`. Returns none if they are of another protocol, too short, or no
    /// valid message of Neighbour Discovery.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        match u16::from_be_bytes(bytes.get(12..14)?.try_into().ok()?) {
            ETHERTYPE_ARP => Some(Self::Arp(bytemuck::pod_read_unaligned(bytes.get(..FRAME_LEN)?))),
            ETHERTYPE_IPV6 => NdFrame::read(bytes).map(Self::Nd),
            _ => None,
        }
    }

    /// Returns its bytes, without padding.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Self::Arp(frame) => bytemuck::bytes_of(frame),
            Self::Nd(frame) => bytemuck::bytes_of(frame),
        }
    }

    /// Returns its `EtherType`, in host order.
    pub const fn ethertype(&self) -> u16 {
        match self {
            Self::Arp(_) => ETHERTYPE_ARP,
            Self::Nd(_) => ETHERTYPE_IPV6,
        }
    }

    /// Returns its meaning, or none if it is ARP of another kind.
    pub fn said(&self) -> Option<Said> {
        match self {
            Self::Arp(frame) => (frame.is_arp() && frame.is_ethernet_ipv4()).then(|| said_by_arp(frame)),
            Self::Nd(frame) => Some(said_by_nd(frame)),
        }
    }
}

fn said_by_arp(frame: &ArpFrame) -> Said {
    let (claimed, asked) = (IpAddr::from(frame.spa()), IpAddr::from(frame.tpa()));
    Said {
        mac: frame.sha,
        source: frame.src,
        claimed: (!claimed.is_unspecified()).then_some(claimed),
        asked: frame.is_request().then_some(asked),
        // A gratuitous reply is an announcement and answers no question.
        is_answer: !frame.is_request() && claimed != asked,
    }
}

fn said_by_nd(frame: &NdFrame) -> Said {
    let (source, target) = (IpAddr::from(frame.source()), IpAddr::from(frame.target()));
    let is_question = frame.is_solicitation();
    let claimed = if is_question { source } else { target };
    Said {
        mac: frame.link_layer().unwrap_or(frame.src),
        source: frame.src,
        claimed: (!claimed.is_unspecified()).then_some(claimed),
        asked: is_question.then_some(target),
        is_answer: !is_question && frame.flags() & ND_SOLICITED != 0,
    }
}
