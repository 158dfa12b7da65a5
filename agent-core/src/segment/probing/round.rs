//! The round over the held VIPs, which looks for rivals.

use std::{collections::BTreeMap, time::Duration};

use vipward_common::VipKey;

use crate::base::{
    pace::{Pace, around, chance},
    time::Monotonic,
};

/// Jitter of the time between two probes for a held VIP, in per cent, either way.
const JITTER_PER_CENT: u32 = 10;
/// Least time between two groups of probes for held VIPs. An agent with
/// very many VIPs does not wake for each of them.
const GROUP_EVERY: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct Round {
    /// The VIP that was probed last.
    last: Option<VipKey>,
    pub(super) next: Monotonic,
    number: u32,
    seed: u64,
    /// Interfaces whose VIPs are probed without delay, with the last VIP that was.
    urgent: BTreeMap<u32, VipKey>,
}

impl Round {
    /// Starts a round. Its first probes come at `next`.
    pub(super) fn start(seed: u64, next: Monotonic) -> Self {
        Self { last: None, next, number: 0, seed, urgent: BTreeMap::new() }
    }

    /// Begins to probe the VIPs of an interface without delay.
    pub(super) fn begin_on(&mut self, ifindex: u32, now: Monotonic) {
        // The first key of the interface: no VIP has this address.
        self.urgent.insert(ifindex, VipKey::new(ifindex, [0; 4]));
        self.next = now;
    }

    /// Returns the VIPs to be probed now. `held` is the number of all held VIPs, each of which
    /// is probed once per `repeat`. `after` returns the held VIP after a given one, or the first.
    pub(super) fn go_on(
        &mut self,
        (repeat, held): (Duration, usize),
        after: impl Fn(Option<VipKey>) -> Option<VipKey>,
        pace: &mut Pace,
        now: Monotonic,
    ) -> Vec<VipKey> {
        if self.next > now {
            return Vec::new();
        }
        let urgent = self.urgent(&after, pace, now);
        if !urgent.is_empty() || !self.urgent.is_empty() {
            self.next = pace.next();
            return urgent;
        }
        let count = u32::try_from(held).unwrap_or(u32::MAX);
        if count == 0 {
            self.next = now + repeat;
            return Vec::new();
        }
        let each = repeat / count;
        let group =
            if each < GROUP_EVERY { GROUP_EVERY.as_nanos().div_ceil(each.as_nanos().max(1)) } else { 1 };
        let mut probed = Vec::new();
        for _ in 0..group.min(u128::from(count)) {
            if !pace.is_open(now) {
                break;
            }
            let Some(key) = after(self.last).or_else(|| after(None)) else { break };
            pace.take();
            self.last = Some(key);
            probed.push(key);
        }
        if probed.is_empty() {
            self.next = pace.next();
            return probed;
        }
        self.number = self.number.wrapping_add(1);
        let pause = each * u32::try_from(probed.len()).unwrap_or(u32::MAX);
        let key = VipKey::new(0, [0; 4]);
        let chance = chance(self.seed, key, self.number);
        self.next = now + around(pause, JITTER_PER_CENT, chance);
        probed
    }

    /// Returns the VIPs that are probed without delay, as far as the pace allows.
    fn urgent(
        &mut self,
        after: impl Fn(Option<VipKey>) -> Option<VipKey>,
        pace: &mut Pace,
        now: Monotonic,
    ) -> Vec<VipKey> {
        let mut probed = Vec::new();
        while let Some((ifindex, last)) = self.urgent.pop_first() {
            let Some(key) = after(Some(last)).filter(|key| key.ifindex == ifindex) else { continue };
            self.urgent.insert(ifindex, last);
            if !pace.is_open(now) {
                break;
            }
            pace.take();
            self.urgent.insert(ifindex, key);
            probed.push(key);
        }
        probed
    }
}
