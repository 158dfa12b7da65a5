use std::{
    net::{IpAddr, Ipv4Addr},
    time::Duration,
};

use super::Writes;
use crate::{base::time::Monotonic, records::ServiceName};

const VIP: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 10));
const OTHER: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 11));

type Statuses = Writes<ServiceName, Option<Vec<IpAddr>>>;

fn web() -> ServiceName {
    ServiceName { namespace: "apps".into(), name: "web".into() }
}

fn at(milliseconds: u64) -> Monotonic {
    Monotonic::default() + Duration::from_millis(milliseconds)
}

fn asked(addresses: &[IpAddr]) -> Statuses {
    let mut writes = Writes::default();
    writes.begin(web(), Some(addresses.to_vec()), at(0));
    assert_eq!(writes.due(at(0)), [(web(), Some(addresses.to_vec()))]);
    writes
}

#[test]
fn a_failed_write_is_repeated_after_twice_the_pause_up_to_a_minute() {
    let mut writes = asked(&[VIP]);
    let mut now = at(0);
    let mut pauses = Vec::new();
    for failures in 1..=9 {
        writes.on_result(&web(), false, 0.0, now);
        assert_eq!(writes.failures(&web()), failures);
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
fn a_value_that_is_written_is_forgotten() {
    let mut writes = asked(&[VIP]);
    writes.on_result(&web(), false, 0.0, at(0));
    assert_eq!(writes.due(at(1_000)), [(web(), Some(vec![VIP]))]);
    writes.on_result(&web(), true, 0.0, at(1_100));
    assert_eq!(writes.next_deadline(), None);
    assert!(writes.jobs.is_empty(), "nothing is remembered of it");

    let mut writes = asked(&[VIP]);
    writes.settle(&web(), at(0));
    assert!(writes.jobs.is_empty(), "nor of what was so already");
}

#[test]
fn a_value_that_is_given_up_is_not_repeated() {
    let mut writes = asked(&[VIP]);
    writes.on_result(&web(), false, 0.0, at(0));
    writes.leave(&web());
    assert_eq!((writes.next_deadline(), writes.due(at(100_000))), (None, vec![]));

    let mut writes = asked(&[VIP]);
    writes.leave(&web());
    writes.on_result(&web(), false, 0.0, at(10));
    assert!(writes.jobs.is_empty() && writes.due.is_empty(), "nothing is remembered of it");
}

#[test]
fn a_change_during_a_request_is_written_after_it_as_it_is_then() {
    for (done, left) in [(true, false), (false, false), (true, true)] {
        let mut writes = asked(&[VIP]);
        if left {
            writes.leave(&web());
        }
        writes.begin(web(), None, at(5));
        writes.begin(web(), Some(vec![OTHER]), at(6));
        assert_eq!(writes.due(at(9)), [], "one request at a time");
        writes.on_result(&web(), done, 0.0, at(10));
        assert_eq!(writes.due(at(10)), [(web(), Some(vec![OTHER]))]);
        writes.on_result(&web(), false, 0.0, at(20));
        assert_eq!(writes.due(at(1_020)), [(web(), Some(vec![OTHER]))], "it begins with the shortest pause");
    }
}

#[test]
fn a_change_during_a_pause_ends_the_pause() {
    let mut writes = asked(&[VIP]);
    writes.on_result(&web(), false, 0.0, at(0));
    writes.begin(web(), Some(vec![OTHER]), at(10));
    assert_eq!(writes.due(at(10)), [(web(), Some(vec![OTHER]))]);
    assert_eq!(writes.next_deadline(), None);
}

#[test]
fn a_write_for_later_gives_way_to_any_other() {
    let mut writes: Statuses = Writes::default();
    writes.begin_if_idle(web(), None, at(5_000));
    assert_eq!((writes.next_deadline(), writes.due(at(4_999))), (Some(at(5_000)), vec![]));
    writes.begin(web(), Some(vec![VIP]), at(6_000));
    writes.begin_if_idle(web(), None, at(5_000));
    assert_eq!(writes.due(at(10_000)), [(web(), Some(vec![VIP]))]);
    writes.begin_if_idle(web(), None, at(10_000));
    writes.on_result(&web(), true, 0.0, at(10_000));
    assert!(writes.jobs.is_empty() && writes.due.is_empty());
}

#[test]
fn jitter_makes_a_pause_a_quarter_longer_at_most() {
    let mut writes = asked(&[VIP]);
    writes.on_result(&web(), false, 1.0, at(0));
    assert_eq!(writes.next_deadline(), Some(at(1_250)));
}
