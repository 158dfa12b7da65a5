//! The state of one `healthCheckNodePort`.

use std::{collections::BTreeSet, net::IpAddr, time::Duration};

use super::message::Answer;
use crate::{
    base::time::Monotonic,
    records::{Delivers, HealthPort},
};

/// The time between two requests while a VIP waits for the answer. It grows with the wait.
const PENDING: Duration = Duration::from_millis(100);
/// Longest time between two such requests.
const LONG_PENDING: Duration = Duration::from_secs(2);
/// The time between two requests at rest.
const REST: Duration = Duration::from_secs(3);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Verdict {
    /// The proxy delivers: it has said so, or what an earlier process or the `EndpointSlice`s say counts.
    Delivers,
    /// The proxy has just said that it does not. It may be starting again, so it is asked once more.
    Doubtful,
    /// It does not deliver.
    Waits,
    /// It has not said anything yet.
    Unanswered,
    /// It has not said that it delivers, and could not be reached for too long.
    Unreached,
}

#[derive(Debug)]
pub(super) struct Port {
    pub(super) vips: BTreeSet<IpAddr>,
    verdict: Verdict,
    /// Time since which a VIP waits for a good answer.
    since: Monotonic,
    /// Time since which it could not be reached, in a row.
    silent: Option<Monotonic>,
    pub(super) due: Monotonic,
    pub(super) is_asked: bool,
    /// True if it could not be reached for too long.
    pub(super) is_reported: bool,
}

impl Port {
    pub(super) fn new(now: Monotonic) -> Self {
        Self {
            vips: BTreeSet::new(),
            verdict: Verdict::Unanswered,
            since: now,
            silent: None,
            due: now,
            is_asked: false,
            is_reported: false,
        }
    }

    /// Returns one that counts until the proxy says otherwise.
    pub(super) fn assumed(now: Monotonic) -> Self {
        Self { verdict: Verdict::Delivers, ..Self::new(now) }
    }

    /// Returns one of a proxy that has never been reached.
    pub(super) fn unreached(now: Monotonic) -> Self {
        Self { verdict: Verdict::Unreached, ..Self::new(now) }
    }

    pub(super) fn give_up(&mut self) {
        self.verdict = Verdict::Unreached;
    }

    /// Returns what the node states of it.
    pub(super) fn delivers(&self) -> Delivers {
        match self.verdict {
            Verdict::Delivers | Verdict::Doubtful => Delivers::Yes,
            Verdict::Waits => Delivers::No,
            Verdict::Unanswered => Delivers::Unanswered,
            Verdict::Unreached => Delivers::Unreached,
        }
    }

    /// Returns true if no VIP waits for its next answer.
    pub(super) fn rests(&self) -> bool {
        matches!(self.delivers(), Delivers::Yes | Delivers::Unreached)
    }

    /// Returns its place in the queue.
    pub(super) fn place(&self, number: HealthPort) -> (bool, Monotonic, HealthPort) {
        (self.rests(), self.due, number)
    }

    pub(super) fn on_answer(&mut self, answer: Answer, timeout: Duration, now: Monotonic) {
        self.is_asked = false;
        match answer {
            Answer::Good | Answer::Perhaps => self.verdict = Verdict::Delivers,
            Answer::Bad => match self.verdict {
                Verdict::Delivers => self.verdict = Verdict::Doubtful,
                Verdict::Doubtful | Verdict::Unreached => (self.verdict, self.since) = (Verdict::Waits, now),
                Verdict::Unanswered | Verdict::Waits => self.verdict = Verdict::Waits,
            },
            Answer::Unreachable => {}
        }
        self.silent = (answer == Answer::Unreachable).then(|| self.silent.unwrap_or(now));
        self.is_reported = self.silent.is_some_and(|since| now >= since + timeout);
        // A proxy that starts again leaves what it has programmed.
        if self.is_reported && self.verdict != Verdict::Delivers {
            self.verdict = Verdict::Unreached;
        }
        let pause = match self.verdict {
            Verdict::Delivers | Verdict::Unreached => REST,
            Verdict::Doubtful => PENDING,
            Verdict::Unanswered | Verdict::Waits => {
                (now.saturating_since(self.since) / 10).clamp(PENDING, LONG_PENDING)
            }
        };
        self.due = now + pause;
    }
}
