//! Any frame meets any maps: the promises of every cell of the frame tables must hold.
#![no_main]
#![forbid(unsafe_code)]

use std::{cell::RefCell, fmt::Debug, marker::PhantomData};

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use vipward_common::{
    Action, Answer, ArpFrame, DeadlineState, EventKind, FRAME_LEN, MAX_EXTENSIONS, MAX_SUMMED, MacAddr,
    Message, NO_SLOT, NdHeader, OPER_REPLY, OPER_REQUEST, Outcome, Question, Reach, Role, Tables, Unit,
    Verdict, Vip, decide, hides_claim,
};

/// Bytes for everything, so that the fuzzer can make addresses of the frame meet those of the maps.
#[derive(Arbitrary, Debug)]
struct Input {
    frame: [u8; FRAME_LEN],
    /// Makes the frame ARP, which random bytes rarely are.
    well_formed: bool,
    /// A packet of neighbour discovery, from the IPv6 header on. It meets the maps instead, if it is
    /// one.
    packet: Vec<u8>,
    /// Sets the checksum of the packet, which random bytes rarely have.
    summed: bool,
    /// 0: ahead, 1: in the grace period, else over.
    lease_deadline: u8,
    now_ns: u64,
    /// The entries of the claimed and the requested address, if they are VIPs.
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

struct Memory<'a, Q: Question> {
    input: &'a Input,
    entries: [(Q::Addr, Option<Entry>); 2],
    is_intact: bool,
    effects: RefCell<Effects>,
    question: PhantomData<Q>,
}

impl<'a, Q: Question<Addr: Default>> Memory<'a, Q> {
    fn of(input: &'a Input, question: &Q, is_intact: bool) -> Self {
        let asked = question.asked().unwrap_or_default();
        let entries = [(question.claimed(), input.vips[0]), (asked, input.vips[1])];
        Self { input, entries, is_intact, effects: RefCell::default(), question: PhantomData }
    }

    /// Returns the entry of `addr`. The address of zeros has none: the agent refuses it as a VIP, and a
    /// probe's sender has no address (RFC 5227 section 1.1).
    fn entry(&self, addr: Q::Addr) -> Option<Entry> {
        if addr == Q::Addr::default() {
            return None;
        }
        self.entries.iter().find(|(vip, entry)| *vip == addr && entry.is_some()).and_then(|(_, entry)| *entry)
    }

    fn entry_of(&self, vip: &Vip) -> Option<Entry> {
        self.entries.iter().filter_map(|(_, entry)| *entry).find(|entry| entry.vip().slot == vip.slot)
    }
}

impl<Q: Question<Addr: Default>> Tables for Memory<'_, Q> {
    type Question = Q;

    fn now_ns(&self) -> u64 {
        self.input.now_ns
    }

    fn lease_deadline(&self, _: u64) -> DeadlineState {
        match self.input.lease_deadline {
            0 => DeadlineState::Valid,
            1 => DeadlineState::Grace,
            _ => DeadlineState::Over,
        }
    }

    fn may_be_vip(&self, addr: Q::Addr) -> bool {
        self.entry(addr).is_some()
    }

    fn vip(&self, addr: Q::Addr) -> Option<Vip> {
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

    fn is_intact(&self) -> bool {
        self.is_intact
    }

    fn notify(&self, kind: EventKind, _: &Vip, _: &Q, _: u64) {
        self.effects.borrow_mut().reported.push(kind);
    }

    fn admits_defence(&self, _: &Vip, _: &Q, _: u64) -> bool {
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
    check_hidden(&input.packet);
    if let Some(header) = header(&input.packet) {
        return check_packet(&mut input, header);
    }
    let frame = prepare(&mut input);
    if !frame.is_ethernet_ipv4() {
        return;
    }
    let memory = Memory::of(&input, &frame, true);
    let (verdict, effects) = check(&frame, &memory);
    check_other_htype(&input, &memory, verdict, &effects);
    if let Some(answer) = verdict.answer {
        check_reply(&frame, answer);
    }
    if !verdict.defence.is_zero() {
        let mut announcement = frame;
        announcement.turn_into_announcement(verdict.defence);
        let (all, none, vip) = (MacAddr::BROADCAST, MacAddr::ZERO, frame.spa());
        let mac = verdict.defence;
        let expected = ArpFrame::new(all, mac, OPER_REQUEST, mac, vip, none, vip);
        assert!(!frame.is_arp() || announcement == expected, "{announcement:?}");
    }
});

/// Checks the promises that do not depend on the protocol.
fn check<Q: Question<Addr: Default + Debug>>(question: &Q, memory: &Memory<'_, Q>) -> (Verdict, Effects) {
    let verdict = decide(question, memory);
    let effects = memory.effects.take();
    assert_eq!(verdict.answer.is_some(), verdict.outcome.action() == Action::Answer, "{verdict:?}");
    let claimed = memory.entry(question.claimed());
    let asked = question.asked().and_then(|asked| memory.entry(asked));
    if claimed.is_none() && asked.is_none() {
        assert_eq!(verdict, Verdict::about_none(Outcome::NoVip));
    }
    if (claimed.is_some() || asked.is_some()) && !memory.is_intact {
        assert_eq!(verdict, Verdict::about_none(Outcome::Unverified));
        assert_eq!(effects, Effects::default());
        return (verdict, effects);
    }
    if verdict.slot != NO_SLOT {
        assert!([claimed, asked].iter().flatten().any(|entry| entry.slot == verdict.slot), "{verdict:?}");
    }
    check_effects(question, memory, &effects);
    if let Some(answer) = verdict.answer {
        let entry = asked.expect("invariant: an answer is about what was asked").vip();
        let own = if question.dst() == answer.source { Reach::One } else { Reach::All };
        assert!(!(question.is_gratuitous() && claimed.is_some()));
        assert_ne!(
            memory.lease_deadline(0),
            DeadlineState::Over,
            "answered when the lease deadline was over"
        );
        assert_ne!(entry.role, Role::Foreign, "answered for a VIP of another node");
        assert!(memory.yielded(&entry).is_none(), "answered for a yielded VIP");
        assert!(
            entry.role == Role::Held || memory.input.now_ns < entry.until_ns,
            "answered after the handover"
        );
        assert!(question.reach() == own || question.reach() == Reach::All, "addressed to another host");
        assert_eq!(answer.mac, entry.mac);
        assert!(entry.role == Role::Held || Some(answer.source) == memory.own_mac());
        assert!(question.sender().is_unicast() && question.sender() != answer.source);
    }
    check_defence(question, memory, verdict, &effects);
    (verdict, effects)
}

/// Checks that only a reported claim on a held VIP is defended. It goes to a group, it is dropped, and
/// this node may answer. If the claimant is a peer, the lease deadline lies ahead.
fn check_defence<Q: Question<Addr: Default>>(
    question: &Q,
    memory: &Memory<'_, Q>,
    verdict: Verdict,
    effects: &Effects,
) {
    if !effects.asked_to_defend {
        assert!(verdict.defence.is_zero());
        return;
    }
    let entry = memory.entry(question.claimed()).expect("only a claim is defended").vip();
    assert_eq!((entry.role, memory.yielded(&entry)), (Role::Held, None));
    assert_eq!(verdict.outcome.action(), Action::Drop);
    assert!(question.dst().is_multicast() && question.sender() != entry.mac);
    match (effects.reported.as_slice(), memory.lease_deadline(0)) {
        ([EventKind::Conflict], DeadlineState::Valid | DeadlineState::Grace)
        | ([EventKind::Contested], DeadlineState::Valid) => {}
        (other, lease_deadline) => {
            panic!("defended with {other:?} while the lease deadline was {lease_deadline:?}")
        }
    }
    assert_eq!(verdict.defence, if memory.input.defends { entry.mac } else { MacAddr::ZERO });
}

/// Checks that htype 1 and 6 get the same decision.
fn check_other_htype(input: &Input, memory: &Memory<'_, ArpFrame>, verdict: Verdict, effects: &Effects) {
    let mut other = input.frame;
    other[15] = match other[14..16] {
        [0, 1] => 6,
        [0, 6] => 1,
        _ => return,
    };
    assert_eq!(decide(&bytemuck::pod_read_unaligned(&other), memory), verdict);
    assert_eq!(memory.effects.take(), *effects);
}

/// Checks that only claims and probes cause events. A yield happens only after the lease deadline, and to a
/// peer or the successor.
fn check_effects<Q: Question<Addr: Default>>(question: &Q, memory: &Memory<'_, Q>, effects: &Effects) {
    let claimed = memory.entry(question.claimed()).map(|entry| entry.vip());
    assert!(effects.reported.len() <= 1 && effects.yielded.len() <= 1);
    let probed = question.probed().and_then(|addr| memory.entry(addr)).map(|entry| entry.vip());
    let probed = probed.filter(|vip| vip.role == Role::Foreign && vip.mac.is_zero());
    assert!(claimed.is_some() || effects.reported.is_empty() || probed.is_some());
    assert!(!effects.reported.contains(&EventKind::Probed) || probed.is_some());
    if let [mac] = effects.yielded[..] {
        let entry = claimed.expect("only a claim causes a yield");
        assert_ne!(
            memory.lease_deadline(0),
            DeadlineState::Valid,
            "yielded while the lease deadline was valid"
        );
        assert_eq!(mac, question.sender());
        assert!(memory.is_peer(mac) || mac == entry.mac, "yielded to a stranger");
        assert_eq!(question.src(), mac, "yielded to a host that speaks in a peer's name");
        assert!(question.announces(), "yielded to a frame that does not announce");
        assert!(
            matches!(effects.reported[..], [EventKind::Yielded | EventKind::Moved]),
            "yielded without an event"
        );
    }
}

fn check_reply(request: &ArpFrame, Answer { mac, source }: Answer) {
    let mut reply = *request;
    reply.turn_into_reply(mac, source);
    let expected =
        ArpFrame::new(request.sha, source, OPER_REPLY, mac, request.tpa(), request.sha, request.spa());
    assert!(!request.is_arp() || reply == expected, "{reply:?}");
}

/// Returns the header of a packet of neighbour discovery.
fn header(packet: &[u8]) -> Option<NdHeader> {
    let header: NdHeader = bytemuck::pod_read_unaligned(packet.get(..size_of::<NdHeader>())?);
    let is_nd = NdHeader::is_icmpv6(packet[NdHeader::NEXT_HEADER])
        && NdHeader::is_nd(packet[NdHeader::KIND])
        && NdHeader::is_ipv6(packet[0]);
    (is_nd && header.end() <= packet.len()).then_some(header)
}

/// Returns the sum of a message and its pseudo-header (RFC 8200, 8.1).
fn checksum(packet: &[u8]) -> u16 {
    let len = u32::from(u16::from_be_bytes([packet[4], packet[5]]));
    let message = packet[8..40 + len as usize].chunks(2);
    let words = message.map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0)));
    let sum = words.fold(len + 58, |sum, word| sum + word);
    let sum = (sum & 0xffff) + (sum >> 16);
    u16::try_from((sum & 0xffff) + (sum >> 16)).expect("invariant: it is folded")
}

fn check_packet(input: &mut Input, mut header: NdHeader) {
    if input.summed {
        input.packet[42..44].fill(0);
        let sum = !checksum(&input.packet);
        input.packet[42..44].copy_from_slice(&sum.to_be_bytes());
        header = bytemuck::pod_read_unaligned(&input.packet[..size_of::<NdHeader>()]);
    }
    let addresses: [MacAddr; 2] = bytemuck::pod_read_unaligned(&input.frame[..12]);
    let packet = input.packet.clone();
    let unit = |at: usize| -> Option<Unit> { Some(bytemuck::pod_read_unaligned(packet.get(at..at + 8)?)) };
    let mut message = Message::NONE;
    let redirected = input.meet.is_multiple_of(2);
    if message.read(addresses, &header, unit, |_| redirected).is_none() {
        return;
    }
    match input.meet % 4 {
        0 => input.peer = message.sender().0,
        1 => input.own = Some(addresses[0].0),
        2 => input.vips.iter_mut().flatten().for_each(|entry| entry.mac = addresses[0].0),
        _ => {}
    }
    let (is_intact, is_summed) = (checksum(&packet) == 0xffff, packet_len(&packet) <= MAX_SUMMED);
    assert_eq!(message.is_intact(unit), is_intact || !is_summed);
    let (verdict, _) = check(&message, &Memory::of(input, &message, message.is_intact(unit)));
    let Some(answer) = verdict.answer.filter(|_| !message.is_probe()) else { return };

    let (place, grown) = (message.option(&answer), message.grown(&answer));
    let replaced = if place == 0 || grown.is_some() { 0 } else { unit(place).expect("it was read") };
    let (dst, option) = message.turn_into_answer(&mut header, replaced, &answer);
    let mut advertisement = packet.clone();
    if let Some(len) = grown {
        advertisement.resize(len, 0);
    }
    advertisement[..size_of::<NdHeader>()].copy_from_slice(bytemuck::bytes_of(&header));
    if place != 0 {
        advertisement[place..place + 8].copy_from_slice(bytemuck::bytes_of(&option));
    }
    assert_eq!(checksum(&advertisement) == 0xffff, is_intact, "{advertisement:02x?}");
    assert_eq!(advertisement[8..24], packet[48..64], "it comes from the VIP");
    assert_eq!(dst, message.sender());
}

/// Checks that a claim is found behind any headers, or that the packet counts as one.
fn check_hidden(packet: &[u8]) {
    let unit = |at: usize| -> Option<Unit> { Some(bytemuck::pod_read_unaligned(packet.get(at..at + 8)?)) };
    // An address is a VIP if its first byte is odd.
    let hides = hides_claim(0, unit, |addr| addr[0] % 2 == 1);
    assert_eq!(hides, names_vip(packet).unwrap_or(true), "{packet:02x?}");
}

/// Does the same by the definitions (RFC 8200, 4; RFC 4861, 4). Returns `None` if it cannot be found out.
fn names_vip(packet: &[u8]) -> Option<bool> {
    let (start, mut rest) = (packet.get(..8)?, packet.get(40..).unwrap_or_default());
    if start[0] >> 4 != 6 {
        return Some(false);
    }
    let mut next_header = start[6];
    for walked in 0.. {
        let len = match next_header {
            _ if walked == MAX_EXTENSIONS && [0, 43, 44, 60].contains(&next_header) => return None,
            0 | 43 | 60 => 8 + 8 * usize::from(rest.get(..8)?[1]),
            44 if rest.get(..8)?[2] != 0 || rest[3] >= 8 => return Some(false),
            44 => 8,
            58 => break,
            _ => return Some(false),
        };
        next_header = rest[0];
        rest = rest.get(len..).unwrap_or_default();
    }
    let is_vip = |bytes: Option<&[u8]>| bytes.map(|bytes| bytes[0] % 2 == 1);
    let source = || is_vip(packet.get(8..24));
    let (target, redirected) = (|| is_vip(rest.get(8..24)), || is_vip(rest.get(24..40)));
    Some(match rest.get(..8)?[0] {
        133 => source()?,
        135 => source()? || target()?,
        136 => target()?,
        137 => target()? || redirected()?,
        _ => false,
    })
}

/// Returns the size of the message.
fn packet_len(packet: &[u8]) -> usize {
    usize::from(u16::from_be_bytes([packet[4], packet[5]]))
}
