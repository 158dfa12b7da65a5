//! The kernel's neighbours of a segment, as hosts to probe.

use std::{fs, io::Read, net::Ipv4Addr};

use nix::ifaddrs::getifaddrs;
use vipward_common::MacAddr;

#[cfg(test)]
mod tests;

/// The table of ARP, in the network namespace of the calling thread.
const TABLE: &str = "/proc/thread-self/net/arp";
/// The part of the table that is read, in bytes: some 800 entries.
const MOST_READ: u64 = 64 * 1024;
/// The flag of an entry that has a MAC (`ATF_COM`).
const COMPLETE: u32 = 2;

/// Returns up to `most` IPv4 neighbours on an interface with another MAC than `not`.
pub(super) fn neighbours(interface: &str, not: MacAddr, most: usize) -> Vec<Ipv4Addr> {
    let mut table = Vec::new();
    let read = fs::File::open(TABLE).and_then(|file| file.take(MOST_READ).read_to_end(&mut table));
    if read.is_err() {
        return Vec::new();
    }
    parse(&String::from_utf8_lossy(&table), interface, not, most)
}

fn parse(table: &str, interface: &str, not: MacAddr, most: usize) -> Vec<Ipv4Addr> {
    // IP address, HW type, Flags, HW address, Mask, Device
    let entry = |line: &str| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let [address, _, flags, mac, _, device] = fields[..] else { return None };
        let flags = u32::from_str_radix(flags.strip_prefix("0x")?, 16).ok()?;
        let is_other =
            device == interface && flags & COMPLETE != 0 && !mac.eq_ignore_ascii_case(&not.to_string());
        address.parse().ok().filter(|_| is_other)
    };
    table.lines().skip(1).filter_map(entry).take(most).collect()
}

/// Returns the MAC of an interface, and its first IPv4 address.
pub(super) fn own(interface: &str) -> Option<(MacAddr, Option<Ipv4Addr>)> {
    let (mut mac, mut address) = (None, None);
    for found in getifaddrs().ok()?.filter(|found| found.interface_name == interface) {
        let Some(storage) = found.address else { continue };
        if let Some(link) = storage.as_link_addr() {
            mac = link.addr().map(MacAddr);
        }
        if let (None, Some(inet)) = (address, storage.as_sockaddr_in()) {
            address = Some(inet.ip());
        }
    }
    Some((mac?, address))
}
