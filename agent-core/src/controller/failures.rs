//! Reservations that have failed, when they are tried again, and the problems that their Services have.

use std::{collections::BTreeMap, net::IpAddr, time::Duration};

use crate::{base::time::Monotonic, pools::ReservationWrite, records::ServiceName, services::Problem};

/// The pause before the second attempt. It doubles with each.
const PAUSE: Duration = Duration::from_secs(1);
/// How often the pause is doubled: up to a minute.
const MOST_DOUBLED: u32 = 6;

pub(super) type Told = (ServiceName, Problem);

/// The reservations that have failed since they last succeeded, by address.
#[derive(Default, Debug)]
pub(super) struct Failures {
    failed: BTreeMap<IpAddr, Failed>,
    /// The writes that are tried again, by the time of the next attempt.
    again: BTreeMap<Monotonic, Vec<ReservationWrite>>,
}

#[derive(Default, Debug)]
pub(super) struct Failed {
    times: u32,
    /// The problem that its Service was told.
    pub(super) told: Option<Told>,
}

#[derive(PartialEq, Debug)]
pub(super) struct Noted {
    pub(super) is_first: bool,
    /// A problem that is over, since another one takes its place.
    pub(super) over: Option<Told>,
    pub(super) begins: Option<Told>,
}

impl Failures {
    /// Has a failed write tried again. `problem` is none if it is not known what the API server did.
    pub(super) fn note(&mut self, write: ReservationWrite, problem: Option<Told>, now: Monotonic) -> Noted {
        let failed = self.failed.entry(write.vip).or_default();
        let pause = PAUSE * 2_u32.pow(failed.times.min(MOST_DOUBLED));
        let is_first = failed.times == 0;
        failed.times += 1;
        self.again.entry(now + pause).or_default().push(write);
        if problem.is_none() || failed.told == problem {
            return Noted { is_first, over: None, begins: None };
        }
        Noted { is_first, over: std::mem::replace(&mut failed.told, problem.clone()), begins: problem }
    }

    /// Notes an answer that ends the failures, if there were some, and returns them.
    pub(super) fn end(&mut self, vip: IpAddr) -> Option<Failed> {
        self.failed.remove(&vip)
    }

    /// Returns the writes that are tried again now.
    pub(super) fn due(&mut self, now: Monotonic) -> Vec<ReservationWrite> {
        let later = self.again.split_off(&(now + Duration::from_nanos(1)));
        std::mem::replace(&mut self.again, later).into_values().flatten().collect()
    }

    pub(super) fn next_deadline(&self) -> Option<Monotonic> {
        self.again.keys().next().copied()
    }
}

#[cfg(test)]
mod tests;
