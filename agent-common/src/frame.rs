//! The one frame layout that is looked at: Ethernet II carrying Ethernet/IPv4 ARP (RFC 826).

use core::fmt;

use bytemuck::{Pod, Zeroable};

/// Bytes from the Ethernet destination to the end of tpa.
pub const FRAME_LEN: usize = size_of::<ArpFrame>();
/// `EtherType` of ARP, in host order.
pub const ETHERTYPE_ARP: u16 = 0x0806;
/// oper of a request.
pub const OPER_REQUEST: u16 = 1;
/// oper of a reply.
pub const OPER_REPLY: u16 = 2;

const HTYPE_ETHERNET: u16 = 1;
const PTYPE_IPV4: u16 = 0x0800;
const HLEN: u8 = 6;
const PLEN: u8 = 4;

/// A 48-bit hardware address, as it stands on the wire.
///
/// Aligned to two bytes, as it is in every frame and in every map value: the BPF back end then moves it in
/// three loads instead of six.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Pod, Zeroable)]
#[repr(C, align(2))]
pub struct MacAddr(pub [u8; 6]);

impl MacAddr {
    /// ff:ff:ff:ff:ff:ff
    pub const BROADCAST: Self = Self([0xff; 6]);
    /// 00:00:00:00:00:00, which means "unknown" wherever an address is optional.
    pub const ZERO: Self = Self([0; 6]);

    /// The address in the low 48 bits, in memory order: for comparing, and for storing in one word.
    #[inline(always)]
    pub fn to_bits(self) -> u64 {
        let [a, b, c]: [u16; 3] = bytemuck::cast(self.0);
        u64::from(a) | u64::from(b) << 16 | u64::from(c) << 32
    }

    /// The inverse of [`MacAddr::to_bits`]; the upper 16 bits are ignored.
    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "the halves are cut out on purpose")]
    pub fn from_bits(bits: u64) -> Self {
        Self(bytemuck::cast([bits as u16, (bits >> 16) as u16, (bits >> 32) as u16]))
    }

    /// Whether no address is named.
    #[inline(always)]
    pub fn is_zero(self) -> bool {
        self.to_bits() == 0
    }

    /// Whether the group bit is set; the broadcast address is a group address too.
    #[inline(always)]
    pub fn is_multicast(self) -> bool {
        self.0[0] & 1 != 0
    }

    /// Whether the address can be that of one interface: neither zero nor a group.
    #[inline(always)]
    pub fn is_unicast(self) -> bool {
        !self.is_multicast() && !self.is_zero()
    }
}

/// As text.
#[cfg(feature = "serde")]
impl serde::Serialize for MacAddr {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl fmt::Display for MacAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [first, rest @ ..] = self.0;
        write!(f, "{first:02x}")?;
        rest.iter().try_for_each(|byte| write!(f, ":{byte:02x}"))
    }
}

impl fmt::Debug for MacAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// An Ethernet II frame with an Ethernet/IPv4 ARP payload; every field as it stands on the wire.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct ArpFrame {
    /// Ethernet destination.
    pub dst: MacAddr,
    /// Ethernet source.
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
    /// A well-formed frame; addresses in wire order, `oper` in host order.
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

    /// Whether the `EtherType` says ARP.
    #[inline(always)]
    pub fn is_arp(&self) -> bool {
        self.ethertype == ETHERTYPE_ARP.to_be()
    }

    /// Whether this is ARP for IPv4 over Ethernet, and a request or a reply: all else is the kernel's.
    #[inline(always)]
    pub fn is_ethernet_ipv4(&self) -> bool {
        self.htype == HTYPE_ETHERNET.to_be()
            && self.ptype == PTYPE_IPV4.to_be()
            && self.hlen == HLEN
            && self.plen == PLEN
            && (self.oper == OPER_REQUEST.to_be() || self.oper == OPER_REPLY.to_be())
    }

    /// Operation, in host order.
    #[inline(always)]
    pub fn oper(&self) -> u16 {
        u16::from_be(self.oper)
    }

    /// Whether oper is request.
    #[inline(always)]
    pub fn is_request(&self) -> bool {
        self.oper == OPER_REQUEST.to_be()
    }

    /// Sender protocol address.
    #[inline(always)]
    pub fn spa(&self) -> [u8; 4] {
        bytemuck::cast(self.spa)
    }

    /// Target protocol address.
    #[inline(always)]
    pub fn tpa(&self) -> [u8; 4] {
        bytemuck::cast(self.tpa)
    }

    /// Whether the frame says the same of sender and target: an announcement (RFC 5227 section 3).
    #[inline(always)]
    pub fn is_gratuitous(&self) -> bool {
        self.spa == self.tpa
    }

    /// Whether the frame asks who uses tpa on behalf of nobody: an ARP Probe (RFC 5227 section 1.1).
    #[inline(always)]
    pub fn is_probe(&self) -> bool {
        self.is_request() && self.spa() == [0; 4]
    }

    /// Turns a request into the reply to it, in place: `mac` is what is answered, `source` the Ethernet source.
    ///
    /// The reply goes to sha, whatever the Ethernet source was, as the kernel's own does (`arp_process`).
    #[inline(always)]
    pub fn turn_into_reply(&mut self, mac: MacAddr, source: MacAddr) {
        self.dst = self.sha;
        self.src = source;
        self.oper = OPER_REPLY.to_be();
        self.tha = self.sha;
        self.sha = mac;
        core::mem::swap(&mut self.spa, &mut self.tpa);
    }
}

#[cfg(test)]
mod tests;
