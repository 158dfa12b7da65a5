//! Neighbour discovery: the frames that the program inspects, and the frames that it sends in their
//! place. XDP and traffic control share it; they differ in the [`Packet`].

use core::{arch::asm, hint::black_box};

use aya_ebpf::{btf_maps::PerCpuArray, macros::btf_map};
use bytemuck::{AnyBitPattern, NoUninit, Pod, Zeroable};
use vipward_common::{
    ALL_NODES, Action, ETHERTYPE_IPV6, MacAddr, Message, ND_FRAME_LEN, ND_OVERRIDE, NdFrame, NdHeader,
    Outcome, Question as _, Unit, Verdict, decide, group_mac, may_hide_claim,
};

use crate::{
    counting::{count, count_outcome, receive},
    family::{Family, V6},
    tables::Maps,
    tags::{Addresses, ETHERTYPE},
};

/// A message, and the parts of the frame that is sent in its place.
#[repr(C)]
struct Scratch {
    /// The offset of the IPv6 header.
    start: usize,
    message: Message,
    header: NdHeader,
    announcement: Parts,
}

/// The last message of this CPU. The stack is too small for it, and the verifier would follow each
/// of its contents there through the whole decision.
#[btf_map(name = "scratch")]
static SCRATCH: PerCpuArray<Scratch, 1> = PerCpuArray::new();

/// The offset of the IPv6 header in a frame without tags.
const UNTAGGED: usize = ETHERTYPE + size_of::<u16>();
/// The offsets of the next header and of the `ICMPv6` type in such a frame.
const NEXT_HEADER: usize = UNTAGGED + NdHeader::NEXT_HEADER;
const KIND: usize = UNTAGGED + NdHeader::KIND;
/// Such a frame up to that type. One check of the length is enough for all. Its bytes are read one by
/// one, since a whole word would end behind it.
type FrameStart = [u8; KIND + 1];
/// The bits of an offset in a packet. The verifier must see that it has no others.
const OFFSET_BITS: usize = 0x7fff;
const HEADER_UNITS: usize = size_of::<NdHeader>() / size_of::<Unit>();
/// An IPv6 packet with the announcement of a VIP.
type Announced = [[u16; 4]; (ND_FRAME_LEN - UNTAGGED) / 8];

/// An announcement, cut where tags may stand.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Parts {
    addresses: Addresses,
    ethertype: u16,
    packet: Announced,
}

/// A frame in the hands of a hook.
pub(crate) trait Packet {
    /// Returns the address of the first byte, and the address behind the last readable byte.
    fn bounds(&self) -> (usize, usize);
    /// Makes that many bytes readable. Returns false if the frame is shorter.
    fn reach(&self, len: usize) -> bool;
    /// Changes the length. Pointers into the packet are invalid afterwards.
    fn resize(&self, len: usize) -> bool;
    fn store<T: NoUninit>(&self, at: usize, value: &T) -> Option<()>;
    fn store_units<const N: usize>(&self, at: usize, units: &[Unit; N]) -> Option<()>;
    /// Calls [`hides_claim`] with a stack of its own.
    fn hides_claim(&self, segment: u32) -> bool;

    /// Returns a pointer to the bytes at an offset, if they can be read. They are aligned to two
    /// bytes, as drivers align the Ethernet header.
    #[inline(always)]
    fn at<T: Copy>(&self, at: usize) -> Option<*mut T> {
        let (start, end) = self.bounds();
        let start = start + (at & OFFSET_BITS);
        (start + size_of::<T>() <= end).then_some(start as *mut T)
    }

    #[inline(always)]
    fn load<T: AnyBitPattern>(&self, at: usize) -> Option<T> {
        // SAFETY: the bytes are within the packet, and nothing writes to them meanwhile.
        self.at(at).map(|value| unsafe { *value })
    }

    #[inline(always)]
    fn units<const N: usize>(&self, at: usize) -> Option<[Unit; N]> {
        let start = self.at::<[Unit; N]>(at)?.cast::<Unit>();
        // SAFETY: the bytes are within the packet.
        Some(core::array::from_fn(|unit| unsafe { read_unit(start.wrapping_add(unit)) }))
    }

    #[inline(always)]
    fn unit(&self, at: usize) -> Option<Unit> {
        let [unit] = self.units(at)?;
        Some(unit)
    }
}

/// Reads a unit of a packet, which is aligned to two bytes. The kernel takes that, but the compiler
/// would read a unit in four pieces.
///
/// # Safety
/// The eight bytes are within the packet.
#[inline(always)]
pub(crate) unsafe fn read_unit(at: *const Unit) -> Unit {
    let unit;
    // SAFETY: as above; the instruction reads nothing else.
    unsafe { asm!("{0} = *(u64 *)({1} + 0)", out(reg) unit, in(reg) at, options(pure, readonly, nostack)) };
    unit
}

/// Writes a unit of a packet, for the same reason.
///
/// # Safety
/// As for [`read_unit`].
#[inline(always)]
pub(crate) unsafe fn write_unit(at: *mut Unit, unit: Unit) {
    // SAFETY: as above; the instruction writes nothing else.
    unsafe { asm!("*(u64 *)({0} + 0) = {1}", in(reg) at, in(reg) unit, options(nostack)) };
}

/// Returns true if a frame without tags is IPv6 and carries something else than neighbour discovery,
/// as most frames of a network with IPv6 do. `ethertype` is in wire order.
#[inline(always)]
pub(crate) fn is_other_ipv6(ethertype: u16, packet: &impl Packet) -> bool {
    ethertype == ETHERTYPE_IPV6.to_be()
        && packet.at::<FrameStart>(0).is_some_and(|frame| {
            // SAFETY: the bytes are within the packet, and nothing writes to them meanwhile.
            let byte = |at: usize| unsafe { (*frame)[at] };
            let next_header = byte(NEXT_HEADER);
            if NdHeader::is_icmpv6(next_header) {
                !NdHeader::is_nd(byte(KIND))
            } else {
                !may_hide_claim(next_header, byte(NEXT_HEADER + 1))
            }
        })
}

/// Returns true if a message of `ICMPv6` is neighbour discovery that the program reads. `start` is the
/// offset of the IPv6 header, and `load` returns two bytes of the frame.
#[inline(always)]
fn is_nd(start: usize, load: impl Fn(usize) -> Option<u16>) -> bool {
    let first = |at| load(at).map(|word| word.to_ne_bytes()[0]);
    first(start + NdHeader::KIND).is_some_and(NdHeader::is_nd) && first(start).is_some_and(NdHeader::is_ipv6)
}

/// Handles a frame of IPv6 whose header is at `start`, if it is neighbour discovery or may hide it.
/// Returns what becomes of the frame; `None` for others. `load` returns two bytes of the frame, and
/// `segment` the frame's segment if the host has it.
#[inline(always)]
pub(crate) fn handle_ipv6(
    packet: &impl Packet,
    start: usize,
    load: impl Fn(usize) -> Option<u16>,
    segment: impl FnOnce() -> Option<u32>,
) -> Option<Action> {
    let [next_header, hop_limit] = load(start + NdHeader::NEXT_HEADER)?.to_ne_bytes();
    if NdHeader::is_icmpv6(next_header) {
        return if is_nd(start, load) { Some(handle(packet, start, segment())) } else { None };
    }
    if may_hide_claim(next_header, hop_limit) {
        let segment = segment()?;
        // SAFETY: this CPU's value.
        unsafe { (*SCRATCH.get_ptr_mut(0)?).start = start };
        if packet.hides_claim(segment) {
            return Some(settle(Outcome::Unverified));
        }
    }
    None
}

/// Handles a frame of neighbour discovery whose IPv6 header is at `start`, in its segment if the host
/// has it. Returns what becomes of the frame, as it is now.
#[inline(always)]
fn handle(packet: &impl Packet, start: usize, segment: Option<u32>) -> Action {
    let Some(segment) = segment else { return settle(Outcome::NoVip) };
    receive(segment);
    let Some(scratch) = SCRATCH.get_ptr_mut(0) else { return Action::Pass };
    // SAFETY: this CPU's value. A program runs to its end before another frame on this CPU.
    let scratch = unsafe { &mut *scratch };
    scratch.start = start;
    let scratch = black_box(scratch);
    if !is_whole(packet, scratch) {
        let is_about_vip = packet.hides_claim(segment);
        return settle(if is_about_vip { Outcome::Unverified } else { Outcome::Unread });
    }
    let scratch = black_box(scratch);
    if read(packet, segment, scratch).is_none() {
        return settle(Outcome::Unread);
    }
    let scratch = black_box(scratch);
    let (start, message) = (scratch.start, &scratch.message);
    let is_intact = || message.is_intact(|at| packet.unit(start + at));
    let verdict = decide(message, &Maps::<V6, _>::of(segment, is_intact));
    let verdict = if fits(packet, start, message, &verdict) { verdict } else { unsent(&verdict) };
    count::<V6>(&verdict);
    match verdict.outcome.action() {
        Action::Pass => Action::Pass,
        Action::Drop | Action::Answer => match rewrite(packet, scratch, &verdict) {
            Some(()) => Action::Answer,
            None => Action::Drop,
        },
    }
}

/// Counts a frame about no VIP, or that cannot be read. Returns what becomes of it.
#[inline(always)]
fn settle(outcome: Outcome) -> Action {
    count_outcome::<V6>(outcome);
    outcome.action()
}

/// Returns true if the packet at `scratch.start` is neighbour discovery that names a VIP of the
/// segment. Returns true too if that cannot be found out. `unit` returns eight bytes of the frame.
///
/// The verifier does not know that offset. Otherwise it would follow each sum of the lengths of headers.
#[inline(always)]
pub(crate) fn hides_claim(segment: u32, unit: impl Fn(usize) -> Option<Unit>) -> bool {
    let Some(scratch) = SCRATCH.get_ptr(0) else { return true };
    // SAFETY: this CPU's value.
    let start = unsafe { (*scratch).start };
    vipward_common::hides_claim(start, unit, |addr| V6::vip(segment, addr).is_some())
}

/// Reads the header. Returns true if the message can be read to its end: in XDP, the first buffer of the
/// frame.
#[inline(always)]
fn is_whole(packet: &impl Packet, scratch: &mut Scratch) -> bool {
    let start = scratch.start;
    if !packet.reach(start + size_of::<NdHeader>()) {
        return false;
    }
    let Some(units) = packet.units::<HEADER_UNITS>(start) else { return false };
    scratch.header = bytemuck::cast(units);
    packet.reach(start + black_box(scratch).header.end())
}

/// Reads the message. Returns `None` if it is not valid.
#[inline(always)]
fn read(packet: &impl Packet, segment: u32, scratch: &mut Scratch) -> Option<()> {
    let start = scratch.start;
    let is_vip = |addr| V6::vip(segment, addr).is_some();
    // The second overlaps the first, since two MACs are a unit and a half.
    let [dst, src]: [[u16; 4]; 2] = [bytemuck::cast(packet.unit(0)?), bytemuck::cast(packet.unit(4)?)];
    let mac = |[a, b, c]: [u16; 3]| MacAddr(bytemuck::cast([a, b, c]));
    let addresses = [mac([dst[0], dst[1], dst[2]]), mac([src[1], src[2], src[3]])];
    scratch.message.read(addresses, &scratch.header, |at| packet.unit(start + at), is_vip)
}

/// Gives the frame the length of the one that is sent in its place. Returns false if that fails.
#[inline(always)]
fn fits(packet: &impl Packet, start: usize, message: &Message, verdict: &Verdict) -> bool {
    let len = match verdict.answer {
        Some(answer) if !message.is_probe() => message.grown(&answer),
        None if verdict.defence.is_zero() => None,
        Some(_) | None => Some(size_of::<Announced>()),
    };
    len.is_none_or(|len| packet.resize(start + len))
}

/// Returns the verdict about a frame in whose place none can be sent.
#[inline(always)]
fn unsent(verdict: &Verdict) -> Verdict {
    let outcome = if verdict.answer.is_some() { Outcome::RefusedLink } else { verdict.outcome };
    Verdict { outcome, answer: None, defence: MacAddr::ZERO, slot: verdict.slot }
}

/// Turns the frame into the one that is sent in its place. Returns `None` if none is sent.
#[inline(always)]
fn rewrite(packet: &impl Packet, scratch: &mut Scratch, verdict: &Verdict) -> Option<()> {
    let &mut Scratch { start, ref message, ref mut header, ref mut announcement } = black_box(scratch);
    if let Some(answer) = verdict.answer
        && !message.is_probe()
    {
        let (option, is_new) = (message.option(&answer), message.grown(&answer).is_some());
        let replaced = if option == 0 || is_new { 0 } else { packet.unit(start + option)? };
        let (dst, unit) = message.turn_into_answer(header, replaced, &answer);
        packet.store(0, &[dst, answer.source])?;
        packet.store_units(start, bytemuck::cast_ref::<_, [Unit; HEADER_UNITS]>(header))?;
        return if option == 0 { Some(()) } else { packet.store_units(start + option, &[unit]) };
    }
    // Nothing of a probe is sent on to all nodes in the holder's name.
    let (mac, source, vip) = match verdict.answer {
        Some(answer) => (answer.mac, answer.source, message.asked()?),
        None if verdict.defence.is_zero() => return None,
        None => (verdict.defence, verdict.defence, message.claimed()),
    };
    let frame = NdFrame::advertisement(group_mac(ALL_NODES), source, ALL_NODES, vip, mac, ND_OVERRIDE);
    *announcement = bytemuck::cast(frame);
    packet.store(0, &announcement.addresses)?;
    packet.store(start, &announcement.packet)
}
