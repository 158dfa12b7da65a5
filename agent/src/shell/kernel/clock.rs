//! The clocks that the agent and the program share.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nix::time::{ClockId, clock_getres, clock_gettime};

/// Returns `CLOCK_MONOTONIC_COARSE` in nanoseconds. The program compares deadlines with this clock.
pub fn coarse_ns() -> nix::Result<u64> {
    read(ClockId::CLOCK_MONOTONIC_COARSE)
}

pub fn monotonic_ns() -> nix::Result<u64> {
    read(ClockId::CLOCK_MONOTONIC)
}

/// Returns `CLOCK_BOOTTIME` in nanoseconds, in which the failure detector counts.
pub fn boottime_ns() -> nix::Result<u64> {
    read(ClockId::CLOCK_BOOTTIME)
}

/// Returns the largest lag of the coarse clock.
pub fn coarse_tick() -> nix::Result<Duration> {
    Ok(Duration::from(clock_getres(ClockId::CLOCK_MONOTONIC_COARSE)?))
}

/// Returns the wall clock, in seconds since 1970. Only what is kept for a time follows it.
pub fn unix_seconds() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

fn read(clock: ClockId) -> nix::Result<u64> {
    let now = Duration::from(clock_gettime(clock)?);
    u64::try_from(now.as_nanos()).map_err(|_| nix::Error::EOVERFLOW)
}
