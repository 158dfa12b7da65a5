//! How ownership works on this node, and which settings make no sense.

use std::time::Duration;

use thiserror::Error;
use vipward_common::Policy;

use crate::cluster::NodeName;

#[cfg(test)]
mod tests;

/// How ownership works on this node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// This node.
    pub node: NodeName,
    /// How long one renewal is good for.
    pub lease: Duration,
    /// How often the Lease is renewed.
    pub renewal: Duration,
    /// The fence lapses this much before the lease, and others wait this much longer than it.
    pub margin: Duration,
    /// What the program does when the fence has lapsed.
    pub policy: Policy,
    /// How long it is held over then, counted from the last sign of life.
    pub hold_for: Duration,
    /// What the lease is lengthened to for a restart.
    pub restart_lease: Duration,
    /// How long a better candidate must have been one before it gets the VIP.
    pub stable_for: Duration,
    /// The time between two handovers that are not urgent.
    pub handover_pace: Duration,
    /// True if nodes that are excluded from external load balancers are excluded here.
    pub honour_exclude_label: bool,
    /// How much earlier than meant the fence's deadline is written:
    /// what the program's clock may be late.
    pub clock_late: Duration,
    /// So many VIPs without a claim are asked for at a time: enough to keep the API server busy.
    pub most_new: usize,
    /// How long it takes at most to find out whether an address is in use, before it is
    /// taken for the first time; none: nobody is asked.
    pub probing: Option<Duration>,
    /// Makes the sessions of this process different from all others.
    pub seed: u64,
}

/// Settings that cannot work.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum SettingsError {
    /// Too short or too long for an API server.
    #[error("a lease of {lease:?} is out of range: it must last from 1s to 1h")]
    Lease {
        /// The lease.
        lease: Duration,
    },
    /// Renewed too often for an API server.
    #[error("a renewal every {renewal:?} is too often: one every 100ms is the most")]
    Renewal {
        /// The time between renewals.
        renewal: Duration,
    },
    /// One renewal that fails would silence all VIPs.
    #[error(
        "a renewal every {renewal:?} is too rare for a fence of {fence:?} (the lease less the margin): one that fails \
         would silence every VIP of the node. It must be {most:?} or less, or the lease longer"
    )]
    Rare {
        /// The time between renewals.
        renewal: Duration,
        /// The lease less the margin.
        fence: Duration,
        /// The longest time that is allowed.
        most: Duration,
    },
    /// Two clocks could disagree about who holds a VIP.
    #[error(
        "a margin of {margin:?} is too small for a lease of {lease:?}: clocks may differ by one per cent. It must be \
         {least:?} or more"
    )]
    Margin {
        /// The margin.
        margin: Duration,
        /// The lease.
        lease: Duration,
        /// The smallest that is allowed.
        least: Duration,
    },
    /// A restart that is less than a renewal.
    #[error("a restart lease of {restart:?} is shorter than the lease, {lease:?}: a restart would move VIPs")]
    Restart {
        /// The restart lease.
        restart: Duration,
        /// The lease.
        lease: Duration,
    },
    /// Holding over that ends before others may take over.
    #[error(
        "holding over for {hold_for:?} ends before others may take over: it must be {least:?} or more (the lease and \
         the margin), or the policy `stop`"
    )]
    HoldFor {
        /// How long it is held over.
        hold_for: Duration,
        /// The smallest that is allowed.
        least: Duration,
    },
}

impl Settings {
    /// Refuses what cannot work.
    pub fn check(&self) -> Result<(), SettingsError> {
        let Self { lease, renewal, margin, hold_for, restart_lease, .. } = *self;
        if !(Duration::from_secs(1)..=Duration::from_hours(1)).contains(&lease) {
            return Err(SettingsError::Lease { lease });
        }
        if renewal < Duration::from_millis(100) {
            return Err(SettingsError::Renewal { renewal });
        }
        // Twice what one per cent on both sides takes.
        let least = lease / 25;
        if margin < least {
            return Err(SettingsError::Margin { margin, lease, least });
        }
        let fence = lease.saturating_sub(margin);
        let most = fence / 2;
        if renewal > most {
            return Err(SettingsError::Rare { renewal, fence, most });
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
