//! Limits on sending, pauses between attempts, and the spreading of recurring events.

use std::time::Duration;

use vipward_common::VipKey;

use super::time::Monotonic;
use crate::base::address::{self, mix};

#[cfg(test)]
mod tests;

/// Burst of a limit, in every second. A longer one lets the agent wake less often, and slows
/// everything down: no second may have more items than the limit.
const BURST: Duration = Duration::from_millis(20);
/// Longest time from the moment at which an item is let through until it has left. An item that
/// leaves late is nearer to the items of the next second.
const LATE: Duration = Duration::from_millis(10);

/// Limit on sending: one item in each slot, and a burst after a silence.
#[derive(Debug)]
pub(crate) struct Pace {
    slot: Duration,
    /// Longest time that `next` lies in the past.
    burst: Duration,
    next: Monotonic,
}

impl Pace {
    /// Returns a limit of `a_second` items in every second. It holds in a second that begins with a
    /// burst, and if each item leaves up to `LATE` after it was let through.
    pub(crate) fn new(a_second: u32, now: Monotonic) -> Self {
        Self { slot: slot(a_second), burst: BURST, next: now }
    }

    /// Returns a limit of one item in each `slot`, and of `burst` at once, now and after a silence.
    pub(crate) fn with_burst(burst: u32, slot: Duration, now: Monotonic) -> Self {
        let burst = slot * burst.saturating_sub(1);
        Self { slot, burst, next: now.saturating_sub(burst) }
    }

    pub(crate) fn set(&mut self, a_second: u32) {
        self.slot = slot(a_second);
    }

    pub(crate) fn is_open(&mut self, now: Monotonic) -> bool {
        self.is_open_beyond(0, now)
    }

    /// Returns true if one more item may be sent, and `reserve` more after it.
    pub(crate) fn is_open_beyond(&mut self, reserve: u32, now: Monotonic) -> bool {
        self.next = self.next.max(now.saturating_sub(self.burst));
        self.next_beyond(reserve) <= now
    }

    pub(crate) fn take(&mut self) {
        self.next = self.next + self.slot;
    }

    pub(crate) fn next(&self) -> Monotonic {
        self.next
    }

    /// Returns the time at which a whole burst may be sent.
    pub(crate) fn next_burst(&self) -> Monotonic {
        self.next + self.burst
    }

    /// Returns the time at which one more item may be sent, and `reserve` more after it.
    pub(crate) fn next_beyond(&self, reserve: u32) -> Monotonic {
        self.next + self.slot * reserve
    }
}

/// Returns a slot for `a_second` items in a second. No second has more of them, even if it begins
/// with a burst that leaves late.
fn slot(a_second: u32) -> Duration {
    (Duration::from_secs(1) + BURST + LATE) / a_second.max(1) + Duration::from_nanos(1)
}

/// Pauses between attempts. Each pause is twice as long as the one before, up to a limit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Backoff {
    shortest: Duration,
    longest: Duration,
}

impl Backoff {
    pub(crate) const fn new(shortest: Duration, longest: Duration) -> Self {
        Self { shortest, longest }
    }

    /// Returns the pause after an attempt before which `failures` others failed in a row. `jitter`,
    /// from 0 to 1, makes the pause up to a quarter longer, so that nodes do not retry in step.
    pub(crate) fn pause(self, failures: u32, jitter: f64) -> Duration {
        let pause = self.shortest.saturating_mul(1 << failures.min(16)).min(self.longest);
        pause.mul_f64(1.0 + jitter / 4.0)
    }
}

/// Returns a pseudo-random number for the `number`th time that something is due for a VIP. It
/// differs between neighbouring VIPs. By `seed` it differs between agents.
pub(crate) fn chance(seed: u64, key: VipKey, number: u32) -> u64 {
    let key = address::number(key.addr) ^ u64::from(key.ifindex) << 32;
    mix(seed.wrapping_add(u64::from(number)).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ key)
}

/// Returns `period`, longer or shorter by up to `per_cent`. `chance` decides.
pub(crate) fn around(period: Duration, per_cent: u32, chance: u64) -> Duration {
    between(period * (100 - per_cent) / 100, period * (100 + per_cent) / 100, chance)
}

/// Returns a time from `least` to `most`. `chance` decides.
pub(crate) fn between(least: Duration, most: Duration, chance: u64) -> Duration {
    let nanos = |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
    let range = nanos(most.saturating_sub(least)).max(1);
    least + Duration::from_nanos(chance % range)
}
