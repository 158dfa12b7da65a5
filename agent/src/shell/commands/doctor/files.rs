//! Small files of /proc and /sys. /proc/sys/net shows the network namespace of the reading thread.

use std::{fmt::Display, fs, path::Path, str::FromStr};

use vipward_core::diagnosis::{
    doctor::{Conf, ConfV6, Neighbours, Wireless},
    fact::{Cause, Unread},
};

use crate::shell::logging::errors::unread_io;

#[cfg(test)]
mod tests;

const CONF: &str = "/proc/sys/net/ipv4/conf";
const CONF_V6: &str = "/proc/sys/net/ipv6/conf";
const SNMP_V6: &str = "/proc/net/dev_snmp6";
const NEIGH: &str = "/proc/sys/net/ipv4/neigh/default";
const NET: &str = "/sys/class/net";
const LIMITS: &str = "/proc/self/limits";
const ARP_CACHE: &str = "/proc/net/stat/arp_cache";
const CLOCK_SOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
const UNPRIVILEGED_BPF: &str = "/proc/sys/kernel/unprivileged_bpf_disabled";

/// Returns the settings of an interface, or of `all`.
pub(crate) fn conf(interface: &str) -> Result<Conf, Unread> {
    let value = |key: &str| number(&Path::new(CONF).join(interface).join(key));
    Ok(Conf {
        arp_ignore: value("arp_ignore")?,
        arp_announce: value("arp_announce")?,
        rp_filter: value("rp_filter")?,
    })
}

/// Returns the settings of an interface for IPv6.
pub(super) fn conf_v6(interface: &str) -> Result<ConfV6, Unread> {
    let path = |key: &str| Path::new(CONF_V6).join(interface).join(key);
    Ok(ConfV6 {
        disable_ipv6: number(&path("disable_ipv6"))?,
        accept_dad: number(&path("accept_dad"))?,
        drop_unsolicited_na: number(&path("drop_unsolicited_na"))?,
    })
}

/// Returns the number of MLD queries that an interface has received.
pub(super) fn mld_queries(interface: &str) -> Result<u64, Unread> {
    let path = Path::new(SNMP_V6).join(interface);
    let text = text(&path)?;
    let count = text.lines().find_map(|line| line.strip_prefix("Icmp6InGroupMembQueries"));
    count.and_then(|count| count.trim().parse().ok()).ok_or_else(|| nonsense(&path, &text))
}

/// Returns the neighbour table. Its limits and counts are visible in the initial namespace only.
pub(super) fn neighbours() -> Result<Neighbours, Unread> {
    let limit = |key: &str| match number(&Path::new(NEIGH).join(key)) {
        Err(Unread { cause: Cause::Failed, .. }) if !Path::new(NEIGH).join(key).exists() => {
            Err(Unread::skipped(
                "the limits are the whole machine's, and are seen in its first network namespace only",
            ))
        }
        read => read,
    };
    let limits = [limit("gc_thresh1")?, limit("gc_thresh2")?, limit("gc_thresh3")?];
    let path = Path::new(ARP_CACHE);
    let text = text(path)?;
    let (entries, overflows) = arp_cache(&text).ok_or_else(|| nonsense(path, &text))?;
    Ok(Neighbours { limits, entries, overflows })
}

/// Parses entries and overflows from `/proc/net/stat/arp_cache`: a header, and a line per CPU in
/// hexadecimal. The entries are the same on every line.
fn arp_cache(text: &str) -> Option<(u32, u64)> {
    let mut lines = text.lines();
    let header: Vec<_> = lines.next()?.split_ascii_whitespace().collect();
    let column = |name: &str| header.iter().position(|it| *it == name);
    let entries_at = column("entries")?;
    let fulls_at = column("table_fulls");
    let (mut entries, mut overflows) = (None, 0_u64);
    for line in lines {
        let fields: Vec<_> = line.split_ascii_whitespace().collect();
        entries = Some(u32::from_str_radix(fields.get(entries_at)?, 16).ok()?);
        if let Some(at) = fulls_at {
            overflows += u64::from_str_radix(fields.get(at)?, 16).ok()?;
        }
    }
    Some((entries?, overflows))
}

/// Returns the properties of an interface, if it is wireless.
pub(super) fn wireless(interface: &str) -> Result<Option<Wireless>, Unread> {
    let directory = Path::new(NET).join(interface);
    let path = directory.join("flags");
    let text = text(&path)?;
    if !["phy80211", "wireless"].iter().any(|name| directory.join(name).exists()) {
        return Ok(None);
    }
    let is_promiscuous = is_promiscuous(&text).ok_or_else(|| nonsense(&path, &text))?;
    Ok(Some(Wireless { is_promiscuous }))
}

/// Parses the flags of an interface.
fn is_promiscuous(flags: &str) -> Option<bool> {
    /// `IFF_PROMISC`.
    const PROMISCUOUS: u32 = 0x100;
    let flags = u32::from_str_radix(flags.trim().strip_prefix("0x")?, 16).ok()?;
    Some(flags & PROMISCUOUS != 0)
}

pub(super) fn clock_source() -> Result<String, Unread> {
    text(Path::new(CLOCK_SOURCE)).map(|text| text.trim().to_owned())
}

/// Returns the setting that keeps users without capabilities from bpf(2).
pub(super) fn unprivileged_bpf_disabled() -> Result<u8, Unread> {
    number(Path::new(UNPRIVILEGED_BPF))
}

/// Returns how much memory this process may lock.
pub(super) fn memlock_bytes() -> Result<u64, Unread> {
    let path = Path::new(LIMITS);
    let text = text(path)?;
    locked_bytes(&text).ok_or_else(|| nonsense(path, &text))
}

/// Parses the soft limit of locked memory from `/proc/self/limits`.
fn locked_bytes(limits: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max locked memory"))?;
    match line.split_ascii_whitespace().next()? {
        "unlimited" => Some(u64::MAX),
        bytes => bytes.parse().ok(),
    }
}

fn number<T: FromStr<Err: Display>>(path: &Path) -> Result<T, Unread> {
    let text = text(path)?;
    text.trim().parse().map_err(|_| nonsense(path, &text))
}

fn text(path: &Path) -> Result<String, Unread> {
    let failed = |error| unread_io(format_args!("failed to read {}", path.display()), &error);
    fs::read_to_string(path).map_err(failed)
}

fn nonsense(path: &Path, text: &str) -> Unread {
    Unread::failed(format!("{} has {:?}, which is not a valid value", path.display(), text.trim()))
}
