//! Sends requests and solicitations from thousands of new MACs.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::stage::NIC;
use vipward_tests::{
    frames::{Family, Mac, Message},
    kit::interrupt,
    lan::{Frame, Host, Wire},
};

pub(super) const ASKERS: usize = 4_096;
/// Requests between two reads of the answers.
const BATCH: u16 = 64;
/// Time without an answer after which none arrives; an answer takes microseconds.
const QUIET: Duration = Duration::from_millis(500);

/// Makes each asker request `target` once, and returns the number of answered ones.
pub(super) fn request(client: &Host, target: IpAddr) -> Result<usize> {
    let wire = Wire::open_in(client, NIC, Family::of(target))?;
    let source = client.mac(NIC)?;
    let mut answered = BTreeSet::new();
    let mut take = |message: Message| {
        // One form of an announcement is a reply too.
        if message.answers_for() == Some(target) && !message.is_announcement() {
            answered.insert(message.eth_dst());
        }
    };
    for number in 0..u16::try_from(ASKERS)? {
        let [high, low] = number.to_be_bytes();
        // In the LAN's subnet, as a kernel requires of neighbours.
        let from: IpAddr = match target {
            IpAddr::V4(_) => Ipv4Addr::new(198, 18, 16 + high, low).into(),
            IpAddr::V6(_) => Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 1, number).into(),
        };
        // With one Ethernet source, so that the switch learns nothing.
        let request = Message::request(Mac([0x06, 0xff, 0, 0, high, low]), from, target).sent_by(source);
        wire.send(&request.to_bytes())?;
        if number % BATCH == 0 {
            wire.drain()?.iter().filter_map(Frame::message).for_each(&mut take);
            interrupt::check()?;
        }
    }
    while let Some(frame) = wire.receive(Instant::now() + QUIET)? {
        frame.message().into_iter().for_each(&mut take);
        interrupt::check()?;
    }
    Ok(answered.len())
}
