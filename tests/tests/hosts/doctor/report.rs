//! The doctor's report, and checks of it.

use std::fmt;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;
use vipward_tests::{
    agent::{Agent, Node},
    lan::Host,
};

/// The exit code for a red check.
pub(crate) const ILL: i32 = 8;

pub(crate) struct Row(Value);

impl Row {
    /// Returns a field, or an empty text if it is null.
    pub(crate) fn text(&self, field: &str) -> String {
        self.0[field].as_str().unwrap_or_default().to_owned()
    }
}

/// The report, with the doctor's exit code.
pub(crate) struct Report {
    pub(crate) code: i32,
    pub(crate) rows: Vec<Row>,
    /// The doctor's output on stderr.
    pub(crate) said: String,
    whole: Value,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "exit {}: {:#}", self.code, self.whole)
    }
}

impl Report {
    /// Runs a doctor that prints JSON.
    pub(crate) fn of(mut command: Command) -> Result<Self> {
        let output = command.output().context("failed to start the doctor")?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let whole: Value =
            serde_json::from_slice(&output.stdout).with_context(|| format!("no JSON: {said}"))?;
        let rows =
            whole["checks"].as_array().context("no list of checks")?.iter().cloned().map(Row).collect();
        Ok(Self { code: output.status.code().context("it was killed")?, rows, said, whole })
    }

    /// Returns the checks with a state, as text.
    pub(crate) fn of_state(&self, state: &str) -> Vec<String> {
        let rows = self.rows.iter().filter(|row| row.text("state") == state);
        rows.map(|row| row.0.to_string()).collect()
    }

    /// Returns a check, which must exist.
    pub(crate) fn row(&self, check: &str, interface: Option<&str>) -> &Row {
        let is_it = |row: &&Row| row.text("subject") == check && row.0["interface"].as_str() == interface;
        let row = self.rows.iter().find(is_it);
        row.unwrap_or_else(|| panic!("no check {check} of {interface:?} in {self}"))
    }

    /// Fails unless the check has this result. Yellow and red must have a remedy.
    pub(crate) fn assert(
        &self,
        check: &str,
        interface: Option<&str>,
        state: &str,
        found: &[&str],
        remedy: &[&str],
    ) {
        let row = self.row(check, interface);
        assert_eq!(row.text("state"), state, "{}\n{self}", row.0);
        for part in found {
            assert!(row.text("found").contains(part), "{part:?} in {}", row.0);
        }
        for part in remedy {
            assert!(row.text("remedy").contains(part), "{part:?} in {}", row.0);
        }
        let wants_remedy = state == "red" || state == "yellow";
        assert!(!wants_remedy || !row.text("remedy").is_empty(), "{}", row.0);
    }
}

/// Returns the doctor's report on a node, with its pins.
pub(crate) fn doctor(node: &Node, args: &[&str]) -> Result<Report> {
    doctor_at(&node.host, &node.agent.options.pin_dir, args)
}

pub(crate) fn doctor_at(host: &Host, pin_dir: &Path, args: &[&str]) -> Result<Report> {
    let mut command = host.command(Agent::default_binary());
    command.args(["doctor", "-o", "json", "--pin-dir"]).arg(pin_dir).args(args);
    Report::of(command)
}
