//! The library itself: LANs behave like LANs, what watches them notices what it should, and nothing remains.

#[path = "lan/cleanup.rs"]
mod cleanup;
#[path = "lan/hosts.rs"]
mod hosts;
#[path = "lan/kernel_facts.rs"]
mod kernel_facts;
#[path = "lan/probing.rs"]
mod probing;
#[path = "lan/processes.rs"]
mod processes;
#[path = "lan/running_agents.rs"]
mod running_agents;

use std::net::Ipv4Addr;
use std::time::Duration;

use ipnet::Ipv4Net;

/// Longer than anything takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(10);

/// The address of the test network 192.0.2.0/24 with this last byte.
const fn ip(last: u8) -> Ipv4Addr {
    Ipv4Addr::new(192, 0, 2, last)
}

/// The same with its prefix length.
fn net(last: u8) -> Ipv4Net {
    Ipv4Net::new(ip(last), 24).expect("24 is a prefix length")
}
