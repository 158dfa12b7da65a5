//! Findings: what `doctor` checks, and the steps of `explain`.

use schemars::JsonSchema;
use serde::Serialize;

use super::fact::{Cause, Unread};

/// The remedy for what other users may not read.
const AS_ROOT: &str = "run it as root (sudo)";

/// The state of a subject.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// It is as it should be.
    Green,
    /// It works, but something may go wrong.
    Yellow,
    /// It does not work.
    Red,
    /// It was not inspected, or could not be read.
    Unknown,
    /// It does not matter here.
    NotApplicable,
}

impl State {
    /// All states, in the order of a summary.
    pub const ALL: [Self; 5] = [Self::Red, Self::Yellow, Self::Unknown, Self::Green, Self::NotApplicable];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Green => "green",
            Self::Yellow => "yellow",
            Self::Red => "red",
            Self::Unknown => "unknown",
            Self::NotApplicable => "n/a",
        }
    }
}

/// What was found about a subject.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub struct Finding {
    /// The check (docs/reference/doctor.md), or the step of an explanation
    /// (docs/commands.md#why-not).
    pub subject: &'static str,
    /// The interface that it is about, or `null` when it is about the host or an address.
    pub interface: Option<String>,
    /// The state of the subject. In an explanation no later step can be right if it is `red`.
    pub state: State,
    /// What was found, or why it is `unknown`.
    pub found: String,
    /// Details of what was found.
    pub details: Vec<String>,
    /// What to do about it, or `null` when there is nothing to do. It is there when the state is `red`
    /// or `yellow`, and when it is `unknown` and other rights or another place would show it.
    pub remedy: Option<String>,
    /// Why it is unknown, if a fact was not read.
    #[serde(skip)]
    pub cause: Option<Cause>,
}

impl Finding {
    pub(super) fn new(
        subject: &'static str,
        state: State,
        found: impl Into<String>,
        remedy: Option<String>,
    ) -> Self {
        Self {
            subject,
            interface: None,
            state,
            found: found.into(),
            details: Vec::new(),
            remedy,
            cause: None,
        }
    }

    pub(super) fn green(subject: &'static str, found: impl Into<String>) -> Self {
        Self::new(subject, State::Green, found, None)
    }

    pub(super) fn yellow(subject: &'static str, found: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::new(subject, State::Yellow, found, Some(remedy.into()))
    }

    pub(super) fn red(subject: &'static str, found: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::new(subject, State::Red, found, Some(remedy.into()))
    }

    /// Returns the finding about a fact that was not read.
    pub(super) fn unknown(subject: &'static str, unread: &Unread) -> Self {
        let remedy = (unread.cause == Cause::Denied).then(|| AS_ROOT.to_owned());
        let cause = Some(unread.cause);
        Self { cause, ..Self::new(subject, State::Unknown, unread.reason.clone(), remedy) }
    }

    /// Returns true if root could read the fact.
    pub fn needs_root(&self) -> bool {
        self.cause == Some(Cause::Denied)
    }

    pub(super) fn not_applicable(subject: &'static str, why: impl Into<String>) -> Self {
        Self::new(subject, State::NotApplicable, why, None)
    }

    pub(super) fn on(mut self, interface: &str) -> Self {
        self.interface = Some(interface.to_owned());
        self
    }

    /// Adds details.
    pub(super) fn with(mut self, details: impl IntoIterator<Item = String>) -> Self {
        self.details.extend(details);
        self
    }
}
