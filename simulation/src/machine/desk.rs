//! The Events of a process, and the outcome that waits for it.

use vipward_core::reports::{events::Events, outbox::Outcome};

use super::time::At;

/// What writes the Events of a process, and dies with it.
pub(crate) struct Desk {
    pub(crate) events: Events,
    /// The outcome of the request that was under way.
    pub(crate) written: Option<Outcome>,
    /// The time of its next turn.
    pub(crate) turn: Option<At>,
}

impl Desk {
    pub(crate) fn new(events: Events) -> Self {
        Self { events, written: None, turn: None }
    }
}
