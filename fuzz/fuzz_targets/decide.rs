//! Any frame meets any maps: the promises of every cell of the frame tables must hold.
#![no_main]

use std::cell::RefCell;

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use vipward_common::{
    Action, ArpFrame, EventKind, FRAME_LEN, FenceState, MacAddr, OPER_REPLY, OPER_REQUEST, Outcome, Role,
    Tables, Verdict, Vip, decide,
};

/// Bytes for everything, so that the fuzzer can make addresses of the frame meet those of the maps.
#[derive(Arbitrary, Debug)]
struct Input {
    frame: [u8; FRAME_LEN],
    /// Makes the frame ARP, which random bytes rarely are.
    well_formed: bool,
    /// 0 valid, 1 held over, else over.
    fence: u8,
    now_ns: u64,
    /// The entries of spa and tpa, if they are VIPs.
    vips: [Option<Entry>; 2],
    own: Option<[u8; 6]>,
    peer: [u8; 6],
    /// The program defends, and its limits have room.
    defends: bool,
    /// Copies sha over one of the MACs above, so that they meet.
    meet: u8,
}

#[derive(Arbitrary, Clone, Copy, Debug)]
struct Entry {
    mac: [u8; 6],
    generation: u16,
    role: u8,
    slot: u32,
    until_ns: u64,
    yielded: Option<[u8; 6]>,
    /// Another CPU yields it at the same time.
    lost: bool,
}

impl Entry {
    fn vip(&self) -> Vip {
        Vip {
            mac: MacAddr(self.mac),
            generation: self.generation,
            role: [Role::Foreign, Role::Held, Role::Handover][usize::from(self.role % 3)],
            slot: self.slot,
            until_ns: self.until_ns,
        }
    }
}

/// The effects of the decision on the maps.
#[derive(PartialEq, Eq, Debug, Default)]
struct Effects {
    yielded: Vec<MacAddr>,
    reported: Vec<EventKind>,
    asked_to_defend: bool,
}

struct Memory<'a> {
    input: &'a Input,
    entries: [([u8; 4], Option<Entry>); 2],
    effects: RefCell<Effects>,
}

impl Memory<'_> {
    /// Returns the entry of `addr`. 0.0.0.0 has none: the agent refuses it as a VIP, and a probe's
    /// sender has no address (RFC 5227 section 1.1).
    fn entry(&self, addr: [u8; 4]) -> Option<Entry> {
        if addr == [0; 4] {
            return None;
        }
        self.entries.iter().find(|(vip, entry)| *vip == addr && entry.is_some()).and_then(|(_, entry)| *entry)
    }

    fn entry_of(&self, vip: &Vip) -> Option<Entry> {
        self.entries.iter().filter_map(|(_, entry)| *entry).find(|entry| entry.vip().slot == vip.slot)
    }
}

impl Tables for Memory<'_> {
    fn now_ns(&self) -> u64 {
        self.input.now_ns
    }

    fn fence(&self, _: u64) -> FenceState {
        match self.input.fence {
            0 => FenceState::Valid,
            1 => FenceState::HeldOver,
            _ => FenceState::Over,
        }
    }

    fn may_be_vip(&self, addr: [u8; 4]) -> bool {
        self.entry(addr).is_some()
    }

    fn vip(&self, addr: [u8; 4]) -> Option<Vip> {
        self.entry(addr).map(|entry| entry.vip())
    }

    fn own_mac(&self) -> Option<MacAddr> {
        self.input.own.map(MacAddr)
    }

    fn is_peer(&self, mac: MacAddr) -> bool {
        mac.0 == self.input.peer
    }

    fn yielded(&self, vip: &Vip) -> Option<MacAddr> {
        self.entry_of(vip).and_then(|entry| entry.yielded).map(MacAddr)
    }

    fn yield_to(&self, vip: &Vip, mac: MacAddr) -> bool {
        let won = !self.entry_of(vip).is_some_and(|entry| entry.lost);
        if won {
            self.effects.borrow_mut().yielded.push(mac);
        }
        won
    }

    fn tell(&self, kind: EventKind, _: &Vip, _: &ArpFrame, _: u64) {
        self.effects.borrow_mut().reported.push(kind);
    }

    fn admits_defence(&self, _: &Vip, _: &ArpFrame, _: u64) -> bool {
        self.effects.borrow_mut().asked_to_defend = true;
        self.input.defends
    }
}

/// Returns the frame, adjusted so that it is likely to meet the maps.
fn prepare(input: &mut Input) -> ArpFrame {
    if input.well_formed {
        let oper = 1 + input.frame[21] % 2;
        let htype = if input.frame[15].is_multiple_of(4) { 6 } else { 1 };
        input.frame[12..22].copy_from_slice(&[8, 6, 0, htype, 8, 0, 6, 4, 0, oper]);
    }
    let sha: [u8; 6] = std::array::from_fn(|i| input.frame[22 + i]);
    let [spa, tpa] = &mut input.vips;
    match input.meet % 8 {
        0 => input.peer = sha,
        1 => input.own = Some(sha),
        2 => spa.iter_mut().for_each(|entry| entry.mac = sha),
        3 => tpa.iter_mut().for_each(|entry| entry.mac = sha),
        4 => input.frame[..6].fill(0xff),
        5 => input.frame.copy_within(28..32, 38),
        6 => input.frame[..6].copy_from_slice(&input.own.unwrap_or(sha)),
        _ => input.frame[6..12].copy_from_slice(&sha),
    }
    bytemuck::pod_read_unaligned(&input.frame)
}

fuzz_target!(|input: Input| {
    let mut input = input;
    let frame = prepare(&mut input);
    let entries = [(frame.spa(), input.vips[0]), (frame.tpa(), input.vips[1])];
    let memory = Memory { input: &input, entries, effects: RefCell::default() };
    let verdict = decide(&frame, &memory);
    let effects = memory.effects.take();

    assert_eq!(verdict.answer.is_some(), verdict.outcome.action() == Action::Answer, "{verdict:?}");
    if !frame.is_ethernet_ipv4() {
        assert_eq!(verdict.outcome, Outcome::ArpOther);
    }
    let (by_spa, by_tpa) = (memory.entry(frame.spa()), memory.entry(frame.tpa()));
    if by_spa.is_none() && by_tpa.is_none() {
        assert!(matches!(verdict.outcome, Outcome::ArpOther | Outcome::ArpNoVip), "{verdict:?}");
        assert_eq!(verdict.slot, None);
    }
    if let Some(slot) = verdict.slot {
        assert!([by_spa, by_tpa].iter().flatten().any(|entry| entry.slot == slot), "{verdict:?}");
    }
    check_effects(&frame, &memory, &effects);
    check_other_htype(&input, &memory, verdict, &effects);
    if let Some(answer) = verdict.answer {
        let entry = by_tpa.expect("invariant: an answer is about tpa").vip();
        assert!(frame.is_request() && !(frame.is_gratuitous() && by_spa.is_some()));
        assert_ne!(memory.fence(0), FenceState::Over, "answered when the fence was over");
        assert_ne!(entry.role, Role::Foreign, "answered for a VIP of another node");
        assert!(memory.yielded(&entry).is_none(), "answered for a yielded VIP");
        assert!(entry.role == Role::Held || input.now_ns < entry.until_ns, "answered after the handover");
        assert!(frame.dst == answer.source || frame.dst == MacAddr::BROADCAST, "addressed to another host");
        assert_eq!(answer.mac, entry.mac);
        assert!(entry.role == Role::Held || Some(answer.source) == memory.own_mac());
        check_reply(&frame, answer.mac, answer.source);
    }
    check_defence(&frame, &memory, verdict, &effects);
});

/// Checks that only a reported claim on a held VIP is defended: one by broadcast or multicast, that
/// is dropped, while this node may answer, and before the fence's deadline if the claimant is a peer.
fn check_defence(frame: &ArpFrame, memory: &Memory<'_>, verdict: Verdict, effects: &Effects) {
    if !effects.asked_to_defend {
        assert!(verdict.defence.is_zero());
        return;
    }
    let entry = memory.entry(frame.spa()).expect("only an ARP claim is defended").vip();
    assert_eq!((entry.role, memory.yielded(&entry)), (Role::Held, None));
    assert_eq!(verdict.outcome.action(), Action::Drop);
    assert!(frame.dst.is_multicast() && frame.sha != entry.mac);
    match (effects.reported.as_slice(), memory.fence(0)) {
        ([EventKind::Conflict], FenceState::Valid | FenceState::HeldOver)
        | ([EventKind::Contested], FenceState::Valid) => {}
        (other, fence) => panic!("defended with {other:?} while the fence was {fence:?}"),
    }
    assert_eq!(verdict.defence, if memory.input.defends { entry.mac } else { MacAddr::ZERO });
    if !verdict.defence.is_zero() {
        let mut announcement = *frame;
        announcement.turn_into_announcement(verdict.defence);
        let (all, none) = (MacAddr::BROADCAST, MacAddr::ZERO);
        let expected = ArpFrame::new(all, entry.mac, OPER_REQUEST, entry.mac, frame.spa(), none, frame.spa());
        assert!(!frame.is_arp() || announcement == expected, "{announcement:?}");
    }
}

/// Checks that htype 1 and 6 get the same decision.
fn check_other_htype(input: &Input, memory: &Memory<'_>, verdict: Verdict, effects: &Effects) {
    let mut other = input.frame;
    other[15] = match other[14..16] {
        [0, 1] => 6,
        [0, 6] => 1,
        _ => return,
    };
    assert_eq!(decide(&bytemuck::pod_read_unaligned(&other), memory), verdict);
    assert_eq!(memory.effects.take(), *effects);
}

/// Checks that only ARP claims and probes cause events, and that a yield happens only with a lapsed
/// fence and to a peer or the successor.
fn check_effects(frame: &ArpFrame, memory: &Memory<'_>, effects: &Effects) {
    let claimed = memory.entry(frame.spa()).map(|entry| entry.vip());
    assert!(effects.reported.len() <= 1 && effects.yielded.len() <= 1);
    let asked = memory.entry(frame.tpa()).map(|entry| entry.vip());
    let probed = asked.filter(|vip| frame.is_probe() && vip.role == Role::Foreign && vip.mac.is_zero());
    assert!(claimed.is_some() || effects.reported.is_empty() || probed.is_some());
    assert!(!effects.reported.contains(&EventKind::Probed) || probed.is_some());
    if let [mac] = effects.yielded[..] {
        let entry = claimed.expect("only an ARP claim causes a yield");
        assert_ne!(memory.fence(0), FenceState::Valid, "yielded while the fence was valid");
        assert_eq!(mac, frame.sha);
        assert!(memory.is_peer(mac) || mac == entry.mac, "yielded to a stranger");
        assert_eq!(frame.src, frame.sha, "yielded to a host that speaks in a peer's name");
        assert!(frame.is_gratuitous() || !frame.is_request(), "yielded to a frame that does not announce");
        assert!(
            matches!(effects.reported[..], [EventKind::Yielded | EventKind::Moved]),
            "yielded without an event"
        );
    }
}

fn check_reply(request: &ArpFrame, mac: MacAddr, source: MacAddr) {
    assert!(request.sha.is_unicast() && request.sha != source, "an answer to {}", request.sha);
    let mut reply = *request;
    reply.turn_into_reply(mac, source);
    let expected =
        ArpFrame::new(request.sha, source, OPER_REPLY, mac, request.tpa(), request.sha, request.spa());
    assert!(!request.is_arp() || reply == expected, "{reply:?}");
}
