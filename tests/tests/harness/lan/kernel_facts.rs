//! The reactions of Linux's neighbour table to each kind of frame. Announcing and guarding rest on
//! them. They also prove that these LANs behave like real ones.

use std::thread;
use std::time::Duration;

use anyhow::{Result, ensure};
use vipward_tests::{
    agent::{ip, net},
    frames::{Arp, Mac},
    lan::{Host, Lan, NeighbourState, Nic, Wire},
};

use super::PATIENCE;

const LOCKTIME: &str = "net/ipv4/neigh/eth0/locktime";
/// The MAC in the client's entry. `NEW` claims the address.
const OLD: Mac = Mac([2, 0, 0, 0, 0, 0x0a]);
const NEW: Mac = Mac([2, 0, 0, 0, 0, 0x0b]);
const CLIENT: Mac = Mac([2, 0, 0, 0, 0, 0x01]);

/// A client whose entry for the VIP has the MAC `OLD`, and another host on its LAN.
struct Segment {
    _lan: Lan,
    client: Host,
    wire: Wire,
}

impl Segment {
    fn new(name: &str) -> Result<Self> {
        let lan = Lan::new(name)?;
        let client = lan.host("client", Nic::new(net(1)).mac(CLIENT))?;
        let other = lan.host("other", Nic::bare())?;
        let wire = Wire::open(&other, "eth0")?;
        Ok(Self { _lan: lan, client, wire })
    }

    /// Sends `frame` to a client whose entry has just changed, and returns the entry afterwards.
    fn entry_after(&self, frame: &Arp) -> Result<(Mac, NeighbourState)> {
        self.client.flush_neighbours("eth0")?;
        self.client.set_neighbour("eth0", ip(10), OLD, NeighbourState::Reachable)?;
        // This is at least one tick of the kernel's clock, so that
        // an entry without a lock time is old.
        thread::sleep(Duration::from_millis(20));
        self.wire.send(&frame.to_bytes())?;
        self.wait_until_the_client_has_received()?;
        let entry = self.client.neighbour("eth0", ip(10))?;
        match entry.as_ref().and_then(|entry| Some((entry.mac?, entry.state))) {
            Some(known) => Ok(known),
            None => anyhow::bail!("the entry is gone: {entry:?}"),
        }
    }

    /// Waits until the client answers a request. It handles frames in
    /// order, so it has then handled all earlier ones.
    fn wait_until_the_client_has_received(&self) -> Result<()> {
        let request = Arp::probe(Mac::local(0xff), ip(1));
        self.wire.send(&request.to_bytes())?;
        let reply = self.wire.expect_arp(PATIENCE, "the client's answer", |arp| arp.tha == request.sha)?;
        ensure!(reply.sha == CLIENT, "someone else answered: {reply}");
        Ok(())
    }
}

#[test]
fn neighbour_entries_react_to_frames_as_documented() -> Result<()> {
    let vip = ip(10);
    let rows = [
        ("gratuitous request, tha zero", Arp::gratuitous_request(NEW, vip, Mac::ZERO), true, true),
        ("gratuitous request, tha broadcast", Arp::gratuitous_request(NEW, vip, Mac::BROADCAST), true, true),
        ("gratuitous reply, tha = sha", Arp::gratuitous_reply(NEW, vip, NEW), true, true),
        ("gratuitous reply, tha broadcast", Arp::gratuitous_reply(NEW, vip, Mac::BROADCAST), false, true),
        ("gratuitous reply, tha zero", Arp::gratuitous_reply(NEW, vip, Mac::ZERO), false, true),
        ("ordinary unicast reply", Arp::reply(NEW, vip, CLIENT, ip(1)), false, true),
        ("ordinary request with spa = VIP, for another", Arp::request(NEW, vip, ip(3)), false, true),
        // The lock does not exclude a host that sends a request to
        // the client (neigh_event_ns overrides).
        ("ordinary request with spa = VIP, for the client", Arp::request(NEW, vip, ip(1)), true, true),
        ("probe", Arp::probe(NEW, vip), false, false),
    ];
    let segment = Segment::new("facts")?;
    // Both times are so far from a second that a busy machine makes no difference.
    for (locktime, locked) in [("6000", true), ("0", false)] {
        segment.client.set_sysctl(LOCKTIME, locktime)?;
        for (description, frame, updates_locked, updates_free) in &rows {
            let updates = if locked { *updates_locked } else { *updates_free };
            let (mac, _) = segment.entry_after(frame)?;
            assert_eq!(mac, if updates { NEW } else { OLD }, "{description}, locked: {locked}");
        }
    }
    Ok(())
}
