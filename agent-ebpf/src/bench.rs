//! Baselines, a generator and a receiver for measurements. They are in the same object as the program
//! that they are compared with, so that they are compiled and loaded alike.
#![expect(clippy::needless_pass_by_value, reason = "the macros pass the context")]

use aya_ebpf::{
    bindings::{__sk_buff, TC_ACT_UNSPEC, xdp_action},
    btf_maps::{Array, PerCpuArray},
    macros::{btf_map, classifier, xdp},
    programs::{TcContext, XdpContext},
};
use vipward_common::{ArpFrame, FRAME_LEN, ND_FRAME_LEN, NdFrame, TYPE_ADVERTISEMENT, WIRE_FRAME_LEN};

use crate::{
    nd::Packet,
    skb,
    tables::segment,
    xdp::{frame, handle},
};

/// A frame of neighbour discovery, the longest of those that are generated.
type Template = [u16; ND_FRAME_LEN / 2];

/// The requests to generate. Their addresses end in 16 bits that count from zero.
#[repr(C)]
struct Ask {
    /// The first asker's request for the first VIP.
    request: Template,
    /// The first intruder's frame.
    intruder: Template,
    /// The number of VIPs, taken in turn by a stride; a power of two.
    vips: u32,
    /// The number of askers; a power of two.
    askers: u32,
    /// Every n-th frame is an intruder's; a power of two, or 0 for none.
    intruder_every: u32,
    /// 1 if every intruder has a MAC of its own, which ends in 16 bits that count from zero.
    intruders_differ: u32,
    /// 1 for neighbour discovery, 0 for ARP.
    is_nd: u32,
    /// The number of frames made so far on this CPU.
    made: u32,
}

/// The places of the words that differ between frames. They are zero in the template.
struct Places {
    asker: &'static [usize],
    vip: &'static [usize],
    mac: &'static [usize],
    /// The checksum, of the words behind the Ethernet addresses.
    checksum: Option<usize>,
}

/// The words that differ from the template, in wire order.
enum Change {
    Nothing,
    Request { asker: u16, vip: u16 },
    Mac(u16),
}

/// The words before this one are not part of the IPv6 packet.
const SUMMED_FROM: usize = 7;
const ARP: Places = Places { asker: &[15], vip: &[20], mac: &[5, 13], checksum: None };
const ND: Places = Places { asker: &[18], vip: &[2, 26, 38], mac: &[5, 42], checksum: Some(28) };

#[repr(C)]
struct Seen {
    replies: u64,
    others: u64,
}

#[btf_map(name = "bench_ask")]
static ASK: PerCpuArray<Ask, 1> = PerCpuArray::new();
#[btf_map(name = "bench_seen")]
static SEEN: PerCpuArray<Seen, 1> = PerCpuArray::new();

/// The ping to write. Its answer takes the ping's place in the frame, so each repetition needs it anew.
#[btf_map(name = "bench_ping_frame")]
static PING: Array<[u16; WIRE_FRAME_LEN / 2], 1> = Array::new();

/// Passes every frame: the least that an XDP program can do.
#[xdp]
#[inline(always)]
fn bench_pass(_: XdpContext) -> u32 {
    xdp_action::XDP_PASS
}

/// Sends every frame back as it came: the bare reflector.
#[xdp]
#[inline(always)]
fn bench_tx(_: XdpContext) -> u32 {
    xdp_action::XDP_TX
}

/// Sends every frame back with its Ethernet addresses exchanged, as a reflector on a wire must.
#[xdp]
#[inline(always)]
fn bench_reflect(ctx: XdpContext) -> u32 {
    // SAFETY: the bytes are within the packet.
    match frame(&ctx, 0).map(|frame| unsafe { &mut *frame }) {
        Some(frame) => {
            core::mem::swap(&mut frame.dst, &mut frame.src);
            xdp_action::XDP_TX
        }
        None => xdp_action::XDP_PASS,
    }
}

/// Writes a request into the frame and sends it back: the baseline of `bench_answer`.
#[xdp]
#[inline(always)]
fn bench_write_tx(ctx: XdpContext) -> u32 {
    write_next(&ctx);
    xdp_action::XDP_TX
}

/// Writes a request into the frame and runs the whole of `vipward`, so that each repetition is a
/// hit.
#[xdp]
#[inline(always)]
fn bench_answer(mut ctx: XdpContext) -> u32 {
    write_next(&ctx);
    handle(&mut ctx, segment)
}

/// Writes a ping into the frame and sends it back: the baseline of `bench_ping`.
#[xdp]
#[inline(always)]
fn bench_write_ping(ctx: XdpContext) -> u32 {
    write_ping(&ctx);
    xdp_action::XDP_TX
}

/// Writes a ping into the frame and runs the whole of `vipward`.
#[xdp]
#[inline(always)]
fn bench_ping(mut ctx: XdpContext) -> u32 {
    write_ping(&ctx);
    handle(&mut ctx, segment)
}

#[inline(always)]
fn write_ping(packet: &impl Packet) {
    // SAFETY: valid map value, which is only read. A frame that is too short is measured as it is.
    let _ = PING.get_ptr(0).and_then(|ping| unsafe { packet.store(0, &*ping) });
}

/// Passes every frame on to the next program: the least that a program of traffic control can do.
#[classifier]
#[inline(always)]
fn bench_pass_tc(_: TcContext) -> i32 {
    TC_ACT_UNSPEC
}

/// Stores a request over the frame and passes it on: the baseline of `bench_answer_tc`.
#[classifier]
#[inline(always)]
fn bench_write_tc(ctx: TcContext) -> i32 {
    write_next_tc(ctx.skb.skb);
    TC_ACT_UNSPEC
}

/// Stores a request over the frame and runs the whole of `vipward_tc`, so that each repetition is a
/// hit.
#[classifier]
#[inline(always)]
fn bench_answer_tc(ctx: TcContext) -> i32 {
    write_next_tc(ctx.skb.skb);
    skb::handle(&ctx)
}

/// Writes the next request with a stack of its own: `vipward_tc` needs what one stack has.
#[inline(never)]
fn write_next_tc(skb: *mut __sk_buff) {
    write_next(&TcContext::new(skb));
}

/// Writes a request into the frame and sends it out of the interface that the frame came in by.
#[xdp]
#[inline(always)]
fn bench_generate(ctx: XdpContext) -> u32 {
    write_next(&ctx);
    xdp_action::XDP_TX
}

/// Counts the frames that come back.
#[xdp]
#[inline(always)]
fn bench_receive(ctx: XdpContext) -> u32 {
    let Some(seen) = SEEN.get_ptr_mut(0) else { return xdp_action::XDP_PASS };
    // SAFETY: this CPU's value of the map.
    let seen = unsafe { &mut *seen };
    if is_reply(&ctx) {
        seen.replies += 1;
    } else {
        seen.others += 1;
    }
    xdp_action::XDP_DROP
}

/// Returns true if the frame is a reply of ARP or an advertisement.
#[inline(always)]
fn is_reply(ctx: &XdpContext) -> bool {
    ctx.load::<ArpFrame>(0).is_some_and(|frame| frame.is_arp() && !frame.is_request())
        || ctx.load::<NdFrame>(0).is_some_and(|frame| frame.kind() == TYPE_ADVERTISEMENT)
}

/// Writes the next request of this CPU into the frame, or the intruder's frame whose turn it is.
#[inline(always)]
fn write_next(packet: &impl Packet) {
    /// Odd, so that every VIP is met before one is met again, and far from the one before.
    const STRIDE: u32 = 40_503;

    let Some(ask) = ASK.get_ptr_mut(0) else { return };
    // SAFETY: this CPU's value of the map.
    let ask = unsafe { &mut *ask };
    let made = ask.made;
    ask.made = made.wrapping_add(1);
    let is_intruder = ask.intruder_every != 0 && made & (ask.intruder_every - 1) == 0;
    let (template, change) = if !is_intruder {
        let vip = made.wrapping_mul(STRIDE) & ask.vips.wrapping_sub(1);
        (&ask.request, Change::Request { asker: word(made & ask.askers.wrapping_sub(1)), vip: word(vip) })
    } else if ask.intruders_differ == 0 {
        (&ask.intruder, Change::Nothing)
    } else {
        (&ask.intruder, Change::Mac(word(made)))
    };
    // A frame that is too short is measured as it is.
    let _ = if ask.is_nd == 0 {
        write::<{ FRAME_LEN / 2 }>(packet, template, &ARP, change)
    } else {
        write::<{ ND_FRAME_LEN / 2 }>(packet, template, &ND, change)
    };
}

/// The low 16 bits, in wire order.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "the low bits are cut out on purpose")]
fn word(number: u32) -> u16 {
    (number as u16).to_be()
}

#[inline(always)]
fn write<const WORDS: usize>(
    packet: &impl Packet,
    template: &Template,
    places: &Places,
    change: Change,
) -> Option<()> {
    let mut frame: [u16; WORDS] = *template.first_chunk()?;
    let mut added = 0;
    let mut set = |words: &[usize], word: u16| {
        for place in words {
            frame[*place] = word;
            added += if *place < SUMMED_FROM { 0 } else { u32::from(word) };
        }
    };
    match change {
        Change::Nothing => {}
        Change::Request { asker, vip } => {
            set(places.asker, asker);
            set(places.vip, vip);
        }
        Change::Mac(mac) => set(places.mac, mac),
    }
    if let Some(place) = places.checksum {
        frame[place] = sum_with(frame[place], added);
    }
    packet.store(0, &frame)
}

/// Returns a checksum after words were added (RFC 1624), no more than four.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "the halves are cut out on purpose")]
fn sum_with(checksum: u16, added: u32) -> u16 {
    let sum = u32::from(!checksum) + added;
    let sum = (sum & 0xffff) + (sum >> 16);
    !(((sum & 0xffff) + (sum >> 16)) as u16)
}
