//! The settings that all engines share.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The time between two refreshes of an announcement; shorter than the default, so that runs are short.
pub(crate) const REFRESH: Duration = Duration::from_secs(15);

/// The settings that all engines share, in milliseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(clippy::struct_field_names, reason = "a scalar that is written down carries its unit")]
pub(crate) struct Timing {
    /// The duration of a renewal.
    pub(crate) lease_ms: u32,
    /// The time between two renewals.
    pub(crate) renewal_ms: u32,
    /// The margin by which the lease deadline passes earlier and others wait longer.
    pub(crate) margin_ms: u32,
    /// The lease for a restart.
    pub(crate) restart_lease_ms: u32,
    /// The time for which a passed lease deadline is in its grace period.
    pub(crate) hold_for_ms: u32,
}
