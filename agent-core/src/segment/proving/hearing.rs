//! Records if another host was heard on a segment since its link came up.
//!
//! A switch's port may pass nothing for a while after the link came up (a spanning tree listens and
//! learns for two forward delays of 15 s, IEEE 802.1D-2004, 8.4 and table 17-1). Then silence
//! proves nothing: neither that an address is free, nor that an announcement has arrived.
//!
//! |heard since the link came up|a first claim|
//! |---|---|
//! |yes|is probed as configured|
//! |no, for less than [`AWAITED_FOR`]|waits, and is probed anew when a host is heard|
//! |no, for longer|is probed with the times of RFC 5227|

use std::time::Duration;

use crate::base::time::Monotonic;

#[cfg(test)]
mod tests;

/// Time after the link came up, until which silence proves nothing: two forward delays, and the time
/// of the last probes.
const AWAITED_FOR: Duration = Duration::from_secs(35);
/// Least time between two announcements because hosts are heard again.
const AGAIN_AFTER: Duration = Duration::from_mins(1);

#[derive(Debug)]
pub(super) struct Hearing {
    /// The time at which the link came up, or this agent first saw it.
    since: Monotonic,
    heard: bool,
    /// True if the last round received nothing.
    is_silent: bool,
    /// The last time at which hosts were heard again.
    again: Option<Monotonic>,
}

impl Hearing {
    pub(super) fn start(now: Monotonic) -> Self {
        Self { since: now, heard: false, is_silent: false, again: None }
    }

    /// Records that another host was heard. Returns true if what was announced meanwhile may have been lost.
    pub(super) fn hear(&mut self, now: Monotonic) -> bool {
        let is_first = !std::mem::replace(&mut self.heard, true);
        let was_silent = std::mem::take(&mut self.is_silent);
        let is_due = is_first || self.again.is_none_or(|again| again + AGAIN_AFTER <= now);
        let is_again = was_silent && is_due;
        if is_again {
            self.again = Some(now);
        }
        is_again
    }

    /// Returns true if a frame of another host would change anything.
    pub(super) fn is_news(&self) -> bool {
        !self.heard || self.is_silent
    }

    pub(super) fn hear_nothing(&mut self) {
        self.is_silent = true;
    }

    /// Returns the time until which silence proves nothing, if no host was heard.
    pub(super) fn unheard_until(&self) -> Option<Monotonic> {
        (!self.heard).then(|| self.since + AWAITED_FOR)
    }

    /// Returns true while a host must be heard before silence proves anything.
    pub(super) fn is_awaited(&self, now: Monotonic) -> bool {
        self.unheard_until().is_some_and(|until| now < until)
    }
}
