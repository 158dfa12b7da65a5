//! Frames as XDP hands them over: the program reads and rewrites them in place.

use aya_ebpf::{bindings::xdp_action, programs::XdpContext};
use vipward_common::{Action, ArpFrame, Outcome, VlanTags};

use crate::{
    judge, rewrite,
    tables::count_outcome,
    tags::{self, Addresses, ETHERTYPE, MAX_TAGS, TAG},
};

/// A VLAN tag: its `EtherType` and its control information.
type Tag = [u16; TAG / 2];

/// Handles one frame, and returns the XDP action. `segment` returns the interface of the segment to
/// which frames with these tags on an interface belong, if the host has it.
#[inline(always)]
pub(crate) fn handle(ctx: &mut XdpContext, segment: impl Fn(u32, VlanTags) -> Option<u32>) -> u32 {
    let Some((tags, tags_len)) = tags_before_arp(ctx) else { return pass(Outcome::NotArp) };
    // SAFETY: the kernel's context is valid until the program returns.
    let ifindex = unsafe { (*ctx.ctx).ingress_ifindex };
    let Some(frame) = frame(ctx, tags_len) else { return pass(Outcome::ArpOther) };
    let Some(segment) = segment(ifindex, tags) else { return pass(Outcome::ArpNoVip) };
    // SAFETY: the Ethernet addresses and `tags_len` bytes of tags are before the frame's `EtherType`.
    let tags = unsafe { take_tags_off(frame, tags_len) };
    // SAFETY: `frame` found the bytes within the packet, and nothing else refers to them.
    let arp = unsafe { &mut *frame };
    let verdict = judge(arp, segment);
    let action = match verdict.outcome.action() {
        Action::Pass => xdp_action::XDP_PASS,
        Action::Drop | Action::Answer if rewrite(arp, &verdict) => xdp_action::XDP_TX,
        Action::Drop | Action::Answer => xdp_action::XDP_DROP,
    };
    // SAFETY: as above.
    unsafe { put_tags_back(frame, tags_len, tags) };
    action
}

/// Counts a frame, and passes it.
#[inline(always)]
fn pass(outcome: Outcome) -> u32 {
    count_outcome(outcome);
    xdp_action::XDP_PASS
}

/// Returns the VLAN tags of an ARP frame, and their size in bytes.
#[inline(always)]
fn tags_before_arp(ctx: &XdpContext) -> Option<(VlanTags, usize)> {
    let ethertype = u16::from_be(load(ctx, ETHERTYPE)?);
    tags::before_arp(ethertype, VlanTags::NONE, MAX_TAGS, |at| load(ctx, at))
}

/// Returns two bytes of the frame.
#[inline(always)]
fn load(ctx: &XdpContext, at: usize) -> Option<u16> {
    let start = ctx.data() + at;
    if start + size_of::<u16>() > ctx.data_end() {
        return None;
    }
    // SAFETY: the bytes are within the packet, which belongs to this program until it returns.
    // Drivers align the Ethernet header to at least two bytes.
    Some(unsafe { *(start as *const u16) })
}

/// Returns the frame without its first bytes, if it is long enough. The pointer reaches the whole
/// packet. Drivers align the Ethernet header to at least two bytes, and every bit pattern is a frame.
#[inline(always)]
pub(crate) fn frame(ctx: &XdpContext, skipped: usize) -> Option<*mut ArpFrame> {
    let start = ctx.data() + skipped;
    (start + size_of::<ArpFrame>() <= ctx.data_end()).then_some(start as *mut ArpFrame)
}

/// Moves the Ethernet addresses over the tags, so that `frame` is what it was without them. Returns
/// the tags.
///
/// # Safety
/// The packet has its Ethernet addresses and `tags_len` bytes of tags where `frame` has its addresses
/// and before.
#[inline(always)]
unsafe fn take_tags_off(frame: *mut ArpFrame, tags_len: usize) -> [Tag; MAX_TAGS] {
    let mut tags = [[0; 2]; MAX_TAGS];
    if tags_len != 0 {
        let addresses = frame.cast::<Addresses>();
        // SAFETY: as above.
        unsafe {
            let start = addresses.byte_sub(tags_len);
            tags = start.add(1).cast::<[Tag; MAX_TAGS]>().read();
            addresses.write(start.read());
        }
    }
    tags
}

/// Moves the Ethernet addresses to the start of the packet, and puts the tags after them.
///
/// # Safety
/// As for [`take_tags_off`].
#[inline(always)]
unsafe fn put_tags_back(frame: *mut ArpFrame, tags_len: usize, [outer, inner]: [Tag; MAX_TAGS]) {
    if tags_len != 0 {
        let addresses = frame.cast::<Addresses>();
        // SAFETY: as above.
        unsafe {
            let start = addresses.byte_sub(tags_len);
            start.write(addresses.read());
            let tags = start.add(1).cast::<Tag>();
            tags.write(outer);
            if tags_len == MAX_TAGS * TAG {
                tags.add(1).write(inner);
            }
        }
    }
}
