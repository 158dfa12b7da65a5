//! Judgement of a host's fitness from facts, check by check, with remedies (`vipward doctor`).
//!
//! A check is green only if its fact was read and is good. A check
//! is unknown if its fact could not be read.

mod addresses;
mod check;
mod described;
mod facts;
mod file;
mod lease_deadline;
mod links;
mod machine;
mod multicast;
mod plane;
mod program;
mod surroundings;
mod wire;

#[cfg(test)]
mod tests;

pub use self::described::{CHECKS, Check, subjects};
pub use self::facts::{
    Agent, Bound, Conf, ConfV6, Facts, FileReport, Heartbeat, Kernel, Machine, Neighbours, Nic, OtherPins,
    PinDir, Process, Refusal, TcProgram, WireReport, Wireless,
};
pub(crate) use self::lease_deadline::{LEASE_DEADLINE, judge as judge_deadline};
pub(crate) use self::program::{Link, Program};
pub(crate) use self::wire::MEND_CONTACT;

use super::finding::{Finding, State};

/// Returns every check, the host's first.
pub fn examine(facts: &Facts) -> Vec<Finding> {
    let mut checks = machine::checks(facts);
    checks.extend(plane::checks(facts));
    checks.push(wire::check(facts));
    checks.push(file::check(facts));
    checks.extend(links::checks(facts));
    checks.extend(multicast::checks(facts));
    checks.extend(addresses::checks(facts));
    checks.extend(surroundings::checks(facts));
    checks
}

/// The result of all checks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    Passes,
    Fails,
    /// Nothing fails, and root could read more.
    Denied,
    /// No check could be made.
    Nothing,
}

impl Outcome {
    pub fn of(checks: &[Finding], strict: bool) -> Self {
        if !passes(checks, strict) {
            Self::Fails
        } else if checks.iter().any(Finding::needs_root) {
            Self::Denied
        } else if checks.iter().all(|check| check.state == State::Unknown) {
            Self::Nothing
        } else {
            Self::Passes
        }
    }
}

/// Returns true if the host passes: no check is red. With
/// `strict`, none is yellow or unknown either.
pub fn passes(checks: &[Finding], strict: bool) -> bool {
    checks.iter().all(|check| match check.state {
        State::Green | State::NotApplicable => true,
        State::Yellow | State::Unknown => !strict,
        State::Red => false,
    })
}
