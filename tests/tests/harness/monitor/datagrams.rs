use std::net::SocketAddrV4;
use std::time::{Duration, SystemTime};

use anyhow::Result;
use vipward_tests::{
    frames::{Arp, Mac},
    lan::{NeighbourState, Wire},
    measure::{Datagrams, bind_locally},
};

use super::{B, PATIENCE, Segment, VIP};

const TARGET: SocketAddrV4 = SocketAddrV4::new(VIP, 5000);
const NONE: [usize; 0] = [];

#[test]
fn datagrams_that_no_host_gets_are_counted_one_by_one() -> Result<()> {
    let segment = Segment::new("udp-loss")?;
    bind_locally(&segment.a, VIP)?;
    let datagrams = Datagrams::start(&segment.client, TARGET, &[&segment.a])?;
    datagrams.wait_until_received(PATIENCE)?;
    let believe = |mac| segment.client.set_neighbour("eth0", VIP, mac, NeighbourState::Permanent);

    let before = datagrams.sent();
    let lost_from = SystemTime::now();
    believe(Mac::local(0xdead))?;
    let (surely_lost_from, at_nobody) = (datagrams.sent(), SystemTime::now());
    datagrams.wait_for_sent(20, PATIENCE)?;
    let surely_lost_to = datagrams.sent();
    believe(segment.a.mac("eth0")?)?;
    let after = datagrams.sent();
    datagrams.wait_until_received(PATIENCE)?;

    let report = datagrams.stop()?;
    let lost = report.lost();
    let (first, last) = (lost[0], lost[lost.len() - 1]);
    assert_eq!(lost, (first..=last).collect::<Vec<_>>(), "{report}");
    // A datagram gets its number just before it is sent, so one
    // may be on either side of each instant.
    assert!(
        (before.saturating_sub(1)..=surely_lost_from).contains(&first),
        "{before} {surely_lost_from}: {report}"
    );
    assert!((surely_lost_to.saturating_sub(2)..after).contains(&last), "{surely_lost_to} {after}: {report}");
    assert_eq!(report.interruptions().len(), 1, "{report}");
    assert!(lost.len() - report.lost_between(lost_from, SystemTime::now()).len() <= 1, "{report}");
    assert!(report.first_received_after(at_nobody) >= Some(Duration::from_millis(15)), "{report}");
    Ok(())
}

#[test]
fn a_move_shows_as_the_node_that_receives() -> Result<()> {
    let segment = Segment::new("udp-move")?;
    bind_locally(&segment.a, VIP)?;
    // This kernel has the VIP too, but does not answer for it.
    segment.b.set_sysctl("net/ipv4/conf/all/arp_ignore", "8")?;
    bind_locally(&segment.b, VIP)?;
    let datagrams = Datagrams::start(&segment.client, TARGET, &[&segment.a, &segment.b])?;
    datagrams.wait_until_received_by("a", PATIENCE)?;
    Wire::open(&segment.b, "eth0")?.send(&Arp::gratuitous_request(B, VIP, Mac::ZERO).to_bytes())?;
    datagrams.wait_until_received_by("b", PATIENCE)?;
    let report = datagrams.stop()?;
    assert_eq!(report.lost(), NONE, "{report}");
    let turns: Vec<_> = report.turns().iter().map(|turn| turn.node.as_str()).collect();
    assert_eq!(turns[..2], ["a", "b"], "{report}");
    Ok(())
}
