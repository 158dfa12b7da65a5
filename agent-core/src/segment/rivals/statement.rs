//! The frame by which a host states to a peer which VIPs it holds, and for how long.
//!
//! It is no frame of ARP or Neighbour Discovery: the program drops a peer's claims on held VIPs, and no
//! other host may learn anything from it. Numbers are big-endian.
//!
//! |bytes|field|
//! |---|---|
//! |0–13|Ethernet: the peer's MAC, this host's MAC, 0x88b6 (IEEE 802, local experimental)|
//! |14–17|`VPH1`|
//! |18–19|number of holds|
//! |20–|each hold: its VIP in 16 bytes (IPv4 mapped), its age in 4|

use std::net::{IpAddr, Ipv6Addr};

use vipward_common::MacAddr;

use super::age::{Age, Hold};

pub const ETHERTYPE: u16 = 0x88b6;
/// The first bytes behind the Ethernet header.
pub const MAGIC: [u8; 4] = *b"VPH1";
/// The most holds in one statement, for the least MTU of IPv6.
pub const MOST_HOLDS: usize = 60;

const HEADER: usize = 20;
const HOLD: usize = 20;

/// Returns the frame of a statement with at most [`MOST_HOLDS`] holds.
pub fn write(to: MacAddr, from: MacAddr, holds: &[Hold]) -> Vec<u8> {
    let holds = &holds[..holds.len().min(MOST_HOLDS)];
    let count = u16::try_from(holds.len()).expect("invariant: MOST_HOLDS is small");
    let mut bytes = Vec::with_capacity(HEADER + holds.len() * HOLD);
    bytes.extend(to.0);
    bytes.extend(from.0);
    bytes.extend(ETHERTYPE.to_be_bytes());
    bytes.extend(MAGIC);
    bytes.extend(count.to_be_bytes());
    for (vip, Age(age)) in holds {
        let vip = match vip {
            IpAddr::V4(vip) => vip.to_ipv6_mapped(),
            IpAddr::V6(vip) => *vip,
        };
        bytes.extend(vip.octets());
        bytes.extend(age.to_be_bytes());
    }
    bytes
}

/// Returns the sender of a statement, by its Ethernet source, and its holds. Returns none for another
/// frame, and for one that is not all there.
pub fn read(bytes: &[u8]) -> Option<(MacAddr, Vec<Hold>)> {
    let (header, holds) = bytes.split_first_chunk::<HEADER>()?;
    let is_one = header[12..14] == ETHERTYPE.to_be_bytes() && header[14..18] == MAGIC;
    let count = usize::from(u16::from_be_bytes([header[18], header[19]]));
    let holds = holds.get(..count * HOLD).filter(|_| is_one && count <= MOST_HOLDS)?;
    let (holds, _) = holds.as_chunks::<HOLD>();
    let from = MacAddr(header[6..12].try_into().ok()?);
    let hold = |hold: &[u8; HOLD]| {
        let (vip, age) = hold.split_at(16);
        let vip: [u8; 16] = vip.try_into().ok()?;
        Some((Ipv6Addr::from(vip).to_canonical(), Age(u32::from_be_bytes(age.try_into().ok()?))))
    };
    Some((from, holds.iter().filter_map(hold).collect()))
}
