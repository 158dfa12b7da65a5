use super::*;

fn at(seconds: u64) -> Monotonic {
    Monotonic::from_nanos(seconds * 1_000_000_000)
}

#[test]
fn the_same_is_said_once_a_minute_with_the_number_between() {
    let mut said = Seldom::start(64);
    let lines: Vec<(u64, u64)> =
        (0..150).filter_map(|second| Some((second, said.on("192.0.2.10", (), at(second))?))).collect();
    assert_eq!(lines, [(0, 0), (60, 59), (120, 59)]);
}

#[test]
fn a_finding_is_said_when_it_has_changed_and_when_it_comes_back_and_not_while_it_goes_on() {
    let mut said = Seldom::start(64);
    let rows = [
        ("it begins", 0, "no", Some(0)),
        ("it goes on", 59, "no", None),
        ("it has gone on since", 118, "no", None),
        ("it changes", 119, "never", Some(2)),
        ("it is over, and comes back", 120, "never", Some(0)),
    ];
    for (what, second, finding, expected) in rows {
        if second == 120 {
            assert!(said.end(&1) && !said.end(&1));
        }
        assert_eq!(said.on(1, finding, at(second)), expected, "{what}");
        assert!(said.go_on(&1, at(second)) && !said.go_on(&2, at(second)), "{what}");
    }
}

#[test]
fn of_very_many_subjects_some_are_said_and_the_others_counted() {
    let mut said = Seldom::start(64);
    let lines = (0..10_000).filter(|subject| said.on(*subject, (), at(1)).is_some());
    assert_eq!(lines.count(), 64);
    assert_eq!(said.on(10_000, (), at(61)), Some(10_000 - 64));
}
