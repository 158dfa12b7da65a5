//! Addresses that are in use, and rivals that claim held VIPs: finding, naming
//! and defending, until the end of the conflict.

mod defending;
mod flood;
mod forged;
mod proxied;
mod rivals;

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use anyhow::Result;
use ipnet::Ipv4Net;
use vipward_tests::{
    agent::{Agent, LogLine, PATIENCE, VIP, vip_status},
    frames::Mac,
    kit::wait_until,
    lan::Host,
};

/// Longest time between the end of an address's use and its taking: the
/// pause between two attempts, and one attempt.
const TAKEN_AFTER: Duration = Duration::from_millis(2_000 + 700 + 500);

/// Returns a VIP as an address of a host.
fn bound(vip: Ipv4Addr) -> Result<Ipv4Net> {
    Ok(Ipv4Net::new(vip, 32)?)
}

/// Returns a MAC that no host has, another for each number below 2²⁴.
fn forged(number: u32) -> Mac {
    let [_, a, b, c] = number.to_be_bytes();
    Mac([2, 0xf1, 0, a, b, c])
}

fn has_role(agent: &Agent, vip: Ipv4Addr, role: &str) -> Result<bool> {
    Ok(vip_status(agent, vip, "eth0")?["role"] == role)
}

fn wait_until_held(agent: &Agent, vip: Ipv4Addr, limit: Duration) -> Result<Duration> {
    let began = Instant::now();
    wait_until(limit, &format!("{vip} to be held"), || has_role(agent, vip, "held"))?;
    Ok(began.elapsed())
}

/// Returns true if a line reports the beginning of a conflict about a VIP, with a claim by `mac`.
fn begins(line: &LogLine, what: &str, vip: Ipv4Addr, mac: Mac) -> bool {
    line.message().starts_with("conflict: ")
        && line.has("what", what)
        && line.has("vip", vip)
        && line.has("mac", mac)
        && line.field("vendor").is_some()
}

/// Returns true if a line reports the end of the conflict about a VIP, with this cause.
fn ends(line: &LogLine, vip: Ipv4Addr, cause: &str) -> bool {
    line.message() == "claims are over" && line.has("vip", vip) && line.has("cause", cause)
}

fn conflicts_of(agent: &Agent, vip: Ipv4Addr) -> Result<Vec<LogLine>> {
    let lines = agent.logs()?.into_iter();
    Ok(lines.filter(|line| line.has("kind", "conflict") && line.has("vip", vip)).collect())
}

/// Waits until a client sees that a rival answers for the VIP.
fn wait_until_in_use(client: &Host, rival: Mac) -> Result<()> {
    wait_until(PATIENCE, &format!("{rival} to answer for {VIP}"), || {
        client.flush_neighbours("eth0")?;
        Ok(client.resolve(VIP).is_ok_and(|mac| mac == rival))
    })
}
