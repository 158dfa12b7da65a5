use super::*;
use crate::shell::kube::testing::refused;

#[test]
fn each_answer_has_its_outcome() {
    let said: Outcome<()> = Outcome::Refused("so it says".into());
    let rows = [
        (refused(409, "Conflict", "so it says"), false, Outcome::Conflict, "another was faster"),
        (refused(409, "AlreadyExists", "so it says"), true, Outcome::Conflict, "it exists already"),
        (refused(404, "NotFound", "so it says"), false, Outcome::Missing, "it is not there"),
        (refused(404, "NotFound", "so it says"), true, said.clone(), "the namespace is not there"),
        (refused(400, "BadRequest", "so it says"), false, said.clone(), "a bad request"),
        (refused(401, "Unauthorized", "so it says"), false, said.clone(), "a bad token"),
        (refused(403, "Forbidden", "so it says"), false, said.clone(), "no permission"),
        (refused(422, "Invalid", "so it says"), false, said, "a bad object"),
        (refused(408, "Timeout", "so it says"), false, Outcome::Unknown, "the API server gave up"),
        (refused(429, "TooManyRequests", "so it says"), false, Outcome::Unknown, "too many"),
        (refused(500, "InternalError", "so it says"), false, Outcome::Unknown, "an error there"),
        (refused(503, "", "so it says"), false, Outcome::Unknown, "a proxy on the way"),
        (refused(504, "Timeout", "so it says"), true, Outcome::Unknown, "etcd gave up"),
        (
            RequestError::Deadline { server: String::new(), limit: RETRY_AFTER },
            true,
            Outcome::Unknown,
            "no answer",
        ),
        (RequestError::TooLong { limit_bytes: 1 }, false, Outcome::Unknown, "no end"),
    ];
    for (error, creating, expected, description) in rows {
        assert_eq!(outcome::<()>(&error, Resource::Leases, creating), expected, "{description}");
    }
}

#[test]
fn a_missing_definition_is_refused_with_the_manifest_that_has_it() {
    for creating in [true, false] {
        let Outcome::<()>::Refused(text) =
            outcome(&refused(404, "", "so it says"), Resource::VirtualIps, creating)
        else {
            panic!("not refused")
        };
        assert!(text.contains("deploy/kubernetes/base/crd.yaml"), "{text}");
    }
}
