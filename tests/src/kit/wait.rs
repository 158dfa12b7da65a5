//! Waits for a condition, with a deadline and a failure that names the condition.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// Polls `condition` until it holds. Fails after `limit`
/// with `what`, or at once if `condition` fails.
pub fn wait_until(limit: Duration, what: &str, mut condition: impl FnMut() -> Result<bool>) -> Result<()> {
    wait_for(limit, what, || Ok(condition()?.then_some(())))
}

/// Polls `look` until it finds something. Fails after
/// `limit` with `what`, or at once if `look` fails.
pub fn wait_for<T>(limit: Duration, what: &str, mut look: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    let deadline = Instant::now() + limit;
    loop {
        // Reads the clock first, so that one look happens after
        // the deadline, even if this thread did not run for long.
        let last = Instant::now() >= deadline;
        if let Some(found) = look().with_context(|| format!("while waiting for {what}"))? {
            return Ok(found);
        }
        if last {
            bail!("waited {limit:?} in vain for {what}");
        }
        thread::sleep(POLL_INTERVAL);
    }
}
