//! Repetitions of the first announcement, to the former holder of a VIP only. The first one may
//! have overtaken the expiry notice. Then the former holder dropped it as a contest.

use std::{collections::BTreeMap, time::Duration};

use vipward_common::{MacAddr, VipKey};

use crate::base::time::Monotonic;

/// Least time between two rounds of announcements. It is longer than the second after the last change
/// within which Linux ignores some announcements (its lock time).
pub(super) const ROUND_INTERVAL: Duration = Duration::from_millis(1_100);
/// Times of the repetitions after the first announcement.
const AFTER: [Duration; 3] =
    [Duration::from_millis(50), Duration::from_millis(150), Duration::from_millis(350)];
/// Time after which a repetition that could not leave is of no use: the next round has left.
const TOO_LATE: Duration = ROUND_INTERVAL;

#[derive(Debug)]
struct Former {
    mac: MacAddr,
    /// The time of the first announcement. None before.
    since: Option<Monotonic>,
}

#[derive(Debug, Default)]
pub(super) struct Formers {
    vips: BTreeMap<VipKey, Former>,
}

impl Formers {
    pub(super) fn begin(&mut self, key: VipKey, mac: MacAddr) {
        self.vips.insert(key, Former { mac, since: None });
    }

    pub(super) fn end(&mut self, key: VipKey) {
        self.vips.remove(&key);
    }

    /// Records the first announcement of the VIP. Returns the time of the first repetition.
    pub(super) fn on_announced(&mut self, key: VipKey, now: Monotonic) -> Option<Monotonic> {
        let former = self.vips.get_mut(&key)?;
        former.since = Some(now);
        Some(now + AFTER[0])
    }

    /// Takes a repetition, from 0, that leaves now. Returns the MAC that it goes to, unless it is too
    /// late, and the time of the next.
    pub(super) fn take(
        &mut self,
        key: VipKey,
        number: u8,
        now: Monotonic,
    ) -> (Option<MacAddr>, Option<Monotonic>) {
        let Some(Former { mac, since: Some(since) }) = self.vips.get(&key) else { return (None, None) };
        let due = |number: usize| AFTER.get(number).map(|after| *since + *after);
        let number = usize::from(number);
        let is_in_time = due(number).is_some_and(|due| now < due + TOO_LATE);
        let taken = if is_in_time { (Some(*mac), due(number + 1)) } else { (None, None) };
        if taken.1.is_none() {
            self.end(key);
        }
        taken
    }
}
