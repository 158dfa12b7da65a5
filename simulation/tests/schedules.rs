//! Schedules that once broke a promise, and the determinism of runs.
#![forbid(unsafe_code)]

use serde_json::json;
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

/// Three nodes, two VIPs, and 24 hours in which nothing happens but that a node is cordoned for 1 ms.
#[test]
fn in_a_day_of_rest_nothing_is_found() {
    const DAY_MS: u32 = 24 * 60 * 60 * 1_000;
    /// The cluster has settled by then.
    const SETTLED: f64 = 60.0;
    let node =
        |clock_ms: u32, clock_ppm: i32| json!({"clock_ppm": clock_ppm, "clock_ms": clock_ms, "joins_ms": 0});
    let schedule = json!({
        "seed": 1,
        "hold": true,
        "timing": {
            "lease_ms": 4_000, "renewal_ms": 1_000, "margin_ms": 500,
            "restart_lease_ms": 15_000, "hold_for_ms": 30_000
        },
        "segments": 1,
        "nodes": [node(1_000_000, 0), node(2_000_000, 100), node(3_000_000, -100)],
        "vips": [{"wanted_ms": 0}, {"wanted_ms": 500}],
        "disturbances": [
            {"when": {"Ms": DAY_MS}, "what": {"Marked": {"who": {"Node": 0}, "mark": "Cordoned", "for_ms": 1}}}
        ],
    });
    let schedule: Schedule = serde_json::from_value(schedule).expect("this is a schedule");
    let report = run(&schedule, Options { trace: true, ..Options::default() });
    assert_eq!(report.violation, None);
    let seconds = |line: &str| line.split_whitespace().next().and_then(|word| word.parse::<f64>().ok());
    let is_rest =
        |line: &&String| seconds(line).is_some_and(|at| at > SETTLED && at < f64::from(DAY_MS) / 1_000.0);
    let is_alarm = |line: &&String| {
        ["PutFault", "Conflict", "Unheard", "Doubled", "Problem", "writes claim", "entry of"]
            .iter()
            .any(|it| line.contains(it))
    };
    let rest: Vec<_> = report.trace.iter().filter(is_rest).collect();
    assert!(rest.iter().any(|line| line.contains("announces")), "the VIPs are refreshed");
    assert_eq!(rest.into_iter().filter(|line| is_alarm(line)).collect::<Vec<_>>(), [""; 0]);
}
