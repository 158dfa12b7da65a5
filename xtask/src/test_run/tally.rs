//! Adds up the results that `cargo test` prints.

use std::fmt;

/// Results so far.
#[derive(Default, Debug)]
pub(super) struct Tally {
    suites: Vec<Suite>,
    /// Suite that has started and has not printed its result.
    running: Option<String>,
    failed_tests: Vec<String>,
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
    /// Reads a line of output.
    pub(super) fn line(&mut self, line: &str) {
        if let Some(name) = suite_name(line) {
            self.finish();
            self.running = Some(name);
        } else if let Some(suite) = result(line) {
            let name = self.running.take().unwrap_or_else(|| "?".to_owned());
            self.suites.push(Suite { name, ..suite });
        } else if let Some(test) = failed_test(line) {
            let suite = self.running.as_deref().unwrap_or("?");
            self.failed_tests.push(format!("{suite}: {test}"));
        }
    }

    /// Ends the running suite. One that has printed no
    /// result has crashed, and counts as one failure.
    pub(super) fn finish(&mut self) {
        if let Some(name) = self.running.take() {
            self.failed_tests.push(format!("{name}: ended without a result"));
            self.suites.push(Suite { name, passed: 0, failed: 1, ignored: 0, seconds: 0.0 });
        }
    }

    /// Adds a suite of one test.
    pub(super) fn add(&mut self, name: &str, passed: bool, seconds: f64) {
        if !passed {
            self.failed_tests.push(name.to_owned());
        }
        let (passed, failed) = (u32::from(passed), u32::from(!passed));
        self.suites.push(Suite { name: name.to_owned(), passed, failed, ignored: 0, seconds });
    }

    pub(super) fn passed(&self) -> u32 {
        self.suites.iter().map(|suite| suite.passed).sum()
    }

    pub(super) fn failed(&self) -> u32 {
        self.suites.iter().map(|suite| suite.failed).sum()
    }

    pub(super) fn failed_tests(&self) -> &[String] {
        &self.failed_tests
    }

    /// Returns a row for each suite that ran a test.
    pub(super) fn rows(&self) -> Vec<[String; 5]> {
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

/// Returns the name in a line such as `test core::plan::tests::name ... FAILED`.
fn failed_test(line: &str) -> Option<&str> {
    line.strip_prefix("test ")?.strip_suffix(" ... FAILED")
}

#[cfg(test)]
mod tests;
