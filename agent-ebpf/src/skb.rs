//! Frames as traffic control hands them over: in socket buffers, with the outer VLAN tag taken off.
//!
//! The program copies a frame and stores its answer, because a buffer may be in several pieces, or
//! shared with a packet socket. Writing in place would have the kernel copy every shared buffer.

use aya_ebpf::{
    bindings::{__sk_buff, TC_ACT_SHOT, TC_ACT_UNSPEC},
    helpers::generated::{bpf_redirect, bpf_skb_change_tail, bpf_skb_pull_data},
    programs::TcContext,
};
use bytemuck::{NoUninit, Pod, Zeroable};
use vipward_common::{Action, ArpFrame, Outcome, Unit, VlanTag, VlanTags};

use crate::{
    arp::{judge, rewrite},
    counting::count_outcome,
    family::V4,
    nd::{self, Packet},
    tables::segment,
    tags::{self, Addresses, ETHERTYPE, MAX_TAGS, Protocol},
    wire,
};

/// An ARP frame, cut where tags may stand.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Parts {
    addresses: Addresses,
    rest: [u16; (size_of::<ArpFrame>() - ETHERTYPE) / 2],
}

/// Handles one frame, and returns the action of traffic control. After `TC_ACT_UNSPEC`, the programs
/// of others see the frame.
#[inline(always)]
pub(crate) fn handle(ctx: &TcContext) -> i32 {
    let skb = ctx.skb.skb;
    // SAFETY: the kernel's context is valid until the program returns.
    #[expect(clippy::cast_possible_truncation, reason = "the kernel's field has 16 bits")]
    let ethertype = unsafe { (*skb).protocol as u16 };
    if nd::is_other_ipv6(ethertype, ctx) {
        return pass(Outcome::Unrelated);
    }
    let (protocol, tags, tags_len) = match read_tags(ctx, skb) {
        Ok(read) => read,
        Err(Outcome::Unverified) => return refuse(),
        Err(_) => return pass(Outcome::Unrelated),
    };
    let start = ETHERTYPE + tags_len + size_of::<u16>();
    // Not `ingress_ifindex`: that is the port of a bond, where the program runs on the bond.
    // SAFETY: the kernel's context is valid until the program returns.
    let ifindex = unsafe { (*skb).ifindex };
    if let Protocol::Wire = protocol {
        let Some(segment) = segment(ifindex, tags) else { return pass(Outcome::Unrelated) };
        return action(handle_wire(skb, start, segment), ifindex);
    }
    if let Protocol::Ipv6 = protocol {
        return match nd::handle_ipv6(ctx, start, |at| word(ctx, at), || segment(ifindex, tags)) {
            Some(of) => action(of, ifindex),
            None => pass(Outcome::Unrelated),
        };
    }
    let Some(mut frame) = load(ctx, tags_len) else { return pass(Outcome::Unread) };
    let Some(segment) = segment(ifindex, tags) else { return pass(Outcome::NoVip) };
    let verdict = judge(&frame, segment);
    match verdict.outcome.action() {
        Action::Pass => TC_ACT_UNSPEC,
        Action::Drop | Action::Answer if rewrite(&mut frame, &verdict) => {
            if store(ctx, tags_len, &frame).is_none() {
                return TC_ACT_SHOT;
            }
            send(ifindex)
        }
        Action::Drop | Action::Answer => TC_ACT_SHOT,
    }
}

/// Handles a frame of the failure detector. It has a stack of its own.
#[inline(never)]
fn handle_wire(skb: *mut __sk_buff, start: usize, segment: u32) -> Action {
    wire::handle(&TcContext::new(skb), start, segment)
}

/// Returns the action of traffic control for the fate of a frame that is in the buffer already.
#[inline(always)]
fn action(of: Action, ifindex: u32) -> i32 {
    match of {
        Action::Pass => TC_ACT_UNSPEC,
        Action::Drop => TC_ACT_SHOT,
        Action::Answer => send(ifindex),
    }
}

#[inline(always)]
fn pass(outcome: Outcome) -> i32 {
    count_outcome::<V4>(outcome);
    TC_ACT_UNSPEC
}

/// Counts a frame with too many tags, and drops it. Inline, it would cost each frame that passes.
#[inline(never)]
fn refuse() -> i32 {
    count_outcome::<V4>(Outcome::Unverified);
    TC_ACT_SHOT
}

/// Looks for a claim with a stack of its own.
#[inline(never)]
fn hides_claim(skb: *mut __sk_buff, segment: u32) -> bool {
    let ctx = TcContext::new(skb);
    let unit = |at| if ctx.reach(at + size_of::<Unit>()) { ctx.unit(at) } else { None };
    nd::hides_claim(segment, unit)
}

/// Sends the frame out of the interface that it came in by.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "the helper returns an int")]
fn send(ifindex: u32) -> i32 {
    // SAFETY: the helper takes no pointer.
    unsafe { bpf_redirect(ifindex, 0) as i32 }
}

/// The program reads the linear part of the buffer in place. It pulls what it reads of the rest into
/// that part, as the kernel does next. It writes through the helper.
impl Packet for TcContext {
    #[inline(always)]
    fn hides_claim(&self, segment: u32) -> bool {
        hides_claim(self.skb.skb, segment)
    }

    #[inline(always)]
    fn bounds(&self) -> (usize, usize) {
        (self.data(), self.data_end())
    }

    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "the kernel's length has 32 bits")]
    fn reach(&self, len: usize) -> bool {
        // SAFETY: the context is valid until the program returns. The helper fails for what the
        // frame does not have.
        len <= self.data_end() - self.data() || unsafe { bpf_skb_pull_data(self.skb.skb, len as u32) } == 0
    }

    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "the kernel's length has 32 bits")]
    fn resize(&self, len: usize) -> bool {
        // SAFETY: as above.
        unsafe { bpf_skb_change_tail(self.skb.skb, len as u32, 0) == 0 }
    }

    #[inline(always)]
    fn store<T: NoUninit>(&self, at: usize, value: &T) -> Option<()> {
        TcContext::store(self, at, value, 0).ok()
    }

    #[inline(always)]
    fn store_units<const N: usize>(&self, at: usize, units: &[Unit; N]) -> Option<()> {
        Packet::store(self, at, units)
    }
}

#[inline(always)]
fn word(ctx: &TcContext, at: usize) -> Option<u16> {
    Packet::load(ctx, at).or_else(|| ctx.load(at).ok())
}

/// Returns the protocol of a frame, its VLAN tags, and the size in bytes of those in the buffer. The
/// kernel has taken the outer tag off (`skb_vlan_untag`), and sends an answer with it again.
#[inline(always)]
fn read_tags(ctx: &TcContext, skb: *const __sk_buff) -> Result<(Protocol, VlanTags, usize), Outcome> {
    // SAFETY: the kernel's context is valid until the program returns.
    let (protocol, vlan) = unsafe { (ethertype((*skb).protocol), (*skb).vlan_present != 0) };
    if !tags::is_read(protocol) && !VlanTag::is_tag(protocol) {
        return Err(Outcome::Unrelated);
    }
    let mut taken_off = VlanTags::NONE;
    if vlan {
        // SAFETY: as above.
        let (proto, tci) = unsafe { (ethertype((*skb).vlan_proto), (*skb).vlan_tci) };
        #[expect(clippy::cast_possible_truncation, reason = "the kernel's field has 16 bits")]
        let tag = VlanTag::new(proto, tci as u16);
        taken_off = taken_off.then(tag);
    }
    let in_buffer = MAX_TAGS - usize::from(vlan);
    tags::read(protocol, taken_off, in_buffer, |at| word(ctx, at))
}

/// Returns an `EtherType` in host order. The kernel's fields have it in wire order.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "the kernel's fields have 16 bits")]
fn ethertype(field: u32) -> u16 {
    u16::from_be(field as u16)
}

/// Returns the frame without the tags that are in the buffer, if it is long enough.
#[inline(always)]
fn load(ctx: &TcContext, tags_len: usize) -> Option<ArpFrame> {
    if tags_len == 0 {
        return ctx.load(0).ok();
    }
    Some(bytemuck::cast(Parts { addresses: ctx.load(0).ok()?, rest: ctx.load(ETHERTYPE + tags_len).ok()? }))
}

/// Writes the frame over the one that came, around the tags in the buffer.
#[inline(always)]
fn store(ctx: &TcContext, tags_len: usize, frame: &ArpFrame) -> Option<()> {
    if tags_len == 0 {
        return ctx.store(0, frame, 0).ok();
    }
    let Parts { addresses, rest } = bytemuck::cast(*frame);
    ctx.store(0, &addresses, 0).ok()?;
    ctx.store(ETHERTYPE + tags_len, &rest, 0).ok()
}
