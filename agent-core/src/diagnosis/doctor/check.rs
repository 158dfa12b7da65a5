//! How a fact that was not read makes a check unknown.

use super::facts::Facts;
use crate::diagnosis::{
    fact::Fact,
    finding::{Finding, State},
    pinned::Contents,
};

/// Returns the result of `check` on a fact. Returns unknown if the fact was not read.
pub(super) fn known<T>(name: &'static str, fact: Fact<T>, check: impl FnOnce(T) -> Finding) -> Finding {
    match fact {
        Fact::Read(fact) => check(fact),
        Fact::Unread(why) => Finding::unknown(name, &why),
    }
}

/// Returns the result of `check` on the contents of the maps. It does not apply if nothing is pinned.
pub(super) fn pinned(name: &'static str, facts: &Facts, check: impl FnOnce(&Contents) -> Finding) -> Finding {
    known(name, facts.contents(), |contents| match contents {
        Some(contents) => check(contents),
        None => Finding::not_applicable(name, "nothing is pinned"),
    })
}

/// Largest number of values in a list.
const MOST: usize = 4;
/// The remedy if processes are out of sight.
pub(super) const SEE_ALL: &str =
    "run the doctor on the node itself (sudo vipward doctor), or in a Pod with hostPID: true";

/// Returns the result of `check` for a process that is not among the seen ones.
/// Returns unknown unless every process was seen.
pub(super) fn absent(name: &'static str, facts: &Facts, check: impl FnOnce() -> Finding) -> Finding {
    known(name, facts.sees_all_processes.as_ref(), |all| {
        if *all {
            return check();
        }
        let found = "none is seen in this PID namespace (a container's), and what runs outside of it is not";
        Finding::new(name, State::Unknown, found, Some(SEE_ALL.to_owned()))
    })
}

/// Returns the first values of a list, and the number of the others.
pub(super) fn list<'a, T: ToString + 'a>(values: impl IntoIterator<Item = &'a T>) -> String {
    let values: Vec<_> = values.into_iter().map(ToString::to_string).collect();
    let more = values.len().saturating_sub(MOST);
    let shown = values[..values.len() - more].join(", ");
    if more == 0 { shown } else { format!("{shown} and {more} more") }
}
