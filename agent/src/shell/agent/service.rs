//! The service manager: what it is notified of.

use std::{collections::BTreeSet, fmt, net::IpAddr, time::Duration};

use tracing::{info, warn};
use vipward_core::{agent::Agent, base::time::Monotonic};

use super::{
    error::RunError,
    event_loop::{EventLoop, Outer},
    timing::now,
};
use crate::shell::kernel::systemd::Systemd;

/// The time after which a standalone agent counts as ready, although addresses are still being probed:
/// without carrier, that may take for ever.
const READY_AFTER: Duration = Duration::from_secs(10);
/// The least time between two texts of the state. They count all VIPs.
const STATUS: Duration = Duration::from_secs(5);
/// The longest time until what was not sent is sent again.
const RETRY: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests;

/// A service manager that is notified.
pub(super) struct Service {
    systemd: Systemd,
    /// The time at which the agent counts as ready. None if it does already.
    ready_by: Option<Monotonic>,
    next_ping: Option<Monotonic>,
    next_status: Monotonic,
    status: Status,
    /// True if the last notification was not sent.
    has_failed: bool,
}

/// The state in words.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
struct Status {
    held: usize,
    waiting: usize,
    is_refused: bool,
}

impl Service {
    pub(super) fn start(systemd: Systemd, now: Monotonic) -> Self {
        Self {
            next_ping: systemd.watchdog.map(|_| now),
            systemd,
            ready_by: Some(now + READY_AFTER),
            next_status: now,
            status: Status::default(),
            has_failed: false,
        }
    }

    pub(super) fn next_deadline(&self) -> Option<Monotonic> {
        [self.ready_by, self.next_ping].into_iter().flatten().min()
    }

    /// Shows that the event loop runs, twice in the time of the watchdog.
    pub(super) fn ping(&mut self, now: Monotonic) {
        if let Some(watchdog) = self.systemd.watchdog
            && self.next_ping.is_some_and(|next| next <= now)
        {
            let is_sent = self.notify("WATCHDOG=1");
            self.next_ping = Some(now + if is_sent { watchdog / 2 } else { RETRY.min(watchdog / 8) });
        }
    }

    pub(super) fn stopping(&mut self) {
        self.notify("STOPPING=1");
    }

    /// Returns true if the state was sent. The socket may be full.
    fn notify(&mut self, state: &str) -> bool {
        let sent = self.systemd.notify(state);
        let had_failed = std::mem::replace(&mut self.has_failed, sent.is_err());
        match &sent {
            Ok(()) if had_failed => info!("systemd is notified again"),
            Err(error) if !had_failed => warn!(state, %error, "failed to notify systemd; trying again"),
            Ok(()) | Err(_) => {}
        }
        sent.is_ok()
    }

    fn on_turn(
        &mut self,
        has_decided: impl FnOnce() -> bool,
        status: impl FnOnce() -> Status,
        now: Monotonic,
    ) {
        self.ping(now);
        if now < self.next_status {
            return;
        }
        let is_ready = self.ready_by.is_some_and(|by| by <= now || has_decided());
        if !is_ready && self.ready_by.is_some() {
            return;
        }
        let status = status();
        let is_sent = if is_ready {
            self.notify(&format!("READY=1\nSTATUS={status}"))
        } else {
            status == self.status || self.notify(&format!("STATUS={status}"))
        };
        self.next_status = now + if is_sent { STATUS } else { RETRY };
        if is_sent {
            self.ready_by = None;
            self.status = status;
        } else if is_ready {
            self.ready_by = Some(self.next_status);
        }
    }
}

impl Status {
    fn of(agent: &Agent, is_refused: bool) -> Self {
        let to_hold = agent.config().vips.iter().filter(|vip| vip.mac.is_none()).count();
        let yielded = agent.host().yielded().keys().copied();
        let mut waiting: BTreeSet<IpAddr> = agent.segment().held_back().chain(yielded).collect();
        waiting.extend(agent.unanswered().into_keys());
        Self { held: to_hold.saturating_sub(waiting.len()), waiting: waiting.len(), is_refused }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { held, waiting, is_refused } = self;
        write!(f, "VIPs held: {held}, waiting: {waiting}")?;
        if *is_refused { f.write_str("; the file on disk was refused") } else { Ok(()) }
    }
}

impl EventLoop {
    /// Notifies the service manager of what has changed.
    pub(super) fn notify_service(&mut self) -> Result<(), RunError> {
        if let (Some(service), Outer::File(reading)) = (&mut self.service, &self.outer) {
            let status = || Status::of(&self.agent, reading.is_refused());
            service.on_turn(|| self.agent.has_decided(), status, now()?);
        }
        Ok(())
    }
}
