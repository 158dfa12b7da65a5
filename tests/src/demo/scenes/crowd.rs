//! A crowd of askers that have never been seen before.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::arp::{Arp, Mac};
use crate::demo::stage::NIC;
use crate::interrupt;
use crate::lan::Host;
use crate::wire::{Frame, Wire};

/// How many there are.
pub(super) const ASKERS: usize = 4_096;
/// Requests sent before the answers so far are taken in.
const BATCH: u16 = 64;
/// When no answer has come for that long, none comes any more: they take microseconds.
const QUIET: Duration = Duration::from_millis(500);

/// Each asks for `target` once; returns how many were answered.
pub(super) fn ask(client: &Host, target: Ipv4Addr) -> Result<usize> {
    let wire = Wire::open(client, NIC)?;
    let source = client.mac(NIC)?;
    let mut answered = BTreeSet::new();
    let mut take = |arp: Arp| {
        // An announcement is a reply too, in one of its forms.
        if arp.is_reply() && arp.spa == target && !arp.is_gratuitous() {
            answered.insert((arp.tha, arp.tpa));
        }
    };
    for number in 0..u16::try_from(ASKERS)? {
        let [high, low] = number.to_be_bytes();
        // Within the LAN's subnet, or a kernel would not take them for neighbours.
        let (sha, spa) = (Mac([0x06, 0xff, 0, 0, high, low]), Ipv4Addr::new(198, 18, 16 + high, low));
        // From one Ethernet source, so that the switch learns nothing new.
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
