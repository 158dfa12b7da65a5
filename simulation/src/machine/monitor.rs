//! A node's monitor, and what truly became of its pings.

use std::collections::VecDeque;

use vipward_core::liveness::{Monitor, Plan, Received, Scale};

use super::time::At;

/// The frames that a socket keeps for an agent that does not run.
pub(crate) const SOCKET: usize = 64;

/// A running monitor.
#[derive(Debug)]
pub(crate) struct Pinger {
    pub(crate) monitor: Monitor,
    pub(crate) plan: Plan,
    /// The time of its next turn.
    pub(crate) turn: Option<At>,
    pub(crate) socket: Vec<Received>,
}

/// The true fate of a node's pings to a session.
#[derive(Clone, Debug, Default)]
pub(crate) struct Truth {
    /// The pings since the last one that was answered, each with the time that it carries.
    unanswered: VecDeque<(u64, At)>,
    /// The time of the last ping that was answered.
    answered: Option<At>,
    /// The last time at which the session was unresponsive.
    pub(crate) unresponsive: Option<At>,
    /// The last time at which the others agreed.
    pub(crate) found: Option<At>,
    /// The last time at which a third station answered.
    pub(crate) third_station: Option<At>,
}

impl Truth {
    pub(crate) fn sent(&mut self, stamp: u64, now: At) {
        if self.unanswered.back().is_some_and(|(last, _)| *last == stamp) {
            return;
        }
        if self.unanswered.len() == SOCKET {
            self.unanswered.pop_front();
        }
        self.unanswered.push_back((stamp, now));
    }

    pub(crate) fn answered(&mut self, stamp: u64) {
        while let Some((_, at)) = self.unanswered.front().filter(|(sent, _)| *sent <= stamp) {
            self.answered = Some(*at);
            self.unanswered.pop_front();
        }
    }

    /// Returns the time of the last ping that was answered, or else of the first one.
    pub(crate) fn last_answer(&self) -> Option<At> {
        self.answered.or_else(|| self.unanswered.front().map(|(_, at)| *at))
    }

    /// Records the time if the session is unresponsive: six pings and 300 ms times the scale, on a slow
    /// clock, without an answer.
    pub(crate) fn check(&mut self, scale: Scale, now: At) {
        let since = self.last_answer();
        let is_long = since.is_some_and(|since| now.since(since) >= scale.suspect() * 98 / 100);
        if is_long && self.unanswered.len() >= 6 {
            self.unresponsive = Some(now);
        }
    }
}
