//! Builds and reads ARP frames, from RFC 826 alone and independent of the code under test.

#[cfg(test)]
mod tests;

use std::fmt;
use std::net::Ipv4Addr;
use std::str::FromStr;

use anyhow::{Context, Result, ensure};

pub const ETHERTYPE_ARP: u16 = 0x0806;
/// oper of a request.
const REQUEST: u16 = 1;
/// oper of a reply.
const REPLY: u16 = 2;
/// Length of the shortest Ethernet frame, without its checksum.
pub const MIN_FRAME_LEN: usize = 60;

const ETHERNET_HEADER_LEN: usize = 14;
/// Bytes from the Ethernet destination to the end of tpa.
const ARP_FRAME_LEN: usize = ETHERNET_HEADER_LEN + 28;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Mac(pub [u8; 6]);

impl Mac {
    pub const BROADCAST: Self = Self([0xff; 6]);
    pub const ZERO: Self = Self([0; 6]);

    /// Returns the locally administered address 02:00:00:00:xx:xx that carries `number`.
    pub fn local(number: u16) -> Self {
        let [high, low] = number.to_be_bytes();
        Self([0x02, 0, 0, 0, high, low])
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pairs = self.0.map(|byte| format!("{byte:02x}"));
        f.write_str(&pairs.join(":"))
    }
}

impl fmt::Debug for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Mac {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let bytes: Vec<u8> = text
            .split(':')
            .map(|byte| {
                let digits = byte.len() == 2 && byte.bytes().all(|digit| digit.is_ascii_hexdigit());
                ensure!(digits, "{byte:?} is not two hexadecimal digits");
                Ok(u8::from_str_radix(byte, 16)?)
            })
            .collect::<Result<_>>()
            .with_context(|| format!("bad hardware address {text:?}"))?;
        let bytes = bytes.try_into().ok().with_context(|| format!("{text:?} is not six bytes"))?;
        Ok(Self(bytes))
    }
}

/// Well-formed Ethernet/IPv4 ARP frame. [`OddArp`] is for others.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Arp {
    pub eth_dst: Mac,
    /// Ethernet source. A switch learns it; neighbours ignore it.
    pub eth_src: Mac,
    pub oper: u16,
    /// Sender hardware address.
    pub sha: Mac,
    /// Sender protocol address.
    pub spa: Ipv4Addr,
    /// Target hardware address.
    pub tha: Mac,
    /// Target protocol address.
    pub tpa: Ipv4Addr,
}

impl Arp {
    /// Returns a broadcast request for `tpa` by `spa` at `sha`.
    pub fn request(sha: Mac, spa: Ipv4Addr, tpa: Ipv4Addr) -> Self {
        Self { eth_dst: Mac::BROADCAST, eth_src: sha, oper: REQUEST, sha, spa, tha: Mac::ZERO, tpa }
    }

    /// Returns a probe (RFC 5227): a request by a sender without an address.
    pub fn probe(sha: Mac, tpa: Ipv4Addr) -> Self {
        Self::request(sha, Ipv4Addr::UNSPECIFIED, tpa)
    }

    /// Returns a unicast reply by `spa` at `sha` to `tpa` at `tha`.
    pub fn reply(sha: Mac, spa: Ipv4Addr, tha: Mac, tpa: Ipv4Addr) -> Self {
        Self { eth_dst: tha, eth_src: sha, oper: REPLY, sha, spa, tha, tpa }
    }

    /// Returns the reply to this request that names `mac` for tpa.
    #[must_use]
    pub fn answered_by(&self, mac: Mac) -> Self {
        Self::reply(mac, self.tpa, self.sha, self.spa)
    }

    /// Returns a broadcast gratuitous request: `address` is at `sha`.
    pub fn gratuitous_request(sha: Mac, address: Ipv4Addr, tha: Mac) -> Self {
        Self { tha, ..Self::request(sha, address, address) }
    }

    /// Returns a broadcast gratuitous reply: `address` is at `sha`.
    pub fn gratuitous_reply(sha: Mac, address: Ipv4Addr, tha: Mac) -> Self {
        Self { eth_dst: Mac::BROADCAST, ..Self::reply(sha, address, tha, address) }
    }

    /// Returns the same frame with another Ethernet destination.
    #[must_use]
    pub fn to(self, eth_dst: Mac) -> Self {
        Self { eth_dst, ..self }
    }

    pub fn is_request(&self) -> bool {
        self.oper == REQUEST
    }

    pub fn is_reply(&self) -> bool {
        self.oper == REPLY
    }

    /// Returns true if spa and tpa are the same.
    pub fn is_gratuitous(&self) -> bool {
        self.spa == self.tpa
    }

    /// Returns the bytes of the frame, padded to the least length.
    pub fn to_bytes(&self) -> Vec<u8> {
        OddArp::from(*self).to_bytes()
    }

    /// Parses an untagged frame. The error names the first field that is wrong.
    pub fn parse(frame: &[u8]) -> Result<Self> {
        ensure!(frame.len() >= ARP_FRAME_LEN, "{} bytes are too few for an ARP frame", frame.len());
        let u16_at = |at: usize| u16::from_be_bytes([frame[at], frame[at + 1]]);
        let mac_at = |at: usize| Mac(frame[at..at + 6].try_into().expect("invariant: six bytes"));
        let ip_at = |at: usize| Ipv4Addr::new(frame[at], frame[at + 1], frame[at + 2], frame[at + 3]);

        ensure!(u16_at(12) == ETHERTYPE_ARP, "EtherType {:#06x} is not ARP", u16_at(12));
        ensure!(u16_at(14) == 1, "htype {} is not Ethernet", u16_at(14));
        ensure!(u16_at(16) == 0x0800, "ptype {:#06x} is not IPv4", u16_at(16));
        ensure!(
            frame[18] == 6 && frame[19] == 4,
            "hlen {} and plen {} are not 6 and 4",
            frame[18],
            frame[19]
        );
        Ok(Self {
            eth_dst: mac_at(0),
            eth_src: mac_at(6),
            oper: u16_at(20),
            sha: mac_at(22),
            spa: ip_at(28),
            tha: mac_at(32),
            tpa: ip_at(38),
        })
    }
}

impl fmt::Display for Arp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { eth_dst, eth_src, oper, sha, spa, tha, tpa } = self;
        match *oper {
            REQUEST => f.write_str("request")?,
            REPLY => f.write_str("reply")?,
            other => write!(f, "oper {other}")?,
        }
        write!(f, " {eth_src} > {eth_dst}: sender {spa} at {sha}, target {tpa} at {tha}")
    }
}

/// ARP frame with arbitrary fields, to test parsers.
///
/// Each VLAN tag (IEEE 802.1Q) stands before the `EtherType`, so it moves the rest by four bytes.
/// PCP is the priority, and D the drop eligible indicator.
///
/// ```text
///  0                   1                   2                   3
///  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |          TPID: 0x8100         | PCP |D|        VLAN ID        |   0
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OddArp {
    /// The fields of a well-formed frame.
    pub arp: Arp,
    /// VLAN tags, outermost first: tag protocol identifier and tag control information.
    pub tags: Vec<(u16, u16)>,
    /// `EtherType` behind the tags.
    pub ethertype: u16,
    /// Hardware type.
    pub htype: u16,
    /// Protocol type.
    pub ptype: u16,
    /// Stated length of a hardware address; the frame always has six bytes.
    pub hlen: u8,
    /// Stated length of a protocol address; the frame always has four bytes.
    pub plen: u8,
    /// Length of the frame, which is cut or padded with `padding`.
    pub len: usize,
    pub padding: u8,
}

impl From<Arp> for OddArp {
    fn from(arp: Arp) -> Self {
        Self {
            arp,
            tags: Vec::new(),
            ethertype: ETHERTYPE_ARP,
            htype: 1,
            ptype: 0x0800,
            hlen: 6,
            plen: 4,
            len: MIN_FRAME_LEN,
            padding: 0,
        }
    }
}

impl OddArp {
    /// Returns the same frame with the hardware type of IEEE 802 networks (RFC 1042).
    pub fn of_ieee_802(arp: &Arp) -> Self {
        Self { htype: 6, ..Self::from(*arp) }
    }

    pub fn to_bytes(&self) -> Vec<u8> {
        let Arp { eth_dst, eth_src, oper, sha, spa, tha, tpa } = self.arp;
        let mut frame = [eth_dst.0, eth_src.0].concat();
        for (protocol, control) in &self.tags {
            frame.extend(protocol.to_be_bytes());
            frame.extend(control.to_be_bytes());
        }
        for field in [self.ethertype, self.htype, self.ptype] {
            frame.extend(field.to_be_bytes());
        }
        frame.extend([self.hlen, self.plen]);
        frame.extend(oper.to_be_bytes());
        frame.extend([sha.0.as_slice(), &spa.octets(), &tha.0, &tpa.octets()].concat());
        frame.resize(self.len, self.padding);
        frame
    }
}
