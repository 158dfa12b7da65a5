//! What is known of one `healthCheckNodePort`.

use std::{collections::BTreeSet, net::IpAddr, time::Duration};

use super::message::Answer;
use crate::base::time::Monotonic;

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
}

#[derive(Debug)]
pub(super) struct Port {
    pub(super) vips: BTreeSet<IpAddr>,
    verdict: Verdict,
    /// Time since which the verdict is [`Verdict::Waits`].
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
            verdict: Verdict::Waits,
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

    pub(super) fn assume(&mut self) {
        self.verdict = Verdict::Delivers;
    }

    /// Returns true if the node counts as one that delivers.
    pub(super) fn counts(&self) -> bool {
        self.verdict != Verdict::Waits
    }

    pub(super) fn on_answer(&mut self, answer: Answer, timeout: Duration, now: Monotonic) {
        self.is_asked = false;
        match answer {
            Answer::Good | Answer::Perhaps => self.verdict = Verdict::Delivers,
            Answer::Bad => match self.verdict {
                Verdict::Delivers => self.verdict = Verdict::Doubtful,
                Verdict::Doubtful => (self.verdict, self.since) = (Verdict::Waits, now),
                Verdict::Waits => {}
            },
            Answer::Unreachable => {}
        }
        // A proxy that starts again leaves what it has programmed.
        self.silent = (answer == Answer::Unreachable).then(|| self.silent.unwrap_or(now));
        self.is_reported = self.silent.is_some_and(|since| now >= since + timeout);
        if self.is_reported {
            self.verdict = Verdict::Delivers;
        }
        let pause = match self.verdict {
            Verdict::Delivers => REST,
            Verdict::Doubtful => PENDING,
            Verdict::Waits => (now.saturating_since(self.since) / 10).clamp(PENDING, LONG_PENDING),
        };
        self.due = now + pause;
    }
}
