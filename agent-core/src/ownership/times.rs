//! Times that no setting changes.

use std::time::Duration;

/// Time by which a candidate waits longer than the one ranked before it. The wait counts
/// from the time when the candidate could act. If a better candidate gets other VIPs
/// meanwhile, the wait counts from the last of them, up to `taking::MOST_PATIENT` later.
pub(super) const RANK_DELAY: Duration = Duration::from_millis(500);
/// Divisor of a wait for another node: the wait is longer by at
/// least this part of it. The clocks of two nodes differ by less.
pub(super) const CLOCKS_DIFFER: u32 = 20;
/// Delay before a request with an unknown outcome is repeated.
pub(super) const RETRY: Duration = Duration::from_millis(250);
/// Delay before a refused request is repeated.
pub(super) const REFUSED_RETRY: Duration = Duration::from_secs(5);
/// Time for which the result of a probe is good.
pub(super) const STAYS_FREE: Duration = Duration::from_secs(10);
