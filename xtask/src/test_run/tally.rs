//! Adds up the results that `cargo test` prints.

use std::{collections::HashSet, fmt};

#[derive(Default, Debug)]
pub(crate) struct Tally {
    suites: Vec<Suite>,
    /// Suite that has started and has not printed its result.
    running: Option<String>,
    passed_tests: HashSet<Test>,
    failed_tests: Vec<Test>,
    /// Tests that failed beside others and passed alone.
    passed_alone: Vec<Test>,
}

/// Test that has ended.
#[derive(PartialEq, Eq, Hash, Clone, Debug)]
pub(crate) struct Test {
    suite: String,
    /// Name that `cargo test` takes; `None` for a suite that is one test or has crashed.
    name: Option<String>,
}

/// Result of one test program.
#[derive(PartialEq, Debug)]
struct Suite {
    name: String,
    passed: u32,
    failed: u32,
    ignored: u32,
    seconds: f64,
}

impl Tally {
    /// Starts a suite whose program is started without cargo.
    pub(crate) fn begin(&mut self, name: &str) {
        self.finish();
        self.running = Some(name.to_owned());
    }

    pub(crate) fn line(&mut self, line: &str) {
        if let Some(name) = suite_name(line) {
            self.begin(&name);
        } else if let Some(suite) = result(line) {
            let name = self.running.take().unwrap_or_else(|| "?".to_owned());
            self.suites.push(Suite { name, ..suite });
        } else if let Some((name, passed)) = ended_test(line) {
            let suite = self.running.clone().unwrap_or_else(|| "?".to_owned());
            let test = Test { suite, name: Some(name.to_owned()) };
            if passed {
                self.passed_tests.insert(test);
            } else {
                self.failed_tests.push(test);
            }
        }
    }

    /// Ends the running suite. One that has printed no
    /// result has crashed, and counts as one failure.
    pub(crate) fn finish(&mut self) {
        if let Some(name) = self.running.take() {
            self.failed_tests.push(Test { suite: format!("{name}: ended without a result"), name: None });
            self.suites.push(Suite { name, passed: 0, failed: 1, ignored: 0, seconds: 0.0 });
        }
    }

    /// Adds a suite of one test.
    pub(crate) fn add(&mut self, name: &str, passed: bool, seconds: f64) {
        if !passed {
            self.failed_tests.push(Test { suite: name.to_owned(), name: None });
        }
        let (passed, failed) = (u32::from(passed), u32::from(!passed));
        self.suites.push(Suite { name: name.to_owned(), passed, failed, ignored: 0, seconds });
    }

    pub(crate) fn append(&mut self, other: Self) {
        self.suites.extend(other.suites);
        self.passed_tests.extend(other.passed_tests);
        self.failed_tests.extend(other.failed_tests);
        self.passed_alone.extend(other.passed_alone);
    }

    pub(crate) fn passed(&self) -> u32 {
        self.suites.iter().map(|suite| suite.passed).sum()
    }

    pub(crate) fn failed(&self) -> u32 {
        self.suites.iter().map(|suite| suite.failed).sum()
    }

    pub(crate) fn failed_tests(&self) -> &[Test] {
        &self.failed_tests
    }

    pub(crate) fn passed_alone(&self) -> &[Test] {
        &self.passed_alone
    }

    /// Returns what `cargo test` takes to run the failed tests again; `None` if it
    /// cannot run them: none has failed, or one has no name of its own.
    pub(crate) fn names_to_run_again(&self) -> Option<Vec<String>> {
        let names: Option<Vec<_>> = self.failed_tests.iter().map(|test| test.name.clone()).collect();
        names.filter(|names| !names.is_empty())
    }

    /// Counts each failed test as passed that has passed in `again`.
    pub(crate) fn pass_alone(&mut self, again: &Self) {
        let (passed, failed): (Vec<_>, Vec<_>) =
            self.failed_tests.drain(..).partition(|test| again.passed_tests.contains(test));
        self.failed_tests = failed;
        for test in passed {
            if let Some(suite) = self.suites.iter_mut().find(|suite| suite.name == test.suite) {
                suite.failed -= 1;
                suite.passed += 1;
            }
            self.passed_alone.push(test);
        }
    }

    /// Returns a row for each suite that ran a test.
    pub(crate) fn rows(&self) -> Vec<[String; 5]> {
        let ran = self.suites.iter().filter(|suite| suite.passed + suite.failed + suite.ignored > 0);
        ran.map(|suite| {
            let counts = [suite.passed, suite.failed, suite.ignored].map(|n| n.to_string());
            let [passed, failed, ignored] = counts;
            [suite.name.clone(), passed, failed, ignored, format!("{:.1}", suite.seconds)]
        })
        .collect()
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed", self.passed(), self.failed())
    }
}

impl fmt::Display for Test {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.suite)?;
        self.name.iter().try_for_each(|name| write!(f, ": {name}"))
    }
}

/// Returns the name of the suite that starts in a line such as
/// `Running tests/hosts/main.rs (target/debug/deps/hosts-0123456789abcdef)` or `Doc-tests vipward`.
fn suite_name(line: &str) -> Option<String> {
    let line = line.trim_start();
    if let Some(package) = line.strip_prefix("Doc-tests ") {
        return Some(format!("{package} (documentation)"));
    }
    let (source, program) = line.strip_prefix("Running ")?.rsplit_once(" (")?;
    let file = program.strip_suffix(')')?.rsplit('/').next()?;
    let (package, hash) = file.rsplit_once('-')?;
    if hash.len() != 16 || !hash.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    Some(format!("{package} ({})", source.trim_start_matches("unittests ")))
}

/// Parses a line such as `test result: FAILED. 1 passed; 2 failed;
/// 3 ignored; 0 measured; 0 filtered out; finished in 0.05s`.
fn result(line: &str) -> Option<Suite> {
    let text = line.strip_prefix("test result: ")?.split_once(". ")?.1;
    let mut suite = Suite { name: String::new(), passed: 0, failed: 0, ignored: 0, seconds: 0.0 };
    for part in text.split("; ") {
        if let Some(seconds) = part.strip_prefix("finished in ") {
            suite.seconds = seconds.trim_end_matches('s').parse().ok()?;
            continue;
        }
        let (count, what) = part.split_once(' ')?;
        match what {
            "passed" => suite.passed = count.parse().ok()?,
            "failed" => suite.failed = count.parse().ok()?,
            "ignored" => suite.ignored = count.parse().ok()?,
            _ => {}
        }
    }
    Some(suite)
}

/// Returns the name in a line such as `test core::plan::tests::name ... FAILED`, and whether it ends in
/// `ok`.
fn ended_test(line: &str) -> Option<(&str, bool)> {
    match line.strip_prefix("test ")?.rsplit_once(" ... ")? {
        (name, "ok") => Some((name, true)),
        (name, "FAILED") => Some((name, false)),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
