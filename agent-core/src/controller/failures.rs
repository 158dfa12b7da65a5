//! Reservations that have failed, when they are tried again, and the problems that their Services have.

use std::{collections::BTreeMap, net::IpAddr, time::Duration};

use crate::{base::time::Monotonic, pools::ReservationWrite, records::ServiceName, services::Problem};

/// The pause before the second attempt. It doubles with each.
const PAUSE: Duration = Duration::from_secs(1);
/// How often the pause is doubled: up to a minute.
const MOST_DOUBLED: u32 = 6;

/// A problem that was reported, and its Service.
pub(super) type Reported = (ServiceName, Problem);

/// The reservations that have failed since they last succeeded, by address.
#[derive(Default, Debug)]
pub(super) struct Failures(BTreeMap<IpAddr, Failed>);

#[derive(Default, Debug)]
pub(super) struct Failed {
    times: u32,
    /// The next attempt. None while one is under way.
    again: Option<(Monotonic, ReservationWrite)>,
    pub(super) reported: Option<Reported>,
}

#[derive(PartialEq, Debug)]
pub(super) struct Noted {
    pub(super) is_first: bool,
    /// A problem that is over, since another one takes its place.
    pub(super) over: Option<Reported>,
    pub(super) begins: Option<Reported>,
}

impl Failures {
    /// Has a failed write tried again. `problem` is none if it is not known what the API server did.
    pub(super) fn record(
        &mut self,
        write: ReservationWrite,
        problem: Option<Reported>,
        now: Monotonic,
    ) -> Noted {
        let failed = self.0.entry(write.vip).or_default();
        let is_first = failed.times == 0;
        failed.again = Some((now + PAUSE * 2_u32.pow(failed.times.min(MOST_DOUBLED)), write));
        failed.times += 1;
        if problem.is_none() || failed.reported == problem {
            return Noted { is_first, over: None, begins: None };
        }
        Noted { is_first, over: std::mem::replace(&mut failed.reported, problem.clone()), begins: problem }
    }

    /// Records that another reservation of an address is written, in place of one that has failed.
    /// Returns the other Service's problem, which is over.
    pub(super) fn replace(&mut self, write: &ReservationWrite) -> Option<Reported> {
        let failed = self.0.get_mut(&write.vip)?;
        failed.again = None;
        let service = write.reservation.as_ref().map(|reservation| &reservation.service);
        failed.reported.take_if(|(reported, _)| Some(&*reported) != service)
    }

    /// Ends the failures of an address, if there were some. Returns them.
    pub(super) fn end(&mut self, vip: IpAddr) -> Option<Failed> {
        self.0.remove(&vip)
    }

    /// Returns the writes that are tried again now.
    pub(super) fn due(&mut self, now: Monotonic) -> Vec<ReservationWrite> {
        let due = |failed: &mut Failed| failed.again.take_if(|(at, _)| *at <= now);
        self.0.values_mut().filter_map(due).map(|(_, write)| write).collect()
    }

    pub(super) fn next_deadline(&self) -> Option<Monotonic> {
        self.0.values().filter_map(|failed| Some(failed.again.as_ref()?.0)).min()
    }
}

#[cfg(test)]
mod tests;
