//! Reservations that have failed, and the problems that their Services were told.

use std::{collections::BTreeMap, net::IpAddr};

use vipward_core::{records::ServiceName, services::Problem};

/// A problem of a Service.
pub(super) type Told = (ServiceName, Problem);

/// The reservations that have failed since they last succeeded, by address.
#[derive(Default)]
pub(super) struct Failures(BTreeMap<IpAddr, Failed>);

/// A reservation that has failed.
#[derive(Default)]
pub(super) struct Failed {
    times: u32,
    /// The problem that its Service was told.
    pub(super) told: Option<Told>,
}

/// What follows from a failure.
#[derive(PartialEq, Debug)]
pub(super) struct Noted {
    /// How often the reservation had failed before.
    pub(super) times: u32,
    /// A problem that is over, since another one takes its place.
    pub(super) over: Option<Told>,
    /// A problem that begins.
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
mod tests {
    use super::*;

    #[test]
    fn each_other_refusal_is_told_in_place_of_the_one_before() {
        let vip = IpAddr::from([192, 0, 2, 1]);
        let refused = |service: &str, why: &str| {
            let service = ServiceName { namespace: "a".into(), name: service.into() };
            Some((service, Problem::NotReserved { vip, why: why.into() }))
        };
        let (right, quota, other) =
            (refused("web", "a right"), refused("web", "a quota"), refused("api", "a quota"));
        let mut failures = Failures::default();
        let rows = [
            ("the first", right.clone(), None, right.clone()),
            ("the same", right.clone(), None, None),
            ("no answer", None, None, None),
            ("another reason", quota.clone(), right, quota.clone()),
            ("another Service", other.clone(), quota, other.clone()),
        ];
        for (times, (what, problem, over, begins)) in (0..).zip(rows) {
            assert_eq!(failures.note(vip, problem), Noted { times, over, begins }, "{what}");
        }
        assert_eq!(failures.end(vip).and_then(|failed| failed.told), other);
        assert!(failures.end(vip).is_none());
        assert_eq!(failures.note(vip, other.clone()), Noted { times: 0, over: None, begins: other });
    }
}
