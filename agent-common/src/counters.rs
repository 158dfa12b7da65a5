//! The outcomes: every frame ends in exactly one, and each has a counter of its own.

use bytemuck::{Pod, Zeroable};

/// What becomes of the frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// To the kernel, untouched.
    Pass,
    /// Nowhere.
    Drop,
    /// Back out of the interface that it came from, rewritten.
    Answer,
}

macro_rules! outcomes {
    ($($(#[doc = $doc:literal])+ $variant:ident = $field:ident: $action:ident,)+) => {
        /// What a frame ended in. One name per counter of [`Counters`], in the same order.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[repr(u32)]
        pub enum Outcome { $($(#[doc = $doc])+ $variant,)+ }

        impl Outcome {
            /// Every outcome, in the order of the counters.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            /// The name of its counter.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => stringify!($field)),+ }
            }

            /// What it does to the frame.
            #[inline(always)]
            pub const fn action(self) -> Action {
                match self { $(Self::$variant => Action::$action),+ }
            }
        }

        /// Frames by outcome, of one CPU; the value of the `counters` map.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Pod, Zeroable)]
        #[repr(C)]
        pub struct Counters {
            $($(#[doc = $doc])+ pub $field: u64,)+
            /// Not frames: events that found the ring buffer full. Each is counted in the next one's `swallowed`.
            pub events_lost: u64,
        }

        impl Counters {
            /// The count of one outcome.
            pub const fn get(&self, outcome: Outcome) -> u64 {
                match outcome { $(Outcome::$variant => self.$field),+ }
            }

            /// Adds what another CPU counted.
            #[must_use]
            pub const fn plus(self, other: Self) -> Self {
                Self {
                    $($field: self.$field.wrapping_add(other.$field),)+
                    events_lost: self.events_lost.wrapping_add(other.events_lost),
                }
            }
        }

        $(const _: () = assert!(core::mem::offset_of!(Counters, $field) == Outcome::$variant as usize * 8);)+
    };
}

outcomes! {
    /// Not ARP, a VLAN-tagged frame included.
    NotArp = not_arp: Pass,
    /// ARP, but too short, not for IPv4 over Ethernet, or neither request nor reply.
    ArpOther = arp_other: Pass,
    /// ARP in which no VIP plays a part.
    ArpNoVip = arp_no_vip: Pass,
    /// A claim on a held VIP by the holder's own MAC: our own frame came back.
    ClaimOwn = claim_own: Drop,
    /// A claim by a peer on a VIP that this node may answer for.
    ClaimContested = claim_contested: Drop,
    /// A claim by a MAC that is neither the holder's nor a peer's.
    ClaimConflict = claim_conflict: Drop,
    /// A peer's announcement that this node gave way to.
    ClaimYielded = claim_yielded: Pass,
    /// A claim that shows the VIP at another node than before, or at the successor of a handover.
    ClaimMoved = claim_moved: Pass,
    /// A claim on a VIP whose holder is not known.
    ClaimSighted = claim_sighted: Pass,
    /// Any other claim by the holder or a peer.
    ClaimPassed = claim_passed: Pass,
    /// A request for a held VIP, answered.
    Answered = answered: Answer,
    /// The same, while the fence was held over.
    AnsweredHeldOver = answered_held_over: Answer,
    /// A request for a VIP that is being handed over, answered with the successor's MAC.
    AnsweredHandover = answered_handover: Answer,
    /// A request for a held or handed-over VIP that came when the fence was over.
    SuppressedFence = suppressed_fence: Drop,
    /// A request for a VIP that another node holds.
    SuppressedForeign = suppressed_foreign: Drop,
    /// A request for a held or handed-over VIP, addressed neither to broadcast nor to this interface.
    RefusedDestination = refused_destination: Drop,
    /// A request for a held or handed-over VIP whose sha is zero, a group address or our own.
    RefusedSender = refused_sender: Drop,
    /// A request for a held or handed-over VIP on an interface whose own MAC is not in `links`.
    RefusedLink = refused_link: Drop,
}

#[cfg(test)]
mod tests;
