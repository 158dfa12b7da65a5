//! The agent's clock, and the text of times.

use std::{io, time::Duration};

use vipward_core::base::time::Monotonic;

use super::error::{RunError, system};
use crate::shell::kernel::clock;

pub(super) fn now() -> Result<Monotonic, RunError> {
    let now_ns = clock::monotonic_ns().map_err(io::Error::from).map_err(system("read the clock"))?;
    Ok(Monotonic::from_nanos(now_ns))
}

pub(super) fn clock_tick() -> Result<Duration, RunError> {
    clock::coarse_tick().map_err(io::Error::from).map_err(system("read the clock's resolution"))
}

/// Returns milliseconds for a log. The log would write a number of 128 bits as text.
pub(super) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
