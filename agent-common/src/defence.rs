//! The defence of held VIPs by the program: its limits, and its reserve towards a rival that
//! defends too.

use bytemuck::{CheckedBitPattern, NoUninit, Pod, Zeroable};

/// The most defences of one VIP in a window.
pub const MAX_VIP_DEFENCES: u64 = 20;
/// The most defences of all VIPs in a window.
pub const MAX_DEFENCES: u64 = 1_000;
/// The length of a window.
pub const DEFENCE_WINDOW_NS: u64 = 1_000_000_000;
/// A claim answers a defence if it comes sooner than this. A host that defends answers within
/// milliseconds. One that claims ten times a second does not answer.
pub const ANSWER_NS: u64 = 30_000_000;
/// The number of defences in a row after which a rival that has answered them all gets one in
/// [`DEFEND_INTERVAL_NS`].
pub const MAX_ANSWERED: u32 = 10;
/// `DEFEND_INTERVAL` of RFC 5227, 1.1.
pub const DEFEND_INTERVAL_NS: u64 = 10_000_000_000;

/// Says whether the program defends held VIPs.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, NoUninit, CheckedBitPattern)]
#[cfg_attr(not(feature = "next-layout"), repr(u32))]
#[cfg_attr(feature = "next-layout", repr(u64))]
pub enum Defence {
    /// It drops claims, and sends nothing.
    Off = 0,
    /// It turns each broadcast claim into the holder's announcement, within the limits.
    Match = 1,
}

pinned! {
    /// The defences in the current window: of all VIPs in `defences`, of one in `vip_state`.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Pod, Zeroable)]
    pub struct DefenceWindow {
        /// The beginning of the window (`CLOCK_MONOTONIC_COARSE`).
        pub began_ns: u64,
        /// The number of claims that asked for a defence. Those beyond the limit got none.
        pub wanted: u64,
    }
}

/// Returns the number of defences in a row that a rival has answered, when it claims the VIP again
/// at `now_ns`. From [`MAX_ANSWERED`] on the claim is not defended.
///
/// `defended_ns` is the time of the last defence against it, 0 for none. `answered` is what this
/// function returned then, or since then if that was [`MAX_ANSWERED`].
#[inline(always)]
pub const fn answered_in_a_row(defended_ns: u64, answered: u32, now_ns: u64) -> u32 {
    let since_ns = now_ns.saturating_sub(defended_ns);
    if defended_ns == 0 {
        0
    } else if answered >= MAX_ANSWERED {
        // One more defence shows whether it still answers.
        if since_ns < DEFEND_INTERVAL_NS { MAX_ANSWERED } else { MAX_ANSWERED - 1 }
    } else if since_ns < ANSWER_NS {
        answered + 1
    } else {
        0
    }
}

#[cfg(test)]
mod tests;
