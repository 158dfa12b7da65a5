use std::{net::Ipv4Addr, time::Duration};

use super::Statuses;
use crate::core::{cluster::ServiceName, time::Monotonic};

const VIP: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 10);
const OTHER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 11);

fn web() -> ServiceName {
    ServiceName { namespace: "apps".into(), name: "web".into() }
}

fn at(milliseconds: u64) -> Monotonic {
    Monotonic::default() + Duration::from_millis(milliseconds)
}

#[test]
fn what_failed_is_tried_again_twice_as_late_each_time_up_to_a_minute() {
    let mut statuses = Statuses::default();
    statuses.begin(web(), Some(vec![VIP]));
    let mut now = at(0);
    let mut pauses = Vec::new();
    for _ in 0..9 {
        statuses.on_result(&web(), false, 0.0, now);
        let due = statuses.next_deadline().expect("it is tried again");
        let just_before = due.saturating_sub(Duration::from_nanos(1));
        assert_eq!(statuses.due(just_before), []);
        assert_eq!(statuses.due(due), [(web(), Some(vec![VIP]))]);
        assert_eq!(statuses.next_deadline(), None, "one request at a time");
        pauses.push(due.saturating_since(now).as_secs());
        now = due;
    }
    assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60, 60]);
}

#[test]
fn what_is_written_is_not_tried_again() {
    let mut statuses = Statuses::default();
    statuses.begin(web(), None);
    statuses.on_result(&web(), false, 0.0, at(0));
    assert_eq!(statuses.due(at(1_000)), [(web(), None)]);
    statuses.on_result(&web(), true, 0.0, at(1_100));
    assert_eq!(statuses.next_deadline(), None);
    assert!(statuses.jobs.is_empty(), "nothing is remembered of it");
}

#[test]
fn a_status_that_is_left_is_not_tried_again() {
    let mut statuses = Statuses::default();
    statuses.begin(web(), Some(vec![VIP]));
    statuses.on_result(&web(), false, 0.0, at(0));
    statuses.leave(&web());
    assert_eq!(statuses.next_deadline(), None);
    assert_eq!(statuses.due(at(100_000)), []);
}

#[test]
fn the_result_of_what_is_not_wanted_any_more_is_not_taken_for_that_of_what_is() {
    let mut statuses = Statuses::default();
    statuses.begin(web(), Some(vec![VIP]));
    statuses.begin(web(), Some(vec![OTHER]));
    statuses.on_result(&web(), true, 0.0, at(0));
    statuses.on_result(&web(), false, 0.0, at(10));
    assert_eq!(statuses.due(at(1_010)), [(web(), Some(vec![OTHER]))]);
}

#[test]
fn the_result_of_what_was_left_is_not_taken_for_that_of_what_is_asked_for_after_it() {
    let mut statuses = Statuses::default();
    statuses.begin(web(), Some(vec![VIP]));
    statuses.leave(&web());
    statuses.begin(web(), Some(vec![OTHER]));
    statuses.on_result(&web(), true, 0.0, at(0));
    statuses.on_result(&web(), false, 0.0, at(10));
    assert_eq!(statuses.due(at(1_010)), [(web(), Some(vec![OTHER]))]);
    statuses.leave(&web());
    statuses.on_result(&web(), false, 0.0, at(1_020));
    assert!(statuses.jobs.is_empty(), "nothing is remembered of it");
}

#[test]
fn what_is_asked_for_anew_begins_with_the_shortest_pause() {
    let mut statuses = Statuses::default();
    statuses.begin(web(), Some(vec![VIP]));
    statuses.on_result(&web(), false, 0.0, at(0));
    statuses.due(at(1_000));
    statuses.on_result(&web(), false, 0.0, at(1_000));
    statuses.begin(web(), Some(vec![OTHER]));
    assert_eq!(statuses.next_deadline(), None, "it is asked for already");
    statuses.on_result(&web(), false, 0.0, at(2_000));
    assert_eq!(statuses.due(at(3_000)), [(web(), Some(vec![OTHER]))]);
}

#[test]
fn jitter_makes_a_pause_a_quarter_longer_at_most() {
    let mut statuses = Statuses::default();
    statuses.begin(web(), None);
    statuses.on_result(&web(), false, 1.0, at(0));
    assert_eq!(statuses.next_deadline(), Some(at(1_250)));
}
