//! State of an address that is being probed.

use std::time::Duration;

use vipward_common::MacAddr;

use super::manner::Manner;
use crate::base::time::Monotonic;

/// Time for which an address in use is probed at the shorter of two intervals.
const AT_FIRST: Duration = Duration::from_mins(2);
/// Time from a conflict to the next attempt, at first. The limit of RFC 5227, 2.1.1 (one attempt a
/// minute after ten conflicts) is for hosts that try one address after the other. This agent probes
/// one address, and [`super::Settings::rate`] is its limit.
pub(super) const RETRY: Duration = Duration::from_secs(2);
/// Time from a conflict to the next attempt, later.
const LATE_RETRY: Duration = Duration::from_secs(10);
/// Time from a conflict to the next attempt, if other nodes probe the address often.
const RARE_RETRY: Duration = Duration::from_mins(1);

#[derive(Debug)]
pub(super) struct ProbedAddress {
    /// Number of probes sent in this attempt. After the last one, only the wait is left.
    pub(super) sent: u32,
    /// Time of the beginning of this attempt.
    pub(super) began: Monotonic,
    /// Number of attempts that found the address in use.
    pub(super) conflicts: u32,
    /// Time of the first of these attempts.
    in_use_since: Option<Monotonic>,
    pub(super) manner: Manner,
    pub(super) due: Monotonic,
    /// True if a host that probes for the address too has put off an attempt.
    pub(super) was_put_off: bool,
    /// The MAC that uses the address or probes for it, while the address waits for the next attempt.
    pub(super) rests: Option<MacAddr>,
}

/// Place of a due probe. The smallest leaves first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Turn {
    /// The address has no result yet.
    New,
    /// The address was in use, and no host has answered in this attempt.
    Begun,
    /// The address was in use, and has not been probed in this attempt.
    InUse,
}

impl ProbedAddress {
    pub(super) fn new(manner: Manner, due: Monotonic) -> Self {
        Self {
            sent: 0,
            began: due,
            conflicts: 0,
            in_use_since: None,
            manner,
            due,
            was_put_off: false,
            rests: None,
        }
    }

    /// Returns the state of an address that is in use, and is probed often.
    pub(super) fn in_use(mac: MacAddr, due: Monotonic) -> Self {
        Self { conflicts: 1, rests: Some(mac), ..Self::new(Manner::OFTEN, due) }
    }

    pub(super) fn turn(&self) -> Turn {
        match (self.conflicts, self.sent) {
            (0, _) => Turn::New,
            (_, 0) => Turn::InUse,
            _ => Turn::Begun,
        }
    }

    /// Records that a host uses the address. Returns the time of the next attempt.
    pub(super) fn rest(&mut self, mac: MacAddr, now: Monotonic) -> Monotonic {
        let since = *self.in_use_since.get_or_insert(now);
        let retry = match self.manner.often {
            false => RARE_RETRY,
            true if now.saturating_since(since) < AT_FIRST => RETRY,
            true => LATE_RETRY,
        };
        self.conflicts += 1;
        self.rests = Some(mac);
        self.due = now + retry;
        self.due
    }
}
