//! Tests of the conflicts and the answers that a claim shows.

use vipward_core::reports::unanswered::Unanswered;

use super::*;

#[test]
fn a_conflict_is_shown_until_it_is_over_or_the_vip_moves() {
    let held = write(Expected::Absent, 1, ClaimState::Held(holder("a")));
    let mut object = created(&held, at(0));
    show(&mut object, &Finding::Conflict(Some("02:00:00:00:00:66 claims it".to_owned())), at(5));
    assert_eq!(object["status"]["conflict"], "02:00:00:00:00:66 claims it");
    assert_eq!(condition_of(&object, "Conflict")["status"], "True");
    assert_eq!(condition_of(&object, "Held")["status"], "True");

    let (record, known) = read(&object.to_string()).expect("a claim");
    assert_eq!(record.state, ClaimState::Held(holder("a")));
    merge(&mut object, &patch(&held, &known, at(10)));
    assert_eq!(object["status"]["conflict"], "02:00:00:00:00:66 claims it", "a write that moves nothing");
    assert_eq!(condition_of(&object, "Conflict")["lastTransitionTime"], text::time(at(5)));

    let mut over = object.clone();
    show(&mut over, &Finding::Conflict(None), at(20));
    assert_eq!(over["status"]["conflict"], Value::Null);
    assert_eq!(condition_of(&over, "Conflict")["status"], "False");
    assert_eq!(condition_of(&over, "Conflict")["lastTransitionTime"], text::time(at(20)));

    let held_by_another = write(Expected::Absent, 2, ClaimState::Held(holder("b")));
    let released = write(Expected::Absent, 1, ClaimState::Released);
    for next in [held_by_another, released] {
        let mut object = object.clone();
        merge(&mut object, &patch(&next, &known, at(30)));
        assert_eq!(object["status"]["conflict"], Value::Null, "{next:?}");
        assert_eq!(condition_of(&object, "Conflict")["status"], "False", "{next:?}");
    }
}

/// Shows something on an object, as the API server merges it.
fn show(object: &mut Value, finding: &Finding, now: Timestamp) {
    let (record, known) = read(&object.to_string()).expect("a claim");
    let patch =
        showing(&record, &known, &object.to_string(), finding, now).expect("a claim").expect("a patch");
    merge(object, &patch);
}

fn no_carrier() -> Unanswered {
    Unanswered::Silent("eth0: no carrier".to_owned())
}

/// Returns the state, the reason why no node answers, and the condition `Held` of an object.
fn answers_of(object: &Value) -> [Value; 5] {
    let held = condition_of(object, "Held");
    let status = &object["status"];
    [&status["state"], &status["unanswered"], &held["status"], &held["reason"], &held["message"]]
        .map(Clone::clone)
}

#[test]
fn each_state_of_a_claim_has_a_name_for_people() {
    let offered = ClaimState::Offered { to: holder("b"), from: ("a".into(), session(0x1d)) };
    let rows = [
        (ClaimState::Held(holder("a")), "held", "True", "Held"),
        (offered, "handing over", "True", "HandingOver"),
        (ClaimState::Released, "released", "False", "Released"),
        (ClaimState::Blank, "unheld", "False", "Blank"),
    ];
    for (state, name, status, reason) in rows {
        let object = created(&write(Expected::Absent, 1, state.clone()), at(0));
        let [shown, unanswered, held, why, _] = answers_of(&object);
        assert_eq!((shown, held, why), (name.into(), status.into(), reason.into()), "{state:?}");
        assert_eq!(unanswered, Value::Null);
    }
}

#[test]
fn a_claim_shows_that_no_node_answers_until_its_holder_does_or_it_moves() {
    let mut held = write(Expected::Absent, 1, ClaimState::Held(holder("a")));
    held.note.cause = "it is new".to_owned();
    let mut object = created(&held, at(0));
    let silent: [Value; 5] =
        ["not answered", "eth0: no carrier", "False", "NotAnswered", "eth0: no carrier"].map(Into::into);
    let answered: [Value; 5] = ["held".into(), Value::Null, "True".into(), "Held".into(), "it is new".into()];
    assert_eq!(answers_of(&object), answered);

    show(&mut object, &Finding::Answers(session(0x1d), Some(no_carrier())), at(5));
    assert_eq!(answers_of(&object), silent);
    assert_eq!(condition_of(&object, "Held")["lastTransitionTime"], text::time(at(5)));
    assert_eq!(condition_of(&object, "Trouble")["status"], "False", "other conditions stay");
    let (record, known) = read(&object.to_string()).expect("a claim");
    assert_eq!((&record.state, record.epoch), (&held.state, held.epoch), "and so does who has it");

    merge(&mut object, &patch(&held, &known, at(10)));
    assert_eq!(answers_of(&object), silent, "a write that moves nothing");
    let mut back = object.clone();
    show(&mut back, &Finding::Answers(session(0x1d), None), at(20));
    assert_eq!(answers_of(&back), answered);

    show(&mut object, &Finding::Conflict(Some("02:00:00:00:00:66 claims it".to_owned())), at(25));
    let (_, known) = read(&object.to_string()).expect("a claim");
    let moved = write(Expected::Absent, 2, ClaimState::Held(holder("b")));
    let released = write(Expected::Absent, 1, ClaimState::Released);
    for (next, state) in [(moved, "held"), (released, "released")] {
        let mut object = object.clone();
        merge(&mut object, &patch(&next, &known, at(30)));
        let [shown, unanswered, ..] = answers_of(&object);
        assert_eq!((shown, unanswered), (state.into(), Value::Null), "{next:?}");
        assert_eq!(object["status"]["conflict"], Value::Null, "{next:?}");
    }
}

#[test]
fn a_claim_of_a_dead_node_that_no_other_has_taken_is_without_a_holder() {
    let mut object = created(&write(Expected::Absent, 1, ClaimState::Held(holder("a"))), at(0));
    show(&mut object, &Finding::Answers(session(0x1d), Some(Unanswered::SessionEnded("a".into()))), at(5));
    let [state, unanswered, held, reason, _] = answers_of(&object);
    assert_eq!((state, held, reason), ("session ended".into(), "False".into(), "SessionEnded".into()));
    assert!(unanswered.as_str().is_some_and(|why| why.contains("the session of a ")), "{unanswered}");
}

#[test]
fn nothing_is_said_about_the_answers_of_a_claim_that_has_moved_meanwhile() {
    for state in [ClaimState::Released, ClaimState::Held(Holder { session: session(9), ..holder("b") })] {
        let object = created(&write(Expected::Absent, 2, state.clone()), at(0)).to_string();
        let (record, known) = read(&object).expect("a claim");
        let finding = Finding::Answers(session(0x1d), Some(no_carrier()));
        assert_eq!(showing(&record, &known, &object, &finding, at(1)).expect("a claim"), None, "{state:?}");
    }
}

#[test]
fn what_a_claim_shows_about_its_answers_is_compared_as_a_whole() {
    type Edit = fn(&mut Value);
    let untouched: Edit = |_| {};
    let cases: [(&str, Option<Unanswered>, Edit, bool); 7] = [
        ("answered", None, untouched, true),
        ("not answered", Some(no_carrier()), untouched, true),
        ("another state", None, |object| object["status"]["state"] = "released".into(), false),
        ("no state", None, |object| object["status"]["state"] = Value::Null, false),
        ("words that no agent wrote", None, |object| object["status"]["unanswered"] = "x".into(), false),
        (
            "words without the condition",
            Some(no_carrier()),
            |object| object["status"]["conditions"] = serde_json::json!([]),
            false,
        ),
        (
            "a state that is edited",
            Some(no_carrier()),
            |object| object["status"]["state"] = "held".into(),
            false,
        ),
    ];
    for (what, unanswered, edit, shows) in cases {
        let mut object = created(&write(Expected::Absent, 1, ClaimState::Held(holder("a"))), at(0));
        show(&mut object, &Finding::Answers(session(0x1d), unanswered.clone()), at(1));
        edit(&mut object);
        let (record, _) = read(&object.to_string()).expect("a claim");
        let is_shown = |why| Finding::Answers(session(0x1d), why).is_shown_by(Some(&record));
        assert_eq!(is_shown(unanswered), shows, "{what}");
        assert!(!is_shown(Some(Unanswered::Silent("another reason".to_owned()))), "{what}");
    }
}

#[test]
fn the_conflict_of_an_address_in_use_stays_while_no_node_has_the_vip() {
    let released = write(Expected::Absent, 0, ClaimState::Released);
    let mut object = created(&released, at(0));
    show(&mut object, &Finding::Conflict(Some("in use".to_owned())), at(5));
    let (_, known) = read(&object.to_string()).expect("a claim");
    merge(&mut object, &patch(&released, &known, at(10)));
    assert_eq!(object["status"]["conflict"], "in use");
}
