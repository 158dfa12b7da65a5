//! The programs around `vipward_common::decide`: `vipward` and `vipward_plain` in XDP, and
//! `vipward_tc` in traffic control.
#![no_std]
#![no_main]
#![expect(
    internal_features,
    reason = "core has no compare_exchange for the BPF target; the intrinsic compiles"
)]
#![feature(core_intrinsics, asm_experimental_arch)]
#![expect(
    clippy::inline_always,
    reason = "a call costs a frame of the small stack, and time: also that of a macro's function"
)]

mod arp;
mod atomic;
#[cfg(feature = "bench")]
mod bench;
mod counting;
mod family;
mod nd;
mod skb;
mod tables;
mod tags;
mod wire;
mod xdp;

use aya_ebpf::{
    macros::{classifier, xdp},
    programs::{TcContext, XdpContext},
};

/// Answers requests for held VIPs, drops and defends against conflicting ARP claims, and passes
/// everything else. Drivers may hand it frames of several buffers; it reads the first.
#[xdp(frags)]
#[inline(always)]
fn vipward(mut ctx: XdpContext) -> u32 {
    xdp::handle(&mut ctx, tables::segment)
}

/// Does the same on kernels before 5.18, which refuse a program for frames of several buffers.
#[xdp]
#[inline(always)]
fn vipward_plain(mut ctx: XdpContext) -> u32 {
    xdp::handle(&mut ctx, tables::segment)
}

/// Does the same for a bond, in the drivers of its ports.
#[xdp]
#[inline(always)]
fn vipward_ports(mut ctx: XdpContext) -> u32 {
    xdp::handle(&mut ctx, tables::segment_of_port)
}

/// Does the same at the ingress of traffic control, beside the programs of others.
#[classifier]
#[inline(always)]
#[expect(clippy::needless_pass_by_value, reason = "the macro passes the context")]
fn vipward_tc(ctx: TcContext) -> i32 {
    skb::handle(&ctx)
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
