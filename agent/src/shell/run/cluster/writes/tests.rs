use std::{net::Ipv4Addr, time::Duration};

use super::Writes;
use crate::core::{cluster::ServiceName, time::Monotonic};

const VIP: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 10);
const OTHER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 11);

type Statuses = Writes<ServiceName, Option<Vec<Ipv4Addr>>>;

fn web() -> ServiceName {
    ServiceName { namespace: "apps".into(), name: "web".into() }
}

fn at(milliseconds: u64) -> Monotonic {
    Monotonic::default() + Duration::from_millis(milliseconds)
}

#[test]
fn what_failed_is_tried_again_twice_as_late_each_time_up_to_a_minute() {
    let mut writes = Writes::new();
    writes.begin(web(), Some(vec![VIP]));
    let mut now = at(0);
    let mut pauses = Vec::new();
    for _ in 0..9 {
        writes.on_result(&web(), false, 0.0, now);
        let due = writes.next_deadline().expect("it is tried again");
        let just_before = due.saturating_sub(Duration::from_nanos(1));
        assert_eq!(writes.due(just_before), []);
        assert_eq!(writes.due(due), [(web(), Some(vec![VIP]))]);
        assert_eq!(writes.next_deadline(), None, "one request at a time");
        pauses.push(due.saturating_since(now).as_secs());
        now = due;
    }
    assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60, 60]);
}

#[test]
fn what_is_written_is_not_tried_again() {
    let mut writes: Statuses = Writes::new();
    writes.begin(web(), None);
    writes.on_result(&web(), false, 0.0, at(0));
    assert_eq!(writes.due(at(1_000)), [(web(), None)]);
    writes.on_result(&web(), true, 0.0, at(1_100));
    assert_eq!(writes.next_deadline(), None);
    assert!(writes.jobs.is_empty(), "nothing is remembered of it");
}

#[test]
fn what_is_left_is_not_tried_again() {
    let mut writes = Writes::new();
    writes.begin(web(), Some(vec![VIP]));
    writes.on_result(&web(), false, 0.0, at(0));
    writes.leave(&web());
    assert_eq!(writes.next_deadline(), None);
    assert_eq!(writes.due(at(100_000)), []);
}

#[test]
fn the_result_of_what_is_not_wanted_any_more_is_not_taken_for_that_of_what_is() {
    let mut writes = Writes::new();
    writes.begin(web(), Some(vec![VIP]));
    writes.begin(web(), Some(vec![OTHER]));
    writes.on_result(&web(), true, 0.0, at(0));
    writes.on_result(&web(), false, 0.0, at(10));
    assert_eq!(writes.due(at(1_010)), [(web(), Some(vec![OTHER]))]);
}

#[test]
fn the_result_of_what_was_left_is_not_taken_for_that_of_what_is_asked_for_after_it() {
    let mut writes = Writes::new();
    writes.begin(web(), Some(vec![VIP]));
    writes.leave(&web());
    writes.begin(web(), Some(vec![OTHER]));
    writes.on_result(&web(), true, 0.0, at(0));
    writes.on_result(&web(), false, 0.0, at(10));
    assert_eq!(writes.due(at(1_010)), [(web(), Some(vec![OTHER]))]);
    writes.leave(&web());
    writes.on_result(&web(), false, 0.0, at(1_020));
    assert!(writes.jobs.is_empty(), "nothing is remembered of it");
}

#[test]
fn what_is_asked_for_anew_begins_with_the_shortest_pause() {
    let mut writes = Writes::new();
    writes.begin(web(), Some(vec![VIP]));
    writes.on_result(&web(), false, 0.0, at(0));
    writes.due(at(1_000));
    writes.on_result(&web(), false, 0.0, at(1_000));
    writes.begin(web(), Some(vec![OTHER]));
    assert_eq!(writes.next_deadline(), None, "it is asked for already");
    writes.on_result(&web(), false, 0.0, at(2_000));
    assert_eq!(writes.due(at(3_000)), [(web(), Some(vec![OTHER]))]);
}

#[test]
fn jitter_makes_a_pause_a_quarter_longer_at_most() {
    let mut writes: Statuses = Writes::new();
    writes.begin(web(), None);
    writes.on_result(&web(), false, 1.0, at(0));
    assert_eq!(writes.next_deadline(), Some(at(1_250)));
}

#[test]
fn what_is_for_later_is_asked_for_then_unless_anything_else_is() {
    let mut writes: Statuses = Writes::new();
    writes.begin_later(web(), None, at(5_000));
    assert_eq!((writes.next_deadline(), writes.due(at(4_999))), (Some(at(5_000)), vec![]));
    assert_eq!(writes.due(at(5_000)), [(web(), None)]);
    writes.on_result(&web(), true, 0.0, at(5_010));
    assert!(writes.jobs.is_empty(), "it is written");

    writes.begin_later(web(), None, at(9_000));
    writes.begin(web(), Some(vec![VIP]));
    writes.begin_later(web(), None, at(9_000));
    assert_eq!(writes.next_deadline(), None, "what is under way says more");
    writes.on_result(&web(), false, 0.0, at(8_000));
    assert_eq!(writes.due(at(9_000)), [(web(), Some(vec![VIP]))]);
}
