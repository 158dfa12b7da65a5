//! Failed attempts to read: the time to wait, and when a refused watch needs a new list.

use std::time::Duration;

use crate::shell::kube::link::error::RequestError;

#[cfg(test)]
mod tests;

/// Number of refused watches in a row after which a list is tried, whatever the reason.
const REFUSALS: u32 = 4;
/// The shortest and the longest time between two attempts.
const PAUSE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(5));

#[derive(Debug, Default)]
pub(super) struct Refusals(u32);

impl Refusals {
    pub(super) fn forget(&mut self) {
        self.0 = 0;
    }

    /// Records a refusal. Returns true if a new list is due, since another version may be accepted.
    pub(super) fn needs_list(&mut self, error: &RequestError) -> bool {
        self.0 = if may_be_about_the_version(error) { self.0.saturating_add(1) } else { 0 };
        // Lists that do not help become rarer.
        let is_due = self.0 >= REFUSALS && self.0.is_power_of_two();
        is_due || is_about_the_version(error)
    }
}

/// Returns true if the API server refuses the version at which a watch is to begin.
fn is_about_the_version(error: &RequestError) -> bool {
    // An example: "Too large resource version: 279, current: 216".
    error.status().is_some_and(|status| {
        status.code == 410 || status.message.to_lowercase().contains("resource version")
    })
}

/// Returns true if a refusal may be about the version. A refusal of the user (401, 403), of the
/// type (404) or of the number of requests (429) is not.
fn may_be_about_the_version(error: &RequestError) -> bool {
    error.code().is_some_and(|code| !matches!(code, 401 | 403 | 404 | 429))
}

/// Returns the time to wait after `failures` failures in a row, with `random` in 0..1.
pub(super) fn pause(failures: u32, random: f64) -> Duration {
    let (shortest, longest) = PAUSE;
    let most = shortest.saturating_mul(2_u32.saturating_pow(failures.saturating_add(1))).min(longest);
    shortest + most.saturating_sub(shortest).mul_f64(random)
}
