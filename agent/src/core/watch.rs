//! `vipward watch`: what two snapshots of the pins say has changed, and how fast things go.

mod change;
mod rows;

#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, net::Ipv4Addr, time::Duration};

use vipward_common::MacAddr;

pub use self::{
    change::{Change, changes},
    rows::{Key, List, Row, Step},
};
use super::time::Monotonic;

/// What the kernel has at one moment.
#[derive(Clone, PartialEq, Debug)]
pub struct Snapshot {
    /// When it was read.
    pub at: Monotonic,
    /// Until when this node may answer.
    pub fence: Fence,
    /// The interfaces with a pinned link, by name.
    pub interfaces: BTreeMap<String, Interface>,
    /// The entries, by VIP and interface.
    pub vips: BTreeMap<VipId, Vip>,
    /// Frames by outcome.
    pub frames: BTreeMap<&'static str, u64>,
    /// Who claims what is not theirs.
    pub offenders: BTreeMap<OffenderId, Offender>,
    /// Events that found the ring buffer full.
    pub events_lost: u64,
}

/// The fence.
#[derive(Clone, PartialEq, Debug)]
pub struct Fence {
    /// `valid`, `held over` or `over`.
    pub state: &'static str,
    /// `stop` or `hold`.
    pub policy: &'static str,
    /// Time until the deadline; zero when it has passed.
    pub left: Duration,
    /// Time until holding over ends; zero when it has passed.
    pub hold_left: Duration,
}

impl Fence {
    /// The time until its state changes, if nobody moves it.
    pub fn countdown(&self) -> Duration {
        if self.left.is_zero() && self.policy == "hold" { self.hold_left } else { self.left }
    }
}

/// An interface.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Interface {
    /// Whether the program runs on it.
    pub attached: bool,
    /// `native` or `generic`.
    pub mode: String,
    /// Whether it has carrier.
    pub carrier: bool,
    /// Its own MAC, as the program knows it.
    pub mac: Option<String>,
}

/// A VIP, and the interface that it is seen through.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct VipId {
    /// The VIP.
    pub address: Ipv4Addr,
    /// The interface's name.
    pub interface: String,
}

/// An entry.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Vip {
    /// `held`, `foreign` or `handover`, as the program sees it.
    pub role: &'static str,
    /// The MAC that it is at; none when unknown.
    pub mac: Option<String>,
    /// Whether it was yielded to that MAC.
    pub yielded: bool,
    /// Why it is not answered, though this node has it.
    pub silent_because: Option<&'static str>,
    /// Its counts, when it has some of its own.
    pub counts: Option<Counts>,
}

/// Counts about one VIP.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Requests answered.
    pub answered: u64,
    /// Claims dropped as conflicts.
    pub conflicts: u64,
    /// Requests dropped.
    pub suppressed: u64,
}

/// A MAC that claims a VIP.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct OffenderId {
    /// The VIP, and where.
    pub vip: VipId,
    /// sha of the claims.
    pub mac: MacAddr,
}

/// What it did.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Offender {
    /// When the first claim came.
    pub first: Monotonic,
    /// When the last one came.
    pub last: Monotonic,
    /// How many there were.
    pub claims: u64,
    /// What the last one was: `conflict`, `contested`, `sighted` or `probed`.
    pub kind: &'static str,
    /// Ethernet source of the last one.
    pub source: MacAddr,
    /// Whose the MAC is.
    pub vendor: String,
}

/// A number of things a second.
#[derive(Clone, Copy, PartialEq, PartialOrd, Debug, Default)]
pub struct PerSecond(pub f64);

impl PerSecond {
    /// How fast a counter grew. One that is smaller now was begun anew in between.
    pub fn between(before: u64, after: u64, elapsed: Duration) -> Self {
        let grown = if after < before { after } else { after - before };
        if elapsed.is_zero() {
            return Self(0.0);
        }
        #[expect(clippy::cast_precision_loss, reason = "nobody counts 2^53 frames an interval")]
        Self(grown as f64 / elapsed.as_secs_f64())
    }

    /// Whether nothing happened.
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

/// How fast the counts about something grow.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Rates {
    /// Requests answered.
    pub answered: PerSecond,
    /// Claims dropped as conflicts.
    pub conflicts: PerSecond,
    /// Requests dropped.
    pub suppressed: PerSecond,
}

impl Rates {
    fn between(before: Counts, after: Counts, elapsed: Duration) -> Self {
        let rate = |of: fn(&Counts) -> u64| PerSecond::between(of(&before), of(&after), elapsed);
        Self {
            answered: rate(|counts| counts.answered),
            conflicts: rate(|counts| counts.conflicts),
            suppressed: rate(|counts| counts.suppressed),
        }
    }
}

impl Snapshot {
    /// The rates of a VIP since `before`; none when it has no counts of its own, or was not there.
    pub fn rates_of(&self, id: &VipId, before: Option<&Self>) -> Option<Rates> {
        let before = before?;
        let counts = self.vips.get(id)?.counts?;
        let counted = before.vips.get(id).and_then(|vip| vip.counts).unwrap_or_default();
        Some(Rates::between(counted, counts, self.at.saturating_since(before.at)))
    }

    /// Frames a second by outcome, those that there were, the most frequent first.
    pub fn frame_rates(&self, before: Option<&Self>) -> Vec<(&'static str, PerSecond)> {
        let Some(before) = before else { return Vec::new() };
        let elapsed = self.at.saturating_since(before.at);
        let rate = |(name, after): (&&'static str, &u64)| {
            let counted = before.frames.get(*name).copied().unwrap_or_default();
            (*name, PerSecond::between(counted, *after, elapsed))
        };
        let mut rates: Vec<_> = self.frames.iter().map(rate).filter(|(_, rate)| !rate.is_none()).collect();
        rates.sort_by(|(_, a), (_, b)| b.partial_cmp(a).unwrap_or(std::cmp::Ordering::Equal));
        rates
    }

    /// How many entries have each role, in the order `held`, `handover`, `foreign`.
    pub fn roles(&self) -> [(&'static str, usize); 3] {
        ["held", "handover", "foreign"]
            .map(|role| (role, self.vips.values().filter(|vip| vip.role == role).count()))
    }

    /// The offenders, those that were heard last first.
    pub fn latest_offenders(&self) -> Vec<(&OffenderId, &Offender)> {
        let mut offenders: Vec<_> = self.offenders.iter().collect();
        offenders.sort_by_key(|(id, offender)| (std::cmp::Reverse(offender.last), *id));
        offenders
    }
}
