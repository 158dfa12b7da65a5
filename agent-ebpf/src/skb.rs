//! Frames as traffic control hands them over: in socket buffers, with VLAN tags taken off.
//!
//! The program copies a frame and stores its answer, because a buffer may be in several pieces, or
//! shared with a packet socket. Writing in place would have the kernel copy every shared buffer.

use aya_ebpf::{
    bindings::{__sk_buff, TC_ACT_SHOT, TC_ACT_UNSPEC},
    helpers::generated::bpf_redirect,
    programs::TcContext,
};
use vipward_common::{Action, ArpFrame, ETHERTYPE_ARP, Outcome};

use crate::{
    judge, rewrite,
    tables::{Ingress, count_outcome},
};

/// Bits of a VLAN tag that number the VLAN (IEEE 802.1Q).
const VLAN_ID: u32 = 0x0fff;

/// Handles one frame, and returns the action of traffic control. After `TC_ACT_UNSPEC`, the programs
/// of others see the frame.
#[inline(always)]
pub(crate) fn handle(ctx: &TcContext) -> i32 {
    let skb = ctx.skb.skb;
    // SAFETY: the kernel's context is valid until the program returns.
    let protocol = unsafe { (*skb).protocol };
    if protocol != u32::from(ETHERTYPE_ARP.to_be()) || is_tagged(skb) {
        count_outcome(Outcome::NotArp);
        return TC_ACT_UNSPEC;
    }
    let Ok(mut frame) = ctx.load::<ArpFrame>(0) else {
        count_outcome(Outcome::ArpOther);
        return TC_ACT_UNSPEC;
    };
    let verdict = judge(&frame, skb);
    match verdict.outcome.action() {
        Action::Pass => TC_ACT_UNSPEC,
        Action::Drop | Action::Answer if rewrite(&mut frame, &verdict) => send(ctx, &frame),
        Action::Drop | Action::Answer => TC_ACT_SHOT,
    }
}

/// Returns whether the frame belongs to a VLAN. The number 0 only carries a priority.
#[inline(always)]
fn is_tagged(skb: *const __sk_buff) -> bool {
    // SAFETY: as above.
    unsafe { (*skb).vlan_present != 0 && (*skb).vlan_tci & VLAN_ID != 0 }
}

/// Writes a frame over the one that came, and sends it out of the same interface.
#[inline(always)]
fn send(ctx: &TcContext, frame: &ArpFrame) -> i32 {
    if ctx.store(0, frame, 0).is_err() {
        return TC_ACT_SHOT;
    }
    #[expect(clippy::cast_possible_truncation, reason = "the helper returns an int")]
    // SAFETY: the helper takes no pointer.
    let action = unsafe { bpf_redirect(ctx.skb.skb.ifindex(), 0) } as i32;
    action
}
