//! A frame of ARP on a simulated segment. It has no target MAC, because nothing reads it.

use std::net::{IpAddr, Ipv4Addr};

use vipward_common::MacAddr;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Oper {
    Request = 1,
    Reply = 2,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Frame {
    /// The Ethernet source, which need not be the sender.
    pub(crate) source: MacAddr,
    /// The Ethernet destination.
    pub(crate) to: MacAddr,
    pub(crate) oper: Oper,
    /// The sender's MAC.
    pub(crate) sha: MacAddr,
    /// The sender's address; zeros in a probe.
    pub(crate) spa: Ipv4Addr,
    /// The requested address.
    pub(crate) tpa: Ipv4Addr,
}

impl Frame {
    /// Returns the broadcast announcement that `vip` is at `mac`, in one of the two forms of RFC 5227.
    pub(crate) fn announcement(oper: Oper, mac: MacAddr, vip: Ipv4Addr) -> Self {
        Self { source: mac, to: MacAddr::BROADCAST, oper, sha: mac, spa: vip, tpa: vip }
    }

    /// Returns the probe of a host that is about to use `address` (RFC 5227, 2.1.1).
    pub(crate) fn probe(mac: MacAddr, address: Ipv4Addr) -> Self {
        Self::request(mac, Ipv4Addr::UNSPECIFIED, address)
    }

    /// Returns the request for `address` by a host that has `own`.
    pub(crate) fn request(mac: MacAddr, own: Ipv4Addr, address: Ipv4Addr) -> Self {
        Self { source: mac, to: MacAddr::BROADCAST, oper: Oper::Request, sha: mac, spa: own, tpa: address }
    }

    /// Returns the answer to this request, sent by `source`: the address is at `mac`.
    pub(crate) fn answered(&self, source: MacAddr, mac: MacAddr) -> Self {
        Self { source, to: self.sha, oper: Oper::Reply, sha: mac, spa: self.tpa, tpa: self.spa }
    }

    /// Returns the address that the sender claims.
    pub(crate) fn claimed(&self) -> Option<IpAddr> {
        (!self.spa.is_unspecified()).then_some(self.spa.into())
    }

    /// Returns the address that the sender requests.
    pub(crate) fn target(&self) -> Option<IpAddr> {
        (self.oper == Oper::Request).then_some(self.tpa.into())
    }

    pub(crate) fn is_probe(&self) -> bool {
        self.oper == Oper::Request && self.spa.is_unspecified()
    }

    /// Returns whether it claims the address that it requests.
    pub(crate) fn is_gratuitous(&self) -> bool {
        self.oper == Oper::Request && self.spa == self.tpa
    }

    /// Returns whether neighbours learn from it.
    pub(crate) fn announces(&self) -> bool {
        self.oper == Oper::Reply || self.is_gratuitous()
    }
}
