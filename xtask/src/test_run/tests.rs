use super::*;

/// Returns the results of a suite with these tests.
fn tally(tests: &[(&str, bool)]) -> Tally {
    let mut tally = Tally::default();
    tally.begin("suite");
    for (name, passed) in tests {
        tally.line(&format!("test {name} ... {}", if *passed { "ok" } else { "FAILED" }));
    }
    let failed = tests.iter().filter(|(_, passed)| !passed).count();
    let passed = tests.len() - failed;
    tally.line(&format!("test result: ?. {passed} passed; {failed} failed; 0 ignored; finished in 1.00s"));
    tally
}

#[test]
fn only_what_failed_runs_again_and_counts_as_failed_if_it_always_fails() {
    let mut first = tally(&[("good", true), ("late", false), ("broken", false)]);
    let mut runs = Vec::new();
    let run = |arguments: &[String]| {
        runs.push(arguments.join(" "));
        // The second test fails once more.
        Ok(match runs.len() {
            1 => tally(&[("late", false), ("broken", false)]),
            2 => tally(&[("late", true), ("broken", false)]),
            _ => tally(&[("broken", false)]),
        })
    };
    run_failed_again(&mut first, 3, 2, run).expect("every run succeeds");
    let alone = "--exact --test-threads=1";
    assert_eq!(
        runs,
        [format!("late broken {alone}"), format!("late broken {alone}"), format!("broken {alone}")]
    );
    assert_eq!(first.to_string(), "2 passed, 1 failed");
    let names = |tests: &[tally::Test]| tests.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(names(first.passed_alone()), ["suite: late"]);
    assert_eq!(names(first.failed_tests()), ["suite: broken"]);
}

#[test]
fn more_failures_than_the_limit_and_none_at_all_run_nothing_again() {
    for tests in [&[("a", false), ("b", false), ("c", false)][..], &[("a", true)]] {
        let mut first = tally(tests);
        let before = first.to_string();
        run_failed_again(&mut first, 2, 2, |_| unreachable!("nothing runs again")).expect("nothing runs");
        assert_eq!(first.to_string(), before);
    }
}
