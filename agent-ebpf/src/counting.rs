//! Counts frames: by outcome, by VIP and by segment.

use aya_ebpf::{btf_maps::PerCpuArray, macros::btf_map};
use vipward_common::{Outcome, RECEIVED_SLOTS, VIP_COUNTER_SLOTS, Verdict, VipCounters, received_slot};

use crate::family::Family;

#[btf_map(name = "received")]
static RECEIVED: PerCpuArray<u64, { RECEIVED_SLOTS as usize }> = PerCpuArray::new();
#[btf_map(name = "vip_counters")]
static VIP_COUNTERS: PerCpuArray<VipCounters, { VIP_COUNTER_SLOTS as usize }> = PerCpuArray::new();

/// Adds a frame to the counter of its outcome, and to the VIP's own.
#[inline(always)]
pub(crate) fn count<F: Family>(verdict: &Verdict) {
    count_outcome::<F>(verdict.outcome);
    if !verdict.defence.is_zero()
        && let Some(counters) = F::counters()
    {
        // SAFETY: this CPU's value.
        unsafe { (*counters).claims_defended += 1 };
    }
    // The map has no slot for a frame without a VIP.
    let Some(counters) = VIP_COUNTERS.get_ptr_mut(verdict.slot) else { return };
    // SAFETY: the pointer is to this CPU's value. A program runs to its end before another frame on
    // this CPU.
    let counters = unsafe { &mut *counters };
    match verdict.outcome {
        Outcome::Answered | Outcome::AnsweredInGrace | Outcome::AnsweredHandover => {
            counters.answered += 1;
        }
        Outcome::ClaimConflict => counters.conflicts += 1,
        Outcome::SuppressedDeadline
        | Outcome::SuppressedForeign
        | Outcome::RefusedDestination
        | Outcome::RefusedSender
        | Outcome::RefusedLink => counters.suppressed += 1,
        Outcome::Unrelated
        | Outcome::Unread
        | Outcome::Unverified
        | Outcome::NoVip
        | Outcome::ClaimOwn
        | Outcome::ClaimContested
        | Outcome::ClaimYielded
        | Outcome::ClaimMoved
        | Outcome::ClaimSighted
        | Outcome::ClaimPassed => {}
    }
}

#[inline(always)]
pub(crate) fn count_outcome<F: Family>(outcome: Outcome) {
    if let Some(counters) = F::counters() {
        // SAFETY: `Counters` has one u64 per outcome, in order (asserted there). It is this
        // CPU's value.
        unsafe { *counters.cast::<u64>().add(outcome as usize) += 1 };
    }
}

/// Counts a frame of ARP or neighbour discovery for its segment, whatever becomes of it. The agent
/// compares the count with what the kernel receives there.
#[inline(always)]
pub(crate) fn receive(ifindex: u32) {
    if let Some(frames) = RECEIVED.get_ptr_mut(received_slot(ifindex)) {
        // SAFETY: this CPU's value.
        unsafe { *frames += 1 };
    }
}
