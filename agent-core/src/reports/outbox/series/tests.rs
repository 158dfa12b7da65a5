use std::net::IpAddr;

use super::{
    super::message::{Object, Reason},
    *,
};

const SECOND: Duration = Duration::from_secs(1);
const BEGIN: Monotonic = Monotonic::from_nanos(1_000_000_000_000);

fn message(note: &str) -> Message {
    Message::new(Object::VirtualIp(IpAddr::from([192, 0, 2, 10])), None, Reason::Moved, note)
}

#[test]
fn a_count_is_due_ten_minutes_after_the_event_or_the_last_count() {
    let mut series = AllSeries::default();
    assert!(!series.on_posted(&message("a"), BEGIN), "it has no Event");
    series.begin(&message("a"), BEGIN);
    assert_eq!(series.first_due(), None);
    for second in 1..=2 {
        assert!(series.on_posted(&message("a"), BEGIN + SECOND * second));
    }
    assert_eq!(series.first_due(), Some((Kind::Normal, BEGIN + REPEAT)));
    let later = BEGIN + REPEAT * 2;
    let count = Due { message: message("a"), count: 3, posted: BEGIN + SECOND * 2 };
    assert_eq!(series.take_due(later), Some(count));
    assert_eq!((series.first_due(), series.take_due(later)), (None, None));
    assert!(series.on_posted(&message("a"), later));
    assert_eq!(series.first_due(), Some((Kind::Normal, later + REPEAT)));
}

#[test]
fn a_message_that_was_not_said_for_long_is_forgotten() {
    let mut series = AllSeries::default();
    series.begin(&message("a"), BEGIN);
    assert!(series.on_posted(&message("a"), BEGIN + SECOND));
    assert!(!series.on_posted(&message("a"), BEGIN + SECOND + FORGET), "the API server forgets it, too");
    assert!(series.series.is_empty() && series.due.is_empty());
}

#[test]
fn a_bound_number_of_messages_is_remembered_and_the_oldest_is_forgotten() {
    let mut series = AllSeries::default();
    series.begin(&message("first"), BEGIN);
    for number in 0..MOST + 10 {
        series.begin(&message(&number.to_string()), BEGIN + SECOND);
        assert!(series.series.len() <= MOST);
    }
    assert!(!series.on_posted(&message("first"), BEGIN + SECOND));
}
