//! Explanation why an address is answered for, or is not: a chain of steps from the
//! Service that wants the address to the host that answers. That of a Service begins before: with
//! what it asks for, and which addresses it has.
//!
//! A step is broken if no later step can be right. Operators should look at the first broken step.

mod cluster;
mod facts;
mod host;
mod service;
mod step;
#[cfg(test)]
mod tests;

use std::net::IpAddr;

use schemars::JsonSchema;
use serde::Serialize;

pub use self::{
    facts::{Cluster, Facts, LeaseSeen, Listed, ListedVip, Look, ServiceFacts},
    step::{Attached, Link, Step, Verdict},
};

/// The whole chain. A step that does not apply is not in the list
/// ([COMMANDS.md](COMMANDS.md#vipward-explain)).
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub struct Explanation {
    /// The address.
    pub address: IpAddr,
    /// The first broken step, or `null` when none is broken.
    pub broken: Option<Link>,
    /// What to do about that step, or `null` when none is broken.
    pub remedy: Option<String>,
    /// How the program runs on the interface with which this host answers, or `null` when this host
    /// has no entry that answers or the program does not run there.
    pub attached: Option<Attached>,
    /// The steps, from the Service that wants the address to the host that answers.
    pub steps: Vec<Step>,
}

/// A Service's chain, and then those of its addresses.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub struct ServiceExplanation {
    /// The Service: its namespace and name.
    pub service: String,
    /// The first broken step, or `null` when none is broken.
    pub broken: Option<Link>,
    /// What to do about that step, or `null` when none is broken.
    pub remedy: Option<String>,
    /// The steps, from the Service to its status.
    pub steps: Vec<Step>,
    /// The chains of its addresses: those that it has, and those that it asks for.
    pub addresses: Vec<Explanation>,
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
fn broken(steps: &[Step]) -> Option<(Link, Option<String>)> {
    let step = steps.iter().find(|step| step.verdict == Verdict::Broken)?;
    Some((step.link, step.remedy.clone()))
}

/// Returns the chain of steps for these facts.
pub fn explain(facts: &Facts) -> Explanation {
    let mut steps = match (&facts.cluster, &facts.config) {
        (Look::Seen(cluster), _) => cluster::steps(cluster, facts),
        (Look::Failed(why), _) => vec![Step::unreadable(why)],
        (Look::Not(why), Look::Not(_)) => vec![Step::unseen(Link::Cluster, why.clone())],
        (Look::Not(_), Look::Seen(_) | Look::Failed(_)) => Vec::new(),
    };
    if !matches!(facts.config, Look::Not(_)) {
        steps.extend(host::config_steps(&facts.config));
    }
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
