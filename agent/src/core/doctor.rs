//! `vipward doctor`: what the facts about a host say about its fitness, check by check, with the remedy.
//!
//! Green is said only of what was read and found good. What could not be read is unknown, with the reason.

mod addresses;
mod facts;
mod links;
mod machine;
mod plane;
mod surroundings;

#[cfg(test)]
mod tests;

use serde::Serialize;

pub use self::facts::{
    Agent, Bound, Conf, Contents, Fact, Facts, FenceFact, Heartbeat, Machine, Neighbours, Nic, PinDir,
    PinnedLink, Plane, Process, TcProgram, Unread, Validity, Vip,
};

/// How a check came out.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// Read, and as it should be.
    Green,
    /// It works, but something will or may go wrong.
    Yellow,
    /// It does not work.
    Red,
    /// It could not be read.
    Unknown,
    /// It does not matter on this host.
    NotApplicable,
}

impl State {
    /// All of them, in the order of a summary.
    pub const ALL: [Self; 5] = [Self::Red, Self::Yellow, Self::Unknown, Self::Green, Self::NotApplicable];

    /// The name by which people know it.
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

/// One check.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Check {
    /// What was checked, in one word.
    pub check: &'static str,
    /// The interface that it is about; none when it is about the host.
    pub interface: Option<String>,
    /// How it came out.
    pub state: State,
    /// What was found; for unknown, why nothing was.
    pub found: String,
    /// What to do about it.
    pub remedy: Option<String>,
}

impl Check {
    fn new(check: &'static str, state: State, found: impl Into<String>, remedy: Option<String>) -> Self {
        Self { check, interface: None, state, found: found.into(), remedy }
    }

    fn green(check: &'static str, found: impl Into<String>) -> Self {
        Self::new(check, State::Green, found, None)
    }

    fn yellow(check: &'static str, found: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::new(check, State::Yellow, found, Some(remedy.into()))
    }

    fn red(check: &'static str, found: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::new(check, State::Red, found, Some(remedy.into()))
    }

    fn unknown(check: &'static str, unread: &Unread) -> Self {
        let remedy = unread.denied.then(|| "run it as root (sudo vipward doctor)".to_owned());
        Self::new(check, State::Unknown, unread.reason.clone(), remedy)
    }

    fn not_applicable(check: &'static str, why: impl Into<String>) -> Self {
        Self::new(check, State::NotApplicable, why, None)
    }

    fn on(mut self, interface: &str) -> Self {
        self.interface = Some(interface.to_owned());
        self
    }
}

/// What `check` makes of a fact; unknown when there is none.
fn known<T>(name: &'static str, fact: &Fact<T>, check: impl FnOnce(&T) -> Check) -> Check {
    match fact {
        Ok(fact) => check(fact),
        Err(unread) => Check::unknown(name, unread),
    }
}

/// What helps where processes are out of sight.
const SEE_ALL: &str =
    "run the doctor on the node itself (sudo vipward doctor), or in a Pod with hostPID: true";

/// What `check` makes of a process that is not among those that were seen; unknown unless every process was.
fn absent(name: &'static str, facts: &Facts, check: impl FnOnce() -> Check) -> Check {
    known(name, &facts.sees_all_processes, |all| {
        if *all {
            return check();
        }
        let found = "none is seen in this PID namespace (a container's), and what runs outside of it is not";
        Check::new(name, State::Unknown, found, Some(SEE_ALL.to_owned()))
    })
}

/// Every check, the host's first.
pub fn examine(facts: &Facts) -> Vec<Check> {
    let mut checks = machine::checks(facts);
    checks.extend(plane::checks(facts));
    checks.extend(links::checks(facts));
    checks.extend(addresses::checks(facts));
    checks.extend(surroundings::checks(facts));
    checks
}

/// Whether the host passes: nothing red, and with `strict` nothing yellow or unknown either.
pub fn passes(checks: &[Check], strict: bool) -> bool {
    checks.iter().all(|check| match check.state {
        State::Green | State::NotApplicable => true,
        State::Yellow | State::Unknown => !strict,
        State::Red => false,
    })
}
