//! Explanation why an address is answered for, or is not: a chain of steps from the Service that
//! wants the address to the host that answers. A Service's chain begins earlier: with the addresses
//! that it requests and has.
//!
//! A step is broken if no later step can be right. Operators should begin at the first broken step.

mod cluster;
mod facts;
mod host;
pub mod link;
mod service;
#[cfg(test)]
mod tests;

use std::net::IpAddr;

use schemars::JsonSchema;
use serde::Serialize;

pub use self::{
    facts::{Cluster, Facts, LeaseSeen, Listed, ListedVip, ServiceFacts},
    host::Attached,
};
use super::{
    fact::Fact,
    finding::{Finding, State},
};

/// The whole chain. A step that does not apply is not in the list
/// (docs/commands.md#why-not).
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub struct Explanation {
    /// The address.
    pub address: IpAddr,
    /// The subject of the first step that is `red`, or `null` when none is.
    #[schemars(schema_with = "link::name_or_null")]
    pub broken: Option<&'static str>,
    /// What to do about that step, or `null` when none is `red`.
    pub remedy: Option<String>,
    /// How the program runs on the interface with which this host answers. `null` when this host
    /// has no entry that answers, or when the program does not run there.
    pub attached: Option<Attached>,
    /// The steps, from the Service that wants the address to the host that answers.
    #[schemars(schema_with = "link::steps")]
    pub steps: Vec<Finding>,
}

/// A Service's chain, and then the chains of its addresses.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub struct ServiceExplanation {
    /// The Service: its namespace and name.
    pub service: String,
    /// The subject of the first step that is `red`, or `null` when none is.
    #[schemars(schema_with = "link::name_or_null")]
    pub broken: Option<&'static str>,
    /// What to do about that step, or `null` when none is `red`.
    pub remedy: Option<String>,
    /// The steps, from the Service to its status.
    #[schemars(schema_with = "link::steps")]
    pub steps: Vec<Finding>,
    /// The chains of the addresses that it has or requests.
    pub addresses: Vec<Explanation>,
}

/// The result of all steps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    Broken,
    /// No inspected step is broken.
    Sound {
        /// The number of steps that work, but in which something may go wrong.
        doubtful: usize,
    },
    /// No step could be inspected.
    Nothing {
        /// True if root could read more.
        needs_root: bool,
    },
}

impl Outcome {
    pub fn of<'a>(steps: impl Iterator<Item = &'a Finding>) -> Self {
        let steps: Vec<_> = steps.collect();
        let with = |state: State| steps.iter().filter(move |step| step.state == state).count();
        let is_inspected = |step: &&Finding| step.state != State::Unknown && step.subject != link::CLUSTER;
        let is_inspected = steps.iter().any(is_inspected);
        match (is_inspected, with(State::Red)) {
            (true, 0) => Self::Sound { doubtful: with(State::Yellow) },
            (true, _) => Self::Broken,
            // The API server could not be read.
            (false, 1..) => Self::Nothing { needs_root: false },
            (false, 0) => Self::Nothing { needs_root: steps.iter().any(|step| step.needs_root()) },
        }
    }
}

impl Explanation {
    pub fn outcome(&self) -> Outcome {
        Outcome::of(self.steps.iter())
    }
}

impl ServiceExplanation {
    pub fn outcome(&self) -> Outcome {
        let of_addresses = self.addresses.iter().flat_map(|address| &address.steps);
        Outcome::of(self.steps.iter().chain(of_addresses))
    }
}

/// Returns the chain of steps for a Service. `addresses` has the facts of
/// [`ServiceFacts::addresses`].
pub fn explain_service(facts: &ServiceFacts, addresses: &[Facts]) -> ServiceExplanation {
    let steps = service::steps(facts);
    let addresses: Vec<_> = addresses.iter().map(explain).collect();
    let own = broken(&steps);
    let of_addresses = addresses.iter().find_map(|one| Some((one.broken?, one.remedy.clone())));
    let (broken, remedy) = own.or(of_addresses).unzip();
    let service = facts.service.to_string();
    ServiceExplanation { service, broken, remedy: remedy.flatten(), steps, addresses }
}

/// Returns the first broken step, and what to do about it.
fn broken(steps: &[Finding]) -> Option<(&'static str, Option<String>)> {
    let step = steps.iter().find(|step| step.state == State::Red)?;
    Some((step.subject, step.remedy.clone()))
}

/// Returns the chain of steps for these facts.
pub fn explain(facts: &Facts) -> Explanation {
    let mut steps = match (&facts.cluster, &facts.config) {
        (Fact::Read(cluster), _) => cluster::steps(cluster, facts),
        (Fact::Unread(why), _) if !why.is_skipped() => vec![cluster::unreadable(why)],
        (Fact::Unread(why), Fact::Unread(file)) if file.is_skipped() => {
            vec![Finding::unknown(link::CLUSTER, why)]
        }
        (Fact::Unread(_), Fact::Read(_) | Fact::Unread(_)) => Vec::new(),
    };
    steps.extend(host::config_steps(&facts.config));
    steps.extend(host::steps(facts));
    steps.push(host::segment(facts));
    let (broken, remedy) = broken(&steps).unzip();
    Explanation {
        address: facts.address,
        broken,
        remedy: remedy.flatten(),
        attached: host::attachment(facts),
        steps,
    }
}
