use std::time::Duration;

use vipward_common::Policy;

use super::{Heartbeat, Late, Settings};
use crate::base::samples::at;

const SETTINGS: Settings = Settings {
    duration: Duration::from_secs(3),
    heartbeat: Duration::from_secs(1),
    policy: Policy::Hold,
    hold_for: Duration::from_hours(1),
};
const TICK: Duration = Duration::from_millis(4);

#[test]
fn a_beat_is_good_for_the_duration_less_two_ticks_of_the_coarse_clock() {
    let beat = Heartbeat::start(&SETTINGS, TICK, at(10_000)).beat(at(10_000));
    assert_eq!(beat.deadline, at(12_992));
    assert_eq!(beat.grace_until, at(3_612_992));
    assert_eq!(beat.policy, Policy::Hold);
}

#[test]
fn the_next_beat_is_due_a_heartbeat_after_the_last_one() {
    let mut heartbeat = Heartbeat::start(&SETTINGS, TICK, at(10_000));
    assert_eq!(heartbeat.next_deadline(), at(10_000));
    heartbeat.beat(at(10_003));
    assert_eq!(heartbeat.next_deadline(), at(11_003));
}

#[test]
fn a_beat_is_late_when_it_comes_more_than_half_a_heartbeat_after_it_was_due() {
    let cases = [
        ("the first beat is never late", None, 99_000, None),
        ("in time", Some(10_000), 11_000, None),
        ("half a heartbeat late is tolerated", Some(10_000), 11_500, None),
        (
            "more is reported",
            Some(10_000),
            11_501,
            Some(Late { by: Duration::from_millis(501), lapsed: false }),
        ),
        (
            "so late that the lease deadline had passed",
            Some(10_000),
            15_000,
            Some(Late { by: Duration::from_secs(4), lapsed: true }),
        ),
    ];
    for (description, first, second, late) in cases {
        let mut heartbeat = Heartbeat::start(&SETTINGS, TICK, at(10_000));
        if let Some(first) = first {
            heartbeat.beat(at(first));
        }
        assert_eq!(heartbeat.beat(at(second)).late, late, "{description}");
    }
}

#[test]
fn other_settings_count_from_the_next_beat_on_which_is_due_at_once() {
    let mut heartbeat = Heartbeat::start(&SETTINGS, TICK, at(0));
    heartbeat.beat(at(0));
    let settings = Settings { duration: Duration::from_secs(10), policy: Policy::Stop, ..SETTINGS };
    heartbeat.configure(&settings, at(500));
    assert_eq!(heartbeat.next_deadline(), at(500));
    let beat = heartbeat.beat(at(500));
    assert_eq!((beat.deadline, beat.policy, beat.late), (at(10_492), Policy::Stop, None));
}
