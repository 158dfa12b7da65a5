//! What is shown on claims, and why it is written.

use vipward_core::reports::shown::Finding;

/// The aspect of a claim that something shown is about.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Aspect {
    /// The other hosts that claim the VIP.
    Conflict,
    /// The answers for the VIP, or the reason why there are none.
    Answers,
}

/// The reason for a write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Show {
    /// A new finding of this node.
    News,
    /// A conflict on the claim that this node has not heard for as long as a conflict lasts.
    Silence,
}

impl Aspect {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Conflict => "conflict",
            Self::Answers => "answers",
        }
    }

    pub(super) const fn of(finding: &Finding) -> Self {
        match finding {
            Finding::Conflict(_) => Self::Conflict,
            Finding::Answers(..) => Self::Answers,
        }
    }
}
