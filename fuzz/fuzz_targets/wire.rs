//! Any frame of wire failover meets any maps. Only a frame that a peer has signed is accepted, and only its
//! echo is sent back.
#![no_main]
#![forbid(unsafe_code)]

use std::cell::RefCell;

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use vipward_common::{
    Action, MacAddr, SipKey, WIRE_LEN, WireFields, WireFrame, WireOutcome, WireTables, WireType, decide_wire,
};

#[derive(Arbitrary, Debug)]
struct Input {
    bytes: Vec<u8>,
    /// Makes the bytes a frame, and signs it, which random bytes rarely are.
    kind: Option<u8>,
    is_signed: bool,
    dst: [u8; 6],
    maps: Maps,
    /// Copies numbers of the maps into the frame, so that they meet.
    meet: u8,
}

#[derive(Arbitrary, Clone, Copy, Debug)]
struct Maps {
    now_ns: u64,
    own: Option<[u8; 6]>,
    session: u64,
    wid: u64,
    peer: (u64, u32),
    key: (u8, u64, u64),
    /// The newest ping that was answered, in each direction.
    newest: u64,
}

impl Maps {
    fn sip(&self) -> SipKey {
        SipKey { k0: self.key.1, k1: self.key.2 }
    }
}

/// A record that the decision made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Recorded {
    Received(u32, u64),
    Answered(u32, u64),
    Pinged(u32, u64),
    Ended(u64),
}

struct Memory {
    maps: Maps,
    recorded: RefCell<Vec<Recorded>>,
}

impl WireTables for Memory {
    fn now_ns(&self) -> u64 {
        self.maps.now_ns
    }

    fn own_mac(&self) -> Option<MacAddr> {
        self.maps.own.map(MacAddr)
    }

    fn session(&self) -> u64 {
        self.maps.session
    }

    fn wid(&self) -> u64 {
        self.maps.wid
    }

    fn slot(&self, id: u64) -> Option<u32> {
        (id == self.maps.peer.0).then_some(self.maps.peer.1)
    }

    fn key(&self, id: u8) -> Option<SipKey> {
        (id == self.maps.key.0).then(|| self.maps.sip())
    }

    fn receive(&self, slot: u32, now_ns: u64) {
        self.recorded.borrow_mut().push(Recorded::Received(slot, now_ns));
    }

    fn answered(&self, slot: u32, sent_ns: u64) -> bool {
        let is_new = sent_ns > self.maps.newest;
        if is_new {
            self.recorded.borrow_mut().push(Recorded::Answered(slot, sent_ns));
        }
        is_new
    }

    fn pinged(&self, slot: u32, sent_ns: u64) -> bool {
        let is_new = sent_ns > self.maps.newest;
        if is_new {
            self.recorded.borrow_mut().push(Recorded::Pinged(slot, sent_ns));
        }
        is_new
    }

    fn end(&self, session: u64) {
        self.recorded.borrow_mut().push(Recorded::Ended(session));
    }
}

/// Changes the bytes as the input has it.
fn shape(input: &mut Input) {
    let Some(kind) = input.kind else { return };
    input.bytes.resize(input.bytes.len().max(WIRE_LEN), 0);
    input.bytes[..4].copy_from_slice(b"VPW1");
    input.bytes[4] = kind % 10;
    let numbers = [input.maps.session, input.maps.wid, input.maps.peer.0];
    for (at, bits) in [(8, input.meet & 3), (16, input.meet >> 2 & 3)] {
        if let Some(number) = numbers.get(usize::from(bits)) {
            input.bytes[at..][..8].copy_from_slice(&number.to_be_bytes());
        }
    }
    if input.meet & 0x10 != 0 {
        input.bytes[5] = input.maps.key.0;
    }
    if input.meet & 0x20 != 0
        && let Some(own) = input.maps.own
    {
        input.dst = own;
    }
    if input.is_signed {
        let mut frame = WireFrame::from_bytes(&input.bytes).expect("it has the magic number");
        frame.sign(input.maps.sip());
        input.bytes[..WIRE_LEN].copy_from_slice(&frame.to_bytes());
    }
}

fuzz_target!(|input: Input| {
    let mut input = input;
    shape(&mut input);
    let Some(frame) = WireFrame::from_bytes(&input.bytes) else {
        assert!(input.bytes.len() < WIRE_LEN || input.bytes[..4] != *b"VPW1");
        return;
    };
    assert_eq!(frame.to_bytes()[..], input.bytes[..WIRE_LEN]);
    let (maps, memory) = (input.maps, Memory { maps: input.maps, recorded: RefCell::default() });
    let mut after = frame;
    let outcome = decide_wire(MacAddr(input.dst), &mut after, &memory);
    let recorded = memory.recorded.into_inner();
    let WireFields { holder, wid, sent_ns, .. } = frame.fields();
    if outcome.name().starts_with("refused_") {
        assert_eq!((outcome.action(), after, &recorded[..]), (Action::Drop, frame, &[][..]));
        return;
    }
    if outcome == WireOutcome::OtherPassed {
        assert_eq!((outcome.action(), after, &recorded[..]), (Action::Pass, frame, &[][..]));
        assert_ne!(maps.own, Some(input.dst));
        return;
    }
    assert_eq!(maps.own, Some(input.dst));
    assert!(frame.key() == maps.key.0 && frame.is_signed(maps.sip()));
    let slot = maps.peer.1;
    let expected = match outcome {
        WireOutcome::PingAnswered | WireOutcome::PingRepeated => {
            assert_eq!((frame.kind(), holder, wid), (Some(WireType::Ping), maps.session, maps.peer.0));
            assert_ne!(holder, 0);
            let fields = WireFields { round: 0, answered_ns: maps.now_ns, ..frame.fields() };
            assert_eq!(after, WireFrame::new(WireType::Echo, frame.key(), &fields, maps.sip()));
            assert_eq!(outcome == WireOutcome::PingAnswered, sent_ns > maps.newest);
            let is_new = outcome == WireOutcome::PingAnswered;
            let received = [Recorded::Pinged(slot, sent_ns), Recorded::Received(slot, maps.now_ns)];
            if is_new { received.to_vec() } else { Vec::new() }
        }
        WireOutcome::EchoReceived => {
            assert_eq!((frame.kind(), holder, wid), (Some(WireType::Echo), maps.peer.0, maps.wid));
            assert!(wid != 0 && sent_ns <= maps.now_ns && sent_ns > maps.newest);
            vec![Recorded::Answered(slot, sent_ns), Recorded::Received(slot, maps.now_ns)]
        }
        WireOutcome::VoteRequestPassed | WireOutcome::VotePassed => {
            assert_eq!((holder, outcome.action()), (maps.peer.0, Action::Pass));
            Vec::new()
        }
        WireOutcome::EndedReceived => {
            assert_eq!((frame.kind(), holder), (Some(WireType::Ended), maps.session));
            vec![Recorded::Ended(holder)]
        }
        WireOutcome::EndedPassed => {
            assert_eq!((frame.kind(), outcome.action()), (Some(WireType::Ended), Action::Pass));
            assert!(holder != 0 && holder != maps.session);
            Vec::new()
        }
        refused => panic!("{refused:?} is not received"),
    };
    assert_eq!(recorded, expected);
    assert!(outcome.action() == Action::Answer || after == frame);
});
