use super::*;
use crate::ownership::tests::records::{at, lease, session, settings};

/// Returns the state of a process that found `found` pinned.
fn own(found: Option<Session>) -> Own {
    Own::new(&settings("a"), &Found { session: found, ..Found::default() }, at(0))
}

fn at_version(version: &str, mut record: LeaseRecord) -> LeaseRecord {
    record.version = version.into();
    record
}

#[test]
fn a_process_goes_on_with_the_session_it_found_unless_that_has_ended_or_another_may_live() {
    let (first, second) = (session("a", 1), session("a", 2));
    let rows = [
        ("nothing found, no Lease", None, None, Beginning::Fresh),
        ("nothing found, a blank Lease", None, Some(lease("a", None, &[])), Beginning::Fresh),
        (
            "nothing found, a session that ended",
            None,
            Some(lease("a", Some(first), &[first])),
            Beginning::Fresh,
        ),
        ("nothing found, a session", None, Some(lease("a", Some(first), &[])), Beginning::Waits),
        ("found, no Lease", Some(first), None, Beginning::GoesOn),
        ("found, a blank Lease", Some(first), Some(lease("a", None, &[])), Beginning::GoesOn),
        ("found in the Lease", Some(first), Some(lease("a", Some(first), &[])), Beginning::GoesOn),
        ("found and ended", Some(first), Some(lease("a", Some(first), &[first])), Beginning::Fresh),
        ("found, another in the Lease", Some(first), Some(lease("a", Some(second), &[])), Beginning::Waits),
        ("found, another ended", Some(first), Some(lease("a", Some(second), &[second])), Beginning::Fresh),
    ];
    for (name, found, record, expected) in rows {
        let mut own = own(found);
        assert_eq!(own.begin(record.clone(), Duration::from_secs(1), at(0)), Some(expected), "{name}");
        assert_eq!(own.lives(), expected == Beginning::GoesOn, "{name}");
        if expected == Beginning::Fresh {
            own.begin_session(at(0));
        }
        assert_eq!(own.begin(record, Duration::from_secs(1), at(0)), None, "{name}: only once");
    }
}

#[test]
fn a_new_session_ends_the_one_that_was_found_and_the_one_in_the_lease() {
    let (first, second) = (session("a", 1), session("a", 2));
    let mut own = own(Some(first));
    own.begin(Some(lease("a", Some(second), &[])), Duration::from_secs(1), at(0));
    assert!(!own.may_succeed_another(at(1_999)) && own.may_succeed_another(at(2_000)));
    own.begin_session(at(2_000));
    assert!(own.has_ended(first) && own.has_ended(second));
    assert!(own.session().is_some_and(|session| session != first && session != second));
}

#[test]
fn a_lease_that_another_wrote_is_judged_by_what_it_says_of_the_session() {
    let (first, second) = (session("a", 1), session("a", 2));
    let rows = [
        ("the session is there", lease("a", Some(first), &[]), Verdict::GoesOn),
        ("the Lease is blank", lease("a", None, &[]), Verdict::Blank),
        ("the session was ended", lease("a", None, &[first]), Verdict::Ended),
        ("the session is there, and ended", lease("a", Some(first), &[first]), Verdict::Ended),
        ("another agent", lease("a", Some(second), &[]), Verdict::Shared(second)),
        ("another that has ended", lease("a", Some(second), &[second]), Verdict::GoesOn),
    ];
    for (name, record, expected) in rows {
        let mut own = own(Some(first));
        own.begin(Some(at_version("5", lease("a", Some(first), &[]))), Duration::from_secs(1), at(0));
        assert_eq!(own.judge(&at_version("6", record)), Some((false, expected)), "{name}");
    }
}

#[test]
fn in_a_lease_of_the_past_another_session_is_of_an_earlier_life() {
    let (first, second) = (session("a", 1), session("a", 2));
    let mut own = own(Some(second));
    own.begin(Some(at_version("5", lease("a", Some(second), &[]))), Duration::from_secs(1), at(0));
    let past = at_version("3", lease("a", Some(first), &[]));
    assert_eq!(own.judge(&past), Some((true, Verdict::GoesOn)));
    assert!(own.has_ended(first));
}

#[test]
fn a_renewal_that_carries_another_session_does_not_count() {
    let first = session("a", 1);
    let mut own = own(Some(first));
    own.begin(None, Duration::from_secs(1), at(0));
    let settings = settings("a");
    for (carried, counts) in [(session("a", 2), false), (first, true)] {
        own.renew(&settings, None, false, at(0)).expect("a write");
        let renewal = own.end_renewal().expect("a renewal");
        let record = lease("a", Some(carried), &[]);
        assert_eq!(own.on_renewed(&settings, &renewal, record, at(10)).is_some(), counts, "{carried}");
        assert_eq!(own.is_valid(at(10)), counts, "{carried}");
    }
}

#[test]
fn the_last_write_ends_the_session() {
    let first = session("a", 1);
    let mut own = own(Some(first));
    own.begin(None, Duration::from_secs(1), at(0));
    own.stop = Some(StopReason::Leave);
    let write = own.renew(&settings("a"), None, true, at(0)).expect("a write");
    assert_eq!((write.session, write.ended, write.leaving), (None, vec![first], true));
}
