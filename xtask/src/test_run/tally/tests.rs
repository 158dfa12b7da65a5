use super::*;

fn tally(text: &str) -> Tally {
    let mut tally = Tally::default();
    text.lines().for_each(|line| tally.line(line));
    tally.finish();
    tally
}

fn failed(tally: &Tally) -> Vec<String> {
    tally.failed_tests().iter().map(Test::to_string).collect()
}

const TWO_SUITES: &str = "
     Running unittests src/lib.rs (target/debug/deps/vipward-0123456789abcdef)

running 3 tests
test core::a ... ok
test core::b ... FAILED
test core::c ... ignored

test result: FAILED. 1 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.25s

error: test failed, to rerun pass `-p vipward --lib`
   Doc-tests vipward
test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.00s
";

#[test]
fn suites_are_added_up_and_failures_named() {
    let tally = tally(TWO_SUITES);
    assert_eq!(tally.to_string(), "3 passed, 1 failed");
    assert_eq!(failed(&tally), ["vipward (src/lib.rs): core::b"]);
    let rows =
        [["vipward (src/lib.rs)", "1", "1", "1", "0.2"], ["vipward (documentation)", "2", "0", "0", "1.0"]];
    assert_eq!(tally.rows(), rows.map(|row| row.map(str::to_owned)));
}

#[test]
fn a_suite_that_crashed_counts_as_a_failure() {
    let crashed = "     Running tests/lan.rs (target/debug/deps/lan-0123456789abcdef)\nrunning 9 tests\n";
    let alone = tally(crashed);
    assert_eq!(alone.to_string(), "0 passed, 1 failed");
    assert_eq!(failed(&alone), ["lan (tests/lan.rs): ended without a result"]);
    assert_eq!(tally(&format!("{crashed}{TWO_SUITES}")).to_string(), "3 passed, 2 failed");
}

#[test]
fn output_of_tests_is_not_taken_for_results() {
    let tally =
        tally("Running late (5 s)\nRunning (x)\ntest result: unknown\ntest result: ok. 1 of 2\nok. 5 passed");
    assert_eq!(tally.to_string(), "0 passed, 0 failed");
    assert!(tally.rows().is_empty());
}

#[test]
fn a_failed_test_that_passes_alone_has_passed_and_is_named() {
    let mut tally = tally(TWO_SUITES);
    assert_eq!(tally.names_to_run_again(), Some(vec!["core::b".to_owned()]));
    tally.pass_alone(&self::tally(&TWO_SUITES.replace("FAILED", "ok").replace("1 failed", "0 failed")));
    assert_eq!(tally.to_string(), "4 passed, 0 failed");
    assert!(tally.failed_tests().is_empty());
    assert_eq!(
        tally.passed_alone().iter().map(Test::to_string).collect::<Vec<_>>(),
        ["vipward (src/lib.rs): core::b"]
    );
    assert_eq!(tally.names_to_run_again(), None);
}

#[test]
fn a_test_that_fails_alone_or_passes_in_another_suite_has_failed() {
    let elsewhere = TWO_SUITES.replace("FAILED", "ok").replace("vipward-", "other-");
    for again in [TWO_SUITES, &elsewhere, ""] {
        let mut tally = tally(TWO_SUITES);
        tally.pass_alone(&self::tally(again));
        assert_eq!(tally.to_string(), "3 passed, 1 failed");
        assert_eq!(failed(&tally), ["vipward (src/lib.rs): core::b"]);
    }
}

#[test]
fn what_crashed_or_is_no_test_program_is_not_run_again() {
    assert_eq!(
        tally("     Running tests/lan.rs (target/debug/deps/lan-0123456789abcdef)\n").names_to_run_again(),
        None
    );
    let mut tally = tally(TWO_SUITES);
    tally.add("fuzz config", false, 0.5);
    assert_eq!(tally.names_to_run_again(), None);
}
