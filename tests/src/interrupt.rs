//! Ctrl-C and its kin, noticed instead of died of, so that what a program made is removed.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};

use crate::wait::wait_for;

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// From now on SIGINT, SIGTERM and SIGHUP only make [`check`] fail.
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

/// Fails when this process was interrupted.
pub fn check() -> Result<()> {
    ensure!(!INTERRUPTED.load(Ordering::Relaxed), "interrupted");
    Ok(())
}

/// Whether this process was interrupted.
pub fn happened() -> bool {
    check().is_err()
}

/// [`wait_for`] that ends at once when this process is interrupted.
pub fn wait<T>(limit: Duration, what: &str, mut look: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    wait_for(limit, what, || {
        check()?;
        look()
    })
}

/// Lets time pass, in which something outside is to happen or to stay away.
pub fn pass(duration: Duration) -> Result<()> {
    let end = Instant::now() + duration;
    wait(duration, "time to pass", || Ok((Instant::now() >= end).then_some(())))
}
