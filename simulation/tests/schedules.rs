//! Schedules that once broke a promise, and the determinism of runs.
#![forbid(unsafe_code)]

use vipward_simulation::{Options, Schedule, campaign::Campaign, run};

/// One schedule per line, after lines that describe what it showed.
const KEPT: &str = include_str!("../schedules.txt");

#[test]
fn schedules_that_once_broke_a_promise_keep_all_of_them() {
    let mut shows = "";
    let mut broken = Vec::new();
    for line in KEPT.lines().filter(|line| !line.is_empty()) {
        if let Some(comment) = line.strip_prefix('#') {
            shows = comment.trim();
            continue;
        }
        let schedule: Schedule = serde_json::from_str(line).expect("every line is a schedule or a comment");
        if let Some(violation) = run(&schedule, Options::default()).violation {
            broken.push(format!("{shows}\n    {violation}\n    {line}"));
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn the_same_schedule_gives_the_same_run_to_the_byte() {
    let traced = Options { trace: true, ..Options::default() };
    for seed in 1..20 {
        let schedule = Schedule::generate(seed);
        let (once, again) = (run(&schedule, traced), run(&schedule, traced));
        assert!(once.trace.len() > 20, "seed {seed} has a trace");
        assert_eq!(once, again, "seed {seed}");
        assert_eq!(
            once.violation,
            run(&schedule, Options::default()).violation,
            "seed {seed} without a trace"
        );
    }
}

#[test]
fn the_result_of_a_campaign_does_not_depend_on_the_number_of_threads() {
    let play = |threads| Campaign { first: 1, seeds: 100, threads, options: Options::default() }.play(|_| ());
    let alone = play(1);
    assert_eq!(alone.tally.runs, 100);
    assert_eq!(alone, play(3));
}

#[test]
fn a_schedule_that_was_written_down_is_the_same_when_it_is_read() {
    for seed in 0..500 {
        let schedule = Schedule::generate(seed);
        let text = serde_json::to_string(&schedule).expect("a schedule can be written");
        assert_eq!(serde_json::from_str::<Schedule>(&text).expect("and read"), schedule, "seed {seed}");
    }
}
