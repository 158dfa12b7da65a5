//! What watches VIPs notices gaps, doubles and moves, and makes nothing up; datagrams are counted exactly; a cluster
//! does to its nodes what it says.

mod cluster;
mod datagrams;
mod wire;

use std::net::Ipv4Addr;
use std::time::Duration;

use anyhow::Result;
use vipward_tests::arp::Mac;
use vipward_tests::lan::{Host, Lan, Nic};
use vipward_tests::scene::{ip, net};

/// Longer than anything takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);
const VIP: Ipv4Addr = ip(10);
const A: Mac = Mac([2, 0, 0, 0, 1, 1]);
const B: Mac = Mac([2, 0, 0, 0, 1, 2]);

/// A client, and two nodes that a VIP may be at.
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
