use vipward_common::MacAddr;

use super::*;
use crate::core::cluster::{ClaimNote, Epoch, Holder, Session};

fn refused(code: u16, reason: &str) -> RequestError {
    RequestError::Status {
        code,
        reason: reason.to_owned(),
        message: "so it says".to_owned(),
        causes: Vec::new(),
        retry_after: None,
    }
}

#[test]
fn each_answer_has_its_outcome() {
    let said: Outcome<()> = Outcome::Refused("so it says".into());
    let rows = [
        (refused(409, "Conflict"), false, Outcome::Conflict, "somebody was faster"),
        (refused(409, "AlreadyExists"), true, Outcome::Conflict, "it exists already"),
        (refused(404, "NotFound"), false, Outcome::Missing, "it is not there"),
        (refused(404, "NotFound"), true, said.clone(), "the namespace is not there"),
        (refused(400, "BadRequest"), false, said.clone(), "a bad request"),
        (refused(401, "Unauthorized"), false, said.clone(), "a bad token"),
        (refused(403, "Forbidden"), false, said.clone(), "no permission"),
        (refused(422, "Invalid"), false, said, "a bad object"),
        (refused(408, "Timeout"), false, Outcome::Unknown, "the API server gave up"),
        (refused(429, "TooManyRequests"), false, Outcome::Unknown, "too many"),
        (refused(500, "InternalError"), false, Outcome::Unknown, "an error there"),
        (refused(503, ""), false, Outcome::Unknown, "a proxy on the way"),
        (refused(504, "Timeout"), true, Outcome::Unknown, "etcd gave up"),
        (RequestError::Deadline { limit: RETRY_AFTER }, true, Outcome::Unknown, "no answer"),
        (RequestError::TooLong { limit_bytes: 1 }, false, Outcome::Unknown, "no end"),
    ];
    for (error, creating, expected, description) in rows {
        assert_eq!(outcome::<()>(&error, Resource::Leases, creating), expected, "{description}");
    }
}

#[test]
fn a_missing_definition_is_refused_with_the_manifest_that_has_it() {
    for creating in [true, false] {
        let Outcome::<()>::Refused(text) = outcome(&refused(404, ""), Resource::VirtualIps, creating) else {
            panic!("not refused")
        };
        assert!(text.contains("deploy/kubernetes/base/crd.yaml"), "{text}");
    }
}

#[test]
fn offers_come_first_and_new_claims_last() {
    let vip = Ipv4Addr::new(192, 0, 2, 1);
    let holder = Holder {
        node: "a".into(),
        session: Session::from_number(1).expect("it is not zero"),
        mac: MacAddr([2, 0, 0, 0, 0, 1]),
        interface: "eth0".into(),
    };
    let offered = || ClaimState::Offered { to: holder.clone(), from: ("b".into(), holder.session) };
    let held = || ClaimState::Held(holder.clone());
    let at = || Expected::At("7".into());
    let write = |expected, state| {
        ClaimJob::Write(ClaimWrite { vip, expected, epoch: Epoch(2), state, note: ClaimNote::default() })
    };
    let rows = [
        (write(at(), offered()), Rank::Offer, "an offer"),
        (write(at(), held()), Rank::Standing, "a take-over, or an acceptance"),
        (write(at(), ClaimState::Released), Rank::Standing, "a release"),
        (ClaimJob::Delete { vip, expected: "7".into() }, Rank::Standing, "a deletion"),
        (ClaimJob::Read(vip), Rank::Standing, "a read"),
        (write(Expected::Absent, held()), Rank::New, "a new claim"),
        (ClaimJob::Conflict { vip, conflict: None }, Rank::New, "the end of a conflict"),
    ];
    for (job, rank, description) in rows {
        assert_eq!(job.rank(), rank, "{description}");
    }
}
