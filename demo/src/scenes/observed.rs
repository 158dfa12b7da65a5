//! Reads what a host believes and what the agent has logged, and words for that.

use std::net::Ipv4Addr;
use std::time::Duration;

use anyhow::Result;

use crate::stage::NIC;
use vipward_tests::agent::LogLine;
use vipward_tests::frames::Mac;
use vipward_tests::lan::Host;

/// Longest wait for a change to be seen.
pub(super) const LIMIT: Duration = Duration::from_secs(15);

pub(super) fn believed(host: &Host, address: Ipv4Addr) -> Result<Option<Mac>> {
    Ok(host.neighbour(NIC, address)?.and_then(|neighbour| neighbour.mac))
}

/// Returns whether a log line reports a conflict about a VIP.
pub(super) fn is_conflict(line: &LogLine, vip: Ipv4Addr) -> bool {
    line.has("kind", "conflict") && line.has("vip", vip) && line.field("mac").is_some()
}

pub(super) fn shown(line: &LogLine) -> String {
    // The sender matters only if it differs from the claimed MAC.
    let same_source = line.field("eth_source") == line.field("mac");
    let names = ["what", "vip", "mac", "vendor", "eth_source", "oper", "cause"].into_iter();
    let fields = names.filter(|name| !(same_source && *name == "eth_source")).filter_map(|name| {
        let value = line.field(name)?;
        Some(format!(" {name}={}", value.as_str().map_or_else(|| value.to_string(), str::to_owned)))
    });
    format!("  {} {}{}", line.level(), line.message(), fields.collect::<String>())
}

/// Returns a duration in milliseconds.
pub(super) fn millis(duration: Duration) -> f64 {
    1000.0 * duration.as_secs_f64()
}
