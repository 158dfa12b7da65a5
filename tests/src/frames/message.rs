//! A request for an address or a claim of one, of either family.

use std::fmt;
use std::net::IpAddr;

use crate::frames::{Arp, Mac, nd::Nd};

/// Frame of ARP or of neighbour discovery.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Message {
    Arp(Arp),
    Nd(Nd),
}

impl From<Arp> for Message {
    fn from(arp: Arp) -> Self {
        Self::Arp(arp)
    }
}

impl From<Nd> for Message {
    fn from(nd: Nd) -> Self {
        Self::Nd(nd)
    }
}

impl Message {
    /// Parses an untagged frame.
    pub fn parse(frame: &[u8]) -> Option<Self> {
        Arp::parse(frame).map(Self::Arp).or_else(|_| Nd::parse(frame).map(Self::Nd)).ok()
    }

    /// Returns a host's request for `target` to all. Both addresses are of one family.
    pub fn request(mac: Mac, from: IpAddr, target: IpAddr) -> Self {
        match (from, target) {
            (IpAddr::V4(from), IpAddr::V4(target)) => Arp::request(mac, from, target).into(),
            (IpAddr::V6(from), IpAddr::V6(target)) => Nd::solicitation(mac, from, target).into(),
            _ => panic!("{from} cannot ask for {target}"),
        }
    }

    /// Returns a probe by a host that wants `target`, as Linux sends it.
    pub fn probe(mac: Mac, target: IpAddr) -> Self {
        match target {
            IpAddr::V4(target) => Arp::probe(mac, target).into(),
            IpAddr::V6(target) => Nd::probe(mac, target, Some([7, 5, 2, 7, 7, 5])).into(),
        }
    }

    /// Returns a claim to all: `address` is at `mac`.
    pub fn announcement(mac: Mac, address: IpAddr) -> Self {
        match address {
            IpAddr::V4(address) => Arp::gratuitous_request(mac, address, Mac::ZERO).into(),
            IpAddr::V6(address) => Nd::announcement(mac, address).into(),
        }
    }

    /// Returns the right answer to this request, with this MAC.
    #[must_use]
    pub fn answered_by(&self, mac: Mac) -> Self {
        match self {
            Self::Arp(arp) => arp.answered_by(mac).into(),
            Self::Nd(nd) => nd.answered_by(mac).into(),
        }
    }

    /// Returns the same request to one host.
    #[must_use]
    pub fn to(self, mac: Mac) -> Self {
        match self {
            Self::Arp(arp) => arp.to(mac).into(),
            Self::Nd(nd) => nd.to(mac).into(),
        }
    }

    /// Returns the same frame with another Ethernet source.
    #[must_use]
    pub fn sent_by(self, eth_src: Mac) -> Self {
        match self {
            Self::Arp(arp) => Arp { eth_src, ..arp }.into(),
            Self::Nd(nd) => Nd { eth_src, ..nd }.into(),
        }
    }

    /// Returns the MAC that it gives for its sender.
    pub fn sender(&self) -> Mac {
        match self {
            Self::Arp(arp) => arp.sha,
            Self::Nd(nd) => nd.sender(),
        }
    }

    /// Returns the address that it gives for its sender. A probe has none.
    pub fn sender_address(&self) -> Option<IpAddr> {
        let address = match self {
            Self::Arp(arp) => IpAddr::V4(arp.spa),
            Self::Nd(nd) if nd.kind == crate::frames::nd::ADVERTISEMENT => IpAddr::V6(nd.target),
            Self::Nd(nd) => IpAddr::V6(nd.source),
        };
        (!address.is_unspecified()).then_some(address)
    }

    pub fn eth_src(&self) -> Mac {
        match self {
            Self::Arp(arp) => arp.eth_src,
            Self::Nd(nd) => nd.eth_src,
        }
    }

    pub fn eth_dst(&self) -> Mac {
        match self {
            Self::Arp(arp) => arp.eth_dst,
            Self::Nd(nd) => nd.eth_dst,
        }
    }

    pub fn asks_for(&self) -> Option<IpAddr> {
        match self {
            Self::Arp(arp) => arp.is_request().then_some(arp.tpa.into()),
            Self::Nd(nd) => (nd.kind == crate::frames::nd::SOLICITATION).then_some(nd.target.into()),
        }
    }

    /// Returns the address that it answers for. One form of an announcement is an answer, too.
    pub fn answers_for(&self) -> Option<IpAddr> {
        match self {
            Self::Arp(arp) => arp.is_reply().then_some(arp.spa.into()),
            Self::Nd(nd) => (nd.kind == crate::frames::nd::ADVERTISEMENT).then_some(nd.target.into()),
        }
    }

    /// Returns true if it announces its sender's address to all. In IPv6 the answer to a probe does
    /// so, too.
    pub fn is_announcement(&self) -> bool {
        match self {
            Self::Arp(arp) => arp.is_gratuitous(),
            Self::Nd(nd) => nd.is_announcement(),
        }
    }

    /// Returns true if it answers `request`: it goes to the sender, about the requested address.
    pub fn answers(&self, request: &Self) -> bool {
        let addressed = match (self, request) {
            (Self::Arp(answer), Self::Arp(request)) => answer.tha == request.sha,
            (Self::Nd(answer), Self::Nd(request)) => {
                answer.eth_dst == request.sender()
                    || request.source.is_unspecified() && answer.is_announcement()
            }
            (Self::Arp(_), Self::Nd(_)) | (Self::Nd(_), Self::Arp(_)) => false,
        };
        addressed && self.answers_for() == request.asks_for()
    }

    pub fn to_bytes(&self) -> Vec<u8> {
        match self {
            Self::Arp(arp) => arp.to_bytes(),
            Self::Nd(nd) => nd.to_bytes(),
        }
    }
}

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Arp(arp) => arp.fmt(f),
            Self::Nd(nd) => nd.fmt(f),
        }
    }
}
