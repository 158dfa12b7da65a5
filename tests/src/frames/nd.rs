//! Builds and reads messages of neighbour discovery, from RFC 4861 alone and independent of the code
//! under test.

#[cfg(test)]
mod tests;

use std::fmt;
use std::net::Ipv6Addr;

use anyhow::{Context, Result, ensure};

use crate::frames::Mac;

pub const ETHERTYPE_IPV6: u16 = 0x86dd;
pub const SOLICITATION: u8 = 135;
pub const ADVERTISEMENT: u8 = 136;
/// Option with the MAC of a message's source.
pub const SOURCE_MAC: u8 = 1;
/// Option with the MAC of a message's target.
pub const TARGET_MAC: u8 = 2;
/// Option that names a probe (RFC 7527).
pub const NONCE: u8 = 14;
/// The flag S of an advertisement: it answers.
pub const SOLICITED: u8 = 0x40;
/// The flag O of an advertisement: it replaces what neighbours know.
pub const OVERRIDE: u8 = 0x20;
/// Group of all nodes.
pub const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
/// Group of all routers.
pub const ALL_ROUTERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 2);

const ICMP: u8 = 58;
const ICMP_AT: usize = 54;
/// Bytes of a solicitation or an advertisement before its options.
const MESSAGE_LEN: usize = 24;
const OPTION_LEN: usize = 8;

/// Solicitation or advertisement in an untagged frame, with options of eight bytes only.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Nd {
    pub eth_dst: Mac,
    pub eth_src: Mac,
    pub source: Ipv6Addr,
    pub destination: Ipv6Addr,
    pub kind: u8,
    /// R, S and O of an advertisement.
    pub flags: u8,
    pub target: Ipv6Addr,
    /// Type and content of each option.
    pub options: Vec<(u8, [u8; 6])>,
}

impl Nd {
    /// Returns a solicitation by `source` at `mac` to the target's group.
    pub fn solicitation(mac: Mac, source: Ipv6Addr, target: Ipv6Addr) -> Self {
        Self { source, options: vec![(SOURCE_MAC, mac.0)], ..Self::probe(mac, target, None) }
    }

    /// Returns a probe, which has no source.
    pub fn probe(mac: Mac, target: Ipv6Addr, nonce: Option<[u8; 6]>) -> Self {
        let destination = group_of(target);
        Self {
            eth_dst: mac_of(destination),
            eth_src: mac,
            source: Ipv6Addr::UNSPECIFIED,
            destination,
            kind: SOLICITATION,
            flags: 0,
            target,
            options: nonce.map(|nonce| (NONCE, nonce)).into_iter().collect(),
        }
    }

    /// Returns an unsolicited advertisement to all nodes: `address` is at `mac`.
    pub fn announcement(mac: Mac, address: Ipv6Addr) -> Self {
        Self {
            eth_dst: mac_of(ALL_NODES),
            eth_src: mac,
            source: address,
            destination: ALL_NODES,
            kind: ADVERTISEMENT,
            flags: OVERRIDE,
            target: address,
            options: vec![(TARGET_MAC, mac.0)],
        }
    }

    /// Returns the advertisement that answers this solicitation (RFC 4861, 7.2.4) with `mac`.
    #[must_use]
    pub fn answered_by(&self, mac: Mac) -> Self {
        let announcement = Self::announcement(mac, self.target);
        if self.source.is_unspecified() {
            return announcement;
        }
        let is_unicast = !self.destination.is_multicast();
        let has_mac = self.mac_in(SOURCE_MAC).is_some();
        let (flags, options) = if is_unicast && !has_mac {
            // The asker knows the MAC, and only wants to know whether it is still true.
            (SOLICITED, Vec::new())
        } else {
            (SOLICITED | OVERRIDE, announcement.options.clone())
        };
        let eth_dst = self.sender();
        Self { eth_dst, destination: self.source, flags, options, ..announcement }
    }

    /// Returns the same solicitation to the target's own address, at this MAC.
    #[must_use]
    pub fn to(self, eth_dst: Mac) -> Self {
        Self { eth_dst, destination: self.target, ..self }
    }

    /// Returns the MAC that the message gives for its sender, the Ethernet source without an option.
    pub fn sender(&self) -> Mac {
        let option = if self.kind == SOLICITATION { SOURCE_MAC } else { TARGET_MAC };
        self.mac_in(option).unwrap_or(self.eth_src)
    }

    /// Returns true if it is an advertisement that no solicitation asked for.
    pub fn is_announcement(&self) -> bool {
        self.kind == ADVERTISEMENT && self.flags & SOLICITED == 0
    }

    pub fn to_bytes(&self) -> Vec<u8> {
        let Self { eth_dst, eth_src, source, destination, kind, flags, target, options } = self;
        let mut message = vec![*kind, 0, 0, 0, *flags, 0, 0, 0];
        message.extend(target.octets());
        for (kind, content) in options {
            message.extend([*kind, 1]);
            message.extend(content);
        }
        frame_of((*eth_dst, *eth_src), (*source, *destination), message)
    }

    /// Parses an untagged frame. The error names the first field that is wrong.
    pub fn parse(frame: &[u8]) -> Result<Self> {
        let short = || format!("{} bytes are too few for a solicitation", frame.len());
        ensure!(frame.len() >= ICMP_AT + MESSAGE_LEN, short());
        let u16_at = |at: usize| u16::from_be_bytes([frame[at], frame[at + 1]]);
        let mac_at = |at: usize| Mac(frame[at..at + 6].try_into().expect("invariant: six bytes"));
        let ip_at = |at: usize| {
            let octets: [u8; 16] = frame[at..at + 16].try_into().expect("invariant: 16 bytes");
            Ipv6Addr::from(octets)
        };
        ensure!(u16_at(12) == ETHERTYPE_IPV6, "EtherType {:#06x} is not IPv6", u16_at(12));
        ensure!(frame[20] == ICMP, "next header {} is not ICMPv6", frame[20]);
        let kind = frame[ICMP_AT];
        ensure!(matches!(kind, SOLICITATION | ADVERTISEMENT), "type {kind} asks for and says nothing");
        ensure!(frame[21] == 255, "hop limit {} is not 255", frame[21]);
        let (source, destination) = (ip_at(22), ip_at(38));
        let message = frame.get(ICMP_AT..ICMP_AT + usize::from(u16_at(18))).with_context(short)?;
        ensure!(message.len() >= MESSAGE_LEN, short());
        let sum = sum_of(source, destination, message);
        ensure!(sum == 0xffff, "the checksum is wrong: {sum:#06x} in all");
        let options = message[MESSAGE_LEN..].chunks(OPTION_LEN).map(|option| {
            let value = option.strip_prefix(&[option[0], 1]).and_then(|value| value.try_into().ok());
            let value = value.with_context(|| format!("an option has not eight bytes: {option:x?}"))?;
            Ok((option[0], value))
        });
        Ok(Self {
            eth_dst: mac_at(0),
            eth_src: mac_at(6),
            source,
            destination,
            kind,
            flags: message[4],
            target: ip_at(62),
            options: options.collect::<Result<_>>()?,
        })
    }

    fn mac_in(&self, option: u8) -> Option<Mac> {
        self.options.iter().find(|(kind, _)| *kind == option).map(|(_, mac)| Mac(*mac))
    }
}

impl fmt::Display for Nd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { eth_dst, eth_src, source, destination, kind, flags, target, options } = self;
        let kind = if *kind == SOLICITATION { "solicitation" } else { "advertisement" };
        write!(f, "{kind} {eth_src} > {eth_dst}, {source} > {destination}: {target}, flags {flags:#04x}")?;
        options.iter().try_for_each(|(kind, content)| write!(f, ", option {kind}: {}", Mac(*content)))
    }
}

/// Returns a router's advertisement to one host (RFC 4861, 4.2), by which the host gives itself
/// addresses of this /64. The router is none by default.
pub fn router_advertisement(to: Mac, router: Mac, prefix: Ipv6Addr) -> Vec<u8> {
    const KIND: u8 = 134;
    const PREFIX: [u8; 4] = [3, 4, 64, 0xc0];
    const LIFETIME: u32 = 3600;
    let mut message = vec![KIND, 0, 0, 0, 64, 0];
    message.extend([0; 10]);
    message.extend(PREFIX);
    message.extend([LIFETIME.to_be_bytes(), LIFETIME.to_be_bytes(), [0; 4]].concat());
    message.extend(prefix.octets());
    let source = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);
    frame_of((to, router), (source, ALL_NODES), message)
}

/// Returns the frame of a message to and from these, with its checksum.
fn frame_of(
    (eth_dst, eth_src): (Mac, Mac),
    (source, destination): (Ipv6Addr, Ipv6Addr),
    mut message: Vec<u8>,
) -> Vec<u8> {
    let checksum = !sum_of(source, destination, &message);
    message[2..4].copy_from_slice(&checksum.to_be_bytes());
    let len = u16::try_from(message.len()).expect("invariant: a message is short").to_be_bytes();
    let mut frame = [eth_dst.0, eth_src.0].concat();
    frame.extend(ETHERTYPE_IPV6.to_be_bytes());
    frame.extend([0x60, 0, 0, 0, len[0], len[1], ICMP, 255]);
    frame.extend([source.octets(), destination.octets()].concat());
    frame.extend(message);
    frame
}

/// Returns the group to which solicitations for an address go (RFC 4291, 2.7.1).
pub fn group_of(address: Ipv6Addr) -> Ipv6Addr {
    let [.., high, low] = address.segments();
    Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00 | high & 0xff, low)
}

/// Returns the Ethernet address of a group (RFC 2464, 7).
pub fn mac_of(group: Ipv6Addr) -> Mac {
    let [.., a, b, c, d] = group.octets();
    Mac([0x33, 0x33, a, b, c, d])
}

/// Returns the sum of a message and its pseudo-header (RFC 4443, 2.3), all ones if the message has
/// its checksum.
fn sum_of(source: Ipv6Addr, destination: Ipv6Addr, message: &[u8]) -> u16 {
    let len = u32::try_from(message.len()).expect("invariant: a message is short");
    let addresses = [source.octets(), destination.octets()].concat();
    let words = addresses.chunks(2).chain(message.chunks(2));
    let word = |bytes: &[u8]| u32::from(bytes[0]) << 8 | bytes.get(1).copied().map_or(0, u32::from);
    let mut sum = words.map(word).sum::<u32>() + len + u32::from(ICMP);
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    u16::try_from(sum).expect("invariant: it is folded")
}
