//! Timeouts of the watch of the Leases, and their remedy. Pure.

#[cfg(test)]
mod tests;

/// Remedy for a watch of the Leases that has delivered nothing for too long.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Remedy {
    Begin,
    /// All watches begin anew: connections may be dead.
    BeginAll,
    /// Everything is listed anew: the store may have gone back.
    ListAll,
}

/// Count of the timeouts in a row.
///
/// The watch delivers nothing while no node renews. While this node does, it delivers its Lease.
#[derive(Debug, Default)]
pub(super) struct Silence {
    /// True if an event has come since the last timeout.
    lively: bool,
    /// Number of timeouts in a row during which renewals succeeded.
    times: u32,
    /// Number of successful renewals at the last event, or at the start of the watch.
    renewals: u64,
}

impl Silence {
    pub(super) fn begin(&mut self, renewals: u64) {
        self.renewals = renewals;
    }

    pub(super) fn received(&mut self, renewals: u64) {
        *self = Self { lively: true, times: 0, renewals };
    }

    pub(super) fn found(&mut self, renewals: u64) -> Remedy {
        self.times = if renewals > self.renewals { self.times.saturating_add(1) } else { 0 };
        // Lists become rarer, or a watch that stays stalled would cost one every few seconds.
        let is_lively = std::mem::take(&mut self.lively);
        if self.times >= 2 && self.times.is_power_of_two() {
            Remedy::ListAll
        } else if is_lively {
            Remedy::BeginAll
        } else {
            Remedy::Begin
        }
    }
}
