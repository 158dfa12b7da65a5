//! True time, which only the simulator knows, and the nodes' own clocks.

use std::{
    fmt,
    ops::{Add, Sub},
    time::Duration,
};

use vipward_core::base::time::Monotonic;

/// True time: nanoseconds since the beginning of the run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub(crate) struct At(u64);

impl At {
    /// Returns the time so many milliseconds after the beginning.
    pub(crate) const fn from_millis(millis: u64) -> Self {
        Self(millis * 1_000_000)
    }

    /// Returns the time since `earlier`; zero if that is later.
    pub(crate) const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for At {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(nanos(duration)))
    }
}

impl Sub<Duration> for At {
    type Output = Self;

    fn sub(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(nanos(duration)))
    }
}

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:3}.{:06}", self.0 / 1_000_000_000, self.0 / 1_000 % 1_000_000)
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// A node's monotonic clock. It runs a little fast or slow, and may stand still.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    /// A true time.
    base: At,
    /// The time shown at `base`.
    shown: u64,
    /// The rate error in parts per million; positive is fast.
    ppm: i32,
    stopped: bool,
}

const MILLION: i64 = 1_000_000;

impl Clock {
    pub(crate) fn new(shown: Duration, ppm: i32) -> Self {
        Self { base: At::default(), shown: nanos(shown), ppm, stopped: false }
    }

    fn rate(self) -> u128 {
        u128::try_from(MILLION + i64::from(self.ppm)).expect("invariant: no clock runs backwards")
    }

    pub(crate) fn read(self, at: At) -> Monotonic {
        if self.stopped {
            return Monotonic::from_nanos(self.shown);
        }
        let true_ns = u128::from(at.0.saturating_sub(self.base.0));
        let passed = true_ns * self.rate() / u128::from(MILLION.unsigned_abs());
        Monotonic::from_nanos(self.shown + u64::try_from(passed).expect("invariant: runs are short"))
    }

    /// Returns the first true time at which the clock shows `wanted` or more; none while it stands
    /// still.
    pub(crate) fn when(self, wanted: Monotonic) -> Option<At> {
        if self.stopped {
            return None;
        }
        let ahead = u128::from(wanted.as_nanos().saturating_sub(self.shown));
        let true_ns = (ahead * u128::from(MILLION.unsigned_abs())).div_ceil(self.rate());
        u64::try_from(true_ns).ok().map(|ns| At(self.base.0.saturating_add(ns)))
    }

    pub(crate) fn stop(&mut self, at: At) {
        self.shown = self.read(at).as_nanos();
        self.base = at;
        self.stopped = true;
    }

    pub(crate) fn go_on(&mut self, at: At) {
        self.base = at;
        self.stopped = false;
    }
}

#[cfg(test)]
mod tests;
