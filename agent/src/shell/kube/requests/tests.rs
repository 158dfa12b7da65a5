use super::*;
use crate::core::cluster::{ClaimNote, ClaimState, Epoch};

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
fn only_what_nobody_waits_for_can_wait() {
    let vip = Ipv4Addr::new(192, 0, 2, 1);
    let write = |can_wait| ClaimWrite {
        vip,
        expected: Expected::Absent,
        epoch: Epoch(2),
        state: ClaimState::Released,
        note: ClaimNote::default(),
        can_wait,
    };
    let rows = [
        (ClaimJob::Write(write(false)), false, "an offer, an acceptance, a repair"),
        (ClaimJob::Write(write(true)), true, "nobody has it"),
        (ClaimJob::Delete { vip, expected: "7".into() }, true, "nobody wants it"),
        (ClaimJob::Read(vip), false, "it decides whether a VIP is answered"),
    ];
    for (job, can_wait, description) in rows {
        assert_eq!(job.can_wait(), can_wait, "{description}");
    }
}
