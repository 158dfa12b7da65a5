//! The frame of a Neighbour Solicitation or Advertisement with one option.

use bytemuck::{Pod, Zeroable};

use crate::MacAddr;

/// The bytes from the Ethernet destination to the end of the option.
pub const ND_FRAME_LEN: usize = size_of::<NdFrame>();
/// The `EtherType` of IPv6, in host order.
pub const ETHERTYPE_IPV6: u16 = 0x86dd;
pub const TYPE_SOLICITATION: u8 = 135;
pub const TYPE_ADVERTISEMENT: u8 = 136;
/// The S flag of an advertisement: it answers a solicitation.
pub const ND_SOLICITED: u8 = 0x40;
/// The O flag of an advertisement: it replaces the known MAC.
pub const ND_OVERRIDE: u8 = 0x20;
/// The group of all nodes of the segment.
pub const ALL_NODES: [u8; 16] = [0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
/// The group of all routers of the segment.
pub const ALL_ROUTERS: [u8; 16] = [0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2];

/// The version, with traffic class and flow label zero.
pub(super) const VERSION: u32 = 6 << 28;
pub(super) const NEXT_HEADER_ICMPV6: u8 = 58;
/// A lower hop limit shows that a router forwarded the packet.
pub(super) const HOP_LIMIT: u8 = 255;
/// The bytes of a message before its options.
const BARE_LEN: u16 = 24;
/// The bytes of a message with one option.
const MESSAGE_LEN: u16 = 32;
const OPTION_LEN: usize = 8;
/// The bytes before the message: Ethernet and IPv6.
const HEADERS_LEN: usize = 54;

pub(super) const OPTION_SOURCE: u8 = 1;
pub(super) const OPTION_TARGET: u8 = 2;
/// The nonce of a probe (RFC 3971, 5.3.2; RFC 7527).
pub(super) const OPTION_NONCE: u8 = 14;

/// Returns the group to which a solicitation for `addr` goes (RFC 4291, 2.7.1).
#[inline(always)]
pub const fn solicited_node(addr: [u8; 16]) -> [u8; 16] {
    [0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, addr[13], addr[14], addr[15]]
}

/// Returns the Ethernet address of an IPv6 group (RFC 2464, 7).
#[inline(always)]
pub const fn group_mac(group: [u8; 16]) -> MacAddr {
    MacAddr([0x33, 0x33, group[12], group[13], group[14], group[15]])
}

/// An Ethernet II frame that carries a Neighbour Solicitation or Advertisement with one option
/// (RFC 4861, 4.3 and 4.4), in wire order.
///
/// Offsets in bytes stand on the right.
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
/// |       ethertype: 0x86dd       | version: 6, traffic class and |  12
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |          flow label           |      payload length: 32       |  16
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |next header: 58| hop limit: 255|                               |  20
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+                               +
/// |                    source: IPv6 source                        |  24
/// +                               +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |                               |                               |  36
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+                               +
/// |               destination: IPv6 destination                   |  40
/// +                               +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |                               | type: 135, 136|    code: 0    |  52
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |           checksum            |R|S|O|        reserved         |  56
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |           reserved            |                               |  60
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+                               +
/// |                  target: the address in question              |  64
/// +                               +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |                               |option: 1,2,14 |option len: 1  |  76
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |                 value: link-layer address or nonce            |  80
/// +                               +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |                               |                                  84
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct NdFrame {
    pub dst: MacAddr,
    pub src: MacAddr,
    ethertype: u16,
    version: [u16; 2],
    payload_len: u16,
    next_header: u8,
    hop_limit: u8,
    source: [u16; 8],
    destination: [u16; 8],
    kind: u8,
    code: u8,
    checksum: u16,
    flags: u8,
    reserved: [u8; 3],
    target: [u16; 8],
    option: u8,
    /// In units of eight bytes.
    option_len: u8,
    value: MacAddr,
}

const _: () = assert!(size_of::<NdFrame>() == 86 && align_of::<NdFrame>() == 2);

impl NdFrame {
    /// Returns the advertisement "`target` is at `mac`", from `target` to `destination` (RFC 4861,
    /// 7.2.4 and 7.2.6). `flags` are [`ND_SOLICITED`] and [`ND_OVERRIDE`].
    #[inline(always)]
    pub fn advertisement(
        dst: MacAddr,
        src: MacAddr,
        destination: [u8; 16],
        target: [u8; 16],
        mac: MacAddr,
        flags: u8,
    ) -> Self {
        let mut frame = Self::new(dst, src, target, destination, TYPE_ADVERTISEMENT, target);
        frame.flags = flags;
        frame.with_option(OPTION_TARGET, mac)
    }

    /// Returns the solicitation of `source` at `src` for `target`.
    #[inline(always)]
    pub fn solicitation(src: MacAddr, source: [u8; 16], target: [u8; 16]) -> Self {
        let group = solicited_node(target);
        Self::new(group_mac(group), src, source, group, TYPE_SOLICITATION, target)
            .with_option(OPTION_SOURCE, src)
    }

    /// Returns the solicitation of `source` at `src` for `target` at `dst` alone, as of a host that
    /// verifies that a neighbour is reachable (RFC 4861, 7.3.1).
    #[inline(always)]
    pub fn solicitation_to(dst: MacAddr, src: MacAddr, source: [u8; 16], target: [u8; 16]) -> Self {
        Self::new(dst, src, source, target, TYPE_SOLICITATION, target).with_option(OPTION_SOURCE, src)
    }

    /// Returns the probe for `target` (RFC 4862, 5.4.2). The nonce distinguishes it from another
    /// host's when it comes back (RFC 7527).
    #[inline(always)]
    pub fn probe(src: MacAddr, target: [u8; 16], nonce: [u8; 6]) -> Self {
        let group = solicited_node(target);
        Self::new(group_mac(group), src, [0; 16], group, TYPE_SOLICITATION, target)
            .with_option(OPTION_NONCE, MacAddr(nonce))
    }

    #[inline(always)]
    fn new(
        dst: MacAddr,
        src: MacAddr,
        source: [u8; 16],
        destination: [u8; 16],
        kind: u8,
        target: [u8; 16],
    ) -> Self {
        Self {
            dst,
            src,
            ethertype: ETHERTYPE_IPV6.to_be(),
            version: bytemuck::cast(VERSION.to_be_bytes()),
            payload_len: MESSAGE_LEN.to_be(),
            next_header: NEXT_HEADER_ICMPV6,
            hop_limit: HOP_LIMIT,
            source: bytemuck::cast(source),
            destination: bytemuck::cast(destination),
            kind,
            code: 0,
            checksum: 0,
            flags: 0,
            reserved: [0; 3],
            target: bytemuck::cast(target),
            option: 0,
            option_len: 0,
            value: MacAddr::ZERO,
        }
    }

    /// Sets the option, and the checksum over all.
    #[inline(always)]
    fn with_option(mut self, option: u8, value: MacAddr) -> Self {
        self.option = option;
        self.option_len = 1;
        self.value = value;
        let [r0, r1, r2] = self.reserved;
        let rest = [[self.kind, 0], [self.flags, r0], [r1, r2], [option, 1]].map(u16::from_ne_bytes);
        let value: [u16; 3] = bytemuck::cast(value.0);
        let sum = add(add(pseudo_header(MESSAGE_LEN), &self.source), &self.destination);
        self.checksum = !fold(add(add(add(sum, &self.target), &rest), &value));
        self
    }

    /// Returns the solicitation or advertisement in `bytes`, if it is valid (RFC 4861, 7.1.1 and
    /// 7.1.2). `bytes` begin at the Ethernet destination, without a VLAN tag.
    ///
    /// Of its options the frame keeps the link-layer address that belongs to its type, else the
    /// nonce, else none.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let bare = bytes.get(..HEADERS_LEN + usize::from(BARE_LEN))?;
        let mut frame = Self::zeroed();
        bytemuck::bytes_of_mut(&mut frame).get_mut(..bare.len())?.copy_from_slice(bare);
        let payload_len = u16::from_be(frame.payload_len);
        let summed = bytes.get(SUMMED_FROM..HEADERS_LEN + usize::from(payload_len))?;
        if !frame.is_nd() || fold(sum(summed) + pseudo_header(payload_len)) != u16::MAX {
            return None;
        }
        let mut options =
            bytes.get(HEADERS_LEN..HEADERS_LEN + usize::from(payload_len))?.get(usize::from(BARE_LEN)..)?;
        let wanted = if frame.is_solicitation() { OPTION_SOURCE } else { OPTION_TARGET };
        let (mut link_layer, mut nonce) = (None, None);
        while let [kind, len, ..] = *options {
            let (option, rest) = options.split_at_checked(usize::from(len) * OPTION_LEN)?;
            let [_, _, value @ ..] = option else { return None };
            if let Ok(value) = <[u8; 6]>::try_from(value) {
                if kind == wanted {
                    link_layer.get_or_insert(value);
                } else if kind == OPTION_NONCE {
                    nonce.get_or_insert(value);
                }
            }
            options = rest;
        }
        if !options.is_empty() || link_layer.is_some() && frame.is_probe() {
            return None;
        }
        let nonce = nonce.map(|value| (OPTION_NONCE, value));
        Some(match link_layer.map(|value| (wanted, value)).or(nonce) {
            Some((option, value)) => {
                frame.payload_len = MESSAGE_LEN.to_be();
                frame.with_option(option, MacAddr(value))
            }
            None => frame,
        })
    }

    /// Returns true if the headers are valid.
    fn is_nd(&self) -> bool {
        let is_sent_here = self.ethertype == ETHERTYPE_IPV6.to_be()
            && u16::from_be(self.version[0]) >> 12 == 6
            && self.next_header == NEXT_HEADER_ICMPV6
            && self.hop_limit == HOP_LIMIT
            && self.code == 0;
        let goes_to_a_group = self.destination()[0] == 0xff;
        let is_allowed = match self.kind {
            TYPE_SOLICITATION => !self.is_probe() || self.destination() == solicited_node(self.target()),
            TYPE_ADVERTISEMENT => !goes_to_a_group || self.flags & ND_SOLICITED == 0,
            _ => false,
        };
        let is_group = |address: [u8; 16]| address[0] == 0xff;
        is_sent_here && is_allowed && !is_group(self.target()) && !is_group(self.source())
    }

    #[inline(always)]
    pub fn kind(&self) -> u8 {
        self.kind
    }

    #[inline(always)]
    pub fn is_solicitation(&self) -> bool {
        self.kind == TYPE_SOLICITATION
    }

    /// Returns true if this is a probe: a solicitation without a source (RFC 4862, 5.4).
    #[inline(always)]
    pub fn is_probe(&self) -> bool {
        self.is_solicitation() && self.source == [0; 8]
    }

    /// Returns the flags of an advertisement.
    #[inline(always)]
    pub fn flags(&self) -> u8 {
        self.flags
    }

    #[inline(always)]
    pub fn source(&self) -> [u8; 16] {
        bytemuck::cast(self.source)
    }

    #[inline(always)]
    pub fn destination(&self) -> [u8; 16] {
        bytemuck::cast(self.destination)
    }

    /// Returns the solicited or advertised address.
    #[inline(always)]
    pub fn target(&self) -> [u8; 16] {
        bytemuck::cast(self.target)
    }

    /// Returns the link-layer address that belongs to the type of the message: the source's in a
    /// solicitation, the target's in an advertisement.
    #[inline(always)]
    pub fn link_layer(&self) -> Option<MacAddr> {
        let wanted = if self.is_solicitation() { OPTION_SOURCE } else { OPTION_TARGET };
        (self.option == wanted).then_some(self.value)
    }

    #[inline(always)]
    pub fn nonce(&self) -> Option<[u8; 6]> {
        (self.option == OPTION_NONCE).then_some(self.value.0)
    }
}

/// The offset from which the checksum counts: the IPv6 addresses stand before the message.
const SUMMED_FROM: usize = 22;

/// Returns the rest of the pseudo-header's sum (RFC 8200, 8.1): the length and the next header.
#[inline(always)]
pub(super) fn pseudo_header(len: u16) -> u32 {
    u32::from(len.to_be()) + u32::from(u16::from(NEXT_HEADER_ICMPV6).to_be())
}

/// Returns the sum of the 16-bit words in memory order (RFC 1071, 2 (B)). An IPv6 packet without a
/// jumbo payload has too few of them for an overflow.
fn sum(bytes: &[u8]) -> u32 {
    let (words, last) = bytes.as_chunks::<2>();
    let last = last.first().map_or(0, |last| u32::from(u16::from_ne_bytes([*last, 0])));
    words.iter().fold(last, |sum, word| sum + u32::from(u16::from_ne_bytes(*word)))
}

/// Returns the sum with more words.
#[inline(always)]
fn add(sum: u32, words: &[u16]) -> u32 {
    words.iter().fold(sum, |sum, word| sum + u32::from(*word))
}

/// Returns the sum in ones' complement.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "the halves are cut out on purpose")]
fn fold(sum: u32) -> u16 {
    let sum = (sum & 0xffff) + (sum >> 16);
    ((sum & 0xffff) + (sum >> 16)) as u16
}

#[cfg(test)]
mod tests;
