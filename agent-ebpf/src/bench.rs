//! Baselines, a generator and a receiver for measurements, in the same object as the program that
//! they are compared with, so that they are compiled and loaded alike.
#![expect(clippy::needless_pass_by_value, reason = "the macros pass the context")]

use aya_ebpf::{
    bindings::{TC_ACT_UNSPEC, xdp_action},
    btf_maps::PerCpuArray,
    macros::{btf_map, classifier, xdp},
    programs::{TcContext, XdpContext},
};
use vipward_common::{ArpFrame, MacAddr, OPER_REQUEST};

use crate::{
    skb,
    tables::segment,
    xdp::{frame, handle},
};

/// The requests to generate.
#[repr(C)]
struct Ask {
    /// Ethernet destination.
    dst: MacAddr,
    /// Ethernet source, and sha of the requests.
    src: MacAddr,
    /// spa of the first requester.
    spa: [u8; 4],
    /// The first VIP.
    tpa: [u8; 4],
    /// The number of VIPs, taken in turn by a stride; a power of two.
    vips: u32,
    /// The number of requesters; a power of two.
    askers: u32,
    /// Every n-th frame is an intruder's; a power of two, or 0 for none.
    intruder_every: u32,
    /// The intruder: 0 ARP about no VIP, 1 an ARP claim on the first VIP, 2 the same from ever new
    /// MACs.
    intruder: u32,
    /// The number of frames made so far on this CPU.
    made: u64,
}

/// The receiver's counts.
#[repr(C)]
struct Seen {
    replies: u64,
    others: u64,
}

#[btf_map(name = "bench_ask")]
static ASK: PerCpuArray<Ask, 1> = PerCpuArray::new();
#[btf_map(name = "bench_seen")]
static SEEN: PerCpuArray<Seen, 1> = PerCpuArray::new();

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
    write_request(&ctx);
    xdp_action::XDP_TX
}

/// Writes a request into the frame and runs the whole of `vipward`, so that each repetition is a
/// hit.
#[xdp]
#[inline(always)]
fn bench_answer(mut ctx: XdpContext) -> u32 {
    write_request(&ctx);
    handle(&mut ctx, segment)
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
    store_request(&ctx);
    TC_ACT_UNSPEC
}

/// Stores a request over the frame and runs the whole of `vipward_tc`, so that each repetition is a
/// hit.
#[classifier]
#[inline(always)]
fn bench_answer_tc(ctx: TcContext) -> i32 {
    store_request(&ctx);
    skb::handle(&ctx)
}

#[inline(always)]
fn store_request(ctx: &TcContext) {
    let Some(request) = next_request() else { return };
    // A frame that is too short is measured as it is.
    let _ = ctx.store(0, &request, 0);
}

/// Writes a request into the frame and sends it out of the interface that the frame came in by.
#[xdp]
#[inline(always)]
fn bench_generate(ctx: XdpContext) -> u32 {
    write_request(&ctx);
    xdp_action::XDP_TX
}

/// Counts the frames that come back.
#[xdp]
#[inline(always)]
fn bench_receive(ctx: XdpContext) -> u32 {
    let Some(seen) = SEEN.get_ptr_mut(0) else { return xdp_action::XDP_PASS };
    // SAFETY: this CPU's value of the map.
    let seen = unsafe { &mut *seen };
    // SAFETY: the bytes are within the packet.
    match frame(&ctx, 0).map(|frame| unsafe { &*frame }) {
        Some(frame) if frame.is_arp() && !frame.is_request() => seen.replies += 1,
        _ => seen.others += 1,
    }
    xdp_action::XDP_DROP
}

#[inline(always)]
fn write_request(ctx: &XdpContext) {
    let Some(frame) = frame(ctx, 0) else { return };
    if let Some(request) = next_request() {
        // SAFETY: the bytes are within the packet.
        unsafe { frame.write(request) };
    }
}

/// Returns the next request of this CPU, or the intruder's frame whose turn it is.
#[inline(always)]
fn next_request() -> Option<ArpFrame> {
    /// Odd, so that every VIP is met before one is met again, and far from the one before.
    const STRIDE: u32 = 40_503;

    let ask = ASK.get_ptr_mut(0)?;
    // SAFETY: this CPU's value of the map.
    let ask = unsafe { &mut *ask };
    #[expect(clippy::cast_possible_truncation, reason = "only the low bits choose")]
    let made = ask.made as u32;
    ask.made += 1;
    if ask.intruder_every != 0 && made & (ask.intruder_every - 1) == 0 {
        return Some(intruder(ask, made));
    }
    let asker = made & (ask.askers.wrapping_sub(1));
    let vip = made.wrapping_mul(STRIDE) & (ask.vips.wrapping_sub(1));
    let spa = (u32::from_be_bytes(ask.spa) + asker).to_be_bytes();
    let tpa = (u32::from_be_bytes(ask.tpa) + vip).to_be_bytes();
    Some(ArpFrame::new(ask.dst, ask.src, OPER_REQUEST, ask.src, spa, MacAddr::ZERO, tpa))
}

/// Returns a gratuitous request that asks for no VIP.
#[inline(always)]
fn intruder(ask: &Ask, made: u32) -> ArpFrame {
    const ELSEWHERE: [u8; 4] = [192, 0, 2, 1];

    let mut mac = ask.src;
    if ask.intruder == 2 {
        let [a, b, c, d] = made.to_be_bytes();
        mac = MacAddr([0x02, 0xf0, a, b, c, d]);
    }
    let claimed = if ask.intruder == 0 { ELSEWHERE } else { ask.tpa };
    ArpFrame::new(ask.dst, mac, OPER_REQUEST, mac, claimed, MacAddr::ZERO, claimed)
}
