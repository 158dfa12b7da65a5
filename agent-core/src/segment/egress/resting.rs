//! Memory of the VIPs that their clients did not reach on this node: it comes last for them, so that a VIP moves to a
//! node where it may be reached, and comes back late where it is reached on no node.
//!
//! |then|this node comes last|
//! |---|---|
//! |it holds the VIP, which its clients do not reach|yes|
//! |it let go of the VIP|until [`RESTS`] after the finding, twice as long after each in a row|
//! |the VIP is reached again, or was let go of and frames take another way|no|

use std::{collections::BTreeMap, net::IpAddr, time::Duration};

use vipward_common::VipKey;

use crate::base::time::Monotonic;

#[cfg(test)]
mod tests;

/// The time for which a node comes last for a VIP after its first finding.
const RESTS: Duration = Duration::from_mins(10);
/// The most times that it is doubled.
const MOST_DOUBLED: u32 = 5;

#[derive(Clone, Copy, Debug)]
struct Rest {
    until: Monotonic,
    /// The number of findings in a row.
    findings: u32,
    is_over: bool,
}

impl Rest {
    fn lasts(self) -> Duration {
        RESTS * 2_u32.pow(self.findings.saturating_sub(1).min(MOST_DOUBLED))
    }
}

#[derive(Debug, Default)]
pub struct Resting(BTreeMap<VipKey, Rest>);

impl Resting {
    /// Records that a VIP is unheard.
    pub fn find(&mut self, key: VipKey, now: Monotonic) {
        // Findings of this node and another at the same time count as one.
        let findings = match self.0.get(&key) {
            Some(rest) if rest.is_over => rest.findings + 1,
            Some(rest) => rest.findings,
            None => 1,
        };
        let rest = Rest { until: now, findings, is_over: false };
        self.0.insert(key, Rest { until: now + rest.lasts(), ..rest });
    }

    /// Records that a VIP was heard.
    pub fn end(&mut self, key: VipKey) {
        self.0.remove(&key);
    }

    /// Records that frames of a segment take another way. The VIPs that are still faulty here rest on.
    /// Returns true if that ends a rest.
    pub fn begin_anew(&mut self, segment: u32, is_faulty: impl Fn(VipKey) -> bool) -> bool {
        let of_segment = self.0.extract_if(.., |key, _| key.ifindex == segment && !is_faulty(*key));
        of_segment.filter(|(_, rest)| !rest.is_over).count() > 0
    }

    /// Lets the rests of VIPs that are still faulty here go on, and ends the others. Returns true if one
    /// has ended.
    pub fn on_tick(&mut self, now: Monotonic, is_faulty: impl Fn(VipKey) -> bool) -> bool {
        let mut has_ended = false;
        for (key, rest) in self.0.iter_mut().filter(|(_, rest)| !rest.is_over && rest.until <= now) {
            if is_faulty(*key) {
                rest.until = now + rest.lasts();
            } else {
                rest.is_over = true;
                has_ended = true;
            }
        }
        // The next finding would be one in a row until then.
        self.0.retain(|_, rest| !rest.is_over || now < rest.until + rest.lasts());
        has_ended
    }

    /// Returns the time of the next [`Self::on_tick`].
    pub fn next_deadline(&self) -> Option<Monotonic> {
        self.0.values().filter(|rest| !rest.is_over).map(|rest| rest.until).min()
    }

    /// Returns the VIPs on a segment for which this node comes last.
    pub fn vips(&self, segment: u32) -> impl Iterator<Item = IpAddr> {
        self.0
            .iter()
            .filter(move |(key, rest)| key.ifindex == segment && !rest.is_over)
            .map(|(key, _)| key.addr)
    }
}
