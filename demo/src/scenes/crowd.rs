//! Sends requests from thousands of new MACs.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::stage::NIC;
use vipward_tests::arp::{Arp, Mac};
use vipward_tests::interrupt;
use vipward_tests::lan::Host;
use vipward_tests::wire::{Frame, Wire};

/// Number of askers.
pub(super) const ASKERS: usize = 4_096;
/// Requests between two reads of the answers.
const BATCH: u16 = 64;
/// Silence after which no further answer arrives; an answer takes microseconds.
const QUIET: Duration = Duration::from_millis(500);

/// Makes each asker request `target` once, and returns the number of answered ones.
pub(super) fn ask(client: &Host, target: Ipv4Addr) -> Result<usize> {
    let wire = Wire::open(client, NIC)?;
    let source = client.mac(NIC)?;
    let mut answered = BTreeSet::new();
    let mut take = |arp: Arp| {
        // One form of an announcement is a reply too.
        if arp.is_reply() && arp.spa == target && !arp.is_gratuitous() {
            answered.insert((arp.tha, arp.tpa));
        }
    };
    for number in 0..u16::try_from(ASKERS)? {
        let [high, low] = number.to_be_bytes();
        // In the LAN's subnet, as a kernel requires of neighbours.
        let (sha, spa) = (Mac([0x06, 0xff, 0, 0, high, low]), Ipv4Addr::new(198, 18, 16 + high, low));
        // With one Ethernet source, so that the switch learns nothing.
        let request = Arp { eth_src: source, ..Arp::request(sha, spa, target) };
        wire.send(&request.to_bytes())?;
        if number % BATCH == 0 {
            wire.drain()?.iter().filter_map(Frame::arp).for_each(&mut take);
            interrupt::check()?;
        }
    }
    while let Some(frame) = wire.receive(Instant::now() + QUIET)? {
        frame.arp().into_iter().for_each(&mut take);
        interrupt::check()?;
    }
    Ok(answered.len())
}
