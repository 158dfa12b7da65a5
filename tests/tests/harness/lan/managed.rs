//! The switch in user space: it passes frames on as a switch does, and each rule of a port does what it
//! says, for ARP and neighbour discovery.

use std::collections::BTreeSet;
use std::net::{IpAddr, UdpSocket};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use vipward_tests::{
    agent::{CLIENT, NODE, ROGUE, Scene, ask, request_of_client},
    frames::{Family, Mac, Message, nd::Nd},
    lan::{Flood, Frame, Hooked, Host, Lan, Port, Wire},
};

use super::PATIENCE;

/// `EtherType` for experiments (IEEE 802).
const EXPERIMENT: [u8; 2] = [0x88, 0xb5];

/// Hosts on a managed switch, whose kernels have no VIP, with a socket on each.
struct Segment {
    scene: Scene,
    client: Wire,
    node: Wire,
    rogue: Wire,
    vip: IpAddr,
}

impl Segment {
    fn new(name: &str, family: Family) -> Result<Self> {
        let scene = Scene::on(Lan::managed(name)?, family)?;
        let [client, node, rogue] =
            [&scene.client, &scene.node, &scene.rogue].map(|host| Wire::open_all(host, "eth0"));
        Ok(Self { client: client?, node: node?, rogue: rogue?, scene, vip: family.vip() })
    }

    fn port(&self, host: &Host) -> Result<Port> {
        self.scene.lan.port(host, "eth0")
    }
}

/// Runs `test` on a segment of each family.
fn in_both(name: &str, test: impl Fn(&Segment, Family) -> Result<()>) -> Result<()> {
    Family::BOTH.into_iter().try_for_each(|family| {
        Segment::new(name, family)
            .and_then(|segment| test(&segment, family))
            .with_context(|| format!("{family:?}"))
    })
}

/// Sends a message, and returns true if it arrives. A frame that no rule concerns follows it.
fn passes(from: &Wire, to: &Wire, message: &Message) -> Result<bool> {
    to.drain()?;
    from.send(&message.to_bytes())?;
    arrives_before_the_next(from, to, message)
}

/// Checks that each message arrives, or that none does.
fn assert_each(from: &Wire, to: &Wire, messages: &[Message], arrives: bool) -> Result<()> {
    for message in messages {
        assert_eq!(passes(from, to, message)?, arrives, "{message}");
    }
    Ok(())
}

/// Sends a frame that no rule concerns, and returns true if `message` arrives before it.
fn arrives_before_the_next(from: &Wire, to: &Wire, message: &Message) -> Result<bool> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let mut last = [Mac::BROADCAST.0, Mac::local(0xff03).0].concat();
    last.extend(EXPERIMENT);
    last.extend(NUMBER.fetch_add(1, Ordering::Relaxed).to_be_bytes());
    last.resize(60, 0);
    from.send(&last)?;
    let (deadline, mut has_arrived) = (Instant::now() + PATIENCE, false);
    while let Some(frame) = to.receive(deadline)? {
        has_arrived |= !frame.outgoing && frame.bytes == message.to_bytes();
        if frame.bytes == last {
            return Ok(has_arrived);
        }
    }
    anyhow::bail!("the frame that was sent last has not arrived")
}

#[test]
fn it_passes_frames_to_the_host_that_has_the_mac_and_others_to_all() -> Result<()> {
    in_both("managed", |segment, family| {
        let Segment { scene, client, node, rogue, vip } = segment;
        // A host with native XDP receives frames, and others receive its own.
        for pass in [None, Some(Hooked::xdp_pass(&scene.node, "eth0")?)] {
            for host in [&scene.client, &scene.node] {
                host.flush_neighbours("eth0")?;
            }
            assert_eq!(scene.client.resolve(family.ip(2))?, NODE, "{pass:?}");
            assert_eq!(scene.node.resolve(family.ip(1))?, CLIENT, "{pass:?}");
        }
        let request = request_of_client(*vip);
        assert!(passes(client, node, &request)? && passes(client, rogue, &request)?);
        assert!(passes(client, node, &request.clone().to(NODE))?);
        assert!(!passes(client, rogue, &request.clone().to(NODE))?, "it has learnt where the node is");
        assert!(passes(client, rogue, &request.to(Mac::local(0x77)))?, "nothing is known of this MAC");
        // An observer asks by another MAC than its source.
        let asker = Mac::local(0x79);
        let request = Message::request(asker, family.ip(1), *vip).sent_by(CLIENT);
        assert!(passes(client, node, &request)?);
        let answer = request.answered_by(NODE);
        assert!(passes(node, client, &answer)? && !passes(node, rogue, &answer)?);

        // The kernel leaves the checksum to the card, unless the card cannot do it.
        let receiver = scene.node.run(|| UdpSocket::bind((family.ip(2), 7)))?;
        receiver.set_read_timeout(Some(PATIENCE))?;
        let target = receiver.local_addr()?;
        scene.client.run(|| UdpSocket::bind((family.ip(1), 0))?.send_to(b"datagram", target))?;
        let mut received = [0; 16];
        let (len, _) = receiver.recv_from(&mut received)?;
        assert_eq!(&received[..len], b"datagram");
        Ok(())
    })
}

#[test]
fn it_passes_thousands_of_frames_a_second() -> Result<()> {
    let segment = Segment::new("managed-flood", Family::V4)?;
    let request = request_of_client(segment.vip);
    let flood = Flood::start(&segment.scene.client, "eth0", [request.to_bytes()], 5_000)?;
    let capture = segment.rogue.capture(Duration::from_secs(1))?;
    let sent = flood.stop()?;
    let is_it = |frame: &&Frame| frame.bytes == request.to_bytes();
    let in_time = u64::try_from(capture.iter().filter(is_it).count())?;
    ensure!(sent >= 3_000, "only {sent} frames were sent: the machine is too slow for this test");
    // A cable holds 256 frames, so that a burst of a thread that is late may lose some.
    assert!(in_time >= sent * 9 / 10, "{in_time} of {sent} frames arrived in time");
    Ok(())
}

#[test]
fn a_port_that_blocks_passes_nothing_until_it_is_opened() -> Result<()> {
    in_both("managed-block", |segment, _| {
        let Segment { scene, client, node, vip, .. } = segment;
        let port = segment.port(&scene.node)?;
        port.change(|rules| rules.blocks = true)?;
        let (to_node, by_node) = (request_of_client(*vip), Message::announcement(NODE, *vip));
        client.send(&to_node.to_bytes())?;
        node.send(&by_node.to_bytes())?;
        port.change(|rules| rules.blocks = false)?;
        assert!(!arrives_before_the_next(client, node, &to_node)?);
        assert!(!arrives_before_the_next(node, client, &by_node)?);
        assert!(passes(client, node, &to_node)? && passes(node, client, &by_node)?);
        Ok(())
    })
}

#[test]
fn late_answers_leave_after_their_delay_and_everything_else_at_once() -> Result<()> {
    const DELAY: Duration = Duration::from_millis(400);
    in_both("managed-late", |segment, family| {
        let Segment { scene, client, node, vip, .. } = segment;
        segment.port(&scene.node)?.change(|rules| rules.answers_late = DELAY)?;
        let request = request_of_client(family.ip(2));
        client.drain()?;
        let asked = Instant::now();
        client.send(&request.to_bytes())?;
        client.expect(PATIENCE, "the node's answer", |message| message.answers(&request))?;
        let took = asked.elapsed();
        assert!(took >= DELAY && took < DELAY * 2, "{took:?}");

        let answer = request.answered_by(NODE);
        assert!(!passes(node, client, &answer)?, "it leaves later");
        assert!(passes(node, client, &Message::request(NODE, family.ip(2), *vip))?);
        segment.port(&scene.node)?.change(|rules| rules.answers_late = Duration::ZERO)?;
        assert!(passes(node, client, &answer)?);
        Ok(())
    })
}

#[test]
fn a_cache_answers_for_a_dead_host_until_another_announces_the_address() -> Result<()> {
    in_both("managed-cache", |segment, family| {
        let Segment { scene, client, node, rogue, vip } = segment;
        for host in [&scene.client, &scene.node, &scene.rogue] {
            segment.port(host)?.change(|rules| rules.answers_from_cache = true)?;
        }
        let request = request_of_client(*vip);
        assert!(passes(client, rogue, &request)?, "nothing is known of the address");
        assert_eq!(ask(&scene.client, "eth0", *vip)?, None);

        // No kernel has the address.
        for mac in [Mac::local(0x78), ROGUE] {
            let announcement = Message::announcement(mac, *vip).sent_by(ROGUE);
            assert!(passes(rogue, client, &announcement)?, "announcements pass");
        }
        assert_eq!(scene.lan.learnt(*vip)?, Some(ROGUE));
        assert_eq!(ask(&scene.client, "eth0", *vip)?, Some(ROGUE));
        assert_eq!(ask(&scene.node, "eth0", *vip)?, Some(ROGUE));
        assert!(!passes(client, rogue, &request)? && !passes(client, node, &request)?, "it is suppressed");
        for probe in [Message::probe(CLIENT, *vip), request.clone()] {
            client.drain()?;
            client.send(&probe.to_bytes())?;
            let answer = probe.answered_by(ROGUE);
            client.expect(PATIENCE, "an answer from the cache", |message| *message == answer)?;
        }
        assert_eq!(ask(&scene.rogue, "eth0", *vip)?, None, "the cache does not answer a host about itself");
        assert!(passes(client, rogue, &request.clone().to(ROGUE))?, "a question to one host passes");
        assert!(!passes(client, node, &request.clone().to(ROGUE))?);

        assert!(passes(node, client, &Message::announcement(NODE, *vip))?);
        assert_eq!(ask(&scene.client, "eth0", *vip)?, Some(NODE));
        // An answer to one host corrects the cache too.
        let answer = Message::request(NODE, family.ip(2), *vip).answered_by(ROGUE);
        assert!(passes(rogue, node, &answer)?);
        assert_eq!(scene.lan.learnt(*vip)?, Some(ROGUE));

        segment.port(&scene.client)?.change(|rules| rules.answers_from_cache = false)?;
        assert!(passes(client, rogue, &request)?);
        assert_eq!(ask(&scene.client, "eth0", *vip)?, None);
        Ok(())
    })
}

#[test]
fn a_sender_filter_drops_what_names_another_sender() -> Result<()> {
    in_both("managed-senders", |segment, family| {
        let Segment { scene, client, node, vip, .. } = segment;
        let port = segment.port(&scene.node)?;
        let own = family.ip(2);
        let mut dropped = vec![
            Message::announcement(NODE, *vip),
            request_of_client(*vip).answered_by(NODE),
            Message::request(NODE, *vip, family.ip(1)),
        ];
        if let (Message::Nd(nd), IpAddr::V6(source)) = (&dropped[0], own) {
            dropped.push(Nd { source, ..nd.clone() }.into());
        }
        let passed = [
            Message::announcement(NODE, own),
            request_of_client(own).answered_by(NODE),
            Message::request(NODE, own, *vip),
            Message::probe(NODE, *vip),
        ];
        port.change(|rules| rules.senders = Some(BTreeSet::from([own])))?;
        assert_each(node, client, &dropped, false)?;
        assert_each(node, client, &passed, true)?;
        assert!(passes(client, node, &request_of_client(*vip))?, "only what the port sends");
        port.change(|rules| rules.senders = None)?;
        assert_each(node, client, &dropped, true)
    })
}

#[test]
fn a_broadcast_filter_drops_requests_to_all_for_other_addresses() -> Result<()> {
    in_both("managed-requests", |segment, family| {
        let Segment { scene, client, node, rogue, vip } = segment;
        let port = segment.port(&scene.node)?;
        port.change(|rules| rules.requests_for = Some(BTreeSet::from([family.ip(2)])))?;
        let dropped = [request_of_client(*vip), Message::probe(CLIENT, *vip)];
        assert_each(client, node, &dropped, false)?;
        assert_each(client, rogue, &dropped, true)?;
        let passed = [
            request_of_client(family.ip(2)),
            request_of_client(*vip).to(NODE),
            Message::request(NODE, family.ip(2), *vip).answered_by(CLIENT),
        ];
        assert_each(client, node, &passed, true)?;
        port.change(|rules| rules.requests_for = None)?;
        assert!(passes(client, node, &dropped[0])?);
        Ok(())
    })
}

#[test]
fn a_port_that_reflects_returns_frames_to_their_sender() -> Result<()> {
    in_both("managed-reflect", |segment, _| {
        let Segment { scene, client, node, vip, .. } = segment;
        let port = segment.port(&scene.node)?;
        let message = Message::announcement(NODE, *vip);
        port.change(|rules| rules.reflects = true)?;
        assert!(passes(node, node, &message)? && passes(node, client, &message)?);
        port.change(|rules| rules.reflects = false)?;
        // The node has received what was reflected.
        assert!(passes(client, node, &request_of_client(*vip))?);
        node.send(&message.to_bytes())?;
        assert!(arrives_before_the_next(node, client, &message)?);
        assert!(!arrives_before_the_next(client, node, &message)?);
        Ok(())
    })
}
