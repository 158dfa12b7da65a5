//! Comparison of two readings of the status, with rates (`vipward watch`).

mod change;
mod rows;

#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, net::IpAddr, time::Duration};

pub use self::{
    change::{Change, changes},
    rows::{Key, List, Row, Step},
};
use super::pinned::{DeadlineStatus, Status, VipStatus};
use crate::host::answering::Part;

/// A VIP, and the name of the interface through which it is seen.
pub type VipId<'a> = (IpAddr, &'a str);

#[derive(Clone, Copy, PartialEq, PartialOrd, Debug, Default)]
pub struct PerSecond(pub f64);

impl PerSecond {
    /// Returns the rate of a counter. A counter that is smaller than before has started again.
    pub fn between(before: u64, after: u64, elapsed: Duration) -> Self {
        let grown = if after < before { after } else { after - before };
        if elapsed.is_zero() {
            return Self(0.0);
        }
        #[expect(clippy::cast_precision_loss, reason = "an interval has fewer than 2^53 frames")]
        Self(grown as f64 / elapsed.as_secs_f64())
    }

    /// Returns true if the counter stood still.
    pub fn is_none(self) -> bool {
        self.0 <= 0.0
    }
}

impl std::fmt::Display for PerSecond {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self(rate) = *self;
        let text = if rate <= 0.0 {
            "0".to_owned()
        } else if rate < 9.95 {
            format!("{rate:.1}")
        } else {
            format!("{rate:.0}")
        };
        f.pad(&text)
    }
}

/// The rates of a VIP's counters.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Rates {
    /// Requests answered.
    pub answered: PerSecond,
    /// Claims dropped as conflicts.
    pub conflicts: PerSecond,
    /// Requests dropped.
    pub suppressed: PerSecond,
}

impl VipStatus {
    fn id(&self) -> VipId<'_> {
        (self.address, &self.interface)
    }
}

impl DeadlineStatus {
    /// Returns the time until the state changes if the lease deadline does not move.
    pub fn countdown(&self) -> Duration {
        let seconds = if (self.ended || self.left_seconds <= 0.0) && self.policy == "hold" {
            self.hold_left_seconds
        } else {
            self.left_seconds
        };
        Duration::try_from_secs_f64(seconds).unwrap_or_default()
    }
}

impl Status {
    fn vips_by_id(&self) -> BTreeMap<VipId<'_>, &VipStatus> {
        self.vips.iter().map(|vip| (vip.id(), vip)).collect()
    }

    /// Returns the rates of a VIP since an earlier reading, in which its status was
    /// `before`. Returns none for a VIP without counters.
    fn rates_of(&self, vip: &VipStatus, before: Option<&VipStatus>, earlier: &Self) -> Option<Rates> {
        let elapsed = self.at.saturating_since(earlier.at);
        let rate = |of: fn(&VipStatus) -> Option<u64>| {
            let counted = before.and_then(of).unwrap_or_default();
            Some(PerSecond::between(counted, of(vip)?, elapsed))
        };
        Some(Rates {
            answered: rate(|vip| vip.answered)?,
            conflicts: rate(|vip| vip.conflicts)?,
            suppressed: rate(|vip| vip.suppressed)?,
        })
    }

    /// Returns the rates of the outcomes that occurred since an earlier reading, the highest first.
    pub fn frame_rates(&self, before: Option<&Self>) -> Vec<(&'static str, PerSecond)> {
        let Some(before) = before else { return Vec::new() };
        let elapsed = self.at.saturating_since(before.at);
        let rate = |(name, after): (&&'static str, &u64)| {
            let counted = before.counters.get(*name).copied().unwrap_or_default();
            (*name, PerSecond::between(counted, *after, elapsed))
        };
        let mut rates: Vec<_> = self.counters.iter().map(rate).filter(|(_, rate)| !rate.is_none()).collect();
        rates.sort_by(|(_, a), (_, b)| b.partial_cmp(a).unwrap_or(std::cmp::Ordering::Equal));
        rates
    }

    /// Returns the number of entries with each role, in the order `held`, `handover`, `silent`,
    /// `foreign`.
    pub fn roles(&self) -> [(&'static str, usize); 4] {
        Part::NAMES.map(|role| (role, self.vips.iter().filter(|vip| vip.part.name() == role).count()))
    }
}
