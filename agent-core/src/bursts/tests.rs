use super::*;

fn at(millis: u64) -> Monotonic {
    Monotonic::from_nanos((60_000 + millis) * 1_000_000)
}

/// Returns the number of changes that get a line of their own, of one each at these times.
fn own_lines(bursts: &mut Bursts<&str>, times: impl IntoIterator<Item = u64>) -> usize {
    times.into_iter().filter(|millis| bursts.on_change("a", at(*millis))).count()
}

#[test]
fn a_change_has_a_line_of_its_own() {
    let mut bursts = Bursts::start(8, at(0));
    assert_eq!(own_lines(&mut bursts, (0..100).map(|number| number * 1_000)), 100);
    assert_eq!(bursts.next_deadline(), None);
}

#[test]
fn of_thousands_of_changes_a_number_is_logged_once_a_second() {
    let mut bursts = Bursts::start(8, at(0));
    let (mut own, mut numbers, mut counted) = (0, 0, 0);
    for millis in 0..10_000 {
        own += own_lines(&mut bursts, [millis]);
        let more = bursts.due(at(millis));
        numbers += more.len();
        counted += more.values().sum::<u64>();
    }
    let end = bursts.next_deadline().expect("the last ones are still to be logged");
    counted += bursts.due(end).values().sum::<u64>();
    assert!(own <= 20, "{own} lines of their own");
    assert_eq!((u64::try_from(own).expect("a small number") + counted, numbers), (10_000, 9));
    assert!(bursts.due(at(60_000)).is_empty());
}

#[test]
fn each_kind_has_its_number() {
    let mut bursts = Bursts::start(8, at(0));
    assert_eq!(own_lines(&mut bursts, [0; 20]), 8);
    for _ in 0..3 {
        assert!(!bursts.on_change("b", at(1)));
    }
    assert!(bursts.due(at(999)).is_empty());
    assert_eq!(bursts.due(at(1_000)), [("a", 12), ("b", 3)].into());
}
