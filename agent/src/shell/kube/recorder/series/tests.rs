use std::net::Ipv4Addr;

use super::*;

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_mins(1);

fn message(last: u8, note: &str) -> Message {
    Message {
        regarding: Regarding::VirtualIp(Ipv4Addr::new(192, 0, 2, last)),
        kind: Kind::Normal,
        reason: "Held",
        note: note.to_owned(),
    }
}

fn is_create(step: &Step) -> bool {
    matches!(step, Step::Create { .. })
}

#[test]
fn the_same_message_is_one_event_and_its_count_is_written_after_ten_minutes() {
    let mut series = Series::default();
    let told = message(1, "a");
    let Step::Create { name } = series.on_message(&told, 7, SECOND) else { panic!("no Event") };
    assert_eq!(name, "192.0.2.1.0000000000000007");
    for said in 1..=100 {
        assert_eq!(series.on_message(&told, 8, SECOND + SECOND * said), Step::Nothing);
    }
    assert_eq!(series.due(9 * MINUTE), []);
    assert_eq!(series.due(11 * MINUTE), [(told.clone(), name.clone(), 101)]);
    assert_eq!(series.due(12 * MINUTE), [], "it was not said again");
    assert_eq!(series.on_message(&told, 9, 22 * MINUTE), Step::Count { name, count: 102 });
}

#[test]
fn another_note_or_object_is_another_event() {
    let mut series = Series::default();
    for told in [message(1, "a"), message(1, "b"), message(2, "a")] {
        assert!(is_create(&series.on_message(&told, 0, SECOND)), "{told:?}");
    }
}

#[test]
fn a_flood_of_different_messages_is_cut_off_and_counted() {
    let mut series = Series::default();
    let mut created = 0;
    for number in 0..10_000 {
        created += u32::from(is_create(&series.on_message(&message(1, &number.to_string()), 0, SECOND)));
    }
    assert_eq!(created, BURST - FOR_WARNINGS, "and one has grown back already, of a full bucket");
    assert_eq!(series.on_message(&message(2, "one more"), 0, SECOND), Step::TooMuch);
    assert!(
        is_create(&series.on_message(&message(2, "later"), 0, 3 * SECOND)),
        "it ends when the flood does"
    );
}

#[test]
fn what_is_wrong_is_told_in_the_middle_of_a_flood_of_what_is_not() {
    let mut series = Series::default();
    for number in 0..10_000 {
        series.on_message(&message(1, &number.to_string()), 0, SECOND);
    }
    let wrong = |number: u32| Message { kind: Kind::Warning, ..message(2, &number.to_string()) };
    let created = (0..1_000).filter(|number| is_create(&series.on_message(&wrong(*number), 0, SECOND)));
    assert_eq!(created.count(), FOR_WARNINGS as usize);
    // What grows back is for that too.
    assert!(is_create(&series.on_message(&wrong(1_000), 0, 2 * SECOND)));
    assert_eq!(series.on_message(&message(1, "another"), 0, 3 * SECOND), Step::TooMuch);
}

#[test]
fn in_ten_minutes_no_more_are_written_than_the_burst_and_one_a_second() {
    let mut series = Series::default();
    let mut written = 0;
    for tick in 0..6_000_u32 {
        let now = Duration::from_millis(100) * tick;
        for number in 0..4 {
            let step = series.on_message(&message(number, &tick.to_string()), 0, now);
            written += u32::from(!matches!(step, Step::Nothing | Step::TooMuch));
        }
    }
    assert!((600..=600 + BURST).contains(&written), "{written}");
}

#[test]
fn what_is_remembered_is_bounded() {
    let mut series = Series::default();
    for number in 0..20_000_u32 {
        series.on_message(&message(1, &number.to_string()), 0, SECOND * number);
        assert!(series.told.len() <= MAX_REMEMBERED);
    }
}

#[test]
fn a_message_is_a_new_event_when_the_old_one_is_forgotten() {
    let mut series = Series::default();
    let told = message(1, "a");
    assert!(is_create(&series.on_message(&told, 0, SECOND)));
    series.forget(&told);
    assert!(is_create(&series.on_message(&told, 1, 2 * SECOND)));

    series.on_message(&message(2, "other"), 0, FORGET + MINUTE);
    assert!(is_create(&series.on_message(&told, 2, FORGET + MINUTE)), "the API server has forgotten it, too");
}

#[test]
fn what_another_node_has_told_is_counted_on() {
    let mut series = Series::default();
    let told = message(1, "a");
    let Step::Create { name } = series.on_message(&told, 7, SECOND) else { panic!("no Event") };
    assert_eq!(series.already_told(&told), 2, "the API refuses a series of one");
    assert_eq!(series.due(11 * MINUTE), [], "it was not said again");
    assert_eq!(series.on_message(&told, 7, 12 * MINUTE), Step::Count { name, count: 3 });
}
