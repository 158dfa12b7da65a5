//! Frames as XDP hands them over: the program reads and rewrites them in place.

use aya_ebpf::{bindings::xdp_action, programs::XdpContext};
use vipward_common::{Action, ArpFrame, ETHERTYPE_ARP, Outcome};

use crate::{judge, rewrite, tables::count_outcome};

/// Handles one frame, and returns the XDP action.
#[inline(always)]
pub(crate) fn handle(ctx: &mut XdpContext) -> u32 {
    let ingress = ctx.ctx;
    let Some(frame) = frame(ctx) else {
        let outcome = if is_short_arp(ctx) { Outcome::ArpOther } else { Outcome::NotArp };
        count_outcome(outcome);
        return xdp_action::XDP_PASS;
    };
    if !frame.is_arp() {
        count_outcome(Outcome::NotArp);
        return xdp_action::XDP_PASS;
    }
    let verdict = judge(frame, ingress);
    match verdict.outcome.action() {
        Action::Pass => xdp_action::XDP_PASS,
        Action::Drop | Action::Answer if rewrite(frame, &verdict) => xdp_action::XDP_TX,
        Action::Drop | Action::Answer => xdp_action::XDP_DROP,
    }
}

/// Returns the frame if it is long enough.
#[inline(always)]
pub(crate) fn frame(ctx: &mut XdpContext) -> Option<&mut ArpFrame> {
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
    unsafe { *((start + ETHERTYPE) as *const u16) == ETHERTYPE_ARP.to_be() }
}
