use std::{cell::RefCell, collections::BTreeMap};

use super::{
    WireType::{Echo, Ended, Ping, Vote, VoteRequest},
    *,
};

const OWN: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const SESSION: u64 = 10;
const WID: u64 = 11;
const PEER_SESSION: u64 = 20;
const PEER_WID: u64 = 21;
const KEY: u8 = 2;
const NOW: u64 = 1_000;

fn sip() -> SipKey {
    SipKey::from_bytes([1; 16])
}

/// A node with one peer, and its records. The peer's slots are its ids.
#[derive(Clone)]
struct Node {
    session: u64,
    wid: u64,
    mac: Option<MacAddr>,
    /// The newest ping that was answered, in both slots.
    newest: u64,
    recorded: RefCell<BTreeMap<&'static str, (u32, u64)>>,
}

impl WireTables for Node {
    fn now_ns(&self) -> u64 {
        NOW
    }

    fn own_mac(&self) -> Option<MacAddr> {
        self.mac
    }

    fn session(&self) -> u64 {
        self.session
    }

    fn wid(&self) -> u64 {
        self.wid
    }

    fn slot(&self, id: u64) -> Option<u32> {
        [PEER_SESSION, PEER_WID].contains(&id).then(|| u32::try_from(id).expect("small"))
    }

    fn key(&self, id: u8) -> Option<SipKey> {
        (id == KEY).then(sip)
    }

    fn receive(&self, slot: u32, now_ns: u64) {
        assert_eq!(self.recorded.borrow_mut().insert("received", (slot, now_ns)), None);
    }

    fn answered(&self, slot: u32, sent_ns: u64) -> bool {
        let is_new = sent_ns > self.newest;
        if is_new {
            assert_eq!(self.recorded.borrow_mut().insert("answered", (slot, sent_ns)), None);
        }
        is_new
    }

    fn pinged(&self, slot: u32, sent_ns: u64) -> bool {
        let is_new = sent_ns > self.newest;
        if is_new {
            assert_eq!(self.recorded.borrow_mut().insert("pinged", (slot, sent_ns)), None);
        }
        is_new
    }

    fn end(&self, session: u64) {
        assert_eq!(self.recorded.borrow_mut().insert("ended", (0, session)), None);
    }
}

fn node() -> Node {
    Node { session: SESSION, wid: WID, mac: Some(OWN), newest: 4, recorded: RefCell::default() }
}

fn fields(holder: u64, wid: u64, sent_ns: u64) -> WireFields {
    WireFields { holder, wid, sent_ns, ..WireFields::default() }
}

/// Returns the outcome of a frame, and the records. Checks that the frame changes only into its
/// answer.
fn outcome(node: &Node, dst: MacAddr, frame: WireFrame) -> (WireOutcome, BTreeMap<&'static str, (u32, u64)>) {
    let (mut now, mut echo) = (frame, frame);
    let outcome = decide_wire(dst, &mut now, node);
    if matches!(outcome, WireOutcome::PingAnswered | WireOutcome::PingRepeated) {
        echo.turn_into_echo(NOW, sip());
    }
    assert_eq!(now, echo, "the frame afterwards");
    (outcome, node.recorded.take())
}

fn signed(kind: WireType, fields: &WireFields) -> WireFrame {
    WireFrame::new(kind, KEY, fields, sip())
}

#[test]
fn every_type_is_received_and_recorded() {
    use WireOutcome::{
        EchoReceived, EndedPassed, EndedReceived, PingAnswered, PingRepeated, RefusedRepeated, VotePassed,
        VoteRequestPassed,
    };

    let rows: [(_, _, _, &[_]); 14] = [
        (Ping, fields(SESSION, PEER_WID, 5), PingAnswered, &[("received", (21, NOW)), ("pinged", (21, 5))]),
        // The monitor's clock may be ahead of this one.
        (
            Ping,
            fields(SESSION, PEER_WID, NOW + 1),
            PingAnswered,
            &[("received", (21, NOW)), ("pinged", (21, NOW + 1))],
        ),
        (Ping, fields(SESSION, PEER_WID, 4), PingRepeated, &[]),
        (Ping, fields(SESSION, PEER_WID, 0), PingRepeated, &[]),
        (Echo, fields(PEER_SESSION, WID, 4), RefusedRepeated, &[]),
        (Echo, fields(PEER_SESSION, WID, 3), RefusedRepeated, &[]),
        (Echo, fields(PEER_SESSION, WID, 0), RefusedRepeated, &[]),
        (Echo, fields(PEER_SESSION, WID, 5), EchoReceived, &[("received", (20, NOW)), ("answered", (20, 5))]),
        (
            Echo,
            fields(PEER_SESSION, WID, NOW),
            EchoReceived,
            &[("received", (20, NOW)), ("answered", (20, NOW))],
        ),
        (VoteRequest, fields(PEER_SESSION, PEER_WID, 5), VoteRequestPassed, &[]),
        (Vote, fields(PEER_SESSION, PEER_WID, 5), VotePassed, &[]),
        (Ended, fields(SESSION, 0, 0), EndedReceived, &[("ended", (0, SESSION))]),
        (Ended, fields(PEER_SESSION, 0, 0), EndedPassed, &[]),
        (Ended, fields(24, 0, 0), EndedPassed, &[]),
    ];
    for (kind, fields, expected, recorded) in rows {
        let recorded = recorded.iter().copied().collect();
        assert_eq!(outcome(&node(), OWN, signed(kind, &fields)), (expected, recorded), "{kind:?} {fields:?}");
    }
}

#[test]
fn a_frame_is_not_received_for_the_first_reason_and_records_nothing() {
    use WireOutcome::{
        OtherPassed, RefusedKey, RefusedPeer, RefusedTag, RefusedTarget, RefusedTime, RefusedType,
    };

    let (ping, echo) = (fields(SESSION, PEER_WID, 5), fields(PEER_SESSION, WID, 5));
    let request = fields(PEER_SESSION, PEER_WID, 5);
    let node_without = |session, wid, mac| Node { session, wid, mac, ..node() };
    let of_type = |number: u8| {
        let mut bytes = signed(Ping, &ping).to_bytes();
        bytes[4] = number;
        let mut frame = WireFrame::from_bytes(&bytes).expect("whole");
        frame.sign(sip());
        frame
    };
    let other_key = SipKey::from_bytes([9; 16]);
    let rows = [
        ("no MAC", node_without(SESSION, WID, None), OWN, signed(Ping, &ping), OtherPassed),
        ("to all", node(), MacAddr::BROADCAST, signed(Ping, &ping), OtherPassed),
        ("to a guest", node(), MacAddr([2, 0, 0, 0, 0, 0x99]), signed(Ping, &ping), OtherPassed),
        ("type 0", node(), OWN, of_type(0), RefusedType),
        ("type 3", node(), OWN, of_type(3), RefusedType),
        ("type 6", node(), OWN, of_type(6), RefusedType),
        ("type 7", node(), OWN, of_type(7), RefusedType),
        ("type 9", node(), OWN, of_type(9), RefusedType),
        ("another session", node(), OWN, signed(Ping, &fields(12, PEER_WID, 5)), RefusedTarget),
        (
            "no session",
            node_without(0, WID, Some(OWN)),
            OWN,
            signed(Ping, &fields(0, PEER_WID, 5)),
            RefusedTarget,
        ),
        ("another monitor", node(), OWN, signed(Ping, &fields(SESSION, 22, 5)), RefusedPeer),
        ("another holder", node(), OWN, signed(Echo, &fields(23, WID, 5)), RefusedPeer),
        ("the own session", node(), OWN, signed(Echo, &fields(SESSION, WID, 5)), RefusedPeer),
        ("for another", node(), OWN, signed(Echo, &fields(PEER_SESSION, 12, 5)), RefusedTarget),
        (
            "no wid",
            node_without(SESSION, 0, Some(OWN)),
            OWN,
            signed(Echo, &fields(PEER_SESSION, 0, 5)),
            RefusedTarget,
        ),
        ("from the future", node(), OWN, signed(Echo, &fields(PEER_SESSION, WID, NOW + 1)), RefusedTime),
        ("about an unknown host", node(), OWN, signed(VoteRequest, &fields(24, PEER_WID, 5)), RefusedPeer),
        ("about itself", node(), OWN, signed(Vote, &fields(SESSION, PEER_WID, 5)), RefusedPeer),
        (
            "the end of nothing",
            node_without(0, WID, Some(OWN)),
            OWN,
            signed(Ended, &fields(0, 0, 0)),
            RefusedTarget,
        ),
        ("another key", node(), OWN, WireFrame::new(Ping, 3, &ping, sip()), RefusedKey),
        ("a forged ping", node(), OWN, WireFrame::new(Ping, KEY, &ping, other_key), RefusedTag),
        ("a forged echo", node(), OWN, WireFrame::new(Echo, KEY, &echo, other_key), RefusedTag),
        (
            "a forged vote request",
            node(),
            OWN,
            WireFrame::new(VoteRequest, KEY, &request, other_key),
            RefusedTag,
        ),
        ("a forged end", node(), OWN, WireFrame::new(Ended, KEY, &ping, other_key), RefusedTag),
    ];
    for (what, node, dst, frame, expected) in rows {
        assert_eq!(outcome(&node, dst, frame), (expected, BTreeMap::new()), "{what}");
    }
}

#[test]
fn a_reflected_frame_is_no_answer() {
    let mut echo = signed(Ping, &fields(SESSION, PEER_WID, 5));
    let own_ping = signed(Ping, &fields(PEER_SESSION, WID, 5));
    assert_eq!(outcome(&node(), OWN, own_ping).0, WireOutcome::RefusedTarget, "the own ping");
    echo.turn_into_echo(NOW, sip());
    assert_eq!(outcome(&node(), OWN, echo).0, WireOutcome::RefusedPeer, "the own echo");
}

#[test]
fn keys_whose_numbers_have_one_remainder_share_a_place() {
    assert_eq!([1, 4, 5, 255].map(WireKey::place), [1, 0, 1, 3]);
    let key = WireKey::new(255, sip());
    assert_eq!((key.id, SipKey { k0: key.k0, k1: key.k1 } == sip()), (255, true));
}
