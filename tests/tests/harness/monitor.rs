//! Monitors notice gaps, doubles and moves, and invent nothing. Datagrams are counted exactly.

mod datagrams;
mod wire;

use std::net::Ipv4Addr;
use std::time::Duration;

use anyhow::Result;
use vipward_tests::{
    agent::{ip, net},
    frames::Mac,
    lan::{Host, Lan, Nic},
};

/// A time longer than any step on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);
const VIP: Ipv4Addr = ip(10);
const A: Mac = Mac([2, 0, 0, 0, 1, 1]);
const B: Mac = Mac([2, 0, 0, 0, 1, 2]);

/// A client, and two nodes that may have a VIP.
struct Segment {
    client: Host,
    a: Host,
    b: Host,
    _lan: Lan,
}

impl Segment {
    fn new(name: &str) -> Result<Self> {
        let lan = Lan::new(name)?;
        let client = lan.host("client", Nic::new(net(1)))?;
        let a = lan.host("a", Nic::new(net(11)).mac(A))?;
        let b = lan.host("b", Nic::new(net(12)).mac(B))?;
        Ok(Self { client, a, b, _lan: lan })
    }
}
