//! The library itself: LANs behave like LANs, the observers
//! notice every fault, and nothing remains.

mod cleanup;
mod hosts;
mod kernel_facts;
mod probing;
mod processes;
mod running_agents;

use std::net::Ipv4Addr;
use std::time::Duration;

use ipnet::Ipv4Net;

/// A time longer than any step on a busy machine.
const PATIENCE: Duration = Duration::from_secs(10);

/// Returns the address of the test network 192.0.2.0/24 with this last byte.
const fn ip(last: u8) -> Ipv4Addr {
    Ipv4Addr::new(192, 0, 2, last)
}

/// Returns that address with its prefix length.
fn net(last: u8) -> Ipv4Net {
    Ipv4Net::new(ip(last), 24).expect("24 is a prefix length")
}
