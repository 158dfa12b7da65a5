//! Reservations that have failed, and the problems that their Services were told.

use std::{collections::BTreeMap, net::IpAddr};

use vipward_core::{records::ServiceName, services::Problem};

pub(super) type Told = (ServiceName, Problem);

/// The reservations that have failed since they last succeeded, by address.
#[derive(Default)]
pub(super) struct Failures(BTreeMap<IpAddr, Failed>);

#[derive(Default)]
pub(super) struct Failed {
    times: u32,
    /// The problem that its Service was told.
    pub(super) told: Option<Told>,
}

#[derive(PartialEq, Debug)]
pub(super) struct Noted {
    /// How often the reservation had failed before.
    pub(super) times: u32,
    /// A problem that is over, since another one takes its place.
    pub(super) over: Option<Told>,
    pub(super) begins: Option<Told>,
}

impl Failures {
    /// Notes a failure. `problem` is none if it is not known what the API server did.
    pub(super) fn note(&mut self, vip: IpAddr, problem: Option<Told>) -> Noted {
        let failed = self.0.entry(vip).or_default();
        let times = failed.times;
        failed.times += 1;
        if problem.is_none() || failed.told == problem {
            return Noted { times, over: None, begins: None };
        }
        Noted { times, over: std::mem::replace(&mut failed.told, problem.clone()), begins: problem }
    }

    /// Notes an answer that ends the failures, if there were some, and returns them.
    pub(super) fn end(&mut self, vip: IpAddr) -> Option<Failed> {
        self.0.remove(&vip)
    }
}

#[cfg(test)]
mod tests;
