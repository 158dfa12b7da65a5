//! The wait for the proxy's health after the node has booted.

use std::time::Duration;

use super::message::Answer;
use crate::base::time::Monotonic;

/// The time between two requests.
const PAUSE: Duration = Duration::from_millis(200);
/// The time since the boot of the node in which an endpoint that cannot be reached may come yet. Later, the
/// node has probably none.
const YOUNG: Duration = Duration::from_mins(10);
/// The time in which a proxy that has started writes its first rules.
const FIRST_RULES: Duration = Duration::from_secs(2);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Gate {
    Open,
    Shut {
        due: Monotonic,
        is_asked: bool,
        /// The last answer, and the time since which it has been this one.
        last: Option<(Answer, Monotonic)>,
    },
}

impl Gate {
    pub(super) fn shut(now: Monotonic) -> Self {
        Self::Shut { due: now, is_asked: false, last: None }
    }

    pub(super) fn is_shut(&self) -> bool {
        *self != Self::Open
    }

    pub(super) fn due(&self) -> Option<Monotonic> {
        match self {
            Self::Shut { due, is_asked: false, .. } => Some(*due),
            Self::Shut { is_asked: true, .. } | Self::Open => None,
        }
    }

    /// Returns true if the endpoint is to be asked now.
    pub(super) fn ask(&mut self, now: Monotonic) -> bool {
        match self {
            Self::Shut { due, is_asked, .. } if *due <= now => !std::mem::replace(is_asked, true),
            Self::Shut { .. } | Self::Open => false,
        }
    }

    /// Records an answer. Returns true if the endpoint no longer counts, since it could not be reached for
    /// `timeout` after the boot. On a node that is up for longer, this is nothing new.
    pub(super) fn on_answer(&mut self, answer: Answer, timeout: Duration, now: Monotonic) -> bool {
        let Self::Shut { last, .. } = *self else { return false };
        let (_, since) = last.filter(|(before, _)| *before == answer).unwrap_or((answer, now));
        // The clock counts from the boot.
        let is_young = now < Monotonic::from_nanos(0) + YOUNG;
        let opens = match answer {
            Answer::Good => true,
            Answer::Perhaps => !is_young || now >= since + FIRST_RULES,
            Answer::Unreachable => !is_young || now >= since + timeout,
            Answer::Bad => false,
        };
        *self = if opens {
            Self::Open
        } else {
            Self::Shut { due: now + PAUSE, is_asked: false, last: Some((answer, since)) }
        };
        opens && is_young && answer == Answer::Unreachable
    }
}
