//! Settings of ownership on this node, and their validation.

use std::time::Duration;

use thiserror::Error;
use vipward_common::Policy;

use crate::{liveness::Scale, records::NodeName};

#[cfg(test)]
mod tests;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    pub node: NodeName,
    /// Validity of one renewal.
    pub lease: Duration,
    /// Time between two renewals of the Lease.
    pub renewal: Duration,
    /// Time by which the lease deadline comes before the end of the lease. Other nodes wait this
    /// much longer than the lease.
    pub margin: Duration,
    /// The policy of the program after the lease deadline.
    pub policy: Policy,
    /// Time for which the program answers through its grace period, counted from the last renewal.
    pub hold_for: Duration,
    /// Validity of the lease for a restart.
    pub restart_lease: Duration,
    /// Time for which a better candidate must have been one before it gets the VIP.
    pub stable_for: Duration,
    /// The time between two handovers that are not urgent.
    pub handover_pace: Duration,
    /// True if nodes that are excluded from external load balancers are excluded here.
    pub honour_exclude_label: bool,
    /// Time by which the lease deadline is written earlier, because the program's clock may be late
    /// by as much.
    pub clock_late: Duration,
    /// Largest number of VIPs without a claim that are being taken at a
    /// time. It is enough to keep the API server busy.
    pub most_new: usize,
    /// Longest time to find out if an address is in use, before a VIP is taken for
    /// the first time. If none, no address is probed.
    pub probing: Option<Duration>,
    /// The times of wire failover. None if this node takes no part.
    pub wire: Option<Scale>,
    /// Seed that makes the sessions of this process different from all others.
    pub seed: u64,
}

#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum SettingsError {
    /// A lease that is too short or too long for an API server.
    #[error("a lease of {lease:?} is out of range: it must last from 1s to 1h")]
    Lease { lease: Duration },
    /// Renewals that are too frequent for an API server.
    #[error("a renewal every {renewal:?} is too often: one every 100ms is the most")]
    Renewal { renewal: Duration },
    /// Renewals so rare that one failure would silence all VIPs.
    #[error(
        "a renewal every {renewal:?} is too rare for a lease deadline of {lease_deadline:?} (the lease less the \
         margin): one that fails would silence every VIP of the node. It must be {most:?} or less, or the lease longer"
    )]
    Rare {
        renewal: Duration,
        /// The lease less the margin.
        lease_deadline: Duration,
        most: Duration,
    },
    /// A margin that is too small for the difference of two clocks. Their
    /// nodes could disagree about a VIP's holder.
    #[error(
        "a margin of {margin:?} is too small for a lease of {lease:?}: clocks may differ by one per cent. It must be \
         {least:?} or more"
    )]
    Margin { margin: Duration, lease: Duration, least: Duration },
    /// A restart lease that is shorter than the lease.
    #[error("a restart lease of {restart:?} is shorter than the lease, {lease:?}: a restart would move VIPs")]
    Restart { restart: Duration, lease: Duration },
    /// A grace period that ends before others may take over.
    #[error(
        "a grace period of {hold_for:?} ends before others may take over: it must be {least:?} or more (the lease \
         and the margin), or the policy `stop`"
    )]
    HoldFor { hold_for: Duration, least: Duration },
}

impl Settings {
    /// Checks the settings. Fails with the first one that cannot work.
    pub fn check(&self) -> Result<(), SettingsError> {
        let Self { lease, renewal, margin, hold_for, restart_lease, .. } = *self;
        if !(Duration::from_secs(1)..=Duration::from_hours(1)).contains(&lease) {
            return Err(SettingsError::Lease { lease });
        }
        if renewal < Duration::from_millis(100) {
            return Err(SettingsError::Renewal { renewal });
        }
        // This is twice the effect of one per cent on both sides.
        let least = lease / 25;
        if margin < least {
            return Err(SettingsError::Margin { margin, lease, least });
        }
        let lease_deadline = lease.saturating_sub(margin);
        let most = lease_deadline / 2;
        if renewal > most {
            return Err(SettingsError::Rare { renewal, lease_deadline, most });
        }
        if restart_lease < lease {
            return Err(SettingsError::Restart { restart: restart_lease, lease });
        }
        let least = lease + margin;
        if self.policy == Policy::Hold && hold_for < least {
            return Err(SettingsError::HoldFor { hold_for, least });
        }
        Ok(())
    }
}
