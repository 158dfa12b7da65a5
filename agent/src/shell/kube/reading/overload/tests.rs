use super::*;

/// Counts `claims` in each millisecond for which there is a number.
fn counted(start: Instant, claims: impl IntoIterator<Item = (u64, u32)>) -> Overload {
    let overload = Overload::default();
    for (millis, claims) in claims {
        (0..claims).for_each(|_| overload.count(start + Duration::from_millis(millis)));
    }
    overload
}

#[test]
fn everyday_changes_are_no_crowd() {
    let start = Instant::now();
    for (what, claims) in [
        ("none", vec![]),
        ("a few at once", vec![(0, MANY - 1)]),
        ("some in each second", (0..10).map(|second| (second * 1_000, MANY - 1)).collect()),
    ] {
        let overload = counted(start, claims);
        assert_eq!(overload.lasts(false, start + Duration::from_millis(9_500)), None, "{what}");
    }
}

#[test]
fn a_crowd_lasts_from_the_first_look_to_a_second_after_the_last_of_many() {
    let start = Instant::now();
    let overload = counted(start, [(0, MANY)]);
    let lasts = |millis| overload.lasts(false, start + Duration::from_millis(millis));
    assert_eq!(lasts(100), Some(Duration::ZERO));
    assert_eq!(lasts(999), Some(Duration::from_millis(899)));
    assert_eq!(lasts(1_000), None);
    (0..MANY).for_each(|_| overload.count(start + Duration::from_secs(5)));
    assert_eq!(lasts(5_100), Some(Duration::ZERO), "another one");
}

#[test]
fn claims_that_wait_for_their_turn_are_a_crowd() {
    let (start, overload) = (Instant::now(), Overload::default());
    assert_eq!(overload.lasts(true, start), Some(Duration::ZERO));
    assert_eq!(overload.lasts(true, start + Duration::from_secs(50)), Some(Duration::from_secs(50)));
    assert_eq!(overload.lasts(false, start + Duration::from_secs(51)), None);
}
