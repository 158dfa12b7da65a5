//! Names the vendor of a MAC address, by the IEEE's registry or by the known use of a range.
#![forbid(unsafe_code)]

use std::fmt;

use vipward_common::MacAddr;

#[cfg(test)]
mod tests;

/// Sorted lines of a prefix in upper-case hexadecimal, a tab and a name. Comments begin with `#`,
/// which sorts first.
///
/// The text is searched as it is. A table on the heap would cost every agent megabytes, and a table
/// of pointers as many relocations.
static PREFIXES: &str = include_str!("../prefixes.txt");

/// The registry's name for assignments with a withheld owner.
const WITHHELD: &str = "Private";

/// Addresses whose use says more than their vendor, or that have none. Prefixes are aligned to the
/// left of 48 bits.
const RANGES: &[Range] = &[
    Range::numbered(0x0000_5e00_0100, 40, "VRRP or CARP virtual router", "VRID", 8),
    Range::numbered(0x0000_5e00_0200, 40, "VRRP virtual router (IPv6)", "VRID", 8),
    Range::new(0x0000_5e00_5300, 40, "documentation (RFC 7042)"),
    Range::numbered(0x0000_0c07_ac00, 40, "HSRP virtual router", "group", 8),
    Range::numbered(0x0000_0c9f_f000, 36, "HSRP version 2 virtual router", "group", 12),
    Range::new(0x0007_b400_0000, 30, "GLBP virtual gateway"),
    Range::new(0x02bf_0000_0000, 16, "Microsoft NLB cluster (unicast mode)"),
    Range::new(0x03bf_0000_0000, 16, "Microsoft NLB cluster (multicast mode)"),
    Range::new(0x5254_0000_0000, 24, "QEMU/KVM virtual machine"),
    Range::new(0xfe54_0000_0000, 24, "host side of a QEMU/KVM virtual machine (libvirt)"),
    Range::new(0xfa16_3e00_0000, 24, "OpenStack virtual machine"),
    Range::new(0xbc24_1100_0000, 24, "Proxmox virtual machine"),
    Range::new(0x0016_3e00_0000, 24, "Xen virtual machine"),
    Range::new(0x0050_5600_0000, 24, "VMware"),
    Range::new(0x000c_2900_0000, 24, "VMware virtual machine"),
    Range::new(0x0005_6900_0000, 24, "VMware"),
    Range::new(0x001c_1400_0000, 24, "VMware"),
    Range::new(0x0015_5d00_0000, 24, "Hyper-V virtual machine"),
    Range::new(0x0800_2700_0000, 24, "VirtualBox virtual machine"),
    Range::new(0x001c_4200_0000, 24, "Parallels virtual machine"),
    Range::new(0x4201_0000_0000, 16, "Google Compute Engine"),
    Range::new(0x0242_0000_0000, 16, "Docker container"),
    Range::new(0x0a58_0000_0000, 16, "container (CNI bridge, OVN-Kubernetes)"),
    Range::new(0xeeee_eeee_eeee, 48, "Calico, host side of a container"),
];

/// A range of addresses with one use.
struct Range {
    prefix: u64,
    bits: u8,
    used_for: &'static str,
    /// The meaning of the last bits, and their number.
    number: Option<(&'static str, u8)>,
}

impl Range {
    const fn new(prefix: u64, bits: u8, used_for: &'static str) -> Self {
        Self { prefix, bits, used_for, number: None }
    }

    const fn numbered(
        prefix: u64,
        bits: u8,
        used_for: &'static str,
        what: &'static str,
        number_bits: u8,
    ) -> Self {
        Self { prefix, bits, used_for, number: Some((what, number_bits)) }
    }

    const fn contains(&self, address: u64) -> bool {
        (address ^ self.prefix) >> (48 - self.bits) == 0
    }
}

/// The owner of an address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Vendor {
    /// All zeros: no address.
    Zero,
    /// All ones: the broadcast address.
    Broadcast,
    /// A group address, which no interface has.
    Multicast,
    /// An address of a range with one use.
    Range {
        /// The use.
        used_for: &'static str,
        /// The meaning of the last bits, and their value.
        number: Option<(&'static str, u16)>,
    },
    /// The registry names its vendor.
    Registered(&'static str),
    /// The registry withholds its vendor.
    Withheld,
    /// Chosen by software; the registry does not cover it.
    Local,
    /// The registry has not assigned it, as of [`table_date`].
    Unassigned,
}

impl fmt::Display for Vendor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Zero => f.write_str("no address (all zeros)"),
            Self::Broadcast => f.write_str("broadcast"),
            Self::Multicast => f.write_str("multicast"),
            Self::Range { used_for, number: None } => f.write_str(used_for),
            Self::Range { used_for, number: Some((what, number)) } => {
                write!(f, "{used_for}, {what} {number}")
            }
            Self::Registered(name) => f.write_str(name),
            Self::Withheld => f.write_str("registered, name withheld"),
            Self::Local => f.write_str("locally administered"),
            Self::Unassigned => f.write_str("unassigned"),
        }
    }
}

/// Returns the owner of `mac`.
pub fn of(mac: MacAddr) -> Vendor {
    let address = mac.0.iter().fold(0, |address: u64, byte| address << 8 | u64::from(*byte));
    if mac.is_zero() {
        return Vendor::Zero;
    }
    if mac == MacAddr::BROADCAST {
        return Vendor::Broadcast;
    }
    if let Some(range) = RANGES.iter().find(|range| range.contains(address)) {
        let number =
            |(what, bits): (_, u8)| (what, u16::try_from(address & ((1 << bits) - 1)).unwrap_or(u16::MAX));
        return Vendor::Range { used_for: range.used_for, number: range.number.map(number) };
    }
    if mac.is_multicast() {
        return Vendor::Multicast;
    }
    if mac.0[0] & 2 != 0 {
        return Vendor::Local;
    }
    let digits = format!("{address:012X}");
    // The longest prefix first: a block may be assigned in parts.
    match [9, 7, 6].into_iter().find_map(|length| find(PREFIXES, digits.get(..length)?)) {
        Some(WITHHELD) => Vendor::Withheld,
        Some(name) => Vendor::Registered(name),
        None => Vendor::Unassigned,
    }
}

/// Returns the date of the table, as `2026-10-17`.
pub fn table_date() -> &'static str {
    let mut header = PREFIXES.lines().take_while(|line| line.starts_with('#'));
    header.find_map(|line| line.strip_prefix("# Date: ")).unwrap_or("unknown")
}

/// Returns the name on the line of `prefix`, by binary search.
fn find<'a>(mut lines: &'a str, prefix: &str) -> Option<&'a str> {
    while !lines.is_empty() {
        let middle = lines.len() / 2;
        let bytes = lines.as_bytes();
        let start = bytes[..middle].iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let end =
            bytes[middle..].iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |at| middle + at);
        let (key, name) = lines.get(start..end)?.split_once('\t').unwrap_or((&lines[start..end], ""));
        match prefix.cmp(key) {
            std::cmp::Ordering::Equal => return Some(name),
            std::cmp::Ordering::Less => lines = &lines[..start],
            std::cmp::Ordering::Greater => lines = lines.get(end + 1..)?,
        }
    }
    None
}
