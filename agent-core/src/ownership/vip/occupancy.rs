//! Occupancy of a VIP: if a node holds it, or did so a short time ago.
//!
//! Only a present or recent holder counts. An address without a holder for long may be another
//! host's by now, whatever its claim's epoch, reservation or pool state.

use std::time::Duration;

use crate::base::time::Monotonic;

#[cfg(test)]
mod tests;

/// Time for which a VIP that this process saw held is taken without a probe. It is as long as the
/// result of a probe is good for.
pub(super) const LATELY: Duration = Duration::from_secs(10);

/// Occupancy of a VIP, as this process has seen it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Occupancy {
    /// No node is known to hold the VIP, nor to have held it lately.
    #[default]
    Vacant,
    /// Another node holds it, in a session that lives.
    Held,
    /// The program of this node answers for it until this time, also while no agent runs.
    Here(Monotonic),
    /// The last holder has let go of it, or its session has ended, at this time.
    Left(Monotonic),
}

/// The node that answers for a VIP, as this process sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Answering {
    /// None holds it. `watched` is true if this process would have seen another one let go of it at
    /// once.
    NoNode {
        watched: bool,
    },
    Another,
    /// The program of this node answers for it until this time.
    Own(Monotonic),
}

impl Occupancy {
    /// Records who holds the VIP now.
    pub(crate) fn note(&mut self, seen: Answering, now: Monotonic) {
        *self = match (*self, seen) {
            // A new session begins with a deadline that has passed.
            (Self::Here(before), Answering::Own(until)) => Self::Here(before.max(until)),
            (_, Answering::Own(until)) => Self::Here(until),
            (_, Answering::Another) => Self::Held,
            (Self::Here(until), Answering::NoNode { .. }) => Self::Left(until.min(now)),
            (Self::Held, Answering::NoNode { watched: true }) => Self::Left(now),
            (Self::Left(since), Answering::NoNode { .. }) if now < since + LATELY => Self::Left(since),
            (Self::Held | Self::Left(_) | Self::Vacant, Answering::NoNode { .. }) => Self::Vacant,
        };
    }

    /// Returns true if a node holds the VIP.
    pub(crate) const fn is_held(self) -> bool {
        matches!(self, Self::Held | Self::Here(_))
    }

    /// Returns true if a node holds the VIP, or did so a short time ago.
    pub(crate) fn is_lately(self, now: Monotonic) -> bool {
        match self {
            Self::Held => true,
            Self::Here(since) | Self::Left(since) => now < since + LATELY,
            Self::Vacant => false,
        }
    }
}
