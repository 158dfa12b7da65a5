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
fn of_thousands_of_changes_the_number_is_logged_less_and_less_often_up_to_every_eight_seconds() {
    let mut bursts = Bursts::start(8, at(0));
    let (mut own, mut numbers, mut counted) = (0, Vec::new(), 0);
    for millis in 0..40_000 {
        own += own_lines(&mut bursts, [millis]);
        let more = bursts.due(at(millis));
        if let Some(number) = more.get("a") {
            numbers.push(millis);
            counted += number;
        }
    }
    assert_eq!(own, 8, "no line comes between the numbers");
    assert_eq!(numbers, [1_008, 3_008, 7_008, 15_008, 23_008, 31_008, 39_008]);
    counted += bursts.rest().values().sum::<u64>();
    assert_eq!(counted, 39_992, "none is lost");
}

#[test]
fn a_burst_is_over_when_no_change_has_come_for_a_whole_pause() {
    let mut bursts = Bursts::start(2, at(0));
    assert_eq!(own_lines(&mut bursts, [0; 5]), 2);
    assert_eq!(bursts.due(at(1_000)), [("a", 3)].into());
    assert_eq!(bursts.next_deadline(), Some(at(3_000)));
    assert!(bursts.due(at(3_000)).is_empty());
    assert_eq!(bursts.next_deadline(), None);
    assert_eq!(own_lines(&mut bursts, [3_001; 5]), 2, "the next changes get lines of their own");
    assert_eq!(bursts.next_deadline(), Some(at(4_001)), "and the first number comes after a second");
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
