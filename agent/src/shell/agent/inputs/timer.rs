//! The timer of the event loop's deadline.
//!
//! tokio's own timers wake a thread up to three times for one deadline: they sort a far deadline in
//! again when it comes nearer. An agent at rest does little else, so it has a timer of the kernel.

use std::{
    io,
    os::fd::{AsFd as _, AsRawFd, RawFd},
    time::Duration,
};

use nix::sys::{
    time::TimeSpec,
    timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags},
};
use tokio::{
    io::{Interest, unix::AsyncFd},
    task::coop::consume_budget,
};
use vipward_core::base::time::Monotonic;

use crate::shell::kernel::clock;

#[cfg(test)]
mod tests;

/// A timer for one deadline at a time; needs a tokio runtime.
pub(super) struct Timer {
    timer: AsyncFd<Descriptor>,
    /// The deadline for which the kernel's timer was set last.
    set: Option<Monotonic>,
}

struct Descriptor(TimerFd);

impl AsRawFd for Descriptor {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_fd().as_raw_fd()
    }
}

impl Timer {
    pub(super) fn new() -> io::Result<Self> {
        let flags = TimerFlags::TFD_CLOEXEC | TimerFlags::TFD_NONBLOCK;
        let timer = Descriptor(TimerFd::new(ClockId::CLOCK_MONOTONIC, flags)?);
        // SAFETY: the descriptor stays the same, and is closed when `Descriptor` is dropped.
        let registered = unsafe { AsyncFd::register_with_interest(timer, Interest::READABLE) };
        Ok(Self { timer: registered?, set: None })
    }

    /// Waits until the deadline. Cancel-safe.
    pub(super) async fn wait_until(&mut self, deadline: Monotonic) -> io::Result<()> {
        loop {
            if deadline <= now()? {
                // Other tasks run, even if one deadline after the other has passed already.
                consume_budget().await;
                return Ok(());
            }
            if self.set != Some(deadline) {
                let at =
                    Expiration::OneShot(TimeSpec::from_duration(Duration::from_nanos(deadline.as_nanos())));
                self.timer.get_ref().0.set(at, TimerSetTimeFlags::TFD_TIMER_ABSTIME)?;
                self.set = Some(deadline);
            }
            // The readiness may be left from an earlier deadline. Nothing is read: to set the timer
            // resets it.
            self.timer.readable().await?.clear_ready();
        }
    }
}

fn now() -> io::Result<Monotonic> {
    Ok(Monotonic::from_nanos(clock::monotonic_ns()?))
}
