use std::time::Duration;

use super::*;
use crate::{
    reports::outbox::{Object, Write},
    services::{self, Place, Refusal, Settings},
};

const BEGIN: Monotonic = Monotonic::from_nanos(1_000_000_000_000);
const MINUTE: Duration = Duration::from_mins(1);

fn service() -> ServiceName {
    ServiceName { namespace: "shop".into(), name: "web".into() }
}

fn problem() -> Problem {
    let address = [192, 0, 2, 1].into();
    Problem::Refused { address, place: Place::Addresses, why: Refusal::NoSegment }
}

/// Answers each request until `end` by `answer`, which gets its number. Returns the minute of each, and
/// whether it creates the Event.
fn requests(answer: impl Fn(usize) -> Outcome, end: Duration) -> Vec<(u64, bool)> {
    let services = services::Agent::alone(Settings::default());
    let mut events = Events::start(BEGIN);
    events.begin(service(), problem(), BEGIN);
    let mut requests: Vec<(u64, bool)> = Vec::new();
    while let Some(now) = events.next_deadline().filter(|next| *next < BEGIN + end) {
        events.report(services.index(), |_, _| Some(true), now);
        for command in events.due(now) {
            if let Command::Write(Write { count, .. }) = command {
                let outcome = answer(requests.len());
                requests.push((now.saturating_since(BEGIN).as_secs() / 60, count.is_none()));
                events.on_outcome(outcome, 0.5, now);
            }
        }
    }
    events.end(&service(), &problem());
    assert!(events.due(BEGIN + end).into_iter().all(|command| matches!(command, Command::Report { .. })));
    requests
}

#[test]
fn a_problem_that_lasts_has_an_event_again_soon_whatever_became_of_a_request() {
    use Outcome::{Done, Exists, Missing, Refused};
    let of = |number: usize, outcome| move |request| if request == number { outcome } else { Done };
    let (created, counted) = (true, false);
    let table = [
        (
            "it is renewed",
            requests(of(9, Done), MINUTE * 25),
            vec![(0, created), (10, counted), (20, counted)],
        ),
        ("it was refused", requests(of(0, Refused), MINUTE * 15), vec![(0, created), (10, created)]),
        (
            "it was deleted, or the API server has forgotten it",
            requests(of(1, Missing), MINUTE * 15),
            vec![(0, created), (10, counted), (10, created)],
        ),
        (
            "another process has created it",
            requests(of(0, Exists), MINUTE * 15),
            vec![(0, created), (0, counted), (10, counted)],
        ),
        ("its namespace is gone", requests(of(0, Missing), MINUTE * 15), vec![(0, created), (10, created)]),
    ];
    for (about, requests, expected) in table {
        assert_eq!(requests, expected, "{about}");
    }
}

#[test]
fn a_problem_has_an_event_again_after_an_outage_that_outlasts_the_repetitions() {
    let many = requests(|_| Outcome::Unknown, MINUTE * 9).len();
    let answer = |number| if number < many { Outcome::Unknown } else { Outcome::Done };
    assert_eq!(requests(answer, MINUTE * 15).last(), Some(&(10, true)));
}

fn foreign(kind: &'static str, uid: &str) -> ApiObject {
    let (namespace, name) = ("metallb-system".into(), "lan".into());
    ApiObject { version: "metallb.io/v1beta1", kind, namespace, name, uid: uid.into() }
}

#[test]
fn an_object_that_is_gone_is_forgotten_and_one_of_its_name_is_reported_anew() {
    let (pool, peer) = (foreign("IPAddressPool", "1"), foreign("BGPPeer", "2"));
    let mut events = Events::start(BEGIN);
    let fault = |words: &str| ObjectFault::unused(words.to_owned());
    let mut put = |object: &ApiObject, words| events.put_fault(object, fault(words).as_ref(), BEGIN);
    assert!(!put(&pool, ""), "no fault");
    assert!(put(&pool, "bad") && !put(&pool, "bad"));
    assert!(put(&pool, "worse") && put(&peer, "not served"));
    events.forget_faults(&foreign("IPAddressPool", ""));
    assert_eq!(events.faults.keys().collect::<Vec<_>>(), [&peer], "another kind stays");
    assert!(events.put_fault(&pool, fault("worse").as_ref(), BEGIN));
    assert!(events.put_fault(&pool, None, BEGIN), "it is over");
}

#[test]
fn the_fault_of_an_object_has_an_event_again_for_as_long_as_it_lasts() {
    let services = services::Agent::alone(Settings::default());
    let object = foreign("IPAddressPool", "1");
    let mut events = Events::start(BEGIN);
    assert!(events.put_fault(&object, ObjectFault::unused("bad".to_owned()).as_ref(), BEGIN));
    let mut written = Vec::new();
    while let Some(now) = events.next_deadline().filter(|next| *next < BEGIN + MINUTE * 25) {
        events.report(services.index(), |_, _| Some(false), now);
        for command in events.due(now) {
            let Command::Write(write) = command else { panic!("{command:?}") };
            assert_eq!(write.message.object, Object::Other(object.clone()));
            written.push((now.saturating_since(BEGIN).as_secs() / 60, write.count));
            events.on_outcome(Outcome::Done, 0.5, now);
        }
    }
    assert_eq!(written, [(0, None), (10, Some(2)), (20, Some(3))]);
}

#[test]
fn a_fault_that_changes_often_leaves_one_message() {
    let services = services::Agent::alone(Settings::default());
    let object = foreign("IPAddressPool", "1");
    let mut events = Events::start(BEGIN);
    let mut now = BEGIN;
    for number in 0..100 {
        now = now + Duration::from_millis(10);
        events.put_fault(&object, ObjectFault::unused(format!("bad {number}")).as_ref(), now);
        events.report(services.index(), |_, _| Some(false), now);
    }
    let mut words = Vec::new();
    while let Some(next) = events.next_deadline().filter(|next| *next < BEGIN + MINUTE * 5) {
        events.report(services.index(), |_, _| Some(false), next);
        for command in events.due(next) {
            let Command::Write(write) = command else { panic!("{command:?}") };
            words.push(write.message.note().to_owned());
            events.on_outcome(Outcome::Done, 0.5, next);
        }
    }
    assert_eq!(words, ["bad 99"]);
    events.put_fault(&object, None, now);
    assert_eq!(events.next_deadline().filter(|next| *next < BEGIN + MINUTE * 60), None, "it is over");
}
