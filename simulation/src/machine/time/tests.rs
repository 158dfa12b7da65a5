use std::time::Duration;

use super::{At, Clock};

#[test]
fn a_clock_shows_the_awaited_time_and_not_a_nanosecond_earlier() {
    for ppm in [-10_000, -1, 0, 1, 9_999] {
        let clock = Clock::new(Duration::from_secs(1_000), ppm);
        let wanted = clock.read(At::default()) + Duration::from_nanos(12_345_678_901);
        let when = clock.when(wanted).expect("the clock runs");
        assert!(clock.read(when) >= wanted, "{ppm} ppm");
        assert!(clock.read(when - Duration::from_nanos(1)) < wanted, "{ppm} ppm");
    }
}

#[test]
fn a_clock_that_was_stopped_continues_where_it_was() {
    let mut clock = Clock::new(Duration::from_secs(5), 10_000);
    let (stopped, resumed) = (At::from_millis(1_000), At::from_millis(9_000));
    clock.stop(stopped);
    let shown = clock.read(At::from_millis(5_000));
    assert_eq!(clock.when(shown), None);
    clock.go_on(resumed);
    assert_eq!(clock.read(resumed), shown);
    assert_eq!(clock.read(At::from_millis(10_000)), shown + Duration::from_millis(1_010));
}
