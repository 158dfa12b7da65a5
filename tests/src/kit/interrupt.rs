//! Turns SIGINT, SIGTERM and SIGHUP into an error, so that a program can clean up.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};

use crate::kit::wait_for;

/// Pause of [`poll`] between two looks.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Makes [`check`] fail after SIGINT, SIGTERM or SIGHUP, instead of ending the process.
pub fn install() -> Result<()> {
    let action = SigAction::new(SigHandler::Handler(note), SaFlags::SA_RESTART, SigSet::empty());
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        // SAFETY: the handler stores to an atomic and does nothing else.
        unsafe { sigaction(signal, &action) }.with_context(|| format!("failed to handle {signal}"))?;
    }
    Ok(())
}

extern "C" fn note(_: libc::c_int) {
    INTERRUPTED.store(true, Ordering::Relaxed);
}

/// Fails if this process was interrupted.
pub fn check() -> Result<()> {
    ensure!(!INTERRUPTED.load(Ordering::Relaxed), "interrupted");
    Ok(())
}

/// Returns true if this process was interrupted.
pub fn happened() -> bool {
    check().is_err()
}

/// Waits like [`wait_for`], and fails at once when this process is interrupted.
pub fn wait<T>(limit: Duration, what: &str, mut look: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    wait_for(limit, what, || {
        check()?;
        look()
    })
}

/// Waits like [`wait`], with pauses that leave the machine to other processes.
pub(crate) fn poll<T>(limit: Duration, what: &str, mut look: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    wait(limit, what, || {
        let found = look()?;
        if found.is_none() {
            thread::sleep(POLL_INTERVAL);
        }
        Ok(found)
    })
}

/// Waits for `duration`.
pub fn pass(duration: Duration) -> Result<()> {
    let end = Instant::now() + duration;
    wait(duration, "time to pass", || Ok((Instant::now() >= end).then_some(())))
}
