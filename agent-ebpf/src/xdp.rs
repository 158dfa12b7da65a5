//! Frames as XDP hands them over: the program reads and rewrites them in place.

use aya_ebpf::{
    bindings::{xdp_action, xdp_md},
    helpers::generated::bpf_xdp_adjust_tail,
    programs::XdpContext,
};
use bytemuck::NoUninit;
use vipward_common::{Action, ArpFrame, Outcome, Unit, VlanTags};

use crate::{
    arp::{judge, rewrite},
    counting::count_outcome,
    family::V4,
    nd::{self, Packet, write_unit},
    tags::{self, Addresses, ETHERTYPE, MAX_TAGS, Protocol, TAG},
    wire,
};

/// A VLAN tag: its `EtherType` and its control information.
type Tag = [u16; TAG / 2];

/// Handles one frame, and returns the XDP action. `segment` returns the interface of the segment to
/// which frames with these tags on an interface belong, if the host has it.
#[inline(always)]
pub(crate) fn handle(ctx: &mut XdpContext, segment: impl Fn(u32, VlanTags) -> Option<u32>) -> u32 {
    let Some(ethertype) = ctx.load(ETHERTYPE) else { return pass(Outcome::Unrelated) };
    if nd::is_other_ipv6(ethertype, ctx) {
        return pass(Outcome::Unrelated);
    }
    let read = tags::read(u16::from_be(ethertype), VlanTags::NONE, MAX_TAGS, |at| ctx.load(at));
    let (protocol, tags, tags_len) = match read {
        Ok(read) => read,
        Err(Outcome::Unverified) => return refuse(),
        Err(_) => return pass(Outcome::Unrelated),
    };
    let start = ETHERTYPE + tags_len + size_of::<u16>();
    // SAFETY: the kernel's context is valid until the program returns.
    let ifindex = unsafe { (*ctx.ctx).ingress_ifindex };
    if let Protocol::Wire = protocol {
        let Some(segment) = segment(ifindex, tags) else { return pass(Outcome::Unrelated) };
        return handle_wire(ctx.ctx, start, segment);
    }
    if let Protocol::Ipv6 = protocol {
        return match nd::handle_ipv6(ctx, start, |at| ctx.load(at), || segment(ifindex, tags)) {
            Some(of) => action(of),
            None => pass(Outcome::Unrelated),
        };
    }
    let Some(frame) = frame(ctx, tags_len) else { return pass(Outcome::Unread) };
    let Some(segment) = segment(ifindex, tags) else { return pass(Outcome::NoVip) };
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

/// Handles a frame of the failure detector. It has a stack of its own.
#[inline(never)]
fn handle_wire(ctx: *mut xdp_md, start: usize, segment: u32) -> u32 {
    action(wire::handle(&XdpContext::new(ctx), start, segment))
}

/// Returns the XDP action for the fate of a frame that is in the packet already.
#[inline(always)]
fn action(of: Action) -> u32 {
    match of {
        Action::Pass => xdp_action::XDP_PASS,
        Action::Drop => xdp_action::XDP_DROP,
        Action::Answer => xdp_action::XDP_TX,
    }
}

#[inline(always)]
fn pass(outcome: Outcome) -> u32 {
    count_outcome::<V4>(outcome);
    xdp_action::XDP_PASS
}

/// Counts a frame with too many tags, and drops it. Inline, it would cost each frame that passes.
#[inline(never)]
fn refuse() -> u32 {
    count_outcome::<V4>(Outcome::Unverified);
    xdp_action::XDP_DROP
}

/// Looks for a claim with a stack of its own.
#[inline(never)]
fn hides_claim(ctx: *mut xdp_md, segment: u32) -> bool {
    let ctx = XdpContext::new(ctx);
    nd::hides_claim(segment, |at| ctx.unit(at))
}

impl Packet for XdpContext {
    #[inline(always)]
    fn hides_claim(&self, segment: u32) -> bool {
        hides_claim(self.ctx, segment)
    }

    #[inline(always)]
    fn bounds(&self) -> (usize, usize) {
        (self.data(), self.data_end())
    }

    #[inline(always)]
    fn reach(&self, len: usize) -> bool {
        len <= self.data_end() - self.data()
    }

    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, clippy::cast_possible_wrap, reason = "frames are shorter")]
    fn resize(&self, len: usize) -> bool {
        let by = len as i32 - (self.data_end() - self.data()) as i32;
        // SAFETY: the context is valid until the program returns.
        let resized = by == 0 || unsafe { bpf_xdp_adjust_tail(self.ctx, by) } == 0;
        // The rest of a frame in several buffers is not in this one.
        resized && self.reach(len)
    }

    #[inline(always)]
    fn store<T: NoUninit>(&self, at: usize, value: &T) -> Option<()> {
        // SAFETY: the bytes are within the packet, and nothing refers to them now.
        self.at(at).map(|to| unsafe { *to = *value })
    }

    #[inline(always)]
    fn store_units<const N: usize>(&self, at: usize, units: &[Unit; N]) -> Option<()> {
        let start = self.at::<[Unit; N]>(at)?.cast::<Unit>();
        // SAFETY: as above.
        (0..N).for_each(|unit| unsafe { write_unit(start.wrapping_add(unit), units[unit]) });
        Some(())
    }
}

/// Returns the frame without its first bytes, if it is long enough. The pointer reaches the whole
/// packet.
#[inline(always)]
pub(crate) fn frame(ctx: &XdpContext, skipped: usize) -> Option<*mut ArpFrame> {
    ctx.at(skipped)
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
