use super::*;

fn at(seconds: u64) -> Monotonic {
    Monotonic::from_nanos(seconds * 1_000_000_000)
}

#[test]
fn an_object_that_is_repaired_again_and_again_is_logged_once_a_minute_with_the_number_between() {
    let mut repairs = Repairs::default();
    let logged: Vec<(u64, u64)> = (0..150)
        .filter_map(|second| Some((second, repairs.on_repaired("192.0.2.10", at(second))?)))
        .collect();
    assert_eq!(logged, [(0, 0), (60, 59), (120, 59)]);
}

#[test]
fn of_very_many_objects_some_are_logged_and_the_others_counted() {
    let mut repairs = Repairs::default();
    let logged = (0..10_000).filter(|number| repairs.on_repaired(&number.to_string(), at(1)).is_some());
    assert_eq!(logged.count(), MOST);
    assert_eq!(repairs.on_repaired("another", at(61)), Some(10_000 - 64));
}
