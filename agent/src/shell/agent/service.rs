//! The service manager: what it is notified of.

use std::{collections::BTreeSet, fmt, net::IpAddr, time::Duration};

use tracing::warn;
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

/// A service manager that is notified.
pub(super) struct Service {
    systemd: Systemd,
    /// The time at which the agent counts as ready. None if it does already.
    ready_by: Option<Monotonic>,
    next_ping: Option<Monotonic>,
    next_status: Monotonic,
    status: Status,
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
            self.next_ping = Some(now + watchdog / 2);
            self.notify("WATCHDOG=1");
        }
    }

    pub(super) fn stopping(&self) {
        self.notify("STOPPING=1");
    }

    fn notify(&self, state: &str) {
        if let Err(error) = self.systemd.notify(state) {
            warn!(state, %error, "failed to notify systemd");
        }
    }

    fn on_turn(&mut self, agent: &Agent, is_refused: bool, now: Monotonic) {
        self.ping(now);
        let is_ready = self.ready_by.is_some_and(|by| by <= now || agent.has_decided());
        if !is_ready && (self.ready_by.is_some() || now < self.next_status) {
            return;
        }
        self.next_status = now + STATUS;
        let status = Status::of(agent, is_refused);
        if is_ready {
            self.ready_by = None;
            self.notify(&format!("READY=1\nSTATUS={status}"));
        } else if status != self.status {
            self.notify(&format!("STATUS={status}"));
        }
        self.status = status;
    }
}

impl Status {
    fn of(agent: &Agent, is_refused: bool) -> Self {
        let to_hold = agent.config().vips.iter().filter(|vip| vip.mac.is_none()).count();
        let yielded = agent.host().yielded().keys().copied();
        let waiting: BTreeSet<IpAddr> = agent.waiting().iter().map(|it| it.address).chain(yielded).collect();
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
            service.on_turn(&self.agent, reading.is_refused(), now()?);
        }
        Ok(())
    }
}
