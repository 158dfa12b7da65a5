use super::*;
use crate::shell::kube::testing::refused;

#[test]
fn pauses_grow_from_one_second_to_five_and_no_further() {
    let bounds = |failures| (pause(failures, 0.0), pause(failures, 1.0));
    let seconds = Duration::from_secs;
    assert_eq!(bounds(0), (seconds(1), seconds(2)));
    assert_eq!(bounds(1), (seconds(1), seconds(4)));
    for failures in [2, 3, 40, u32::MAX] {
        assert_eq!(bounds(failures), (seconds(1), seconds(5)), "{failures}");
    }
}

#[test]
fn a_refused_watch_leads_to_a_list_where_another_version_may_help() {
    let rows = [
        (refused(410, "x", "too old resource version: 1 (7)"), true, true, "expired"),
        (refused(410, "x", ""), true, true, "expired, without a word"),
        (
            refused(504, "x", "Timeout: Too large resource version: 279, current: 216"),
            true,
            true,
            "in the future",
        ),
        (refused(400, "x", "Invalid resource version: \"x\""), true, true, "no version of this server"),
        (refused(500, "x", "an error"), false, true, "an error there"),
        (refused(403, "x", "no rule"), false, false, "no permission"),
        (refused(401, "x", "bad token"), false, false, "a bad token"),
        (refused(404, "x", "no such type"), false, false, "no definition"),
        (refused(429, "x", "too many requests"), false, false, "too many"),
        (RequestError::Deadline { server: String::new(), limit: PAUSE.0 }, false, false, "no answer"),
    ];
    for (error, at_once, some_time, description) in rows {
        assert_eq!(is_about_the_version(&error), at_once, "{description}");
        assert_eq!(may_be_about_the_version(&error), some_time, "{description}, again and again");
    }
}
