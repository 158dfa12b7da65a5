//! The wait for the proxy's health after the node has booted.

use std::time::Duration;

use super::message::{Answer, News};
use crate::base::time::Monotonic;

/// The time between two requests.
const PAUSE: Duration = Duration::from_millis(200);
/// The time since the boot of the node in which an endpoint that cannot be reached may come yet. Later, the
/// node has probably none.
const YOUNG: Duration = Duration::from_mins(10);
/// The time in which a proxy that has started writes its first rules.
const FIRST_RULES: Duration = Duration::from_secs(2);
/// Longest time for which the gate stays shut, whatever answers, unless the timeout is longer. Another
/// program may answer there. Or the proxy reaches the API server by a VIP, which no node would take.
const LONGEST: Duration = Duration::from_mins(2);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Gate {
    Open,
    Shut(Wait),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Wait {
    from: Monotonic,
    due: Monotonic,
    is_asked: bool,
    /// The last answer, and the time since which it has been this one.
    last: Option<(Answer, Monotonic)>,
    is_reported: bool,
}

impl Gate {
    pub(super) fn shut(now: Monotonic) -> Self {
        Self::Shut(Wait { from: now, due: now, is_asked: false, last: None, is_reported: false })
    }

    pub(super) fn is_shut(&self) -> bool {
        *self != Self::Open
    }

    pub(super) fn due(&self) -> Option<Monotonic> {
        match self {
            Self::Shut(wait) => (!wait.is_asked).then_some(wait.due),
            Self::Open => None,
        }
    }

    /// Returns true if the endpoint is to be asked now.
    pub(super) fn ask(&mut self, now: Monotonic) -> bool {
        match self {
            Self::Shut(wait) if wait.due <= now => !std::mem::replace(&mut wait.is_asked, true),
            Self::Shut(_) | Self::Open => false,
        }
    }

    /// Records an answer. On a node that is up for long, an endpoint that cannot be reached is no news.
    pub(super) fn on_answer(&mut self, answer: Answer, timeout: Duration, now: Monotonic) -> Option<News> {
        let Self::Shut(wait) = *self else { return None };
        let (_, since) = wait.last.filter(|(before, _)| *before == answer).unwrap_or((answer, now));
        // The clock counts from the boot.
        let is_young = now < Monotonic::from_nanos(0) + YOUNG;
        let is_over = now >= wait.from + LONGEST.max(timeout);
        let opens = match answer {
            Answer::Good => true,
            Answer::Perhaps => !is_young || now >= since + FIRST_RULES,
            Answer::Unreachable => !is_young || now >= since + timeout,
            Answer::Bad => false,
        };
        let waits = !wait.is_reported && now >= wait.from + timeout;
        *self = if opens || is_over {
            Self::Open
        } else {
            let (last, is_reported) = (Some((answer, since)), wait.is_reported || waits);
            Self::Shut(Wait { due: now + PAUSE, is_asked: false, last, is_reported, ..wait })
        };
        match self {
            Self::Open if is_young && answer == Answer::Unreachable || !opens => Some(News::Ungated),
            Self::Open => None,
            Self::Shut(_) => waits.then_some(News::Waits),
        }
    }
}
