use super::*;

fn at(millis: u64) -> Monotonic {
    Monotonic::from_nanos(millis * 1_000_000)
}

/// When each of those that leave as soon as they may has left, within `window`.
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

#[test]
fn no_second_has_more_than_its_number_even_after_a_long_silence() {
    for a_second in [1, 2, 7, 500, 5_000] {
        let mut pace = Pace::new(a_second, at(0));
        let departures = departures(&mut pace, at(60_000), Duration::from_secs(5));
        for (index, first) in departures.iter().enumerate() {
            let until = *first + Duration::from_secs(1);
            let within = departures[index..].iter().take_while(|departure| **departure < until).count();
            assert!(
                within <= a_second as usize,
                "{within} in the second after {first:?} at {a_second} a second"
            );
        }
        assert!(departures.len() >= a_second as usize * 4, "too slow at {a_second} a second");
    }
}

#[test]
fn times_are_within_their_bounds_and_differ_between_neighbours() {
    let (least, most) = (Duration::from_secs(54), Duration::from_secs(66));
    let time =
        |host: u8, number| between(least, most, chance(1, VipKey::untagged(3, [10, 0, 0, host]), number));
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
