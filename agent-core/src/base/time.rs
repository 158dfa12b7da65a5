//! The clocks of the core. Callers always pass the time in.

use std::{
    ops::Add,
    time::{Duration, UNIX_EPOCH},
};

/// Makes the type of a point on a clock.
macro_rules! clock {
    ($(#[$attribute:meta])* $name:ident) => {
        $(#[$attribute])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
        pub struct $name(u64);

        impl $name {
            pub const fn from_nanos(nanos: u64) -> Self {
                Self(nanos)
            }

            pub const fn as_nanos(self) -> u64 {
                self.0
            }

            /// Returns the time since `earlier`. Returns zero if that is later.
            pub const fn saturating_since(self, earlier: Self) -> Duration {
                Duration::from_nanos(self.0.saturating_sub(earlier.0))
            }
        }

        impl Add<Duration> for $name {
            type Output = Self;

            fn add(self, duration: Duration) -> Self {
                Self(self.0.saturating_add(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)))
            }
        }
    };
}

clock! {
    /// Nanoseconds on `CLOCK_MONOTONIC`.
    Monotonic
}

clock! {
    /// Nanoseconds on `CLOCK_BOOTTIME`, the clock of wire failover. It goes on while the host is
    /// suspended, as the other hosts' clocks do.
    Boottime
}

impl Monotonic {
    /// Returns the point `duration` earlier. It is at least the clock's beginning.
    #[must_use]
    pub fn saturating_sub(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)))
    }

    /// Returns the last multiple of `step` on the clock up to this point.
    #[must_use]
    pub fn round_down(self, step: Duration) -> Self {
        let step = u64::try_from(step.as_nanos()).unwrap_or(u64::MAX).max(1);
        Self(self.0 - self.0 % step)
    }
}
/// Returns a time in seconds since 1970 as RFC 3339 has it.
pub fn utc(seconds: i64) -> String {
    let since = Duration::from_secs(seconds.try_into().unwrap_or_default());
    humantime::format_rfc3339_seconds(UNIX_EPOCH + since).to_string()
}
