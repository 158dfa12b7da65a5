//! The lease deadline: the time until which this node may answer, and its grace period.

use bytemuck::{CheckedBitPattern, NoUninit};

use crate::{defence::Defence, wire::WireState};

/// The policy between `deadline_ns` and `grace_until_ns`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, NoUninit, CheckedBitPattern)]
#[cfg_attr(not(feature = "next-layout"), repr(u32))]
#[cfg_attr(feature = "next-layout", repr(u64))]
pub enum Policy {
    /// Answer nothing.
    Stop = 0,
    /// Go on answering, until a peer announces the VIP.
    Hold = 1,
}

number!(Policy);

impl Policy {
    pub const ALL: [Self; 2] = [Self::Stop, Self::Hold];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Hold => "hold",
        }
    }
}

pinned! {
    /// The value of `lease_deadline`: the times until which this node may answer. Times are `CLOCK_MONOTONIC`.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, NoUninit, CheckedBitPattern)]
    pub struct LeaseDeadline {
        pub deadline_ns: u64,
        /// The end of the grace period, under [`Policy::Hold`].
        pub grace_until_ns: u64,
        /// The count of [`crate::YieldTotal`] up to which the agent has rewritten the yielded entries.
        pub yields_settled: u64,
        /// The session of this node in which the lease deadline was set; 0 without a cluster.
        pub session: u64,
        /// One more than the number of the last expiry notice in [`WireState`] that this node's
        /// Lease has shown to be false; 0 for none.
        pub notices_settled: u64,
        /// The policy between the two times.
        pub policy: Policy,
        pub defence: Defence,
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum DeadlineState {
    /// The deadline has not passed.
    Valid,
    /// The deadline has passed, and the policy is to go on answering.
    Grace,
    /// The deadline has passed, and so has the grace period, if any.
    Over,
}

impl DeadlineState {
    /// All states, in the order in which they follow each other.
    pub const ALL: [Self; 3] = [Self::Valid, Self::Grace, Self::Over];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Valid => "valid",
            Self::Grace => "grace period",
            Self::Over => "over",
        }
    }
}

impl LeaseDeadline {
    /// Returns true if an expiry notice for this session has arrived that the agent has not
    /// settled.
    #[inline(always)]
    pub fn has_ended(&self, notified: WireState) -> bool {
        self.session != 0
            && self.session == notified.ended
            && self.notices_settled != WireState::settled_by(notified.notices)
    }

    /// Returns the time from which the state is [`DeadlineState::Over`], unless the lease deadline is written again.
    pub fn answers_until_ns(&self) -> u64 {
        match self.policy {
            Policy::Hold => self.grace_until_ns.max(self.deadline_ns),
            Policy::Stop => self.deadline_ns,
        }
    }

    /// Returns the state at `now_ns`. `notified` is the value of `wire_state`: an unsettled expiry
    /// notice counts as a deadline that has passed.
    #[inline(always)]
    pub fn state(&self, now_ns: u64, notified: WireState) -> DeadlineState {
        if now_ns < self.deadline_ns && !self.has_ended(notified) {
            DeadlineState::Valid
        } else if matches!(self.policy, Policy::Hold) && now_ns < self.grace_until_ns {
            DeadlineState::Grace
        } else {
            DeadlineState::Over
        }
    }
}

#[cfg(test)]
mod tests;
