//! The fence that a living agent keeps moving, and how late it was in doing so.

use std::time::Duration;

use vipward_common::Policy;

use super::time::Monotonic;

#[cfg(test)]
mod tests;

/// How many ticks of the coarse clock the program may see a deadline late: it caches the clock for one of them.
pub const TICKS_LATE: u32 = 2;

/// What the fence is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings {
    /// How long a beat is good for.
    pub duration: Duration,
    /// How often there is one.
    pub heartbeat: Duration,
    /// What is done when there is none.
    pub policy: Policy,
    /// How long it is held over then, counted from the deadline.
    pub hold_for: Duration,
}

/// What to write to the fence.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Beat {
    /// The fence is valid before this.
    pub deadline: Monotonic,
    /// And held over from then until this.
    pub hold_until: Monotonic,
    /// What is done between the two.
    pub policy: Policy,
    /// Set when the beat came late enough to be told.
    pub late: Option<Late>,
}

/// A beat that came late.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Late {
    /// By how much.
    pub by: Duration,
    /// Whether the fence had lapsed meanwhile.
    pub lapsed: bool,
}

/// The heartbeat's clockwork.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Heartbeat {
    settings: Settings,
    /// How much earlier than meant a deadline is written.
    early: Duration,
    due: Monotonic,
    /// None before the first beat.
    deadline: Option<Monotonic>,
}

impl Heartbeat {
    /// Begins, with the first beat due at once. `tick` is the resolution of the coarse clock.
    pub fn start(settings: &Settings, tick: Duration, now: Monotonic) -> Self {
        Self { settings: *settings, early: tick * TICKS_LATE, due: now, deadline: None }
    }

    /// Goes on with other settings; a beat is due at once, and not late.
    pub fn configure(&mut self, settings: &Settings, now: Monotonic) {
        self.settings = *settings;
        self.due = now;
    }

    /// When the next beat is due.
    pub fn next_deadline(&self) -> Monotonic {
        self.due
    }

    /// The beat at `now`.
    pub fn beat(&mut self, now: Monotonic) -> Beat {
        let by = now.saturating_since(self.due);
        let late = self
            .deadline
            .filter(|_| by > self.settings.heartbeat / 2)
            .map(|deadline| Late { by, lapsed: deadline <= now });
        let deadline = now + self.settings.duration.saturating_sub(self.early);
        self.due = now + self.settings.heartbeat;
        self.deadline = Some(deadline);
        Beat { deadline, hold_until: deadline + self.settings.hold_for, policy: self.settings.policy, late }
    }
}
