use std::net::Ipv4Addr;

use super::*;
use crate::shell::kube::recorder::{Kind, Regarding};

const SECOND: Duration = Duration::from_secs(1);

fn job(last: u8, said: Duration) -> Job {
    let vip = Ipv4Addr::new(192, 0, 2, last);
    let message = Message {
        regarding: Regarding::VirtualIp(vip),
        kind: Kind::Warning,
        reason: "Nobody",
        note: "nobody can hold it".to_owned(),
    };
    Job { message, name: vip.to_string(), count: None, at: Timestamp::UNIX_EPOCH, said, failures: 0 }
}

/// When an Event is tried that is never written.
fn attempts(jitter: f64) -> Vec<Duration> {
    let mut again = Again::default();
    let mut failed = job(1, SECOND);
    let mut attempts = vec![SECOND];
    loop {
        let now = *attempts.last().expect("one at least");
        if again.put(failed, jitter, now).is_some() {
            return attempts;
        }
        let due = again.next_due().expect("it waits");
        assert_eq!(again.take_due(now), None);
        failed = again.take_due(due).expect("it is due");
        attempts.push(due);
    }
}

#[test]
fn an_event_is_tried_later_each_time_and_given_up_when_it_is_old_news() {
    let seconds: Vec<u64> = attempts(0.0).iter().map(Duration::as_secs).collect();
    assert_eq!(seconds, [1, 2, 4, 8, 16, 32, 62, 92, 122, 152, 182, 212, 242, 272]);
    let latest = attempts(1.0);
    assert_eq!(latest[1], SECOND + SECOND * 5 / 4);
    assert!(latest.last().is_some_and(|last| *last > SECOND * 61), "an outage of a minute is lived through");
}

#[test]
fn they_are_tried_in_the_order_of_their_times() {
    let mut again = Again::default();
    for (last, failures) in [(1, 3), (2, 0), (3, 1), (4, 0)] {
        assert_eq!(again.put(Job { failures, ..job(last, SECOND) }, 0.0, SECOND), None);
    }
    let mut order = Vec::new();
    while let Some(job) = again.take_due(SECOND * 60) {
        order.push(job.name);
    }
    assert_eq!(order, ["192.0.2.2", "192.0.2.4", "192.0.2.3", "192.0.2.1"]);
    assert_eq!(again.next_due(), None);
}

#[test]
fn what_waits_is_bounded() {
    let mut again = Again::default();
    for _ in 0..MOST {
        assert!(again.has_room());
        assert_eq!(again.put(job(1, SECOND), 0.0, SECOND), None);
    }
    assert!(!again.has_room());
    assert_eq!(again.put(job(2, SECOND), 0.0, SECOND), Some(job(2, SECOND)));
}
