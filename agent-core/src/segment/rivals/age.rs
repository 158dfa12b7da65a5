//! The ages of holds.

use std::{net::IpAddr, time::Duration};

/// The time since a hold began, in milliseconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Age(pub u32);

impl Age {
    /// Age of a VIP with `force`.
    pub const FORCED: Self = Self(u32::MAX);
    /// Age of any other hold that began 49 days ago or earlier.
    pub(super) const GREATEST: Self = Self(u32::MAX - 1);

    pub(super) fn of(duration: Duration) -> Self {
        u32::try_from(duration.as_millis()).map_or(Self::GREATEST, |age| Self(age).min(Self::GREATEST))
    }

    /// Returns the age after some time.
    pub(super) fn after(self, passed: Duration) -> Self {
        let later = || Self(self.0.saturating_add(Self::of(passed).0)).min(Self::GREATEST);
        if self == Self::FORCED { self } else { later() }
    }
}

/// A VIP that a host holds, and the age of the hold.
pub type Hold = (IpAddr, Age);
