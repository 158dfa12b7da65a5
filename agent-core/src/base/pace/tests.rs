use super::*;
use crate::base::samples::at;

/// Returns the times of all departures within `window`, each as early as allowed.
fn departures(pace: &mut Pace, from: Monotonic, window: Duration) -> Vec<Monotonic> {
    let (mut now, end) = (from, from + window);
    let mut departures = Vec::new();
    while now < end {
        while pace.is_open(now) {
            pace.take();
            departures.push(now);
        }
        now = pace.next();
    }
    departures
}

/// Returns the most departures within one second, whenever that begins.
fn most_in_a_second(departures: &[Monotonic]) -> usize {
    let within = |index: usize| {
        let until = departures[index] + Duration::from_secs(1);
        departures[index..].iter().take_while(|departure| **departure < until).count()
    };
    (0..departures.len()).map(within).max().unwrap_or(0)
}

#[test]
fn no_second_has_more_than_its_number_even_after_a_long_silence() {
    for a_second in [1, 2, 7, 500, 5_000] {
        let mut pace = Pace::new(a_second, at(0));
        let departures = departures(&mut pace, at(60_000), Duration::from_secs(5));
        let most = most_in_a_second(&departures);
        assert!(most <= a_second as usize, "{most} in one second at {a_second} a second");
        assert!(departures.len() >= a_second as usize * 4, "too slow at {a_second} a second");
    }
}

#[test]
fn no_second_has_more_than_its_number_when_items_leave_late() {
    type Lateness = fn(usize) -> Duration;

    const TEN: Duration = Duration::from_millis(10);
    let table: [(&str, Lateness); 3] = [
        ("those of the first second", |index| if index < 2_500 { TEN } else { Duration::ZERO }),
        ("the first burst", |index| if index < 50 { TEN } else { Duration::ZERO }),
        ("each later than the one before, in every burst", |index| {
            Duration::from_micros(20) * u32::try_from(index % 50).expect("less than 50")
        }),
    ];
    for (what, late) in table {
        let mut pace = Pace::new(2_500, at(0));
        let let_through = departures(&mut pace, at(60_000), Duration::from_secs(3));
        let mut left: Vec<_> =
            let_through.iter().enumerate().map(|(index, time)| *time + late(index)).collect();
        left.sort_unstable();
        let most = most_in_a_second(&left);
        assert!(most <= 2_500, "{most} in one second, late: {what}");
    }
}

#[test]
fn times_are_within_their_bounds_and_differ_between_neighbours() {
    let (least, most) = (Duration::from_secs(54), Duration::from_secs(66));
    let time = |host: u8, number| between(least, most, chance(1, VipKey::new(3, [10, 0, 0, host]), number));
    let times: Vec<Duration> = (0..=255).map(|host| time(host, 1)).collect();
    assert!(times.iter().all(|time| (least..most).contains(time)), "{times:?}");
    let mut distinct = times.clone();
    distinct.sort_unstable();
    distinct.dedup();
    assert_eq!(distinct.len(), times.len(), "neighbours are due together");
    let spread = distinct.last().expect("not empty").saturating_sub(distinct[0]);
    assert!(spread > Duration::from_secs(6), "all are within {spread:?}");
    assert_eq!(time(7, 3), time(7, 3));
    assert_ne!(time(7, 3), time(7, 4));
}

#[test]
fn a_burst_is_open_at_once_and_a_reserve_is_kept() {
    const SLOT: Duration = Duration::from_secs(1);
    let now = at(1_000_000);
    let mut pace = Pace::with_burst(50, SLOT, now);
    let mut take = |reserve, now| {
        let is_open = pace.is_open_beyond(reserve, now);
        if is_open {
            pace.take();
        }
        is_open
    };
    assert_eq!((0..1_000).filter(|_| take(10, now)).count(), 40);
    assert_eq!((0..1_000).filter(|_| take(0, now)).count(), 10);
    assert_eq!((0..1_000).filter(|_| take(0, now + SLOT)).count(), 1);
    assert!(!take(10, now + SLOT * 10));
    assert_eq!((0..1_000).filter(|_| take(0, now + SLOT * 10_000)).count(), 50);
}

#[test]
fn pauses_double_up_to_a_limit_and_jitter_makes_them_a_quarter_longer_at_most() {
    let backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(30));
    let pauses = |jitter| [0, 1, 4, 5, 1_000].map(|failures| backoff.pause(failures, jitter).as_millis());
    assert_eq!(pauses(0.0), [1_000, 2_000, 16_000, 30_000, 30_000]);
    assert_eq!(pauses(1.0), [1_250, 2_500, 20_000, 37_500, 37_500]);
}
