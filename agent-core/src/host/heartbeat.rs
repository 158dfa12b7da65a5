//! Heartbeat of a standalone agent: it moves the lease deadline, and measures its own delay.

use std::time::Duration;

use vipward_common::Policy;

use crate::base::time::Monotonic;

#[cfg(test)]
mod tests;

/// Ticks of the coarse clock by which the program may see a deadline late.
/// One of them comes from its cache of the clock.
pub const TICKS_LATE: u32 = 2;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings {
    /// Time from a beat to the lease deadline.
    pub duration: Duration,
    pub heartbeat: Duration,
    /// The policy of the program after the deadline.
    pub policy: Policy,
    /// Length of the grace period after the deadline.
    pub hold_for: Duration,
}

/// Content for the lease deadline.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Beat {
    pub deadline: Monotonic,
    pub grace_until: Monotonic,
    pub policy: Policy,
    /// The delay, if it is large enough for a log line.
    pub late: Option<Late>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Late {
    pub by: Duration,
    /// True if the lease deadline passed meanwhile.
    pub lapsed: bool,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Heartbeat {
    settings: Settings,
    /// Time by which a written deadline is earlier than the settings demand.
    early: Duration,
    due: Monotonic,
    /// The last deadline. None before the first beat.
    deadline: Option<Monotonic>,
}

impl Heartbeat {
    /// Starts with the first beat due at once. `tick` is the resolution of the coarse clock.
    pub fn start(settings: &Settings, tick: Duration, now: Monotonic) -> Self {
        Self { settings: *settings, early: tick * TICKS_LATE, due: now, deadline: None }
    }

    /// Applies other settings. A beat is due at once, and counts as in time.
    pub fn configure(&mut self, settings: &Settings, now: Monotonic) {
        self.settings = *settings;
        self.due = now;
    }

    pub fn next_deadline(&self) -> Monotonic {
        self.due
    }

    pub fn beat(&mut self, now: Monotonic) -> Beat {
        let by = now.saturating_since(self.due);
        let late = self
            .deadline
            .filter(|_| by > self.settings.heartbeat / 2)
            .map(|deadline| Late { by, lapsed: deadline <= now });
        let deadline = now + self.settings.duration.saturating_sub(self.early);
        self.due = now + self.settings.heartbeat;
        self.deadline = Some(deadline);
        Beat { deadline, grace_until: deadline + self.settings.hold_for, policy: self.settings.policy, late }
    }
}
