//! The defence of held VIPs by the program: its limits, and its reserve towards a rival that
//! defends too.

use bytemuck::{CheckedBitPattern, NoUninit, Pod, Zeroable};

/// The most defences of one VIP in a window.
pub const MAX_VIP_DEFENCES: u64 = 20;
/// The most defences of all VIPs in a window.
pub const MAX_DEFENCES: u64 = 1_000;
pub const DEFENCE_WINDOW_NS: u64 = 1_000_000_000;
/// A claim answers a defence if it comes sooner than this. A host that defends answers within
/// milliseconds. One that claims ten times a second does not answer.
pub const ANSWER_NS: u64 = 30_000_000;
/// The number of defences in a row after which a rival that has answered them all gets one in
/// [`DEFEND_INTERVAL_NS`].
pub const MAX_ANSWERED: u16 = 10;
/// The number of claims that answer no defence after which such a rival is met once more: a host
/// that defends only answers.
pub const MAX_STRAYS: u16 = 5;
/// `DEFEND_INTERVAL` of RFC 5227, 1.1.
pub const DEFEND_INTERVAL_NS: u64 = 10_000_000_000;

/// The policy: whether the program defends held VIPs.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, NoUninit, CheckedBitPattern)]
#[cfg_attr(not(feature = "next-layout"), repr(u32))]
#[cfg_attr(feature = "next-layout", repr(u64))]
pub enum Defence {
    /// It drops claims, and sends nothing.
    Off = 0,
    /// It turns each broadcast claim into the holder's announcement, within the limits.
    Match = 1,
}

number!(Defence);

pinned! {
    /// The defences in the current window: of all VIPs in `defences`, of one in `vip_state`.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Pod, Zeroable)]
    pub struct DefenceWindow {
        /// The beginning of the window (`CLOCK_MONOTONIC_COARSE`).
        pub began_ns: u64,
        /// The number of claims that were due a defence. Claims beyond the limit got none.
        pub wanted: u64,
    }
}

/// The record of a rival's answers to defences.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Answers {
    /// The number of defences in a row that the rival has answered, at most [`MAX_ANSWERED`].
    pub in_a_row: u16,
    /// The number of its claims since then that answered none.
    pub strays: u16,
}

impl Answers {
    /// Returns the record after a claim at `now_ns`. `defended_ns` is the time of the last defence
    /// against the rival, 0 for none.
    ///
    /// A defence that the limits refuse changes no record.
    #[inline(always)]
    #[must_use]
    pub const fn after_claim(self, defended_ns: u64, now_ns: u64) -> Self {
        let since_ns = now_ns.saturating_sub(defended_ns);
        if defended_ns == 0 {
            return Self { in_a_row: 0, strays: 0 };
        }
        match (self.may_be_met(), since_ns < ANSWER_NS) {
            (true, true) => Self { in_a_row: self.in_a_row + 1, strays: 0 },
            (true, false) => Self { in_a_row: 0, strays: 0 },
            // One more defence shows whether it still answers.
            (false, _) if since_ns >= DEFEND_INTERVAL_NS => Self { in_a_row: MAX_ANSWERED - 1, strays: 0 },
            (false, true) => self,
            (false, false) if self.strays + 1 >= MAX_STRAYS => Self { in_a_row: MAX_ANSWERED - 1, strays: 0 },
            (false, false) => Self { strays: self.strays + 1, ..self },
        }
    }

    /// Returns true if the rival's claim may be met.
    #[inline(always)]
    pub const fn may_be_met(self) -> bool {
        self.in_a_row < MAX_ANSWERED
    }
}

#[cfg(test)]
mod tests;
