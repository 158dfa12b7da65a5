//! How much may leave a second, over all VIPs, and how what is due again and again is spread.

use std::time::Duration;

use vipward_common::VipKey;

use super::time::Monotonic;

#[cfg(test)]
mod tests;

/// How much may leave at once after a silence.
const BURST: Duration = Duration::from_millis(5);

/// A pace: slots of equal length, each for one thing that leaves.
#[derive(Debug)]
pub(super) struct Pace {
    slot: Duration,
    /// When the next one may leave; it may lie in the past by [`BURST`] at most.
    next: Monotonic,
}

impl Pace {
    /// At most `a_second` in every second.
    pub(super) fn new(a_second: u32, now: Monotonic) -> Self {
        Self { slot: slot(a_second), next: now }
    }

    /// Goes on at another pace.
    pub(super) fn set(&mut self, a_second: u32) {
        self.slot = slot(a_second);
    }

    /// Whether one more may leave.
    pub(super) fn is_open(&mut self, now: Monotonic) -> bool {
        self.next = self.next.max(now.saturating_sub(BURST));
        self.next <= now
    }

    /// One has left.
    pub(super) fn take(&mut self) {
        self.next = self.next + self.slot;
    }

    /// When one more may leave.
    pub(super) fn next(&self) -> Monotonic {
        self.next
    }
}

/// So long that no second has more than its number, even one that begins with a burst.
fn slot(a_second: u32) -> Duration {
    (Duration::from_secs(1) + BURST) / a_second.max(1) + Duration::from_nanos(1)
}

/// `SplitMix64`'s finisher.
pub(super) const fn mix(number: u64) -> u64 {
    let mut mixed = number;
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}

/// A number for the `number`th time that something is due for a VIP; the same for the same arguments, and unlike those of
/// neighbouring VIPs and other agents.
pub(super) fn chance(seed: u64, key: VipKey, number: u32) -> u64 {
    let [a, b, c, d] = key.addr;
    let key = u64::from(u32::from_be_bytes([a, b, c, d])) | u64::from(key.ifindex) << 32;
    mix(seed.wrapping_add(u64::from(number)).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ key)
}

/// `period`, longer or shorter by up to `per_cent`, by `chance`.
pub(super) fn around(period: Duration, per_cent: u32, chance: u64) -> Duration {
    between(period * (100 - per_cent) / 100, period * (100 + per_cent) / 100, chance)
}

/// A time from `least` to `most`, by `chance`.
pub(super) fn between(least: Duration, most: Duration, chance: u64) -> Duration {
    let nanos = |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
    let range = nanos(most.saturating_sub(least)).max(1);
    least + Duration::from_nanos(chance % range)
}
