//! Whether a controller leads, as an agent sees it by the renewals of its Lease.

use std::time::Duration;

use crate::{base::time::Monotonic, records::Version};

/// Time without a renewal after which no controller leads.
const LASTS: Duration = Duration::from_mins(1);

#[derive(Debug, Default)]
pub(super) struct Leader {
    version: Option<Version>,
    /// Time of the last renewal, or from which one is awaited. None until the time is known.
    since: Option<Monotonic>,
    is_gone: bool,
}

impl Leader {
    /// Records the version of the Lease. Returns true if a controller leads again.
    pub(super) fn on_lease(&mut self, version: Option<Version>) -> bool {
        // A list shows a Lease again that nobody has written.
        if version.is_none() || self.version == version {
            return false;
        }
        self.version = version;
        self.since = None;
        std::mem::take(&mut self.is_gone)
    }

    /// Handles that this process may see renewals late: the time begins anew.
    pub(super) fn doubt(&mut self) {
        self.since = None;
    }

    /// Records the time. Returns true if no controller leads any more.
    pub(super) fn on_time(&mut self, now: Monotonic) -> bool {
        let since = *self.since.get_or_insert(now);
        let ends = !self.is_gone && since + LASTS <= now;
        self.is_gone |= ends;
        ends
    }

    pub(super) fn is_gone(&self) -> bool {
        self.is_gone
    }

    /// Returns the time of the next [`Leader::on_time`].
    pub(super) fn next_deadline(&self) -> Option<Monotonic> {
        (!self.is_gone).then(|| self.since.map_or_else(Monotonic::default, |since| since + LASTS))
    }
}
