//! The outcomes. Every frame has exactly one, and each outcome has one counter.

use bytemuck::{Pod, Zeroable};

use crate::layout::{Described, Field, Shape, place};

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
    (
        $(#[$outcome_meta:meta])*
        pub enum $outcome:ident { $($(#[doc = $doc:literal])+ $variant:ident = $field:ident: $action:ident,)+ }

        $(#[$counters_meta:meta])*
        pub struct $counters:ident { $($(#[doc = $more_doc:literal])+ pub $more:ident: u64,)* }
    ) => {
        $(#[$outcome_meta])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[repr(u32)]
        pub enum $outcome { $($(#[doc = $doc])+ $variant,)+ }

        impl $outcome {
            /// All outcomes, in the order of the counters.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => stringify!($field)),+ }
            }

            #[inline(always)]
            pub const fn action(self) -> Action {
                match self { $(Self::$variant => Action::$action),+ }
            }
        }

        $(#[$counters_meta])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Pod, Zeroable)]
        #[repr(C)]
        pub struct $counters {
            $($(#[doc = $doc])+ pub $field: u64,)+
            $($(#[doc = $more_doc])+ pub $more: u64,)*
        }

        impl $counters {
            /// Returns the count of one outcome.
            pub const fn get(&self, outcome: $outcome) -> u64 {
                match outcome { $($outcome::$variant => self.$field),+ }
            }

            /// Returns the sum with another CPU's counters.
            #[must_use]
            pub const fn plus(self, other: Self) -> Self {
                Self {
                    $($field: self.$field.wrapping_add(other.$field),)+
                    $($more: self.$more.wrapping_add(other.$more),)*
                }
            }
        }

        impl Described for $counters {
            const FIELDS: &'static [Field] = &{
                let names = [$(stringify!($field),)+ $(stringify!($more),)*];
                let mut fields = [count(names[0], 0); size_of::<Self>() / 8];
                let mut i = 0;
                while i < fields.len() {
                    fields[i] = count(names[i], i);
                    i += 1;
                }
                fields
            };
        }

        $(const _: () = assert!(core::mem::offset_of!($counters, $field) == $outcome::$variant as usize * 8);)+
    };
}

/// Describes the count at this index.
const fn count(name: &'static str, index: usize) -> Field {
    Field { name, place: place(index * 8, 8), shape: Shape::Number }
}

outcomes! {
    /// The outcome of a frame, one per counter of [`Counters`], in the same order.
    pub enum Outcome {
        /// Neither ARP nor neighbour discovery, or behind more than two VLAN tags.
        Unrelated = unrelated: Pass,
        /// ARP or neighbour discovery that the program does not understand, or that is not valid.
        Unread = unread: Pass,
        /// Neighbour discovery about a VIP whose checksum is wrong, that is not all there, or behind
        /// extension headers. A frame that hides what it is behind tags of VLAN 0.
        Unverified = unverified: Drop,
        /// ARP or neighbour discovery about no VIP.
        NoVip = no_vip: Pass,
        /// An ARP claim on a held VIP with the holder's own MAC: this node's frame came back.
        ClaimOwn = claim_own: Drop,
        /// An ARP claim by a peer on a VIP that this node may answer for, or an announcement in a
        /// peer's name by another host.
        ClaimContested = claim_contested: Drop,
        /// An ARP claim by an unknown host: a MAC that is neither the holder's nor a peer's.
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
        /// A request for a held VIP, answered in the grace period after the lease deadline.
        AnsweredInGrace = answered_in_grace: Answer,
        /// A request for a VIP in handover, answered with the successor's MAC.
        AnsweredHandover = answered_handover: Answer,
        /// A request for a VIP held or in handover, after the lease deadline and its grace period.
        SuppressedDeadline = suppressed_deadline: Drop,
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

    /// The value of the `counters` map: the number of frames by outcome, on one CPU.
    pub struct Counters {
        /// Dropped claims in whose place the holder's announcement was sent.
        pub claims_defended: u64,
        /// Events that found the ring buffer full. The next event's `swallowed` includes them.
        pub events_lost: u64,
    }
}

outcomes! {
    /// The outcome of a frame of wire failover, one per counter of [`WireCounters`], in the same order.
    pub enum WireOutcome {
        /// A ping of a monitor, answered.
        PingAnswered = ping_answered: Answer,
        /// An answered ping that is not newer than the monitor's newest one. It is late, was
        /// replayed, or left by another interface of the monitor too.
        PingRepeated = ping_repeated: Answer,
        /// An answer to a ping of this node.
        EchoReceived = echo_received: Drop,
        /// Another monitor's vote request about a holder, for the agent.
        VoteRequestPassed = vote_request_passed: Pass,
        /// Another monitor's vote about a holder, for the agent.
        VotePassed = vote_passed: Pass,
        /// The message that this node's session has ended.
        EndedReceived = ended_received: Drop,
        /// The message that another node's session has ended, for the agent.
        EndedPassed = ended_passed: Pass,
        /// A frame that is too short.
        RefusedLength = refused_length: Drop,
        /// A frame that was not sent to this interface's MAC: it may be for a guest behind a bridge.
        OtherPassed = other_passed: Pass,
        /// A frame of another type.
        RefusedType = refused_type: Drop,
        /// A frame for another session or monitor than this node's.
        RefusedTarget = refused_target: Drop,
        /// A frame of a node, or about one, that is not known in the segment.
        RefusedPeer = refused_peer: Drop,
        /// A frame with a key that this node does not have.
        RefusedKey = refused_key: Drop,
        /// A frame whose tag is wrong: forged, or signed with another key of that number.
        RefusedTag = refused_tag: Drop,
        /// An answer to a ping that is still to be sent.
        RefusedTime = refused_time: Drop,
        /// An answer that is no newer than the newest of that peer.
        RefusedRepeated = refused_repeated: Drop,
    }

    /// The value of the `wire_counters` map: the number of frames of wire failover by outcome, on one
    /// CPU.
    pub struct WireCounters {}
}

#[cfg(test)]
mod tests;
