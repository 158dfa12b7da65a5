//! A check, and how a fact that was not read makes it unknown.

use schemars::JsonSchema;
use serde::Serialize;

use super::facts::Facts;
use crate::diagnosis::pinned::{Fact, Unread};

/// The result of a check.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// The fact is as it should be.
    Green,
    /// It works, but something may go wrong.
    Yellow,
    /// It does not work.
    Red,
    /// The fact could not be read.
    Unknown,
    /// It does not matter on this host.
    NotApplicable,
}

impl State {
    /// All states, in the order of a summary.
    pub const ALL: [Self; 5] = [Self::Red, Self::Yellow, Self::Unknown, Self::Green, Self::NotApplicable];

    /// Returns the name for people.
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

/// A check.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub struct Check {
    /// The name of the check: the first column of [DOCTOR.md](DOCTOR.md#the-checks).
    pub check: &'static str,
    /// The interface that it is about, or `null` when it is about the host.
    pub interface: Option<String>,
    /// The result.
    pub state: State,
    /// What was found, or why it is `unknown`.
    pub found: String,
    /// What to do about it, or `null` when there is nothing to do: it is `green` or
    /// `not-applicable`, or `unknown` for another reason than missing rights.
    pub remedy: Option<String>,
}

impl Check {
    pub(super) fn new(
        check: &'static str,
        state: State,
        found: impl Into<String>,
        remedy: Option<String>,
    ) -> Self {
        Self { check, interface: None, state, found: found.into(), remedy }
    }

    pub(super) fn green(check: &'static str, found: impl Into<String>) -> Self {
        Self::new(check, State::Green, found, None)
    }

    pub(super) fn yellow(check: &'static str, found: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::new(check, State::Yellow, found, Some(remedy.into()))
    }

    pub(super) fn red(check: &'static str, found: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::new(check, State::Red, found, Some(remedy.into()))
    }

    pub(super) fn unknown(check: &'static str, unread: &Unread) -> Self {
        let remedy = unread.denied.then(|| "run it as root (sudo vipward doctor)".to_owned());
        Self::new(check, State::Unknown, unread.reason.clone(), remedy)
    }

    pub(super) fn not_applicable(check: &'static str, why: impl Into<String>) -> Self {
        Self::new(check, State::NotApplicable, why, None)
    }

    pub(super) fn on(mut self, interface: &str) -> Self {
        self.interface = Some(interface.to_owned());
        self
    }
}

/// Returns the result of `check` on a fact. Returns unknown if the fact could not be read.
pub(super) fn known<T>(name: &'static str, fact: &Fact<T>, check: impl FnOnce(&T) -> Check) -> Check {
    match fact {
        Ok(fact) => check(fact),
        Err(unread) => Check::unknown(name, unread),
    }
}

/// Largest number of values in a list.
const MOST: usize = 4;
/// The remedy if processes are out of sight.
pub(super) const SEE_ALL: &str =
    "run the doctor on the node itself (sudo vipward doctor), or in a Pod with hostPID: true";

/// Returns the result of `check` for a process that is not among the seen ones.
/// Returns unknown unless every process was seen.
pub(super) fn absent(name: &'static str, facts: &Facts, check: impl FnOnce() -> Check) -> Check {
    known(name, &facts.sees_all_processes, |all| {
        if *all {
            return check();
        }
        let found = "none is seen in this PID namespace (a container's), and what runs outside of it is not";
        Check::new(name, State::Unknown, found, Some(SEE_ALL.to_owned()))
    })
}

/// Returns the first values of a list, and the number of the others.
pub(super) fn list<'a, T: ToString + 'a>(values: impl IntoIterator<Item = &'a T>) -> String {
    let values: Vec<_> = values.into_iter().map(ToString::to_string).collect();
    let more = values.len().saturating_sub(MOST);
    let shown = values[..values.len() - more].join(", ");
    if more == 0 { shown } else { format!("{shown} and {more} more") }
}
