//! The frame that Vipward reads: Ethernet II that carries Ethernet/IPv4 ARP (RFC 826).

use bytemuck::{Pod, Zeroable};

use crate::{
    mac::MacAddr,
    question::{Question, Reach},
};

/// The bytes from the Ethernet destination to the end of tpa.
pub const FRAME_LEN: usize = size_of::<ArpFrame>();
/// The `EtherType` of ARP, in host order.
pub const ETHERTYPE_ARP: u16 = 0x0806;
pub const OPER_REQUEST: u16 = 1;
pub const OPER_REPLY: u16 = 2;

const HTYPE_ETHERNET: u16 = 1;
/// IEEE 802 networks (RFC 1042). Linux takes it for Ethernet (`arp_process`), and so do neighbours.
const HTYPE_IEEE_802: u16 = 6;
const PTYPE_IPV4: u16 = 0x0800;
const HLEN: u8 = 6;
const PLEN: u8 = 4;

/// An Ethernet II frame that carries Ethernet/IPv4 ARP (RFC 826), in wire order. RFC 5227 gives the
/// same frame its meaning as a probe or an announcement.
///
/// Offsets in bytes stand on the right. A frame with an 802.1Q tag has the tag at offset 12, so it
/// is not read as ARP.
///
/// ```text
///  0                   1                   2                   3
///  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |                   dst: Ethernet destination                   |   0
/// +                               +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |                               |                               |   4
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+                               +
/// |                      src: Ethernet source                     |   8
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |       ethertype: 0x0806       |    htype: 1 (Ethernet) or 6   |  12
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |      ptype: 0x0800 (IPv4)     |    hlen: 6    |    plen: 4    |  16
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |          oper: 1 or 2         |                               |  20
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+                               +
/// |                  sha: sender hardware address                 |  24
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |                    spa: sender IPv4 address                   |  28
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |                  tha: target hardware address                 |  32
/// +                               +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |                               |    tpa: target IPv4 address   |  36
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |    tpa, the last two bytes    |                                  40
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct ArpFrame {
    pub dst: MacAddr,
    pub src: MacAddr,
    ethertype: u16,
    htype: u16,
    ptype: u16,
    hlen: u8,
    plen: u8,
    oper: u16,
    /// Sender hardware address.
    pub sha: MacAddr,
    spa: [u16; 2],
    /// Target hardware address.
    pub tha: MacAddr,
    tpa: [u16; 2],
}

const _: () = assert!(size_of::<ArpFrame>() == 42 && align_of::<ArpFrame>() == 2);

impl ArpFrame {
    /// Returns a well-formed frame. Addresses are in wire order, `oper` in host order.
    pub fn new(
        dst: MacAddr,
        src: MacAddr,
        oper: u16,
        sha: MacAddr,
        spa: [u8; 4],
        tha: MacAddr,
        tpa: [u8; 4],
    ) -> Self {
        Self {
            dst,
            src,
            ethertype: ETHERTYPE_ARP.to_be(),
            htype: HTYPE_ETHERNET.to_be(),
            ptype: PTYPE_IPV4.to_be(),
            hlen: HLEN,
            plen: PLEN,
            oper: oper.to_be(),
            sha,
            spa: bytemuck::cast(spa),
            tha,
            tpa: bytemuck::cast(tpa),
        }
    }

    #[inline(always)]
    pub fn is_arp(&self) -> bool {
        self.ethertype == ETHERTYPE_ARP.to_be()
    }

    /// Returns true if this is ARP for IPv4 over Ethernet, and a request or a reply. The hardware
    /// type may be Ethernet or IEEE 802.
    #[inline(always)]
    pub fn is_ethernet_ipv4(&self) -> bool {
        (self.htype == HTYPE_ETHERNET.to_be() || self.htype == HTYPE_IEEE_802.to_be())
            && self.ptype == PTYPE_IPV4.to_be()
            && self.hlen == HLEN
            && self.plen == PLEN
            && (self.oper == OPER_REQUEST.to_be() || self.oper == OPER_REPLY.to_be())
    }

    /// Returns the operation, in host order.
    #[inline(always)]
    pub fn oper(&self) -> u16 {
        u16::from_be(self.oper)
    }

    #[inline(always)]
    pub fn is_request(&self) -> bool {
        self.oper == OPER_REQUEST.to_be()
    }

    /// Returns the sender protocol address.
    #[inline(always)]
    pub fn spa(&self) -> [u8; 4] {
        bytemuck::cast(self.spa)
    }

    /// Returns the target protocol address.
    #[inline(always)]
    pub fn tpa(&self) -> [u8; 4] {
        bytemuck::cast(self.tpa)
    }

    /// Returns true if spa and tpa are equal, as in an ARP Announcement (RFC 5227, 2.3).
    #[inline(always)]
    pub fn is_gratuitous(&self) -> bool {
        self.spa == self.tpa
    }

    /// Returns true if this is an ARP Probe: a request with spa zero (RFC 5227, 1.1).
    #[inline(always)]
    pub fn is_probe(&self) -> bool {
        self.is_request() && self.spa() == [0; 4]
    }

    /// Turns a request into its reply, in place. The answer is
    /// `mac`, and the Ethernet source is `source`.
    ///
    /// The reply goes to sha, whatever the Ethernet source was, and its hardware type is
    /// Ethernet's. The kernel replies in the same way (`arp_process`).
    #[inline(always)]
    pub fn turn_into_reply(&mut self, mac: MacAddr, source: MacAddr) {
        self.dst = self.sha;
        self.src = source;
        self.htype = HTYPE_ETHERNET.to_be();
        self.oper = OPER_REPLY.to_be();
        self.tha = self.sha;
        self.sha = mac;
        core::mem::swap(&mut self.spa, &mut self.tpa);
    }

    /// Turns an ARP claim into the announcement by the address's holder, in place.
    ///
    /// It is a gratuitous request with a tha of zero (RFC 5227, 2.3). After a change, Linux locks
    /// its neighbour entry for a second (`arp_process`). Then it learns from this request, and
    /// ignores a gratuitous reply to broadcast.
    #[inline(always)]
    pub fn turn_into_announcement(&mut self, mac: MacAddr) {
        self.dst = MacAddr::BROADCAST;
        self.src = mac;
        self.htype = HTYPE_ETHERNET.to_be();
        self.oper = OPER_REQUEST.to_be();
        self.sha = mac;
        self.tha = MacAddr::ZERO;
        self.tpa = self.spa;
    }
}

/// ARP for IPv4 over Ethernet claims spa. A request queries tpa.
impl Question for ArpFrame {
    type Addr = [u8; 4];

    #[inline(always)]
    fn dst(&self) -> MacAddr {
        self.dst
    }

    #[inline(always)]
    fn src(&self) -> MacAddr {
        self.src
    }

    #[inline(always)]
    fn sender(&self) -> MacAddr {
        self.sha
    }

    #[inline(always)]
    fn oper(&self) -> u16 {
        self.oper()
    }

    #[inline(always)]
    fn claimed(&self) -> [u8; 4] {
        self.spa()
    }

    #[inline(always)]
    fn asked(&self) -> Option<[u8; 4]> {
        self.is_request().then_some(self.tpa())
    }

    /// Gratuitous frames and replies update neighbour caches.
    #[inline(always)]
    fn announces(&self) -> bool {
        self.is_gratuitous() || !self.is_request()
    }

    #[inline(always)]
    fn is_gratuitous(&self) -> bool {
        self.is_gratuitous()
    }

    #[inline(always)]
    fn probed(&self) -> Option<[u8; 4]> {
        self.is_probe().then_some(self.tpa())
    }

    #[inline(always)]
    fn reach(&self) -> Reach {
        if self.dst == MacAddr::BROADCAST { Reach::All } else { Reach::One }
    }
}

#[cfg(test)]
mod tests;
