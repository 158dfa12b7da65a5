//! The XDP program `vipward`: packet access, counting and rewriting around
//! `vipward_common::decide`.
#![no_std]
#![no_main]
#![expect(
    internal_features,
    reason = "core has no compare_exchange for the BPF target; the intrinsic compiles"
)]
#![feature(core_intrinsics)]
#![expect(clippy::inline_always, reason = "a call costs a frame of the small stack, and a return costs time")]

#[cfg(feature = "bench")]
mod bench;
mod tables;

use aya_ebpf::{bindings::xdp_action, macros::xdp, programs::XdpContext};
use vipward_common::{Action, ArpFrame, Outcome, decide};

use crate::tables::Maps;

/// Answers requests for held VIPs, drops and defends against conflicting ARP claims, and passes
/// everything else.
#[xdp]
fn vipward(mut ctx: XdpContext) -> u32 {
    handle(&mut ctx)
}

#[inline(always)]
fn handle(ctx: &mut XdpContext) -> u32 {
    let maps = Maps { ctx: ctx.ctx };
    let Some(frame) = frame(ctx) else {
        let outcome = if is_short_arp(ctx) { Outcome::ArpOther } else { Outcome::NotArp };
        Maps::count_outcome(outcome);
        return xdp_action::XDP_PASS;
    };
    if !frame.is_arp() {
        Maps::count_outcome(Outcome::NotArp);
        return xdp_action::XDP_PASS;
    }
    let verdict = decide(frame, &maps);
    Maps::count(&verdict);
    match verdict.outcome.action() {
        Action::Pass => xdp_action::XDP_PASS,
        Action::Drop if verdict.defence.is_zero() => xdp_action::XDP_DROP,
        Action::Drop => {
            frame.turn_into_announcement(verdict.defence);
            xdp_action::XDP_TX
        }
        Action::Answer => match verdict.answer {
            Some(answer) => {
                frame.turn_into_reply(answer.mac, answer.source);
                xdp_action::XDP_TX
            }
            None => xdp_action::XDP_DROP,
        },
    }
}

/// Returns the frame if it is long enough.
#[inline(always)]
fn frame(ctx: &mut XdpContext) -> Option<&mut ArpFrame> {
    let start = ctx.data();
    if start + size_of::<ArpFrame>() > ctx.data_end() {
        return None;
    }
    // SAFETY: the bytes are within the packet, which belongs to this program until it returns.
    // Drivers align the Ethernet header to at least two bytes. Every bit pattern is a frame.
    Some(unsafe { &mut *(start as *mut ArpFrame) })
}

/// Returns whether the `EtherType` of a frame that is too short is ARP.
#[inline(always)]
fn is_short_arp(ctx: &XdpContext) -> bool {
    const ETHERTYPE: usize = 12;
    let start = ctx.data();
    if start + ETHERTYPE + 2 > ctx.data_end() {
        return false;
    }
    // SAFETY: the two bytes are within the packet; aligned as above.
    unsafe { *((start + ETHERTYPE) as *const u16) == vipward_common::ETHERTYPE_ARP.to_be() }
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    // Never reached: nothing here can panic, or the verifier would see an endless loop and refuse
    // the program.
    loop {}
}

#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";
