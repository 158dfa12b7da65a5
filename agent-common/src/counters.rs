//! The outcomes. Every frame has exactly one, and each outcome has one counter.

use bytemuck::{Pod, Zeroable};

/// The fate of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// The frame goes to the kernel, untouched.
    Pass,
    /// The frame is dropped.
    Drop,
    /// The frame is rewritten, and leaves through the interface that it came in by.
    Answer,
}

macro_rules! outcomes {
    ($($(#[doc = $doc:literal])+ $variant:ident = $field:ident: $action:ident,)+) => {
        /// The outcome of a frame, one per counter of [`Counters`], in the same order.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[repr(u32)]
        pub enum Outcome { $($(#[doc = $doc])+ $variant,)+ }

        impl Outcome {
            /// All outcomes, in the order of the counters.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            /// Returns the name of the outcome's counter.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => stringify!($field)),+ }
            }

            /// Returns the fate of the frame.
            #[inline(always)]
            pub const fn action(self) -> Action {
                match self { $(Self::$variant => Action::$action),+ }
            }
        }

        /// The value of the `counters` map: the number of frames by outcome, on one CPU.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Pod, Zeroable)]
        #[repr(C)]
        pub struct Counters {
            $($(#[doc = $doc])+ pub $field: u64,)+
            /// Dropped claims in whose place the holder's announcement was sent.
            pub claims_defended: u64,
            /// Events that found the ring buffer full. The next event's `swallowed` includes them.
            pub events_lost: u64,
        }

        impl Counters {
            /// Returns the count of one outcome.
            pub const fn get(&self, outcome: Outcome) -> u64 {
                match outcome { $(Outcome::$variant => self.$field),+ }
            }

            /// Returns the sum with another CPU's counters.
            #[must_use]
            pub const fn plus(self, other: Self) -> Self {
                Self {
                    $($field: self.$field.wrapping_add(other.$field),)+
                    claims_defended: self.claims_defended.wrapping_add(other.claims_defended),
                    events_lost: self.events_lost.wrapping_add(other.events_lost),
                }
            }
        }

        $(const _: () = assert!(core::mem::offset_of!(Counters, $field) == Outcome::$variant as usize * 8);)+
    };
}

outcomes! {
    /// Neither ARP nor neighbour discovery, or behind more than two VLAN tags.
    Unrelated = unrelated: Pass,
    /// ARP or neighbour discovery that the program does not understand, or that is not valid.
    Unread = unread: Pass,
    /// ARP or neighbour discovery about no VIP.
    NoVip = no_vip: Pass,
    /// An ARP claim on a held VIP with the holder's own MAC: this node's frame came back.
    ClaimOwn = claim_own: Drop,
    /// An ARP claim by a peer on a VIP that this node may answer for, or an announcement in a
    /// peer's name by another host.
    ClaimContested = claim_contested: Drop,
    /// An ARP claim by a stranger: a MAC that is neither the holder's nor a peer's.
    ClaimConflict = claim_conflict: Drop,
    /// A peer's announcement to which this node yielded.
    ClaimYielded = claim_yielded: Pass,
    /// An ARP claim from another node than the known holder, or from the successor of a handover.
    ClaimMoved = claim_moved: Pass,
    /// An ARP claim on a VIP whose holder is not known.
    ClaimSighted = claim_sighted: Pass,
    /// Any other ARP claim by the holder or a peer.
    ClaimPassed = claim_passed: Pass,
    /// A request for a held VIP, answered.
    Answered = answered: Answer,
    /// A request for a held VIP, answered while the fence was held over.
    AnsweredHeldOver = answered_held_over: Answer,
    /// A request for a VIP in handover, answered with the successor's MAC.
    AnsweredHandover = answered_handover: Answer,
    /// A request for a VIP held or in handover, when the fence was over.
    SuppressedFence = suppressed_fence: Drop,
    /// A request for a VIP that another node holds.
    SuppressedForeign = suppressed_foreign: Drop,
    /// A request for a VIP held or in handover, sent neither to broadcast nor to this interface's
    /// MAC.
    RefusedDestination = refused_destination: Drop,
    /// A request for a VIP held or in handover, whose sha is zero, a group address or this
    /// interface's MAC.
    RefusedSender = refused_sender: Drop,
    /// A request for a VIP in handover, on an interface whose MAC is not in `own_macs`.
    RefusedLink = refused_link: Drop,
}

#[cfg(test)]
mod tests;
