//! Waiting for a condition, with a deadline and a failure that says what was waited for.

#[cfg(test)]
mod tests;

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// Polls `condition` until it holds; fails after `limit` with `what`, or at once when `condition` fails.
pub fn wait_until(limit: Duration, what: &str, mut condition: impl FnMut() -> Result<bool>) -> Result<()> {
    wait_for(limit, what, || Ok(condition()?.then_some(())))
}

/// Polls `look` until it finds something; fails after `limit` with `what`, or at once when `look` fails.
pub fn wait_for<T>(limit: Duration, what: &str, mut look: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    let deadline = Instant::now() + limit;
    loop {
        // Whether time is up is asked first: the condition gets one look after the deadline, however
        // long this thread was kept from running.
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
